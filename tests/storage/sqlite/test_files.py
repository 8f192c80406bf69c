"""The file of a store: what is refused, locks, readers beside a writer, disks that are full or read-only."""

import os
import sqlite3
import struct
import tempfile
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from regroup.storage.errors import (
    NotAStore,
    StoreDamaged,
    StoreError,
    StoreFailed,
    StoreFull,
    StoreLocked,
    StoreLost,
    StoreReadOnly,
    UnsupportedStoreVersion,
)
from regroup.storage.records import Head, NewRecord
from regroup.storage.sqlite import threaded
from regroup.storage.sqlite.files import initialize_store, store_exists
from regroup.storage.sqlite.inline import open_inline_store
from regroup.storage.sqlite.schema import READABLE_VERSIONS, SCHEMA_VERSION
from regroup.storage.sqlite.store import SqliteStore
from regroup.storage.sqlite.threaded import open_store
from regroup.storage.store import EventStore

OPENERS = pytest.mark.parametrize("opener", [open_store, open_inline_store])
Opener = Callable[..., Awaitable[SqliteStore]]


def record(number: int, payload: bytes = b'{"member":"anna"}') -> NewRecord:
    return NewRecord("payments", number, 1, 5, "member-joined", 1, payload, b'{"deadline":"session"}')


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir()) if path.is_file()}


async def filled(path: Path, count: int = 3) -> Path:
    async with await open_store(path) as store:
        await store.append([record(number) for number in range(1, count + 1)])
    return path


async def numbers(store: EventStore) -> list[int]:
    return [stored.event_number async for stored in store.read()]


def patch_header(path: Path, offset: int, value: int) -> None:
    with path.open("r+b") as file:
        file.seek(offset)
        file.write(struct.pack(">I", value))


def a_text(path: Path) -> None:
    path.write_text("Not a database. " * 20)


def a_short_text(path: Path) -> None:
    path.write_text("x")


