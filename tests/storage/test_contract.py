"""The contract of stores: each test runs in memory, on SQLite in a thread, and on SQLite inline."""

import asyncio
import random
from collections.abc import AsyncIterator
from itertools import islice
from pathlib import Path

import pytest

from regroup.storage.errors import (
    CoordinatorFenced,
    EventNumberConflict,
    PositionTrimmed,
    SnapshotMissing,
    StoreFailed,
)
from regroup.storage.memory import MemoryStore
from regroup.storage.records import ExchangeBlock, Head, NewExchangeBlock, NewRecord, Record, Snapshot
from regroup.storage.sqlite.inline import open_inline_store
from regroup.storage.sqlite.threaded import open_store
from regroup.storage.store import EventStore, append_history, follow


def record(group: str | None, number: int, *, epoch: int = 1, kind: str = "joined") -> NewRecord:
    return NewRecord(group, number, epoch, 1_700_000_000_000 + number, kind, 1, b'{"id":"\xc3\xa9"}', b'{"by":1}')


def snapshot(group: str | None, number: int, position: int) -> Snapshot:
    return Snapshot(group, number, position, 1, 1, b"\x00state of %d" % number)


async def positions(records: AsyncIterator[Record]) -> list[int]:
    return [record.position async for record in records]


@pytest.fixture(params=["memory", "sqlite", "inline"])
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[EventStore]:
    match request.param:
        case "sqlite":
            opened: EventStore = await open_store(tmp_path / "store", durability="process")
        case "inline":
            opened = await open_inline_store(tmp_path / "store")
        case _:
            opened = MemoryStore()
    async with opened:
        yield opened


@pytest.fixture
async def filled(store: EventStore) -> EventStore:
    """Positions 1 to 6: a1, the cluster's 1, b1, a2, b2, the cluster's 2."""
    await store.append([record("a", 1), record(None, 1), record("b", 1)])
    await store.append([record("a", 2), record("b", 2, kind="other"), record(None, 2, epoch=3)])
    return store


async def test_a_new_store_is_empty(store: EventStore) -> None:
    assert (store.last_position, store.trimmed_through) == (0, 0)
    assert await positions(store.read()) == []
    assert await store.heads() == {}
    assert await store.load_snapshots() == (0, [])


async def test_appended_records_are_read_back_unchanged(store: EventStore) -> None:
    new = [record("payments", 1), NewRecord(None, 1, 9, 5, "topic-created", 2, b"[]", None), record("", 1)]
    assert await store.append(new) == 3
    assert store.last_position == 3
    assert [stored async for stored in store.read()] == [
        Record(n.group, n.event_number, n.coordinator_epoch, n.at_ms, n.type, n.version, n.payload, n.cause, position)
        for position, n in enumerate(new, 1)
    ]


async def test_appending_no_records_changes_nothing(filled: EventStore) -> None:
    assert await filled.append([]) == 6
    assert await positions(filled.read()) == [1, 2, 3, 4, 5, 6]


async def test_reading_can_be_limited_by_position_group_and_type(filled: EventStore) -> None:
    assert await positions(filled.read(after=2, until=4)) == [3, 4]
    assert await positions(filled.read(until=99)) == [1, 2, 3, 4, 5, 6]
    assert await positions(filled.read(group="a")) == [1, 4]
    assert await positions(filled.read(group=None)) == [2, 6]
    assert await positions(filled.read(group="b", after=3)) == [5]
    assert await positions(filled.read(group="b", until=4)) == [3]
    assert await positions(filled.read(group="unknown")) == []
    assert await positions(filled.read(types={"other"})) == [5]
    assert await positions(filled.read(types=["joined", "other"], group="b")) == [3, 5]
    assert await positions(filled.read(types=())) == []


@pytest.mark.parametrize("group", ["long", None])
async def test_a_long_history_comes_in_chunks_without_a_gap(store: EventStore, group: str | None) -> None:
    numbers = range(1, 9001)
    await store.append([record(name, number) for number in numbers for name in (group, "other")])
    assert await positions(store.read()) == list(range(1, 18001))
    assert [stored.event_number async for stored in store.read(group=group)] == list(numbers)
    assert [stored.event_number async for stored in store.read(group=group, after=9000)] == list(range(4501, 9001))


