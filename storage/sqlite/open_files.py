"""The files of a store that is open for writing: whether they are still the ones that SQLite writes to.

SQLite keeps its files open. If another process deletes, replaces or truncates them, every later commit succeeds and is
gone when the store is opened again.
"""

import os
from contextlib import suppress
from pathlib import Path
from typing import Final

from regroup.storage.errors import StoreLost
from regroup.storage.sqlite.files import sibling_file

_WAL_HEADER_BYTES: Final = 32
_FRAME_HEADER_BYTES: Final = 24
_WAL_MAGIC: Final = (b"\x37\x7f\x06\x82", b"\x37\x7f\x06\x83")
_TAIL_BYTES: Final = 32


class OpenFiles:
    """Compares path, inode and size of the store and of its write-ahead log with what they were after the last commit.

    A size never shrinks while the store is open, unless another program lets SQLite empty the log; this costs one
    failure without a loss, since the failed store is opened again. A log that was cut off is as long as before once
    SQLite has appended to it, so its header and the last bytes of the previous commit are compared, too.
    """

    def __init__(self, path: Path, inode: tuple[int, int]) -> None:
        """`inode` is the device and inode number of the locked file."""
        self._path, self._wal_path = path, sibling_file(path, "-wal")
        self._inode = inode
        self._wal = -1
        with suppress(FileNotFoundError):  # file systems without shared memory have no write-ahead log
            self._wal = os.open(self._wal_path, os.O_RDONLY | os.O_CLOEXEC)
            status = os.fstat(self._wal)
            self._wal_inode = (status.st_dev, status.st_ino)
        self._size_bytes = 0
        self._loss: StoreLost | None = None
        self.accept()
        self.check()

    def accept(self) -> None:
        """Take the present sizes as given, after a rollback. What was lost stays lost."""
        with suppress(OSError):
            self._size_bytes = os.stat(self._path).st_size
        self._appends = False
        self._tail = b""
        if self._wal >= 0:
            self._wal_size_bytes = os.fstat(self._wal).st_size
            self._keep_header(os.pread(self._wal, _WAL_HEADER_BYTES, 0))

    def check(self) -> None:
        """Raise StoreLost if a file was deleted, replaced or cut off since the store was opened.

        To be called after a commit, before it is acknowledged.
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
            if self._wal >= 0:
                self._check_wal()
        except FileNotFoundError as error:
            raise self._lost(error.filename, "deleted or moved") from None

    def _check_wal(self) -> None:
        status = os.stat(self._wal_path)
        if (status.st_dev, status.st_ino) != self._wal_inode:
            raise self._lost(self._wal_path, "replaced")
        size_bytes, before_bytes = status.st_size, self._wal_size_bytes
        if size_bytes < before_bytes:
            raise self._lost(self._wal_path, "cut off")
        has_grown = size_bytes > before_bytes
        header = os.pread(self._wal, _WAL_HEADER_BYTES, 0)
        if header != self._header:
            # After a checkpoint SQLite begins the log again, with another header.
            if not header.startswith(_WAL_MAGIC):
                raise self._lost(self._wal_path, "overwritten")
            self._keep_header(header)
        elif has_grown and self._appends and self._read_tail(before_bytes) != self._tail:
            raise self._lost(self._wal_path, "overwritten")
        self._wal_size_bytes = size_bytes
        # A log that was begun again is first written over, and then grows once more.
        self._appends = has_grown
        if has_grown:
            if (size_bytes - _WAL_HEADER_BYTES) % self._frame_bytes:
                raise self._lost(self._wal_path, "cut off")
            self._tail = self._read_tail(size_bytes)

    def _keep_header(self, header: bytes) -> None:
        self._header = header
        self._frame_bytes = _FRAME_HEADER_BYTES + int.from_bytes(header[8:12], "big")
        """SQLite writes whole frames, each of which holds a page."""

    def _read_tail(self, end_bytes: int) -> bytes:
        return os.pread(self._wal, _TAIL_BYTES, end_bytes - _TAIL_BYTES)

    def _lost(self, path: str | Path, what: str) -> StoreLost:
        store = "it" if str(path) == str(self._path) else self._path.name
        self._loss = StoreLost(
            f"{path} was {what} while {store} was being written. What was committed since is lost: put the file "
            "back, or end this process and begin with what is left."
        )
        return self._loss

    def close(self) -> None:
        """Forget the files."""
        if self._wal >= 0:
            os.close(self._wal)
            self._wal = -1
