"""A trim of a SQLite store: the history begins later at once, and the file's rows are deleted in portions."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from regroup.storage.errors import StoreDamaged
from regroup.storage.records import Head, NewRecord, Snapshot
from regroup.storage.sqlite import trimming
from regroup.storage.sqlite.inline import open_inline_store
from regroup.storage.sqlite.store import SqliteStore
from regroup.storage.sqlite.threaded import open_store


def records(group: str | None, first: int, count: int, payload: bytes = b"{}") -> list[NewRecord]:
    return [NewRecord(group, number, 1, number, "joined", 1, payload, None) for number in range(first, first + count)]


def snapshot(group: str | None, position: int, payload: bytes = b"state") -> Snapshot:
    return Snapshot(group, position, position, 1, 1, payload)


def column(path: Path, query: str) -> list[object]:
    """The first column of a query, as SQLite itself sees the file."""
    with closing(sqlite3.connect(path)) as connection:
        return [row[0] for row in connection.execute(query)]


def positions(path: Path) -> list[object]:
    return column(path, "SELECT position FROM events ORDER BY position")


def size_of(path: Path) -> int:
    return path.stat().st_size


async def numbers(store: SqliteStore) -> list[int]:
    return [each.event_number async for each in store.read(after=store.trimmed_through)]


async def delete_all(store: SqliteStore) -> int:
    """Delete everything that was trimmed; returns the number of portions."""
    portions = 0
    while await store.delete_trimmed():
        portions += 1
    return portions


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "store"


async def test_the_rows_are_deleted_oldest_first_in_portions(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trimming, "MAX_PORTION_RECORDS", 4)
    async with await open_inline_store(path) as store:
        await store.append(records("a", 1, 10))
        await store.save_snapshots(9, [snapshot("a", 9)])
        assert await store.trim(10) == 9
        assert await numbers(store) == [10]
        assert positions(path) == list(range(1, 11))
        left = []
        while await store.delete_trimmed():
            left.append(positions(path))
            assert await numbers(store) == [10]
            assert await store.heads() == {"a": Head(10, 1, 10)}
        assert left == [list(range(5, 11)), [9, 10], [10]]


async def test_a_portion_ends_after_some_bytes(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trimming, "MAX_PORTION_BYTES", 500)
    async with await open_inline_store(path) as store:
        await store.append([*records("a", 1, 3), *records("a", 4, 5, b'"%b"' % (b"x" * 400)), *records("a", 9, 1)])
        await store.save_snapshots(9, [])
        await store.trim(9)
        await store.delete_trimmed()
        assert positions(path) == [6, 7, 8, 9]
        await store.delete_trimmed()
        assert positions(path) == [8, 9]


async def test_the_next_process_deletes_what_a_killed_one_has_left(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trimming, "MAX_PORTION_RECORDS", 2)
    async with await open_inline_store(path) as store:
        await store.append(records("a", 1, 5))
        await store.save_snapshots(5, [snapshot("a", 5)])
        await store.trim(6)
        await store.delete_trimmed()
    async with await open_inline_store(path) as store:
        assert await store.heads() == {"a": Head(5, 1, 5)}
        assert await store.append(records("a", 6, 1)) == 6
        assert await delete_all(store) == 2
        assert positions(path) == [6]
        assert await store.heads() == {"a": Head(6, 1, 6)}


async def test_heads_of_groups_without_later_records_are_kept(path: Path) -> None:
    async with await open_inline_store(path) as store:
        await store.append([*records(None, 1, 2), *records("a", 1, 2), *records("b", 1, 2)])
        await store.save_snapshots(5, [])
        await store.trim(6)
        await delete_all(store)
    assert sorted(column(path, 'SELECT ifnull("group", 0) FROM trimmed_heads'), key=str) == [0, "a"]
    async with await open_inline_store(path) as store:
        assert await store.heads() == {None: Head(2, 1, 2), "a": Head(2, 1, 4), "b": Head(2, 1, 6)}


@pytest.mark.parametrize("most", [1, 2, 200])
async def test_of_each_group_the_snapshot_that_the_first_cut_needs_is_kept(
    path: Path, monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    monkeypatch.setattr(trimming, "MAX_PORTION_SNAPSHOTS", most + 1)
    monkeypatch.setattr(trimming, "MAX_PORTION_BYTES", 10_000 if most > 1 else 4)
    groups = [None, "", "a", "b", "idle"]
    async with await open_inline_store(path) as store:
        await store.append(records("a", 1, 12))
        for cut in range(1, 11):
            await store.save_snapshots(cut, [snapshot(each, cut) for each in groups if each != "idle" or cut == 3])
        expected = (await store.load_snapshots(8))[1]
        later = (await store.load_snapshots())[1]
        await store.trim(9)
        assert await delete_all(store) > 0
        assert await store.cuts() == [8, 9, 10]
        assert (await store.load_snapshots(8))[1] == expected
        assert (await store.load_snapshots())[1] == later
    assert column(path, "SELECT count(*) FROM snapshots") == [3 * 4 + 1]
    assert positions(path) == [9, 10, 11, 12]


async def test_a_file_that_is_trimmed_again_and_again_does_not_grow(path: Path) -> None:
    sizes = []
    payload = b'"%b"' % (b"x" * 200)
    async with await open_inline_store(path) as store:
        for _ in range(6):
            last = await store.append(records("a", store.last_position + 1, 1000, payload))
            await store.save_snapshots(last, [snapshot("a", last, payload * 50)])
            await store.trim(last + 1)
            await delete_all(store)
            await store.checkpoint()
            sizes.append(size_of(path))
    assert sizes[-1] <= sizes[1]


@pytest.mark.parametrize("durability", ["disk", "process"])
async def test_a_portion_does_not_change_how_records_are_synchronized(path: Path, durability: str) -> None:
    async with await open_store(path, durability="disk" if durability == "disk" else "process") as store:
        await store.append(records("a", 1, 3))
        (before,) = await store._connection.execute("PRAGMA synchronous")
        await store.save_snapshots(2, [])
        await store.trim(3)
        await delete_all(store)
        assert await store._connection.execute("PRAGMA synchronous") == [before]
        assert await store.append(records("a", 4, 1)) == 4


async def test_a_portion_that_fails_deletes_nothing_and_is_repeated(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with await open_inline_store(path) as store:
        await store.append(records("a", 1, 3))
        await store.save_snapshots(1, [snapshot("a", 1)])
        await store.save_snapshots(2, [snapshot("a", 2)])
        await store.trim(3)
        await store.delete_trimmed()
        with monkeypatch.context() as patch:
            patch.setattr(
                "regroup.storage.sqlite.statements.DELETE_SNAPSHOT", "DELETE FROM missing_table WHERE rowid = ?"
            )
            with pytest.raises(StoreDamaged, match="no such table"):
                await store.delete_trimmed()
        assert column(path, "SELECT cut FROM snapshots ORDER BY cut") == [1, 2]
        await delete_all(store)
        assert column(path, "SELECT cut FROM snapshots ORDER BY cut") == [2]
