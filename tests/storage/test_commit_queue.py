"""Group commit: order, batches, failures."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

import pytest

from regroup.storage.commit_queue import CHECKPOINT_RECORDS, CommitQueue
from regroup.storage.errors import NumberIsTaken, StoreError, StoreIsFull
from regroup.storage.memory import MemoryStore
from regroup.storage.records import NewRecord
from regroup.storage.sqlite.inline import open_inline_store
from regroup.storage.sqlite.store import SqlStore
from regroup.storage.sqlite.threaded import open_store
from regroup.storage.store import EventStore


def record(group: str, number: int) -> NewRecord:
    return NewRecord(group, number, 1, 0, "told", 1, b"{}", None)


class WatchedStore(MemoryStore):
    """Remembers the size of each commit, waits at a gate before each, and can run out of room."""

    def __init__(self) -> None:
        super().__init__()
        self.batches: list[int] = []
        self.gate = asyncio.Event()
        self.gate.set()
        self.is_full = False
        self.checkpoints: list[int] = []

    async def checkpoint(self) -> None:
        self.checkpoints.append(self.last_position)

    async def append(self, records: Sequence[NewRecord]) -> int:
        self.batches.append(len(records))
        await self.gate.wait()
        if self.is_full:
            raise StoreIsFull("no room")
        return await super().append(records)


class Told:
    """What the queue called back."""

    def __init__(self) -> None:
        self.durable: list[int] = []
        self.failures: list[StoreError] = []

    def queue(self, store: EventStore, batch_limit: int = 100) -> CommitQueue:
        return CommitQueue(
            store, on_durable=self.durable.append, on_failure=self.failures.append, batch_limit=batch_limit
        )


async def turns(count: int = 5) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


async def test_what_arrives_during_a_commit_is_committed_in_one_go() -> None:
    store, told = WatchedStore(), Told()
    queue = told.queue(store)
    store.gate.clear()
    assert queue.enqueue([record("a", 1)]) == 1
    await turns()
    assert queue.enqueue([record("b", 1), record("b", 2)]) == 3
    assert queue.enqueue([record("a", 2)]) == 4
    assert (queue.durable_position, queue.last_position) == (0, 4)
    store.gate.set()
    await queue.close()
    assert store.batches == [1, 3]
    assert told.durable == [1, 4]
    assert [(r.group, r.number) async for r in store.read()] == [("a", 1), ("b", 1), ("b", 2), ("a", 2)]


async def test_a_batch_is_never_larger_than_its_limit() -> None:
    store, told = WatchedStore(), Told()
    queue = told.queue(store, batch_limit=2)
    queue.enqueue([record("a", number) for number in range(1, 6)])
    await queue.close()
    assert store.batches == [2, 2, 1]
    assert told.durable == [2, 4, 5]


async def test_others_get_their_turn_between_two_commits() -> None:
    store, told = MemoryStore(), Told()
    queue = told.queue(store, batch_limit=1)
    queue.enqueue([record("a", number) for number in range(1, 101)])
    await turns(10)
    assert 0 < queue.durable_position < 100
    await queue.close()
    assert queue.durable_position == 100


async def test_a_failed_append_drops_what_is_not_durable_and_is_told_once() -> None:
    store, told = WatchedStore(), Told()
    queue = told.queue(store)
    queue.enqueue([record("a", 1)])
    await turns()
    store.is_full = True
    store.gate.clear()
    queue.enqueue([record("a", 2)])
    await turns()
    queue.enqueue([record("a", 3)])
    store.gate.set()
    await turns()
    assert [type(failure) for failure in told.failures] == [StoreIsFull]
    assert (queue.durable_position, queue.last_position) == (1, 1)
    with pytest.raises(StoreIsFull):
        queue.enqueue([record("a", 2)])


async def test_a_restarted_queue_writes_on_behind_what_is_durable() -> None:
    store, told = WatchedStore(), Told()
    queue = told.queue(store)
    queue.enqueue([record("a", 7)])
    await turns()
    assert [type(failure) for failure in told.failures] == [NumberIsTaken]
    queue.restart(store)
    assert queue.enqueue([record("a", 1)]) == 1
    await queue.close()
    assert told.durable == [1]


async def test_a_queue_can_be_restarted_while_it_tells_of_its_failure() -> None:
    store = WatchedStore()
    store.is_full = True

    def reopen(_: StoreError) -> None:
        store.is_full = False
        queue.restart(store)
        queue.enqueue([record("a", 1)])

    durable: list[int] = []
    queue = CommitQueue(store, on_durable=durable.append, on_failure=reopen)
    queue.enqueue([record("a", 1)])
    await turns()
    await queue.close()
    assert durable == [1]


async def test_a_closed_queue_refuses_more() -> None:
    queue = Told().queue(MemoryStore())
    await queue.close()
    with pytest.raises(RuntimeError, match="make a new one"):
        queue.enqueue([record("a", 1)])


async def test_the_file_is_tidied_when_there_is_nothing_else_to_do() -> None:
    store, told = WatchedStore(), Told()
    queue = told.queue(store, batch_limit=CHECKPOINT_RECORDS // 2)
    queue.enqueue([record("a", number) for number in range(1, 3 * CHECKPOINT_RECORDS + 1)])
    await turns(20)
    queue.enqueue([record("b", 1)])
    await queue.close()
    assert store.checkpoints == [3 * CHECKPOINT_RECORDS]


@pytest.mark.parametrize("opener", [open_store, open_inline_store])
async def test_what_is_told_durable_is_in_the_file(
    tmp_path: Path, opener: Callable[[Path], Awaitable[SqlStore]]
) -> None:
    told = Told()
    async with await opener(tmp_path / "store") as store:
        queue = told.queue(store)
        for number in range(1, 200):
            queue.enqueue([record(group, number) for group in "abc"])
            await asyncio.sleep(0)
        await queue.close()
        assert queue.durable_position == told.durable[-1] == 597
    async with await opener(tmp_path / "store") as store:
        assert [r.number async for r in store.read(group="b")] == list(range(1, 200))
