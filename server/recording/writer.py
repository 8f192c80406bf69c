"""Writes recorded exchanges to the store while brokers run, at least once a second. Answers do not wait for it."""

import asyncio
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Final, Protocol

from regroup.coordinator.runtime.logger import get_logger
from regroup.server.recording.blocks import BlockEncoder
from regroup.server.recording.recorder import Recorder
from regroup.storage.errors import StoreError
from regroup.storage.records import NewExchangeBlock

WRITE_INTERVAL_S: Final = 0.5
"""Seconds between two writes. A process that is killed loses the exchanges of this time, and of the write itself."""
WARNING_INTERVAL_WRITES: Final = 120
"""How many writes lie between two warnings of the same kind."""

log = get_logger("recording")


class ExchangeSink(Protocol):
    """The part of a store that stores recorded exchanges."""

    async def append_exchanges(self, block: NewExchangeBlock, *, max_bytes: int) -> None: ...


class RecordingWriter:
    """Writes the exchanges of one cluster. `store` returns the store that is open now, which changes when a failed one
    is opened again."""

    def __init__(
        self, recorder: Recorder, store: Callable[[], ExchangeSink], now_ms: Callable[[], int], *, max_bytes: int
    ) -> None:
        self._recorder = recorder
        self._store = store
        self._now_ms = now_ms
        self._max_bytes = max_bytes
        self._encoder = BlockEncoder()
        self._blocks: deque[NewExchangeBlock] = deque()
        """The blocks that are to be written next; empty between two writes."""
        self._task: asyncio.Task[None] | None = None
        self._lost = 0
        self._writes_to_next_warning = 0

    def start(self) -> None:
        """Start the task that writes changed rows to the store, in the running event loop."""
        self._recorder.note_changes(wanted=True)
        self._task = asyncio.get_running_loop().create_task(self._run(), name="recording")

    async def close(self) -> None:
        """Stop the task, and write the changes that are not stored yet. The store must still be open."""
        await self.stop()
        await self._write()
        self._recorder.note_changes(wanted=False)

    async def stop(self) -> None:
        """Stop the task without writing the changes that are not stored yet."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(WRITE_INTERVAL_S)
            await self._write()

    async def _write(self) -> None:
        rows = self._recorder.take_changes()
        self._blocks.extend(self._encoder.encode(rows, self._now_ms()))
        while self._blocks:
            block = self._blocks[0]
            try:
                await self._store().append_exchanges(block, max_bytes=self._max_bytes)
            except StoreError as error:
                self._lost += block.count
                self._warn(str(error))
            # A write that was cancelled is repeated: rows that are stored twice are read once.
            self._blocks.popleft()
            await asyncio.sleep(0)  # requests come first
        if self._recorder.skipped_changes:
            self._lost += self._recorder.skipped_changes
            self._recorder.skipped_changes = 0
            self._warn("the store is too slow for them")
        self._writes_to_next_warning -= 1

    def _warn(self, error: str) -> None:
        if self._writes_to_next_warning <= 0:
            log.warning("exchanges-not-recorded", count=self._lost, error=error)
            self._lost, self._writes_to_next_warning = 0, WARNING_INTERVAL_WRITES
