"""The journal: appends records in group commits, and calls back when they are durable.

Group commit: one task writes. What is appended while a commit runs is committed together in the next one, so that many
groups share one disk synchronization.
"""

import asyncio
import heapq
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from itertools import count
from typing import TypeAlias

from regroup.storage.errors import StoreError, StoreFailed
from regroup.storage.records import NewRecord
from regroup.storage.store import EventStore

__all__ = ["Journal"]

MAX_BATCH_RECORDS = 4096
"""Records in one commit. Larger commits are not faster, and make every response in them wait longer."""

CHECKPOINT_INTERVAL_RECORDS = 20_000
"""Records after which the journal asks for a checkpoint, as soon as none is pending."""

IDLE_CHECKPOINT_DELAY_S = 1.0
"""Time without a commit after which the journal asks for a checkpoint."""

_Callbacks: TypeAlias = tuple[int, int, Callable[[], None], Callable[[], None]]
"""Position, sequence number among equal positions, on_durable, on_lost. A tuple, because one is made for every response
and a class with field names costs half as much again."""


class Journal:
    """Appends records to a store, and calls back once they are durable; a response waits for the events it rests on.

    After a failed append everything that was not durable is lost: failure listeners are called, then `on_lost` of
    every waiting callback, and nothing is accepted until `reopen`. An exception that is no StoreError has the same
    consequences, and is reported to the event loop's exception handler besides.
    Must be created inside a running event loop.
    """

    def __init__(self, store: EventStore, *, max_batch_records: int = MAX_BATCH_RECORDS) -> None:
        self._max_batch_records = max_batch_records
        self._work = asyncio.Event()
        self._is_closing = False
        self._callbacks: list[_Callbacks] = []
        self._sequence = count()
        self._failure_listeners: list[Callable[[StoreError], None]] = []
        self._start(store)

    def _start(self, store: EventStore) -> None:
        self.store = store
        self.failure: StoreError | None = None
        """The error that stopped the journal; None while it accepts records."""
        self.durable_position = self._checkpoint_position = store.last_position
        """Everything up to `durable_position` is on disk."""
        self.last_position = store.last_position
        """Position of the last record that was appended, durable or not."""
        self._pending: deque[NewRecord] = deque()
        self._idle_timer: asyncio.TimerHandle | None = None
        self._checkpoint_is_due = False
        self._writer = asyncio.create_task(self._write(), name="journal")

    def append(self, records: Sequence[NewRecord]) -> int:
        """Add records to the next commit; returns the position of the last. Raises the journal's failure, if any."""
        if self.failure is not None:
            raise self.failure
        if self._is_closing:
            raise RuntimeError("the journal is closed: make a new one to append")
        self._pending.extend(records)
        self.last_position += len(records)
        self._work.set()
        return self.last_position

    def when_durable(self, position: int, on_durable: Callable[[], None], on_lost: Callable[[], None]) -> None:
        """Call `on_durable` once everything up to this position is on disk, or `on_lost` if it never will be.

        The call is made at once if that is known already.
        """
        if position <= self.durable_position:
            on_durable()
        elif self.failure is not None:
            on_lost()
        else:
            heapq.heappush(self._callbacks, (position, next(self._sequence), on_durable, on_lost))

    async def wait_until_durable(self, position: int) -> None:
        """Wait until everything up to this position is on disk; raises the StoreError if it never will be."""
        durable: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def on_durable() -> None:
            if not durable.done():
                durable.set_result(None)

        def on_lost() -> None:
            if not durable.done():
                durable.set_exception(self.failure or RuntimeError("the journal has failed"))

        self.when_durable(position, on_durable, on_lost)
        await durable

    def on_failure(self, listener: Callable[[StoreError], None]) -> None:
        """Call `listener` whenever the store fails; records that were not durable are lost by then."""
        self._failure_listeners.append(listener)

    def fail(self, error: StoreError) -> None:
        """Stop as if an append had failed with this error; for errors met elsewhere. No effect after a failure."""
        if self.failure is None:
            self._writer.cancel()
            self._stop(error)

    def reopen(self, store: EventStore) -> None:
        """Accept records again after a failure; they follow the last record of the reopened store."""
        if self.failure is None:
            raise RuntimeError("the journal has not failed, so it cannot be reopened")
        self._start(store)

    async def close(self) -> None:
        """Commit pending records, if the journal has not failed, and stop. The store stays open."""
        self._is_closing = True
        self._work.set()
        await asyncio.wait([self._writer])
        self._cancel_idle_timer()
        if not self._writer.cancelled():
            self._writer.result()

    async def _write(self) -> None:
        try:
            while not (self._is_closing and not self._pending):
                await self._work.wait()
                self._work.clear()
                while self._pending:
                    batch = [self._pending.popleft() for _ in range(min(self._max_batch_records, len(self._pending)))]
                    self.durable_position = await self.store.append(batch)
                    while self._callbacks and self._callbacks[0][0] <= self.durable_position:
                        heapq.heappop(self._callbacks)[2]()
                    # An implementation that never suspends would otherwise block all other tasks.
                    await asyncio.sleep(0)
                if not self.store.has_checkpoints:
                    continue
                if self._checkpoint_is_due or self._unwritten_records >= CHECKPOINT_INTERVAL_RECORDS:
                    self._checkpoint_is_due = False
                    self._checkpoint_position = self.durable_position
                    await self.store.checkpoint()
                elif self._idle_timer is None and self._unwritten_records:
                    self._start_idle_timer()
        except StoreError as error:
            self._stop(error)
        except Exception as error:  # noqa: BLE001  # whatever it is, no response may wait for this task any longer
            _report("The journal's writer failed", error)
            self._stop(StoreFailed(f"The records could not be written ({error!r}). This is an error of the program."))

    @property
    def _unwritten_records(self) -> int:
        """Durable records since the last checkpoint."""
        return self.durable_position - self._checkpoint_position

    def _start_idle_timer(self) -> None:
        """One timer runs at a time, and is not moved by commits: a commit costs nothing."""
        self._idle_timer = asyncio.get_running_loop().call_later(
            IDLE_CHECKPOINT_DELAY_S, self._checkpoint_if_idle, self.durable_position
        )

    def _checkpoint_if_idle(self, durable_position: int) -> None:
        """Let the writer checkpoint the store if nothing was appended since the timer was started."""
        self._idle_timer = None
        if self.durable_position == durable_position == self.last_position:
            self._checkpoint_is_due = True
            self._work.set()
        else:
            self._start_idle_timer()

    def _cancel_idle_timer(self) -> None:
        if self._idle_timer is not None:
            self._idle_timer.cancel()
            self._idle_timer = None

    def _stop(self, error: StoreError) -> None:
        """Call every waiting callback. An exception in one is reported, and does not keep the others waiting."""
        self.failure = error
        self._pending.clear()
        self._cancel_idle_timer()
        self.last_position = self.durable_position
        callbacks, self._callbacks = self._callbacks, []
        calls: list[Callable[[], None]] = [partial(listener, error) for listener in self._failure_listeners]
        calls += [on_lost for _, _, _, on_lost in sorted(callbacks)]
        for call in calls:
            try:
                call()
            except Exception as raised:  # noqa: BLE001
                _report("A callback of the journal failed", raised)


def _report(message: str, error: Exception) -> None:
    asyncio.get_running_loop().call_exception_handler({"message": message, "exception": error})
