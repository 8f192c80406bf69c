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
"""The most records in one commit. Larger commits are not faster, and every response in them waits longer."""

CHECKPOINT_INTERVAL_RECORDS = 20_000
"""After so many records the journal asks the store for a checkpoint, as soon as none is waiting to be committed."""

MAX_COMMITS_WITHOUT_CHECKPOINT = 8_000
MAX_RECORDS_WITHOUT_CHECKPOINT = 100_000
"""After so many commits or records the journal asks for a checkpoint, although others wait to be committed.

A small commit takes one or two pages of 4 KiB of SQLite's write-ahead log, which so stays below 100 MiB however busy
the journal is.
"""

IDLE_CHECKPOINT_DELAY_S = 1.0
"""After so many seconds without a commit the journal asks the store for a checkpoint."""

_Callbacks: TypeAlias = tuple[int, int, Callable[[], None], Callable[[], None]]
"""A position, a number that orders callbacks of the same position, `on_durable`, and `on_lost`.

It is a tuple, because one is made for every response and a class with field names costs half as much again.
"""


class Journal:
    """Appends records to a store, and calls back once they are durable: a response is sent only after its events are.

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
        """Position of the last durable record: all up to and including it are on disk."""
        self.last_position = store.last_position
        """Position of the last record that was appended, durable or not."""
        self._pending: deque[NewRecord] = deque()
        self._idle_timer: asyncio.TimerHandle | None = None
        self._checkpoint_is_due = False
        self._commits_since_checkpoint = 0
        self._writer = asyncio.create_task(self._write(), name="journal")

    def append(self, records: Sequence[NewRecord]) -> int:
        """Queue records for the next commit; returns the position of the last.

        Raises the journal's failure, if it has one.
        """
        if self.failure is not None:
            raise self.failure
        if self._is_closing:
            raise RuntimeError("the journal is closed: make a new one to append")
        self._pending.extend(records)
        self.last_position += len(records)
        self._work.set()
        return self.last_position

    def when_durable(self, position: int, on_durable: Callable[[], None], on_lost: Callable[[], None]) -> None:
        """Call `on_durable` once all records up to and including this position are on disk.

        If they never will be, `on_lost` is called instead. If it is known already, the call is made at once.
        """
        if position <= self.durable_position:
            on_durable()
        elif self.failure is not None:
            on_lost()
        else:
            heapq.heappush(self._callbacks, (position, next(self._sequence), on_durable, on_lost))

    async def wait_until_durable(self, position: int) -> None:
        """Wait until every record up to and including this position is on disk.

        Raises the journal's StoreError if it never will be.
        """
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
        """Call `listener` with the error whenever the store fails. Records that were not durable are lost by then."""
        self._failure_listeners.append(listener)

    def fail(self, error: StoreError) -> None:
        """Stop the journal as if an append had failed with this error, which the caller has found elsewhere.

        No effect on a journal that has failed.
        """
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
                    self._commits_since_checkpoint += 1
                    while self._callbacks and self._callbacks[0][0] <= self.durable_position:
                        heapq.heappop(self._callbacks)[2]()
                    # An implementation that never suspends would otherwise block all other tasks.
                    await asyncio.sleep(0)
                    if self._is_long_without_checkpoint:
                        await self._checkpoint()
                if self._checkpoint_is_due or self._unwritten_records >= CHECKPOINT_INTERVAL_RECORDS:
                    await self._checkpoint()
                elif self._idle_timer is None and self._unwritten_records and self.store.has_checkpoints:
                    self._start_idle_timer()
        except StoreError as error:
            self._stop(error)
        except Exception as error:  # noqa: BLE001  # whatever it is, no response may wait for this task any longer
            _report("The journal's writer failed", error)
            self._stop(StoreFailed(f"The records could not be written ({error!r}). This is an error of the program."))

    async def _checkpoint(self) -> None:
        self._checkpoint_is_due = False
        self._checkpoint_position = self.durable_position
        self._commits_since_checkpoint = 0
        if self.store.has_checkpoints:
            await self.store.checkpoint()

    @property
    def _is_long_without_checkpoint(self) -> bool:
        commits, records = self._commits_since_checkpoint, self._unwritten_records
        return commits >= MAX_COMMITS_WITHOUT_CHECKPOINT or records >= MAX_RECORDS_WITHOUT_CHECKPOINT

    @property
    def _unwritten_records(self) -> int:
        """The number of records that have become durable since the last checkpoint."""
        return self.durable_position - self._checkpoint_position

    def _start_idle_timer(self) -> None:
        """Start the timer after which a journal without new commits asks for a checkpoint.

        One timer runs at a time, and commits do not move it, so that a commit costs nothing.
        """
        self._idle_timer = asyncio.get_running_loop().call_later(
            IDLE_CHECKPOINT_DELAY_S, self._checkpoint_if_idle, self.durable_position
        )

    def _checkpoint_if_idle(self, durable_position: int) -> None:
        """Ask the writer for a checkpoint if nothing was appended since the timer started; otherwise start it again."""
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
        """Stop the journal with this error, and call the failure listeners and every `on_lost`.

        An exception in one of them is reported, and the others are called nevertheless.
        """
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