def a_database_of_another_program(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(
            "PRAGMA journal_mode = WAL; CREATE TABLE events (position INTEGER); PRAGMA user_version = 1"
        )


def a_newer_store(path: Path) -> None:
    initialize_store(path)
    patch_header(path, 60, SCHEMA_VERSION + 1)


def an_older_store(path: Path) -> None:
    initialize_store(path)
    patch_header(path, 60, min(READABLE_VERSIONS) - 1)


def a_truncated_store(path: Path) -> None:
    initialize_store(path)
    os.truncate(path, path.stat().st_size - 5000)


def a_store_without_a_table(path: Path) -> None:
    initialize_store(path)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("DROP TABLE events")


def a_store_of_random_bytes(path: Path) -> None:
    initialize_store(path)
    with path.open("r+b") as file:
        file.seek(100)
        file.write(b"\xa5" * (path.stat().st_size - 100))


@OPENERS
@pytest.mark.parametrize("read_only", [False, True])
@pytest.mark.parametrize(
    ("make", "error"),
    [
        (a_text, NotAStore),
        (a_short_text, NotAStore),
        (a_database_of_another_program, NotAStore),
        (a_newer_store, UnsupportedStoreVersion),
        (an_older_store, UnsupportedStoreVersion),
        (a_truncated_store, StoreDamaged),
        (a_store_without_a_table, StoreDamaged),
        (a_store_of_random_bytes, StoreDamaged),
    ],
)
async def test_a_file_that_cannot_be_used_is_left_unchanged(
    tmp_path: Path,
    opener: Opener,
    read_only: bool,
    make: Callable[[Path], None],
    error: type[StoreError],
) -> None:
    path = tmp_path / "file"
    make(path)
    before = contents(tmp_path)
    with pytest.raises(error, match=str(path)):
        await opener(path, read_only=read_only)
    after = contents(tmp_path)
    after.pop("file.lock", None)
    assert after == before


async def test_no_file_is_created_beside_a_file_of_another_program(tmp_path: Path) -> None:
    a_text(tmp_path / "file")
    with pytest.raises(NotAStore):
        await open_store(tmp_path / "file")
    assert list(contents(tmp_path)) == ["file"]


async def test_an_empty_file_may_become_a_store_but_not_for_a_reader(tmp_path: Path) -> None:
    path = tmp_path / "empty"
    path.touch()
    with pytest.raises(NotAStore, match="no store"):
        await open_store(path, read_only=True)
    assert contents(tmp_path) == {"empty": b""}
    assert store_exists(await filled(path))


async def test_a_reader_creates_no_file(tmp_path: Path) -> None:
    with pytest.raises(NotAStore, match="no store"):
        await open_store(tmp_path / "nothing", read_only=True)
    assert contents(tmp_path) == {}


async def test_a_folder_is_not_a_store_and_a_missing_folder_is_not_created(tmp_path: Path) -> None:
    with pytest.raises(NotAStore, match="folder"):
        await open_store(tmp_path)
    with pytest.raises(StoreFailed, match="make it first"):
        await open_store(tmp_path / "missing" / "store")


@OPENERS
async def test_all_records_are_there_after_reopening(tmp_path: Path, opener: Opener) -> None:
    path = await filled(tmp_path / "store")
    async with await opener(path) as store:
        assert await numbers(store) == [1, 2, 3]
        assert await store.heads() == {"payments": Head(3, 1, 3)}
        assert await store.append([record(4)]) == 4
    assert sorted(contents(tmp_path)) == ["store", "store.lock"]


async def test_a_store_that_could_not_be_opened_leaves_no_thread_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = await filled(tmp_path / "store")
    before = set(threading.enumerate())
    monkeypatch.setattr(threaded, "COMMITTING_PRAGMAS", ("no statement",))
    with pytest.raises(StoreError):
        await open_store(path, durability="process")
    for left in set(threading.enumerate()) - before:
        left.join(10)  # the store has asked it to end, and does not wait for that
        assert not left.is_alive()


async def test_the_events_can_be_queried_in_the_sqlite_shell(tmp_path: Path) -> None:
    path = await filled(tmp_path / "store", 1)
    with closing(sqlite3.connect(path)) as shell:
        query = (
            """SELECT position, "group", type, payload ->> 'member', json_extract(cause, '$.deadline') FROM events"""
        )
        assert shell.execute(query).fetchall() == [(1, "payments", "member-joined", "anna", "session")]


async def test_a_lock_of_another_program_is_waited_for_and_then_reported(tmp_path: Path) -> None:
    async with await open_store(await filled(tmp_path / "store")) as store:
        await store._connection.execute("PRAGMA busy_timeout = 1")
        with closing(sqlite3.connect(tmp_path / "store", isolation_level=None)) as shell:
            shell.execute("BEGIN IMMEDIATE")
            with pytest.raises(StoreLocked, match="sqlite3 shell"):
                await store.append([record(4)])
        assert await store.append([record(4)]) == 4


@pytest.mark.parametrize(
    ("make", "advice"), [(a_newer_store, "use a newer release"), (an_older_store, "begin a new store")]
)
async def test_a_store_of_another_version_is_refused_in_one_line(
    tmp_path: Path, make: Callable[[Path], None], advice: str
) -> None:
    make(tmp_path / "store")
    with pytest.raises(UnsupportedStoreVersion, match=f"reads version {SCHEMA_VERSION}: {advice}") as refused:
        await open_store(tmp_path / "store")
    assert "\n" not in str(refused.value)


def test_a_store_whose_tables_cannot_all_be_created_has_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "store"
    monkeypatch.setattr("regroup.storage.sqlite.schema._TABLES", ["CREATE TABLE half (x)", "CREATE TABLE half (x)"])
    with pytest.raises(StoreFailed):
        initialize_store(path)
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("SELECT count(*) FROM sqlite_schema").fetchone() == (0,)


# Readers beside writers


@OPENERS
async def test_a_reader_leaves_a_closed_store_unchanged(tmp_path: Path, opener: Opener) -> None:
    path = await filled(tmp_path / "store")
    before = contents(tmp_path)
    async with await opener(path, read_only=True) as reader:
        assert await numbers(reader) == [1, 2, 3]
        assert await reader.heads() == {"payments": Head(3, 1, 3)}
        assert await reader.load_snapshots() == (0, [])
        assert contents(tmp_path) == before
        writes = reader.append([record(4)]), reader.put_value("a", b""), reader.next_coordinator_epoch(), reader.trim(1)
        for write in writes:
            with pytest.raises(StoreReadOnly):
                await write
    assert contents(tmp_path) == before


@OPENERS
async def test_a_reader_sees_each_commit_of_a_writer_that_opened_later(tmp_path: Path, opener: Opener) -> None:
    path = await filled(tmp_path / "store")
    async with await opener(path, read_only=True) as reader:
        assert await numbers(reader) == [1, 2, 3]
        async with await open_store(path) as writer:
            for number in range(4, 8):
                await writer.append([record(number)])
                assert await numbers(reader) == list(range(1, number + 1))
                assert reader.last_position == number
            await writer.save_snapshots(5, [])
            await writer.trim(before=6)
            assert [stored.event_number async for stored in reader.read(after=5)] == [6, 7]
            assert reader.trimmed_through == 5
        async with await open_store(path) as writer:
            await writer.append([record(8)])
        assert [stored.event_number async for stored in reader.read(after=5)] == [6, 7, 8]


async def test_a_second_writer_is_refused_until_the_first_has_closed(tmp_path: Path) -> None:
    path = tmp_path / "store"
    async with await open_store(path):
        with pytest.raises(StoreLocked, match=rf"number {os.getpid()}\).*store\.lock"):
            await open_store(path)
        (tmp_path / "link").symlink_to(path)
        with pytest.raises(StoreLocked):
            await open_inline_store(tmp_path / "link")
    await (await open_store(path)).close()


# Full and read-only disks


@OPENERS
@pytest.mark.parametrize("count", [1, 1000])
async def test_a_full_disk_refuses_the_batch_and_the_store_remains_usable(
    tmp_path: Path, opener: Opener, count: int
) -> None:
    async with await opener(await filled(tmp_path / "store")) as store:
        ((pages,),) = await store._connection.execute("PRAGMA page_count")
        await store._connection.execute(f"PRAGMA max_page_count = {pages}")
        large = b'"%s"' % (b"x" * 8000)
        with pytest.raises(StoreFull, match="free some disk space"):
            await store.append([record(number, large) for number in range(4, 4 + count)])
        with pytest.raises(StoreFull):
            await store.put_value("large", large)
        assert await numbers(store) == [1, 2, 3]
        await store._connection.execute("PRAGMA max_page_count = 1000000")
        assert await store.append([record(number, large) for number in range(4, 4 + count)]) == 3 + count
    async with await opener(tmp_path / "store") as store:
        assert len(await numbers(store)) == 3 + count


async def test_a_payload_that_is_not_text_is_refused(tmp_path: Path) -> None:
    async with await open_store(tmp_path / "store") as store:
        with pytest.raises(StoreFailed, match="not UTF-8"):
            await store.append([record(1), record(2, b"\xff")])
        assert await store.append([record(1)]) == 1


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that every user may enter, unlike tmp_path."""
    with tempfile.TemporaryDirectory() as name:
        yield Path(name)


@contextmanager
def read_only_disk(folder: Path) -> Iterator[None]:
    """Make the folder read-only, also for root, whose effective user is changed meanwhile."""
    for path in (folder, *folder.iterdir()):
        path.chmod(0o555)
    was_root = os.geteuid() == 0
    if was_root:
        os.seteuid(65534)
    try:
        yield
    finally:
        if was_root:
            os.seteuid(0)
        folder.chmod(0o755)


@OPENERS
async def test_a_store_on_a_read_only_disk_can_be_read(open_folder: Path, opener: Opener) -> None:
    path = await filled(open_folder / "store")
    with read_only_disk(open_folder):
        with pytest.raises(StoreReadOnly, match="cannot be written"):
            await opener(path)
        async with await opener(path, read_only=True) as reader:
            assert await numbers(reader) == [1, 2, 3]


@OPENERS
@pytest.mark.parametrize("shared_memory", [True, False])
async def test_a_store_of_a_killed_writer_on_a_read_only_disk_can_be_read(
    open_folder: Path, tmp_path: Path, opener: Opener, shared_memory: bool
) -> None:
    async with await open_store(tmp_path / "store") as writer:
        await writer.append([record(1)])
        for name, content in contents(tmp_path).items():
            if shared_memory or not name.endswith("-shm"):
                (open_folder / name).write_bytes(content)
    with read_only_disk(open_folder):
        before = contents(open_folder)
        async with await opener(open_folder / "store", read_only=True) as reader:
            assert await numbers(reader) == [1]
        assert contents(open_folder) == before


@OPENERS
async def test_a_store_that_has_lost_its_log_refuses_every_later_write(tmp_path: Path, opener: Opener) -> None:
    store = await opener(tmp_path / "store")
    await store.append([record(1)])
    os.truncate(tmp_path / "store-wal", 0)
    for _ in range(2):
        with pytest.raises(StoreLost, match="store-wal was"):
            await store.put_value("name", b"value")
    with pytest.raises(StoreLost):
        await store.append([record(2)])
    with pytest.raises(StoreLost):
        await store.close()
