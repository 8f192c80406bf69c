"""Frames of a write-ahead log that were cut off or written over after a commit are noticed, and sound ones accepted."""

import os
import random
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from regroup.storage.sqlite.loss.wal_frames import WalFrames

FRAME_BYTES = 24 + 4096


@contextmanager
def database(folder: Path) -> Iterator[tuple[sqlite3.Connection, WalFrames]]:
    """An open database with a few frames in its log."""
    with closing(sqlite3.connect(folder / "a.db", isolation_level=None)) as connection:
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("CREATE TABLE rows (number INTEGER PRIMARY KEY, payload BLOB)")
        frames = WalFrames(folder / "a.db-wal", folder / "a.db-shm")
        try:
            yield connection, frames
        finally:
            frames.close()


def commit(connection: sqlite3.Connection, *payloads: bytes) -> None:
    connection.execute("BEGIN")
    connection.executemany("INSERT INTO rows (payload) VALUES (?)", [(payload,) for payload in payloads])
    connection.execute("COMMIT")


def test_no_commit_of_sqlite_is_reported_whatever_it_writes_and_when_the_log_begins_again(tmp_path: Path) -> None:
    """Pages that end with zeros are among them: their checksums are computed."""
    rng = random.Random(1)
    with database(tmp_path) as (connection, frames):
        for _ in range(200):
            sizes = [rng.randint(0, 9_000) for _ in range(rng.randint(1, 12))]
            commit(connection, *(bytes(size) if rng.random() < 0.5 else rng.randbytes(size) for size in sizes))
            if rng.random() < 0.1:
                connection.execute("PRAGMA wal_checkpoint(PASSIVE)")
            assert frames.problem() == ""


@pytest.mark.parametrize("payload", [b"x" * 2_000, bytes(2_000)], ids=["text", "zeros"])
def test_a_gap_before_any_write_of_a_commit_is_noticed(payload: bytes, tmp_path: Path) -> None:
    """SQLite writes a frame's header and then its page, so a gap ends where one of them begins."""
    rng = random.Random(2)
    wal, shm = tmp_path / "a.db-wal", tmp_path / "a.db-shm"
    with database(tmp_path) as (connection, _):
        commit(connection, payload)
        before = wal.read_bytes(), shm.read_bytes()
        commit(connection, *[payload] * 12)
        log, index = wal.read_bytes(), shm.read_bytes()
    begin = len(before[0])
    assert len(log) - begin >= 4 * FRAME_BYTES
    for frame in range(begin, len(log) - FRAME_BYTES, FRAME_BYTES):
        for gap_end in (frame + 24, frame + FRAME_BYTES):
            gap_begin = max(gap_end - rng.randint(9, 4_000), begin)
            damaged = log[:gap_begin] + bytes(gap_end - gap_begin) + log[gap_end:]
            assert bool(problem_of(before, (damaged, index), tmp_path)) == (damaged != log)
    assert not problem_of(before, (log, index), tmp_path)


def problem_of(before: tuple[bytes, bytes], after: tuple[bytes, bytes], folder: Path) -> str:
    """The problem of a log and its index `after`, if they were as `before` when they were looked at first."""
    wal, shm = folder / "log", folder / "index"
    wal.write_bytes(before[0])
    shm.write_bytes(before[1])
    frames = WalFrames(wal, shm)
    try:
        wal.write_bytes(after[0])
        shm.write_bytes(after[1])
        return frames.problem()
    finally:
        frames.close()


@pytest.mark.parametrize("missing_bytes", [1, 40, FRAME_BYTES, 2 * FRAME_BYTES])
def test_an_end_that_is_cut_off_is_noticed_also_where_a_frame_ends(missing_bytes: int, tmp_path: Path) -> None:
    with database(tmp_path) as (connection, frames):
        commit(connection, *[b"x" * 3_000] * 5)
        os.truncate(tmp_path / "a.db-wal", (tmp_path / "a.db-wal").stat().st_size - missing_bytes)
        assert frames.problem() == "cut off"


def test_a_gap_that_the_next_commit_leaves_is_noticed(tmp_path: Path) -> None:
    with database(tmp_path) as (connection, frames):
        commit(connection, b"x" * 3_000)
        assert frames.problem() == ""
        os.truncate(tmp_path / "a.db-wal", (tmp_path / "a.db-wal").stat().st_size - 40)
        commit(connection, b"y" * 3_000)
        assert frames.problem()


def test_a_log_that_is_written_over_is_noticed(tmp_path: Path) -> None:
    with database(tmp_path) as (connection, frames):
        commit(connection, b"x" * 3_000)
        assert frames.problem() == ""
        size_bytes = (tmp_path / "a.db-wal").stat().st_size
        with (tmp_path / "a.db-wal").open("r+b") as log:
            log.write(random.Random(1).randbytes(size_bytes))
        assert frames.problem() == "overwritten"