async def test_reading_ends_at_what_was_committed_when_it_began(filled: EventStore) -> None:
    reading = filled.read()
    seen = [(await anext(reading)).position]
    await filled.append([record("a", 3)])
    seen += await positions(reading)
    assert seen == [1, 2, 3, 4, 5, 6]


async def test_an_event_number_that_does_not_follow_is_refused(filled: EventStore) -> None:
    for number in (1, 2, 4):
        with pytest.raises(EventNumberConflict, match="the next event number is 3"):
            await filled.append([record("a", number)])
    with pytest.raises(EventNumberConflict, match="The cluster"):
        await filled.append([record(None, 2, epoch=3)])


async def test_an_older_coordinator_epoch_is_refused(store: EventStore) -> None:
    await store.append([record("payments", 1, epoch=2)])
    with pytest.raises(CoordinatorFenced, match="epoch 2 is current"):
        await store.append([record("payments", 2, epoch=1)])
    assert await store.append([record("orders", 1, epoch=1)]) == 2


async def test_a_batch_is_stored_completely_or_not_at_all(filled: EventStore) -> None:
    with pytest.raises(EventNumberConflict):
        await filled.append([record("a", 3), record("c", 1), record("b", 9)])
    assert filled.last_position == 6
    assert "c" not in await filled.heads()
    assert await filled.append([record("a", 3), record("c", 1)]) == 8


async def test_heads_are_the_ends_of_all_groups_the_cluster_first(filled: EventStore) -> None:
    heads = await filled.heads()
    assert list(heads.items()) == [(None, Head(2, 3, 6)), ("a", Head(2, 1, 4)), ("b", Head(2, 1, 5))]


async def test_appends_from_several_tasks_do_not_mix(store: EventStore) -> None:
    async def write(group: str) -> None:
        for number in range(1, 20, 2):
            await store.append([record(group, number), record(group, number + 1)])

    await asyncio.gather(*(write(group) for group in "abcd"))
    assert await positions(store.read()) == list(range(1, 81))
    pairs = [stored.group async for stored in store.read()]
    assert all(first == second for first, second in zip(pairs[::2], pairs[1::2], strict=True))


async def test_a_reader_never_sees_half_a_batch(store: EventStore) -> None:
    async def write() -> None:
        for number in range(1, 61, 3):
            await store.append([record("a", number + step) for step in range(3)])

    writing = asyncio.create_task(write())
    while not writing.done():
        assert len(await positions(store.read())) % 3 == 0
        await asyncio.sleep(0)
    await writing


async def test_each_group_is_loaded_from_its_newest_snapshot(filled: EventStore) -> None:
    first_a, first_b, second_a = snapshot("a", 1, 1), snapshot("b", 1, 3), snapshot("a", 2, 4)
    cluster = snapshot(None, 1, 2)
    await filled.save_snapshots(3, [first_b, first_a, cluster])
    await filled.save_snapshots(4, [second_a])
    assert await filled.load_snapshots() == (4, [cluster, second_a, first_b])
    assert await filled.load_snapshots(at=3) == (3, [cluster, first_a, first_b])
    assert await filled.load_snapshots(at=2) == (0, [])


async def test_a_cut_may_be_saved_again(filled: EventStore) -> None:
    await filled.save_snapshots(4, [snapshot("a", 1, 1), snapshot(None, 1, 2)])
    again = [snapshot(None, 2, 4), snapshot("a", 2, 4)]
    await filled.save_snapshots(4, again)
    assert await filled.load_snapshots() == (4, again)


async def test_a_cut_outside_the_history_is_refused(filled: EventStore) -> None:
    with pytest.raises(ValueError, match="between 0 and 6"):
        await filled.save_snapshots(7, [])
    with pytest.raises(ValueError, match="after the cut 3"):
        await filled.save_snapshots(3, [snapshot("a", 2, 4)])
    assert await filled.load_snapshots() == (0, [])


