"""The files of a store that is open for writing: whether they are still the ones that SQLite writes to.

SQLite keeps its files open. If another process deletes, replaces or truncates them, every later commit succeeds and is
gone when the store is opened again.
"""

import os
from contextlib import suppress
from pathlib import Path

from regroup.storage.errors import StoreLost
from regroup.storage.sqlite.files import sibling_file
from regroup.storage.sqlite.loss.wal_frames import WalFrames


class OpenFiles:
    """Compares path, inode and size of the store and of its write-ahead log with what they were after the last commit.

    A size never shrinks while the store is open, unless another program lets SQLite empty the log; this costs one
    failure without a loss, since the failed store is opened again. A log that was cut off may be as long as before once
    SQLite has appended to it, so its new frames are looked at, too.
    """

    def __init__(self, path: Path, inode: tuple[int, int]) -> None:
        """`inode` is the device and inode number of the locked file."""
        self._path, self._wal_path = path, sibling_file(path, "-wal")
        self._inode = inode
        self._frames: WalFrames | None = None
        with suppress(FileNotFoundError):  # file systems without shared memory have no write-ahead log
            self._frames = WalFrames(self._wal_path, sibling_file(path, "-shm"))
            status = os.fstat(self._frames.wal)
            self._wal_inode = (status.st_dev, status.st_ino)
        self._size_bytes = 0
        self._wal_size_bytes = 0
        self._loss: StoreLost | None = None
        self.accept()
        self.check()

    def accept(self) -> None:
        """Note the present sizes of the files as those to compare with from now on, after a rollback. Records that were
        lost stay lost."""
        with suppress(OSError):
            self._size_bytes = os.stat(self._path).st_size
        if self._frames is not None:
            self._wal_size_bytes = os.fstat(self._frames.wal).st_size
            self._frames.accept()

    def check(self) -> None:
        """Raise StoreLost if a file was deleted, replaced or cut off since the store was opened.

        To be called after a commit, before the commit is reported as durable.
        """
        if self._loss is not None:
            raise self._loss
        try:
            status = os.stat(self._path)
            if (status.st_dev, status.st_ino) != self._inode:
                raise self._lost(self._path, "replaced")
            if status.st_size < self._size_bytes:
                raise self._lost(self._path, "cut off")
            self._size_bytes = status.st_size
            if self._frames is not None:
                self._check_wal(self._frames)
        except FileNotFoundError as error:
            raise self._lost(error.filename, "deleted or moved") from None

    def _check_wal(self, frames: WalFrames) -> None:
        status = os.stat(self._wal_path)
        if (status.st_dev, status.st_ino) != self._wal_inode:
            raise self._lost(self._wal_path, "replaced")
        if status.st_size < self._wal_size_bytes:
            raise self._lost(self._wal_path, "cut off")
        self._wal_size_bytes = status.st_size
        problem = frames.problem()
        if problem:
            raise self._lost(self._wal_path, problem)

    def _lost(self, path: str | Path, what: str) -> StoreLost:
        store = "it" if str(path) == str(self._path) else self._path.name
        self._loss = StoreLost(
            f"{path} was {what} while {store} was being written. What was committed since is lost: put the file "
            "back, or end this process and begin with what is left."
        )
        return self._loss

    def close(self) -> None:
        """Close the write-ahead log and the shared memory file, which were opened for the comparison."""
        if self._frames is not None:
            self._frames.close()
            self._frames = None
