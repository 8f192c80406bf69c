"""The file of a SQLite store: recognises, initializes and reads it; and StoreErrors in place of SQLite's errors."""

import os
import shutil
import sqlite3
import stat
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from urllib.parse import quote

from regroup.storage.errors import (
    NotAStore,
    StoreDamaged,
    StoreError,
    StoreFailed,
    StoreFull,
    StoreLocked,
    StoreReadOnly,
    UnsupportedStoreVersion,
)
from regroup.storage.sqlite.schema import APPLICATION_ID, OPEN_WRITER, READABLE_VERSIONS, SCHEMA_VERSION, create_tables

HEADER_BYTES = 100
SHARED_MEMORY_BYTES = 32 * 1024
_MAGIC = b"SQLite format 3\0"
_HAS_OPEN_WRITER = f"SELECT 1 FROM named_values WHERE name = '{OPEN_WRITER}'"


def store_exists(path: Path) -> bool:
    """Whether the file holds a store; False if there is no file, or an empty one. Reads the file's header only.

    Raises NotAStore, UnsupportedStoreVersion, StoreDamaged, StoreFailed.
    """
    try:
        kind = path.stat().st_mode
        if stat.S_ISDIR(kind):
            raise NotAStore(f"{path} is a folder: name a file in it.")
        if not stat.S_ISREG(kind):
            # To open a pipe would wait for its other end.
            raise NotAStore(f"{path} is a pipe or a device: name a file.")
        with path.open("rb") as file:
            header = file.read(HEADER_BYTES)
            size_bytes = file.seek(0, os.SEEK_END)
    except FileNotFoundError:
        return False
    except OSError as error:
        raise StoreFailed(f"{path} cannot be read: {error.strerror}. Check its permissions and its disk.") from error
    if size_bytes == 0:
        return False
    if size_bytes < HEADER_BYTES or not header.startswith(_MAGIC) or _uint32(header, 68) != APPLICATION_ID:
        raise NotAStore(f"{path} is not a store of this program: choose another file. It was left unchanged.")
    if (version := _uint32(header, 60)) not in READABLE_VERSIONS:
        advice = "use a newer release of it" if version > SCHEMA_VERSION else "begin a new store in another file"
        raise UnsupportedStoreVersion(
            f"{path} is a store of version {version}, and this program reads version {SCHEMA_VERSION}: {advice}. "
            "The file was left unchanged."
        )
    page_size_bytes = int.from_bytes(header[16:18], "big")
    expected_bytes = _uint32(header, 28) * (65536 if page_size_bytes == 1 else page_size_bytes)
    # Pages that the header counts may still be in the write-ahead log.
    if size_bytes < expected_bytes and not sibling_file(path, "-wal").exists():
        raise StoreDamaged(
            f"{path} is damaged: it should have {expected_bytes} bytes and has {size_bytes}. Restore it from a copy."
        )
    return True


def _uint32(header: bytes, offset: int) -> int:
    return int.from_bytes(header[offset : offset + 4], "big")


def sibling_file(path: Path, suffix: str) -> Path:
    """The file beside a store with this suffix: `-wal`, `-shm` or `.lock`."""
    return path.with_name(path.name + suffix)


def initialize_store(path: Path) -> None:
    """Make the file ready to be written: create the tables in an empty one. The writer's lock must be held."""
    address = sqlite_uri(path, "mode=rwc")
    with translate_sqlite_errors(path), closing(sqlite3.connect(address, uri=True, isolation_level=None)) as connection:
        if connection.execute("PRAGMA user_version").fetchone() == (0,):
            create_tables(connection)
        connection.execute("PRAGMA journal_mode = WAL")
        # After a crash SQLite recovers the log here, and removes it when this connection is closed.
        if connection.execute(_HAS_OPEN_WRITER).fetchone():
            connection.execute("DELETE FROM named_values WHERE name = ?", (OPEN_WRITER,))


def wal_is_missing(path: Path) -> bool:
    """Whether the last writer has not closed the store and its write-ahead log is gone, with the last records in it.

    That is so for a copy of a served store without its log. Raises StoreError.
    """
    path = path.resolve()  # the log has the name of the file, and not of a symbolic link to it
    wal = sibling_file(path, "-wal")
    if wal.exists() or not store_exists(path):
        return False
    address = sqlite_uri(path, "mode=ro&immutable=1")
    with translate_sqlite_errors(path), closing(sqlite3.connect(address, uri=True)) as connection:
        is_open = connection.execute(_HAS_OPEN_WRITER).fetchone()
    # Looked at again: a writer may have opened the store in between.
    return bool(is_open) and not wal.exists()


