"""The table of each group's records: what is in it, and what is found where it ends."""

import sqlite3
from contextlib import closing
from pathlib import Path

from regroup.storage.records import Head, NewRecord
from regroup.storage.sqlite.inline import open_inline_store
from regroup.storage.sqlite.store import SqliteStore

PAYLOAD = b"{}"


def record(group: str | None, number: int) -> NewRecord:
    return NewRecord(group, number, 1, 0, "member-joined", 1, PAYLOAD, None)


async def positions(store: SqliteStore, group: str | None, **bounds: int) -> list[int]:
    return [each.position async for each in store.read(group=group, **bounds)]


def indexed(path: Path) -> list[tuple[object, ...]]:
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute("SELECT * FROM events_by_group").fetchall()


async def test_a_commit_leaves_the_index_alone_and_a_checkpoint_extends_it(tmp_path: Path) -> None:
    async with await open_inline_store(tmp_path / "store") as store:
        await store.append([record("a", 1), record(None, 1), record("a", 2)])
        assert indexed(tmp_path / "store") == []
        await store.checkpoint()
        assert indexed(tmp_path / "store") == [("a", 1, 1), ("a", 2, 3), (b"", 1, 2)]


async def test_records_of_a_group_are_read_across_the_end_of_the_index(tmp_path: Path) -> None:
    async with await open_inline_store(tmp_path / "store") as store:
        await store.append([record("a", 1), record(None, 1), record("a", 2)])
        await store.checkpoint()
        await store.append([record("b", 1), record("a", 3), record(None, 2)])
        async with await open_inline_store(tmp_path / "store", read_only=True) as reader:
            for each in (store, reader):
                assert await positions(each, "a") == [1, 3, 5]
                assert await positions(each, "a", after=1, until=4) == [3]
                assert await positions(each, "a", after=4) == [5]
                assert await positions(each, None) == [2, 6]
                assert await positions(each, "b") == [4]
                assert await each.heads() == {None: Head(2, 1, 6), "a": Head(3, 1, 5), "b": Head(1, 1, 4)}


async def test_a_reader_sees_what_a_checkpoint_moves_while_it_reads(tmp_path: Path) -> None:
    async with await open_inline_store(tmp_path / "store") as store:
        await store.append([record("a", number) for number in range(1, 5000)])
        async with await open_inline_store(tmp_path / "store", read_only=True) as reader:
            reading = reader.read(group="a")
            first = await anext(reading)
            await store.checkpoint()
            assert [first.position, *[each.position async for each in reading]] == list(range(1, 5000))


async def test_a_deleted_record_leaves_the_index_too(tmp_path: Path) -> None:
    async with await open_inline_store(tmp_path / "store") as store:
        await store.append([record("a", 1), record("a", 2), record(None, 1)])
        await store.save_snapshots(2, [])
        await store.checkpoint()
        await store.trim(3)
        while await store.delete_trimmed():
            pass
        await store.append([record("a", 3)])
        assert await positions(store, "a", after=2) == [4]
        assert await store.heads() == {None: Head(1, 1, 3), "a": Head(3, 1, 4)}
    assert indexed(tmp_path / "store") == [("a", 3, 4), (b"", 1, 3)]
