"""The simulated disk: slow, full, failing, and what it has after a crash."""

import asyncio
from collections.abc import Sequence
from random import Random

import pytest

from regroup.lab.simulation.disk import SimulatedDisk
from regroup.storage.errors import StoreFailed, StoreFull
from regroup.storage.memory import MemoryStore
from regroup.storage.records import NewRecord
from regroup.storage.store import EventStore


def record(number: int) -> NewRecord:
    return NewRecord("payments", number, 1, 0, "something", 1, b"{}", None)


class DiskHarness:
    """A disk with a store in memory; `positions` has the last position of every commit."""

    def __init__(self, *, latency_ms: float = 0, seed: int = 0) -> None:
        self.store = MemoryStore()
        self.positions: list[int] = []
        self.disk = SimulatedDisk(self._open, Random(seed), latency_ms=latency_ms, on_stored=self._stored)

    async def _open(self) -> EventStore:
        return self.store

    def _stored(self, records: Sequence[NewRecord], position: int) -> None:
        self.positions.append(position)


async def test_a_commit_takes_as_long_as_the_disk() -> None:
    harness = DiskHarness(latency_ms=200)
    store = await harness.disk.open()
    await store.append([record(1)])
    assert (asyncio.get_running_loop().time(), harness.positions) == (0.2, [1])


async def test_a_full_disk_refuses_to_open_and_to_write_and_keeps_its_records() -> None:
    harness = DiskHarness()
    store = await harness.disk.open()
    await store.append([record(1)])
    harness.disk.is_full = True
    for attempt in (
        store.append([record(2)]),
        store.next_coordinator_epoch(),
        store.put_value("name", b""),
        harness.disk.open(),
    ):
        with pytest.raises(StoreFull):
            await attempt
    harness.disk.is_full = False
    assert await store.append([record(2)]) == 2


async def test_a_disk_that_fails_the_next_write_fails_once() -> None:
    harness = DiskHarness()
    store = await harness.disk.open()
    harness.disk.fails_next_write = True
    with pytest.raises(StoreFailed):
        await store.append([record(1)])
    assert await store.append([record(1)]) == 1


@pytest.mark.parametrize("seed", range(20))
async def test_a_commit_that_a_crash_interrupts_fails_and_is_stored_as_a_whole_or_not_at_all(
    seed: int,
) -> None:
    harness = DiskHarness(latency_ms=200, seed=seed)
    store = await harness.disk.open()
    commit = asyncio.ensure_future(store.append([record(1), record(2)]))
    await asyncio.sleep(0.1)
    harness.disk.detach()
    with pytest.raises(StoreFailed):
        await commit
    assert harness.store.last_position in (0, 2)
    assert harness.positions == ([2] if harness.store.last_position else [])


async def test_both_outcomes_of_an_interrupted_commit_occur() -> None:
    outcomes = set()
    for seed in range(20):
        harness = DiskHarness(latency_ms=200, seed=seed)
        store = await harness.disk.open()
        commit = asyncio.ensure_future(store.append([record(1)]))
        await asyncio.sleep(0.1)
        harness.disk.detach()
        await asyncio.gather(commit, return_exceptions=True)
        outcomes.add(harness.store.last_position)
    assert outcomes == {0, 1}


async def test_a_crashed_process_cannot_write() -> None:
    harness = DiskHarness()
    store = await harness.disk.open()
    harness.disk.detach()
    for attempt in (store.next_coordinator_epoch(), store.append([record(1)])):
        with pytest.raises(StoreFailed):
            await attempt