async def test_only_records_that_a_snapshot_covers_can_be_trimmed(filled: EventStore) -> None:
    await filled.save_snapshots(4, [snapshot("a", 2, 4), snapshot("b", 1, 3)])
    with pytest.raises(SnapshotMissing, match="at least 5"):
        await filled.trim(before=6)
    assert await filled.trim(before=5) == 4
    assert await filled.trim(before=5) == 0
    assert filled.trimmed_through == 4
    assert await positions(filled.read(after=4)) == [5, 6]
    for group in ("a", "b"):
        with pytest.raises(PositionTrimmed, match="up to position 4"):
            await positions(filled.read(group=group, after=3))


async def test_numbers_and_positions_go_on_after_everything_was_trimmed(filled: EventStore) -> None:
    heads = await filled.heads()
    await filled.save_snapshots(6, [])
    assert await filled.trim(before=7) == 6
    assert await filled.heads() == heads
    with pytest.raises(EventNumberConflict):
        await filled.append([record("a", 1)])
    with pytest.raises(CoordinatorFenced):
        await filled.append([record(None, 3, epoch=2)])
    assert await filled.append([record("a", 3)]) == 7
    assert (await filled.heads())["a"] == Head(3, 1, 7)


async def test_trimming_deletes_old_cuts_and_keeps_every_groups_snapshot(filled: EventStore) -> None:
    await filled.save_snapshots(3, [snapshot("a", 1, 1), snapshot("b", 1, 3)])
    await filled.save_snapshots(5, [snapshot("a", 2, 4)])
    await filled.trim(before=5)
    assert await filled.load_snapshots() == (5, [snapshot("a", 2, 4), snapshot("b", 1, 3)])
    assert await filled.load_snapshots(at=4) == (0, [])


async def test_a_reader_whose_next_records_are_trimmed_gets_an_error(store: EventStore) -> None:
    await store.append([record("a", number) for number in range(1, 9001)])
    reading = store.read()
    await anext(reading)
    await store.save_snapshots(9000, [])
    await store.trim(before=9000)
    with pytest.raises(PositionTrimmed):
        await positions(reading)


async def test_a_named_value_is_stored_and_replaced(store: EventStore) -> None:
    assert await store.get_value("feed") is None
    await store.put_value("feed", b"1")
    await store.put_value("feed", b"\x00\xff")
    await store.put_value("cluster", b"")
    assert (await store.get_value("feed"), await store.get_value("cluster")) == (b"\x00\xff", b"")


async def test_each_coordinator_epoch_is_larger_than_the_last(store: EventStore) -> None:
    assert await store.coordinator_epoch() == 0
    assert [await store.next_coordinator_epoch() for _ in range(3)] == [1, 2, 3]
    assert await store.coordinator_epoch() == 3


async def test_a_history_is_appended_with_its_coordinator_epochs(filled: EventStore) -> None:
    records = [each async for each in filled.read()]
    other = MemoryStore()
    await append_history(other, records)
    assert [each async for each in other.read()] == records
    assert await other.coordinator_epoch() == max(each.coordinator_epoch for each in records) > 0


async def test_following_yields_new_records_as_they_are_committed(filled: EventStore) -> None:
    pauses = 0

    async def pause() -> None:
        nonlocal pauses
        pauses += 1
        await filled.append([record("a", 2 + pauses)])

    following = follow(filled, after=4, pause=pause)
    assert [(await anext(following)).position for _ in islice(range(9), 4)] == [5, 6, 7, 8]
    assert pauses == 2


async def test_a_checkpoint_changes_nothing(filled: EventStore) -> None:
    await filled.checkpoint()
    assert await positions(filled.read()) == [1, 2, 3, 4, 5, 6]


async def test_closing_twice_has_no_effect(store: EventStore) -> None:
    await store.close()
    await store.close()


async def test_a_closed_store_refuses_records(tmp_path: Path) -> None:
    store = await open_store(tmp_path / "store")
    await store.close()
    with pytest.raises(StoreFailed, match="open it again"):
        await store.append([record("a", 1)])


