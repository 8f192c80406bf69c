"""One history for everybody in a process: what to append, and whom to tell once it is durable."""

import asyncio
import heapq
from collections.abc import Callable, Sequence
from itertools import count
from typing import TypeAlias

from regroup.storage.commit_queue import CommitQueue
from regroup.storage.errors import StoreError
from regroup.storage.records import NewRecord
from regroup.storage.store import EventStore

Waiter: TypeAlias = tuple[int, int, Callable[[], None], Callable[[], None]]
"""A position, its turn among those for the same position, and whom to call: done, or lost. Every answer is one, and a
class with names would cost half as much again."""


class Journal:
    """Appends records, and calls back when the disk has them: no answer leaves before what it rests on is durable.

    If the store fails, whoever waits hears that it is lost, `on_failure` listeners are told once, and `reopen` begins
    again.
    Must be made inside a running event loop.
    """

    def __init__(self, store: EventStore) -> None:
        self.store = store
        self._waiting: list[Waiter] = []
        self._turn = count()
        self._listeners: list[Callable[[StoreError], None]] = []
        self._queue = CommitQueue(store, on_durable=self._tell, on_failure=self._fail)

    @property
    def durable_position(self) -> int:
        """Everything up to here is on disk."""
        return self._queue.durable_position

    @property
    def last_position(self) -> int:
        """Of the last record that was handed in."""
        return self._queue.last_position

    @property
    def failure(self) -> StoreError | None:
        """Why nothing can be appended at present, if so."""
        return self._queue.failure

    def append(self, records: Sequence[NewRecord]) -> int:
        """Queue records; returns the position of the last. Raises the StoreError that stopped it, if one did."""
        return self._queue.enqueue(records)

    def when_durable(self, position: int, done: Callable[[], None], lost: Callable[[], None]) -> None:
        """Call `done` once everything up to this position is on disk (at once if it is), or `lost` if it never will."""
        if position <= self.durable_position:
            done()
        elif self.failure is not None:
            lost()
        else:
            heapq.heappush(self._waiting, (position, next(self._turn), done, lost))

    async def durable(self, position: int) -> None:
        """Wait until everything up to this position is on disk; raises the StoreError if it never will be."""
        waiting: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def done() -> None:
            if not waiting.done():
                waiting.set_result(None)

        def lost() -> None:
            if not waiting.done():
                waiting.set_exception(self.failure or RuntimeError("The journal has failed."))

        self.when_durable(position, done, lost)
        await waiting

    def on_failure(self, listener: Callable[[StoreError], None]) -> None:
        """Be told when the store fails; what was not durable is lost then."""
        self._listeners.append(listener)

    def reopen(self, store: EventStore) -> None:
        """Go on after a failure, behind the last record of the reopened store."""
        self.store = store
        self._queue.restart(store)

    def give_up(self, error: StoreError) -> None:
        """Fail as if an append had failed: the store has let somebody down who read it, or wrote past the journal."""
        self._queue.give_up(error)

    async def close(self) -> None:
        """Make everything durable that was handed in, and stop. The store stays open."""
        await self._queue.close()

    def _tell(self, position: int) -> None:
        while self._waiting and self._waiting[0][0] <= position:
            _, _, done, _ = heapq.heappop(self._waiting)
            done()

    def _fail(self, error: StoreError) -> None:
        waiting, self._waiting = self._waiting, []
        for listener in self._listeners:
            listener(error)
        for _, _, _, lost in sorted(waiting):
            lost()
