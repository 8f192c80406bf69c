"""Copies of a store, taken with SQLite's backup, and what a copy of one of its files lacks."""

import asyncio
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import closing
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from regroup.storage.errors import NotAStore, StoreDamaged, StoreError, StoreFailed
from regroup.storage.records import NewRecord, Snapshot
from regroup.storage.sqlite import copying
from regroup.storage.sqlite.copying import copy_store
from regroup.storage.sqlite.files import sibling_file, wal_is_missing
from regroup.storage.sqlite.inline import InlineConnection, open_inline_store
from regroup.storage.sqlite.threaded import open_store
from tests.storage.sqlite.test_killed_writer import acknowledged, kill, writer


def record(number: int) -> NewRecord:
    return NewRecord("a", number, 1, 0, "member-joined", 1, b"{}", None)


async def filled(path: Path, count: int = 3) -> Path:
    async with await open_store(path) as store:
        await store.append([record(number) for number in range(1, count + 1)])
        await store.save_snapshots(2, [Snapshot("a", 2, 2, 1, 1, b"{}")])
        await store.put_value("name", b"value")
    return path


def rows_of(path: Path) -> dict[str, list[object]]:
    """Every row of every table."""
    with closing(sqlite3.connect(f"file:{path}?immutable=1", uri=True)) as connection:
        names = [name for (name,) in connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")]
        return {
            name: connection.execute(f"SELECT * FROM {name} ORDER BY 1, 2").fetchall()
            for name in names
            if name != "cuts"
        }


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def names_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


async def test_a_copy_has_every_row_and_is_one_file(tmp_path: Path) -> None:
    path = await filled(tmp_path / "store")
    before = names_in(tmp_path)
    assert copy_store(path, tmp_path / "copy") == 3
    assert rows_of(tmp_path / "copy") == rows_of(path)
    assert names_in(tmp_path) == sorted([*before, "copy"])
    async with await open_store(tmp_path / "copy") as store:
        assert await store.append([record(4)]) == 4


async def test_a_copy_of_a_store_that_is_being_written_has_all_that_was_acknowledged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each step copies one page, so that many commits fall between two steps."""
    monkeypatch.setattr(copying, "PAGES_PER_STEP", 1)
    with writer(tmp_path / "store", "process") as process:
        steps: list[int] = []
        for number in range(3):
            last = acknowledged(process, 40)

            def on_progress(done: int, total: int) -> None:
                steps.append(done)
                acknowledged(process, 3)

            position = copy_store(tmp_path / "store", tmp_path / f"copy-{number}", on_progress)
            assert position >= last
            assert position % 7 == 0, "a copy shows whole commits"
            async with await open_store(tmp_path / f"copy-{number}", read_only=True) as copy:
                assert [each.event_number async for each in copy.read()] == list(range(1, position + 1))
            assert not wal_is_missing(tmp_path / f"copy-{number}")
        assert len(steps) > 10
        kill(process, 0)


async def test_a_copy_of_a_store_whose_writer_was_killed_is_complete(tmp_path: Path) -> None:
    with writer(tmp_path / "store") as process:
        last = kill(process, acknowledged(process, 20))
    before = names_in(tmp_path)
    assert copy_store(tmp_path / "store", tmp_path / "copy") >= last
    assert names_in(tmp_path) == sorted([*before, "copy"])


def nothing(path: Path, to: Path) -> None:
    path.unlink()


def a_file_in_the_way(path: Path, to: Path) -> None:
    to.write_text("important")


def a_log_in_the_way(path: Path, to: Path) -> None:
    sibling_file(to, "-wal").write_text("of another store")


def the_store_itself(path: Path, to: Path) -> None:
    os.link(path, to)


def a_damaged_page(path: Path, to: Path) -> None:
    with path.open("r+b") as file:
        file.seek(4096)
        file.write(b"\xa5" * 4096)


def no_counters(path: Path, to: Path) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("DELETE FROM counters")
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")


@pytest.mark.parametrize(
    ("prepare", "error"),
    [
        (nothing, NotAStore),
        (a_file_in_the_way, StoreFailed),
        (a_log_in_the_way, StoreFailed),
        (the_store_itself, StoreFailed),
        (a_damaged_page, StoreDamaged),
        (no_counters, StoreDamaged),
    ],
)
async def test_a_copy_that_cannot_be_made_leaves_nothing(
    tmp_path: Path, prepare: Callable[[Path, Path], None], error: type[StoreError]
) -> None:
    path, to = await filled(tmp_path / "store"), tmp_path / "copy"
    prepare(path, to)
    before = contents(tmp_path)
    with pytest.raises(error):
        copy_store(path, to)
    assert contents(tmp_path) == before


async def test_a_copy_into_a_missing_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(StoreFailed, match="No such file or directory"):
        copy_store(await filled(tmp_path / "store"), tmp_path / "missing" / "copy")


COPYING_STEP_BY_STEP = """
import sys
from pathlib import Path
from regroup.storage.sqlite import copying

def wait(done, total):
    print("step", flush=True)
    sys.stdin.read(1)

copying.PAGES_PER_STEP = 1
copying.copy_store(Path(sys.argv[1]), Path(sys.argv[2]), wait)
"""


@pytest.mark.usefixtures("default_sigint")
def test_an_interrupted_copy_leaves_nothing(tmp_path: Path) -> None:
    path = asyncio.run(filled(tmp_path / "store", 5000))
    before = names_in(tmp_path)
    with subprocess.Popen(
        [sys.executable, "-c", COPYING_STEP_BY_STEP, path, tmp_path / "copy"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout
        assert process.stdout.readline() == "step\n"
        assert len(names_in(tmp_path)) > len(before)
        process.send_signal(signal.SIGINT)
        process.communicate()
    assert process.returncode != 0
    assert names_in(tmp_path) == before


async def test_a_copy_of_the_file_alone_is_recognized(tmp_path: Path) -> None:
    async with await open_store(tmp_path / "store") as store:
        await store.append([record(1)])
        shutil.copy(tmp_path / "store", tmp_path / "alone")
        assert wal_is_missing(tmp_path / "alone")
        assert not wal_is_missing(tmp_path / "store")
        for suffix in ("", "-wal"):
            shutil.copy(sibling_file(tmp_path / "store", suffix), sibling_file(tmp_path / "both", suffix))
        assert not wal_is_missing(tmp_path / "both")
    assert not wal_is_missing(tmp_path / "store")
    shutil.copy(tmp_path / "store", tmp_path / "closed")
    assert not wal_is_missing(tmp_path / "closed")


async def test_a_store_that_was_only_read_or_failed_to_load_stays_as_it_is(tmp_path: Path) -> None:
    path = await filled(tmp_path / "store")
    before = path.read_bytes()
    async with await open_store(path) as store:
        assert await store.heads()
    assert path.read_bytes() == before


async def test_the_mark_of_a_killed_writer_is_gone_after_the_next_one(tmp_path: Path) -> None:
    with writer(tmp_path / "store") as process:
        kill(process, acknowledged(process, 2))
    assert not wal_is_missing(tmp_path / "store")
    async with await open_store(tmp_path / "store"):
        assert not wal_is_missing(tmp_path / "store")
    assert not wal_is_missing(tmp_path / "store")


async def test_the_file_alone_is_complete_after_a_close_beside_a_reader(tmp_path: Path) -> None:
    """SQLite itself brings the log into the file only when its last connection is closed."""
    store = await open_store(tmp_path / "store")
    await store.append([record(1)])
    async with await open_store(tmp_path / "store", read_only=True) as reader:
        assert [each.position async for each in reader.read()] == [1]
        await store.append([record(2)])
        await store.close()
        shutil.copy(tmp_path / "store", tmp_path / "alone")
    assert not wal_is_missing(tmp_path / "alone")
    async with await open_store(tmp_path / "alone", read_only=True) as alone:
        assert [each.position async for each in alone.read()] == [1, 2]


@pytest.mark.parametrize("step", [1, 2])
async def test_a_first_write_that_is_cancelled_leaves_no_mark_of_an_open_writer(
    step: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SQLite removes the log when the last connection is closed, so a mark that stays would say that it was lost."""
    store = await open_inline_store(tmp_path / "store")
    execute, steps = InlineConnection.execute, count(1)

    async def cancel_at_step(self: InlineConnection, statement: str, parameters: Sequence[Any] = ()) -> list[Any]:
        rows = await execute(self, statement, parameters)
        if next(steps) == step:
            raise asyncio.CancelledError
        return rows

    monkeypatch.setattr(InlineConnection, "execute", cancel_at_step)
    with pytest.raises(asyncio.CancelledError):
        await store.put_value("name", b"value")
    await store.close()
    assert not sibling_file(tmp_path / "store", "-wal").exists()
    assert not wal_is_missing(tmp_path / "store")
