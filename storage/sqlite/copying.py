"""Copies a store with SQLite's backup, also while another process writes to it."""

import os
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

from regroup.storage.errors import NotAStore, StoreDamaged, StoreFailed
from regroup.storage.sqlite import statements as sql
from regroup.storage.sqlite.files import (
    fingerprint,
    read_only_uri,
    sibling_file,
    sqlite_uri,
    store_error_from,
    store_exists,
    translate_sqlite_errors,
)
from regroup.storage.sqlite.rows import Positions, read_rows
from regroup.storage.sqlite.schema import OPEN_WRITER

PAGES_PER_STEP = 1024
"""How many pages are copied between two calls of `on_progress`."""

CopyProgress = Callable[[int, int], None]
"""Called with the number of pages that have been copied, and the number of all pages."""


def copy_store(path: Path, to: Path, on_progress: CopyProgress = lambda done, total: None) -> int:
    """Copy the store as of its last commit to a new file; returns the position of its last record.

    Neither a writer nor the store is disturbed. The new file appears when it is complete and its pages are checked.
    Raises NotAStore, StoreDamaged, StoreFull, StoreFailed; then there is no new file.
    """
    path = path.resolve()
    if not store_exists(path):
        raise NotAStore(f"{path}: there is no store to copy.")
    with _new_file(to) as unfinished:
        while not _copy_pages(path, unfinished, on_progress):
            unfinished.unlink()
        return _finish(path, unfinished)


def _copy_pages(path: Path, unfinished: Path, on_progress: CopyProgress) -> bool:
    """Copy every page of the store as of one commit.

    Returns False if the copy may mix two commits: the store was read without locks, and a writer has opened it
    meanwhile.
    """
    before = fingerprint(path)
    address, must_watch = read_only_uri(path)
    target_error: sqlite3.Error | None = None
    with (
        translate_sqlite_errors(path),
        closing(sqlite3.connect(address, uri=True, isolation_level=None)) as source,
        closing(sqlite3.connect(unfinished)) as target,
    ):
        if must_watch:
            # In exclusive locking mode SQLite needs no shared memory file.
            source.execute("PRAGMA locking_mode = EXCLUSIVE")
        # All steps read what this transaction sees. Without it each commit of a writer would begin the copy again.
        source.execute("BEGIN")
        source.execute(sql.POSITIONS).fetchall()
        try:
            source.backup(
                target,
                pages=PAGES_PER_STEP,
                progress=lambda status, remaining, total: on_progress(total - remaining, total),
            )
        except sqlite3.OperationalError as error:
            target_error = error
    if target_error is not None:
        raise store_error_from(unfinished.parent, target_error) from target_error
    return not must_watch or fingerprint(path) == before


def _finish(path: Path, unfinished: Path) -> int:
    """Check the copy, and mark it as closed by its writer; returns the position of its last record."""
    address = sqlite_uri(unfinished, "mode=rw")
    with translate_sqlite_errors(path), closing(sqlite3.connect(address, uri=True, isolation_level=None)) as target:
        findings = [finding for (finding,) in target.execute("PRAGMA quick_check(1)")]
        if findings != ["ok"]:
            raise StoreDamaged(f"{path} is damaged ({' '.join(map(str, findings))}), and was not copied.")
        target.execute(sql.DELETE_VALUE, (OPEN_WRITER,))
        positions = read_rows(path, target.execute(sql.POSITIONS).fetchall(), Positions)
    if len(positions) != 1:
        raise StoreDamaged(f"{path} is damaged: a counter is missing. It was not copied.")
    return positions[0].last_position


@contextmanager
def _new_file(to: Path) -> Iterator[Path]:
    """While the block lasts, a hidden file beside `to`.

    At the end it gets the name `to`; after an error it is removed.
    """
    unfinished = to.with_name(f".{to.name}.{os.getpid()}")
    for suffix in ("", "-wal", "-shm", "-journal"):
        if sibling_file(to, suffix).exists():
            raise StoreFailed(f"{sibling_file(to, suffix)} exists: name another file. Nothing was copied.")
    try:
        # The name is taken at once, so that no other process takes it meanwhile.
        os.close(os.open(to, os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644))
    except OSError as error:
        raise StoreFailed(f"{to} cannot be made: {error.strerror}. Nothing was copied.") from error
    try:
        yield unfinished
        _synchronize(unfinished)
        unfinished.replace(to)
        _synchronize(to.parent)
    except BaseException:
        to.unlink(missing_ok=True)
        raise
    finally:
        for suffix in ("", "-wal", "-shm", "-journal"):
            with suppress(OSError):
                sibling_file(unfinished, suffix).unlink(missing_ok=True)


def _synchronize(path: Path) -> None:
    """Wait until the contents of a file or folder are on the disk. Raises StoreFailed."""
    file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(file)
    except OSError as error:
        raise StoreFailed(f"{path} cannot be written to the disk: {error.strerror}.") from error
    finally:
        os.close(file)
