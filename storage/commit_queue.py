"""Group commit: the disk is asked once for everything that arrived while it was busy."""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence

from regroup.storage.errors import StoreError
from regroup.storage.records import NewRecord
from regroup.storage.store import EventStore

BATCH_LIMIT = 4096
"""Records per commit. More would not be faster, and whoever waits would wait longer."""

CHECKPOINT_RECORDS = 20_000
"""Records after which an idle moment is used to tidy the file."""


class CommitQueue:
    """One writer for many groups: what was queued while the last commit ran is committed in one go.

    `on_durable(position)` is called after each commit: everything up to there is on disk.
    `on_failure(error)` is called once if an append fails: what was not durable is dropped, and nothing more is
    accepted until `restart`. Must be made inside a running event loop.
    """

    def __init__(
        self,
        store: EventStore,
        *,
        on_durable: Callable[[int], None],
        on_failure: Callable[[StoreError], None],
        batch_limit: int = BATCH_LIMIT,
    ) -> None:
        self._on_durable = on_durable
        self._on_failure = on_failure
        self._batch_limit = batch_limit
        self._work = asyncio.Event()
        self._closing = False
        self._begin(store)

    def enqueue(self, records: Sequence[NewRecord]) -> int:
        """Queue records for the next commit; returns the position that the last of them will have.

        Raises the StoreError that stopped the queue, if one did.
        """
        if self.failure is not None:
            raise self.failure
        if self._closing:
            raise RuntimeError("The commit queue is closed: make a new one to write on.")
        self._waiting.extend(records)
        self.last_position += len(records)
        self._work.set()
        return self.last_position

    def restart(self, store: EventStore) -> None:
        """Begin again after a failure, behind the last record of this (reopened) store."""
        if self.failure is None:
            raise RuntimeError("The commit queue has not failed, so there is nothing to restart.")
        self._begin(store)

    def give_up(self, error: StoreError) -> None:
        """Fail now, as if an append had failed with this error. Nothing happens if one has."""
        if self.failure is None:
            self._writer.cancel()
            self._stop(error)

    async def close(self) -> None:
        """Commit what is queued, then stop; after a failure there is nothing left to commit. The store stays open."""
        self._closing = True
        self._work.set()
        await asyncio.wait([self._writer])
        if not self._writer.cancelled():
            self._writer.result()

    def _begin(self, store: EventStore) -> None:
        self._store = store
        self._waiting: deque[NewRecord] = deque()
        self.failure: StoreError | None = None
        self.durable_position = self.last_position = self._tidied_position = store.last_position
        self._writer = asyncio.create_task(self._write(), name="commit queue")

    async def _write(self) -> None:
        try:
            while not (self._closing and not self._waiting):
                await self._work.wait()
                self._work.clear()
                await self._commit_what_waits()
                await self._tidy()
        except StoreError as error:
            self._stop(error)

    async def _commit_what_waits(self) -> None:
        while self._waiting:
            self.durable_position = await self._store.append(self._next_batch())
            self._on_durable(self.durable_position)
            # A driver that never suspends would otherwise keep everybody else waiting.
            await asyncio.sleep(0)

    async def _tidy(self) -> None:
        if self.durable_position - self._tidied_position >= CHECKPOINT_RECORDS and not self._waiting:
            self._tidied_position = self.durable_position
            await self._store.checkpoint()

    def _next_batch(self) -> list[NewRecord]:
        return [self._waiting.popleft() for _ in range(min(self._batch_limit, len(self._waiting)))]

    def _stop(self, error: StoreError) -> None:
        self.failure = error
        self._waiting.clear()
        self.last_position = self.durable_position
        self._on_failure(error)
