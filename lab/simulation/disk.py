"""A simulated disk under a store: it is slow, full or failing, and a crash may lose what was not yet written."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Sequence
from random import Random
from typing import TypeAlias

from regroup.storage.errors import StoreFailed, StoreFull
from regroup.storage.records import ExchangeBlock, Head, NewExchangeBlock, NewRecord, Record, Snapshot
from regroup.storage.store import ANY_GROUP, AnyGroup, EventStore

StoreOpener: TypeAlias = Callable[[], Awaitable[EventStore]]
OnStored: TypeAlias = Callable[[Sequence[NewRecord], int], None]
"""Called with the records that the disk has just stored, and the position of the last one."""


class SimulatedDisk:
    """A disk on which processes of the brokers open their store, one after the other; it survives their crashes.

    `open_store` opens the store on it; `on_stored` is called after every commit.
    """

    def __init__(self, open_store: StoreOpener, rng: Random, *, latency_ms: float, on_stored: OnStored) -> None:
        self.latency_ms = latency_ms
        self.is_full = False
        self.fails_next_write = False
        self.rng = rng
        self.on_stored = on_stored
        self._open_store = open_store
        self._store: SimulatedStore | None = None

    async def open(self) -> EventStore:
        """Open the store for a new process. Raises StoreFull while the disk is full."""
        self.raise_if_failing()
        self._store = SimulatedStore(await self._open_store(), self)
        return self._store

    @property
    def store(self) -> EventStore | None:
        """The store itself while a process has it open, otherwise None.

        What is written to it directly is neither delayed nor failed by the simulated disk.
        """
        return self._store.store_if_open if self._store is not None else None

    async def read_records(self) -> tuple[Record, ...]:
        """All records on the disk, for which the store is opened a moment; no process may have it open."""
        store = await self._open_store()
        try:
            return tuple([record async for record in store.read()])
        finally:
            await store.close()

    def detach(self) -> None:
        """Note that the process with the open store has crashed: its commit in progress is then on the disk, or
        lost."""
        if self._store is not None:
            self._store.detach()

    async def close(self) -> None:
        """Close the store under the process that has it open: from now on no process writes or opens it."""
        self.is_full = True
        if self._store is not None:
            self._store.detach()
            await self._store.close()

    def raise_if_failing(self) -> None:
        """Raise the error that a write to the store would get now: the disk is full, or its next write is to fail."""
        if self.is_full:
            raise StoreFull("the simulated disk is full")
        if self.fails_next_write:
            self.fails_next_write = False
            raise StoreFailed("the simulated disk failed, as planned")


class SimulatedStore(EventStore):
    """The store of one process on the simulated disk. A commit is stored only after the disk's latency."""

    def __init__(self, store: EventStore, disk: SimulatedDisk) -> None:
        self.has_checkpoints = store.has_checkpoints
        self._store = store
        self._disk = disk
        self._is_detached = self._is_closed = False
        self._latency: asyncio.Future[None] | None = None

    def detach(self) -> None:
        """Let the store write nothing more, since its process has crashed."""
        self._is_detached = True
        if self._latency is not None and not self._latency.done():
            self._latency.set_result(None)

    @property
    def store_if_open(self) -> EventStore | None:
        """The store behind this one; None once the process has closed it or crashed."""
        return None if self._is_detached or self._is_closed else self._store

    async def _wait_for_disk(self) -> None:
        """Wait for the disk's latency, or until the process crashes."""
        loop = asyncio.get_running_loop()
        latency = self._latency = loop.create_future()
        timer = loop.call_later(self._disk.latency_ms / 1000, latency.set_result, None)
        await latency
        timer.cancel()

    @property
    def last_position(self) -> int:
        return self._store.last_position

    @property
    def trimmed_through(self) -> int:
        return self._store.trimmed_through

    async def append(self, records: Sequence[NewRecord]) -> int:
        self._check_writable()
        if self._disk.latency_ms:
            await self._wait_for_disk()
            self._disk.raise_if_failing()
        # A crash in the meantime does not decide whether the disk has got the records.
        if self._is_detached and self._disk.rng.random() < 0.5:
            raise StoreFailed("the process crashed before the records were on the disk")
        position = await self._store.append(records)
        self._disk.on_stored(records, position)
        if self._is_detached:
            raise StoreFailed("the process crashed when the records were on the disk")
        return position

    def read(
        self,
        *,
        group: str | AnyGroup | None = ANY_GROUP,
        after: int = 0,
        until: int | None = None,
        types: Collection[str] | None = None,
        allow_gaps: bool = False,
    ) -> AsyncIterator[Record]:
        return self._store.read(group=group, after=after, until=until, types=types, allow_gaps=allow_gaps)

    async def heads(self) -> dict[str | None, Head]:
        return await self._store.heads()

    async def save_snapshots(self, cut: int, snapshots: Sequence[Snapshot]) -> None:
        self._check_writable()
        await self._store.save_snapshots(cut, snapshots)

    async def load_snapshots(self, at: int | None = None) -> tuple[int, list[Snapshot]]:
        return await self._store.load_snapshots(at)

    async def cuts(self) -> list[int]:
        return await self._store.cuts()

    async def trim(self, before: int) -> int:
        self._check_writable()
        return await self._store.trim(before)

    async def delete_trimmed(self) -> bool:
        self._check_writable()
        return await self._store.delete_trimmed()

    async def put_value(self, name: str, value: bytes) -> None:
        self._check_writable()
        await self._store.put_value(name, value)

    async def get_value(self, name: str) -> bytes | None:
        return await self._store.get_value(name)

    async def coordinator_epoch(self) -> int:
        return await self._store.coordinator_epoch()

    async def append_exchanges(self, block: NewExchangeBlock, *, max_bytes: int) -> None:
        self._check_writable()
        await self._store.append_exchanges(block, max_bytes=max_bytes)

    def read_exchanges(self, *, from_ms: int = 0, to_ms: int | None = None) -> AsyncIterator[ExchangeBlock]:
        return self._store.read_exchanges(from_ms=from_ms, to_ms=to_ms)

    async def append_observations(self, block: NewExchangeBlock, *, max_bytes: int) -> None:
        self._check_writable()
        await self._store.append_observations(block, max_bytes=max_bytes)

    def read_observations(self, *, from_ms: int = 0, to_ms: int | None = None) -> AsyncIterator[ExchangeBlock]:
        return self._store.read_observations(from_ms=from_ms, to_ms=to_ms)

    async def next_coordinator_epoch(self) -> int:
        self._check_writable()
        return await self._store.next_coordinator_epoch()

    async def checkpoint(self) -> None:
        await self._store.checkpoint()

    async def close(self) -> None:
        if not self._is_closed:
            self._is_closed = True
            await self._store.close()

    def _check_writable(self) -> None:
        if self._is_detached:
            raise StoreFailed("the process has crashed")
        self._disk.raise_if_failing()
