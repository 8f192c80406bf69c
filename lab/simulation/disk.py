"""A disk under a store: it takes its time, fills up, fails, and loses what it had not kept when the power goes."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Sequence
from random import Random

from regroup.storage.errors import StoreFailed, StoreIsFull
from regroup.storage.records import Head, NewRecord, Record, Snapshot
from regroup.storage.store import ANY, EventStore, Groups

OpenStore = Callable[[], Awaitable[EventStore]]
Stored = Callable[[Sequence[NewRecord], int], None]
"""Told what is on disk now: the records, and the position of the last."""


class Disk:
    """What survives when processes die. `open_store` opens what lies on it, `stored` is told of every commit."""

    def __init__(self, open_store: OpenStore, chance: Random, *, latency_ms: float, stored: Stored) -> None:
        self.latency_ms = latency_ms
        self.is_full = False
        self.fails_once = False
        self.chance = chance
        self.stored = stored
        self._open_store = open_store
        self._opened: StoreOnDisk | None = None

    async def open(self) -> EventStore:
        """As a process opens its store. StoreIsFull while there is no room."""
        self.check()
        self._opened = StoreOnDisk(await self._open_store(), self)
        return self._opened

    def let_go(self) -> None:
        """The process that had it open is dead: a commit that was on its way may have reached the disk, or not."""
        if self._opened is not None:
            self._opened.die()

    def check(self) -> None:
        """Raise what a write would raise now."""
        if self.is_full:
            raise StoreIsFull("The disk of the simulation has no room.")
        if self.fails_once:
            self.fails_once = False
            raise StoreFailed("The disk of the simulation failed once, as it was told to.")


class StoreOnDisk(EventStore):
    """One process's view of a store. Nothing of a batch is stored before the disk has had its time."""

    def __init__(self, store: EventStore, disk: Disk) -> None:
        self._store = store
        self._disk = disk
        self._is_dead = False
        self._at_work: asyncio.Future[None] | None = None

    def die(self) -> None:
        self._is_dead = True
        if self._at_work is not None and not self._at_work.done():
            self._at_work.set_result(None)

    async def _take_time(self) -> None:
        """The disk is at work; it is interrupted if the process dies."""
        loop = asyncio.get_running_loop()
        at_work = self._at_work = loop.create_future()
        timer = loop.call_later(self._disk.latency_ms / 1000, at_work.set_result, None)
        await at_work
        timer.cancel()

    @property
    def last_position(self) -> int:
        return self._store.last_position

    @property
    def trimmed_through(self) -> int:
        return self._store.trimmed_through

    async def append(self, records: Sequence[NewRecord]) -> int:
        self._write()
        if self._disk.latency_ms:
            await self._take_time()
            self._disk.check()
        # Whoever died in the meantime waits for no answer; but the disk may have got that far.
        if self._is_dead and self._disk.chance.random() < 0.5:
            raise StoreFailed("The process died before the disk had it.")
        position = await self._store.append(records)
        self._disk.stored(records, position)
        if self._is_dead:
            raise StoreFailed("The process died before it heard that the disk has it.")
        return position

    def read(
        self,
        *,
        group: str | Groups | None = ANY,
        after: int = 0,
        until: int | None = None,
        types: Collection[str] | None = None,
    ) -> AsyncIterator[Record]:
        return self._store.read(group=group, after=after, until=until, types=types)

    async def heads(self) -> dict[str | None, Head]:
        return await self._store.heads()

    async def save_snapshots(self, cut: int, snapshots: Sequence[Snapshot]) -> None:
        self._write()
        await self._store.save_snapshots(cut, snapshots)

    async def load_snapshots(self, at: int | None = None) -> tuple[int, list[Snapshot]]:
        return await self._store.load_snapshots(at)

    async def cuts(self) -> list[int]:
        return await self._store.cuts()

    async def trim(self, before: int) -> int:
        self._write()
        return await self._store.trim(before)

    async def keep(self, name: str, value: bytes) -> None:
        self._write()
        await self._store.keep(name, value)

    async def kept(self, name: str) -> bytes | None:
        return await self._store.kept(name)

    async def next_reign(self) -> int:
        self._write()
        return await self._store.next_reign()

    async def checkpoint(self) -> None:
        await self._store.checkpoint()

    async def close(self) -> None:
        await self._store.close()

    def _write(self) -> None:
        if self._is_dead:
            raise StoreFailed("The process is dead.")
        self._disk.check()
