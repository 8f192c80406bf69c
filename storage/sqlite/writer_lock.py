"""The locks that let only one process write to a store.

They are the operating system's, so they end with the process.
"""

import fcntl
import os
from contextlib import suppress
from pathlib import Path

from regroup.storage.errors import StoreFailed, StoreLocked, StoreReadOnly
from regroup.storage.sqlite.files import sibling_file


class LockFile:
    """A lock on the file `.lock` beside a file or folder; it holds the number of the process that has the lock.

    The file stays: if it were removed, two processes could lock two files of the same name.
    Raises StoreFailed, StoreReadOnly, and StoreLocked, whose message ends with `advice`.
    """

    def __init__(self, locked: Path, advice: str = "Stop that process first, or name another store.") -> None:
        path = sibling_file(locked, ".lock")
        self._file = _open(path, locked.parent)
        if not _lock(self._file):
            holder = os.pread(self._file, 20, 0).decode(errors="replace").strip() or "unknown"
            self.release()
            raise StoreLocked(
                f"{locked} is being written by another process (number {holder}), which holds the lock on {path}. "
                f"{advice}"
            )
        with suppress(OSError):  # on a full disk: the process number only serves the message above
            os.ftruncate(self._file, 0)
            os.pwrite(self._file, f"{os.getpid()}\n".encode(), 0)

    def release(self) -> None:
        """Release the lock, so that other processes can write. A second call has no effect."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1


class WriterLock:
    """The lock file beside a store, and a lock on the device and inode of the store itself.

    With the second, another name of the store (a hard link) or a deleted lock file lets no second writer in: each name
    would have a write-ahead log of its own.
    Must be made before SQLite opens the file and released after it has closed it, because closing a file ends SQLite's
    own locks on it. An empty file is created if there is none. Raises what LockFile raises.
    """

    def __init__(self, store: Path) -> None:
        self._lock_file = LockFile(store)
        self._file = -1
        try:
            self._file = _open(store, store.parent)
            if not _lock(self._file):
                raise StoreLocked(
                    f"{store} is being written by another process, which has opened it by another name, or whose lock "
                    "file was deleted. Stop that process first, or name another store."
                )
            status = os.fstat(self._file)
        except BaseException:
            self.release()
            raise
        self.inode = (status.st_dev, status.st_ino)
        """Device and inode number of the locked store."""

    def release(self) -> None:
        """Release both locks, so that other processes can write. A second call has no effect."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1
        self._lock_file.release()


def _open(path: Path, folder: Path) -> int:
    try:
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    except FileNotFoundError as error:
        raise StoreFailed(f"{folder}: no such folder; make it first.") from error
    except OSError as error:
        raise StoreReadOnly(
            f"{path} cannot be written: {error.strerror}. Move the store to a disk that can be written."
        ) from error


def _lock(file: int) -> bool:
    """Lock an open file for this process; returns False if another process has locked it. Raises StoreFailed."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        raise StoreFailed(
            f"This file system cannot lock files ({error.strerror}): move the store to another."
        ) from error
    return True