@pytest.mark.parametrize("size", [2, 200])
async def test_a_cancelled_append_is_stored_completely_or_not_at_all(store: EventStore, size: int) -> None:
    for turns in range(12):
        start = (await store.heads()).get("a", Head(0, 0, 0)).event_number
        appending = asyncio.create_task(store.append([record("a", start + step) for step in range(1, size + 1)]))
        for _ in range(turns):
            await asyncio.sleep(0)
        appending.cancel()
        await asyncio.wait([appending])
        assert store.last_position in (start, start + size)
        assert len(await positions(store.read())) == store.last_position
    head = (await store.heads()).get("a", Head(0, 0, 0))
    assert await store.append([record("a", head.event_number + 1)]) == head.position + 1


async def test_trimming_deletes_the_cuts_whose_next_records_are_gone(filled: EventStore) -> None:
    assert await filled.cuts() == []
    await filled.save_snapshots(5, [snapshot("a", 2, 4)])
    await filled.save_snapshots(3, [snapshot("a", 1, 1), snapshot("b", 1, 3)])
    assert await filled.cuts() == [3, 5]
    await filled.trim(before=5)
    assert await filled.cuts() == [5]


def block(first_ms: int, last_ms: int, payload: bytes = b"rows") -> NewExchangeBlock:
    return NewExchangeBlock(first_ms, last_ms, 3, payload)


async def blocks(store: EventStore, **times: int) -> list[ExchangeBlock]:
    return [each async for each in store.read_exchanges(**times)]


async def test_exchanges_are_read_back_in_the_order_in_which_they_were_stored(filled: EventStore) -> None:
    assert await blocks(filled) == []
    new = [block(1, 9), block(5, 7, bytes(100_000)), block(8, 8, b"")]
    for each in new:
        await filled.append_exchanges(each, max_bytes=1_000_000)
    assert await blocks(filled) == [
        ExchangeBlock(each.first_ms, each.last_ms, each.count, each.payload, number)
        for number, each in enumerate(new, 1)
    ]
    assert [each.number for each in await blocks(filled, from_ms=8)] == [1, 3]
    assert [each.number for each in await blocks(filled, from_ms=2, to_ms=6)] == [1, 2]
    assert await positions(filled.read()) == [1, 2, 3, 4, 5, 6]


async def test_observations_are_kept_beside_exchanges_and_bounded_as_they_are(filled: EventStore) -> None:
    rng = random.Random(1)
    await filled.append_exchanges(block(1, 9), max_bytes=1_000_000)
    for number in range(1, 21):
        await filled.append_observations(block(number, number, rng.randbytes(1_000)), max_bytes=10_500)
    kept = [each async for each in filled.read_observations()]
    assert [each.number for each in kept] == list(range(11, 21))
    assert [each.number async for each in filled.read_observations(from_ms=13, to_ms=14)] == [13, 14]
    assert [each.payload for each in await blocks(filled)] == [b"rows"]
    await filled.save_snapshots(6, [snapshot("a", 2, 4)])
    await filled.trim(before=5)
    assert len([each async for each in filled.read_observations()]) == 10


async def test_the_oldest_exchanges_are_deleted_beyond_the_bound(store: EventStore) -> None:
    rng = random.Random(1)
    for number in range(1, 201):
        await store.append_exchanges(block(number, number, rng.randbytes(1_000)), max_bytes=10_500)
        kept = [each.number for each in await blocks(store)]
        assert kept == list(range(max(1, number - 9), number + 1))
    await store.append_exchanges(block(300, 300, rng.randbytes(50_000)), max_bytes=10_500)
    assert [each.first_ms for each in await blocks(store)] == [300]


async def test_exchanges_outlive_a_trim_and_a_trim_outlives_them(filled: EventStore) -> None:
    await filled.append_exchanges(block(1, 1), max_bytes=1_000)
    await filled.save_snapshots(6, [snapshot("a", 2, 4)])
    assert await filled.trim(before=5) == 4
    assert len(await blocks(filled)) == 1
    assert await positions(filled.read(after=4)) == [5, 6]
