"""A store's file before it is opened: whose it is, who holds it, and how it may be read without a trace."""

import fcntl
import os
import shutil
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from urllib.parse import quote

from regroup.storage.errors import (
    NotAStore,
    StoreError,
    StoreFailed,
    StoreIsDamaged,
    StoreIsFull,
    StoreIsLocked,
    StoreIsNewer,
    StoreIsReadOnly,
)
from regroup.storage.sqlite.schema import APPLICATION_ID, MIGRATIONS, Migration, migrate

HEADER_BYTES = 100
MAGIC = b"SQLite format 3\0"
SHARED_MEMORY_BYTES = 32 * 1024


def inspect(path: Path, *, newest: int = len(MIGRATIONS)) -> int:
    """The version of the store in this file; 0 if there is no file, or an empty one. Opens nothing but its header.

    Raises NotAStore, StoreIsNewer, StoreIsDamaged.
    """
    if path.is_dir():
        raise NotAStore(f"{path} is a folder: name a file in it.")
    try:
        with path.open("rb") as file:
            header = file.read(HEADER_BYTES)
            size = file.seek(0, os.SEEK_END)
    except FileNotFoundError:
        return 0
    except OSError as error:
        raise StoreFailed(f"{path} cannot be read: {error.strerror}. Look at its permissions and its disk.") from error
    if size == 0:
        return 0
    if size < HEADER_BYTES or not header.startswith(MAGIC) or number_at(header, 68) != APPLICATION_ID:
        raise NotAStore(f"{path} is not a store of this program: choose another file. It was left as it is.")
    version = number_at(header, 60)
    if version > newest:
        raise StoreIsNewer(
            f"{path} has version {version}, but this program knows versions up to {newest}: "
            "use a newer release of it. The file was left as it is."
        )
    refuse_cut_off(path, header, size)
    return version


def refuse_cut_off(path: Path, header: bytes, size: int) -> None:
    """A file shorter than its header says has lost its end (unless the end is still in the write-ahead log)."""
    page_size = int.from_bytes(header[16:18], "big")
    expected = number_at(header, 28) * (65536 if page_size == 1 else page_size)
    if size < expected and not beside(path, "-wal").exists():
        raise StoreIsDamaged(
            f"{path} is damaged: it should have {expected} bytes and has {size}. Restore it from a copy."
        )


def number_at(header: bytes, offset: int) -> int:
    return int.from_bytes(header[offset : offset + 4], "big")


def beside(path: Path, suffix: str) -> Path:
    return path.with_name(path.name + suffix)


def prepare(path: Path, migrations: Sequence[Migration] = MIGRATIONS) -> None:
    """Make the file a store of the newest version, ready to be written. The writer's lock must be held."""
    with explained(path), closing(sqlite3.connect(uri(path, "mode=rwc"), uri=True, isolation_level=None)) as connection:
        migrate(connection, migrations)
        connection.execute("PRAGMA journal_mode = WAL")


def uri(path: Path, options: str) -> str:
    return f"file:{quote(str(path))}?{options}"


def uri_for_reading(path: Path) -> tuple[str, bool]:
    """How to read a store without changing anything, and whether nobody else may have it open meanwhile.

    While somebody writes (or was killed) SQLite's shared memory lies beside the file, and SQLite's own locks serve.
    Without it nobody has the file open, and a plain read-only connection would leave new files behind; so it is read
    as if nobody ever would, and whoever reads looks with `fingerprint` whether somebody came.
    """
    if size_of(beside(path, "-shm")) >= SHARED_MEMORY_BYTES:
        return uri(path, "mode=ro"), False
    if size_of(beside(path, "-wal")):
        return uri(path, "mode=ro&vfs=unix-none"), True
    return uri(path, "immutable=1"), True


def size_of(path: Path) -> int:
    """0 if it is not there. A full disk leaves SQLite's files nearly empty, and then nobody has the store open."""
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


def fingerprint(path: Path) -> tuple[object, ...]:
    """Changes when anybody opens the store for writing."""
    marks: list[object] = []
    for suffix in ("", "-wal", "-shm"):
        try:
            status = beside(path, suffix).stat()
            marks.append((status.st_ino, status.st_size, status.st_mtime_ns))
        except FileNotFoundError:
            marks.append(None)
    return tuple(marks)


class WriterLock:
    """One process writes to a store. The lock is the operating system's, so it ends with the process, however it ends.

    The lock file stays behind: to remove it would let two processes lock two files of one name.
    """

    def __init__(self, store: Path) -> None:
        path = beside(store, ".lock")
        try:
            self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except FileNotFoundError as error:
            raise StoreFailed(f"There is no folder {store.parent}: make it first.") from error
        except OSError as error:
            raise StoreIsReadOnly(
                f"{path} cannot be written: {error.strerror}. Open the store read-only, or move it to another disk."
            ) from error
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            holder = os.pread(self._file, 20, 0).decode(errors="replace").strip() or "unknown"
            os.close(self._file)
            raise StoreIsLocked(
                f"{store} is being written by another process (number {holder}), which holds the lock on {path}. "
                "Stop that process, or open the store read-only."
            ) from error
        with suppress(OSError):  # a full disk: the number is only there for people
            os.ftruncate(self._file, 0)
            os.pwrite(self._file, f"{os.getpid()}\n".encode(), 0)

    def release(self) -> None:
        """Let others write. Once is enough, twice does no harm."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1


@contextmanager
def explained(path: Path) -> Iterator[None]:
    """SQLite's errors as a store's."""
    try:
        yield
    except sqlite3.Error as error:
        raise explain(path, error) from error
    except UnicodeDecodeError as error:
        # SQLite names what is damaged, and the name itself is.
        raise StoreIsDamaged(f"{path} is damaged ({error}). Restore it from a copy.") from error


def is_full(folder: Path) -> bool:
    """Whether SQLite finds no room for its shared memory; it calls that an input/output error."""
    try:
        return shutil.disk_usage(folder).free < SHARED_MEMORY_BYTES
    except OSError:
        return False


def explain(path: Path, error: sqlite3.Error) -> StoreError:
    """What an error of SQLite means for a store, and what to do."""
    # An extended code carries the plain one in its lowest byte.
    match getattr(error, "sqlite_errorcode", 0) & 0xFF:
        case code if code == sqlite3.SQLITE_FULL or (code == sqlite3.SQLITE_IOERR and is_full(path.parent)):
            return StoreIsFull(f"There is no room for {path} to grow: free some disk space. Nothing was stored.")
        case sqlite3.SQLITE_READONLY | sqlite3.SQLITE_PERM:
            return StoreIsReadOnly(f"{path} cannot be written: open it for writing, on a disk that allows it.")
        case sqlite3.SQLITE_CORRUPT:
            return StoreIsDamaged(f"{path} is damaged ({error}). Restore it from a copy.")
        case sqlite3.SQLITE_NOTADB:
            return NotAStore(f"{path} is not a store of this program: choose another file.")
        case sqlite3.SQLITE_CONSTRAINT:
            return StoreFailed(f"{path} refused a record ({error}): somebody wrote to it without the lock.")
        case sqlite3.SQLITE_BUSY | sqlite3.SQLITE_LOCKED:
            return StoreIsLocked(f"Another program, such as the sqlite3 shell, holds {path}: end its transaction.")
        case _ if any(each in str(error) for each in ("no such table", "no such index", "Could not decode")):
            return StoreIsDamaged(f"{path} is damaged ({error}). Restore it from a copy.")
        case _:
            return StoreFailed(f"{path} failed ({error}): look at its disk and its folder's permissions.")