def missing_wal_text(path: Path) -> str:
    """The sentence for users about a store for which `wal_is_missing` returns True."""
    return (
        f"{path} was being written when it was copied or left, and {path.name}-wal is missing: its last events are "
        "probably missing, too. `regroup copy` copies a store that is being written."
    )


def remove_store(path: Path) -> None:
    """Delete the file of a store and the files beside it. No process may have the store open."""
    for each in (path, *(sibling_file(path, suffix) for suffix in ("-wal", "-shm", ".lock"))):
        each.unlink(missing_ok=True)


def sqlite_uri(path: Path, options: str) -> str:
    """The URI by which SQLite opens the file, with these options."""
    return f"file:{quote(str(path))}?{options}"


def read_only_uri(path: Path) -> tuple[str, bool]:
    """The URI for reading a store without changing anything, and whether the reader must watch `fingerprint`.

    While a writer has the store open (or was killed) SQLite's shared memory file exists, and SQLite's own locks are
    enough. Otherwise a plain read-only connection would leave new files behind. So the file is opened as if it never
    changed, and the reader must open it again when `fingerprint` shows that a writer has opened it.
    """
    if file_size_bytes(sibling_file(path, "-shm")) >= SHARED_MEMORY_BYTES:
        return sqlite_uri(path, "mode=ro"), False
    if file_size_bytes(sibling_file(path, "-wal")):
        return sqlite_uri(path, "mode=ro&vfs=unix-none"), True
    return sqlite_uri(path, "immutable=1"), True


def file_size_bytes(path: Path) -> int:
    """The size of a file; 0 if it does not exist.

    On a full disk SQLite leaves a shared memory file that is too short to be used.
    """
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


def fingerprint(path: Path) -> tuple[object, ...]:
    """A value that changes when a process opens the store for writing."""
    marks: list[object] = []
    for suffix in ("", "-wal", "-shm"):
        try:
            status = sibling_file(path, suffix).stat()
            marks.append((status.st_ino, status.st_size, status.st_mtime_ns))
        except FileNotFoundError:
            marks.append(None)
    return tuple(marks)


@contextmanager
def translate_sqlite_errors(path: Path) -> Iterator[None]:
    """Raise a StoreError in place of an error of SQLite inside the block."""
    try:
        yield
    except sqlite3.Error as error:
        raise store_error_from(path, error) from error
    except UnicodeDecodeError as error:
        # SQLite's message contains the name of a damaged table or column, and that name is damaged itself.
        raise StoreDamaged(f"{path} is damaged ({error}). Restore it from a copy.") from error


def _is_disk_full(folder: Path) -> bool:
    """Whether SQLite has no space for its shared memory file. It reports that as an input/output error."""
    try:
        return shutil.disk_usage(folder).free < SHARED_MEMORY_BYTES
    except OSError:
        return False


def store_error_from(path: Path, error: sqlite3.Error) -> StoreError:
    """The StoreError for an error of SQLite; its message says what to do."""
    # An extended code carries the plain one in its lowest byte.
    match getattr(error, "sqlite_errorcode", 0) & 0xFF:
        case code if code == sqlite3.SQLITE_FULL or (code == sqlite3.SQLITE_IOERR and _is_disk_full(path.parent)):
            return StoreFull(f"No space left for {path}: free some disk space. Nothing was stored.")
        case sqlite3.SQLITE_READONLY | sqlite3.SQLITE_PERM:
            return StoreReadOnly(f"{path} cannot be written: open it for writing, on a disk that allows it.")
        case sqlite3.SQLITE_CORRUPT:
            return StoreDamaged(f"{path} is damaged ({error}). Restore it from a copy.")
        case sqlite3.SQLITE_NOTADB:
            return NotAStore(f"{path} is not a store of this program: choose another file.")
        case sqlite3.SQLITE_CONSTRAINT:
            return StoreFailed(f"{path} rejected a record ({error}): another program wrote to it without the lock.")
        case sqlite3.SQLITE_BUSY | sqlite3.SQLITE_LOCKED:
            return StoreLocked(f"Another program, such as the sqlite3 shell, holds {path}: end its transaction.")
        case _ if any(each in str(error) for each in ("no such table", "no such index", "Could not decode")):
            return StoreDamaged(f"{path} is damaged ({error}). Restore it from a copy.")
        case _:
            return StoreFailed(f"{path} failed ({error}): check its disk and its folder's permissions.")
