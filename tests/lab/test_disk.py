"""The disk under a simulated coordinator: slow, full, failing, and what is left on it when the process dies."""

import asyncio
from collections.abc import Sequence
from random import Random

import pytest

from regroup.lab.simulation.disk import Disk
from regroup.storage.errors import StoreFailed, StoreIsFull
from regroup.storage.memory import MemoryStore
from regroup.storage.records import NewRecord
from regroup.storage.store import EventStore


def record(number: int) -> NewRecord:
    return NewRecord("payments", number, 1, 0, "something", 1, b"{}", None)


class Kept:
    """A disk whose store is in memory, and what it told of."""

    def __init__(self, *, latency_ms: float = 0, seed: int = 0) -> None:
        self.store = MemoryStore()
        self.told: list[int] = []
        self.disk = Disk(self._open, Random(seed), latency_ms=latency_ms, stored=self._stored)

    async def _open(self) -> EventStore:
        return self.store

    def _stored(self, records: Sequence[NewRecord], position: int) -> None:
        self.told.append(position)


async def test_a_commit_takes_as_long_as_the_disk() -> None:
    kept = Kept(latency_ms=200)
    opened = await kept.disk.open()
    await opened.append([record(1)])
    assert (asyncio.get_running_loop().time(), kept.told) == (0.2, [1])


async def test_a_full_disk_refuses_to_be_opened_and_written_and_keeps_what_it_has() -> None:
    kept = Kept()
    opened = await kept.disk.open()
    await opened.append([record(1)])
    kept.disk.is_full = True
    for attempt in (opened.append([record(2)]), opened.next_reign(), opened.keep("name", b""), kept.disk.open()):
        with pytest.raises(StoreIsFull):
            await attempt
    kept.disk.is_full = False
    assert await opened.append([record(2)]) == 2


async def test_a_disk_that_fails_once_fails_once() -> None:
    kept = Kept()
    opened = await kept.disk.open()
    kept.disk.fails_once = True
    with pytest.raises(StoreFailed):
        await opened.append([record(1)])
    assert await opened.append([record(1)]) == 1


@pytest.mark.parametrize("seed", range(20))
async def test_who_dies_in_the_middle_of_a_commit_hears_nothing_and_the_disk_has_all_of_it_or_nothing(
    seed: int,
) -> None:
    kept = Kept(latency_ms=200, seed=seed)
    opened = await kept.disk.open()
    commit = asyncio.ensure_future(opened.append([record(1), record(2)]))
    await asyncio.sleep(0.1)
    kept.disk.let_go()
    with pytest.raises(StoreFailed):
        await commit
    assert kept.store.last_position in (0, 2)
    assert kept.told == ([2] if kept.store.last_position else [])


async def test_both_ends_of_a_commit_that_was_interrupted_come_about() -> None:
    ends = set()
    for seed in range(20):
        kept = Kept(latency_ms=200, seed=seed)
        opened = await kept.disk.open()
        commit = asyncio.ensure_future(opened.append([record(1)]))
        await asyncio.sleep(0.1)
        kept.disk.let_go()
        await asyncio.gather(commit, return_exceptions=True)
        ends.add(kept.store.last_position)
    assert ends == {0, 1}


async def test_the_dead_do_not_write() -> None:
    kept = Kept()
    opened = await kept.disk.open()
    kept.disk.let_go()
    for attempt in (opened.next_reign(), opened.append([record(1)])):
        with pytest.raises(StoreFailed):
            await attempt
