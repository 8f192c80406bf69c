"""Marks a store as open for writing, in the file itself, from its first write until it is closed.

The mark is not only in the write-ahead log, so that a copy without the log shows that records are missing.
"""

from contextlib import suppress
from pathlib import Path

from regroup.storage.errors import StoreError
from regroup.storage.sqlite import statements as sql
from regroup.storage.sqlite.connection import SqliteConnection
from regroup.storage.sqlite.files import translate_sqlite_errors
from regroup.storage.sqlite.group_index import GroupIndex
from regroup.storage.sqlite.loss.open_files import OpenFiles
from regroup.storage.sqlite.schema import OPEN_WRITER
from regroup.storage.sqlite.writer_lock import WriterLock


class WriterMark:
    """The mark of one store, and its files while it is marked. The caller holds the store's lock."""

    def __init__(self, path: Path, connection: SqliteConnection, writer_lock: WriterLock | None) -> None:
        """`writer_lock` is None for a store that is opened for reading, which is never marked."""
        self._path, self._connection, self._writer_lock = path, connection, writer_lock
        self.files: OpenFiles | None = None
        """The files that are compared after each commit; None until the store is marked."""

    async def put(self) -> OpenFiles:
        """Mark the file before the first write."""
        assert self._writer_lock is not None
        try:
            await self._connection.execute(sql.PUT_VALUE, (OPEN_WRITER, b""))
            await self._connection.checkpoint()
        except BaseException:
            # Nothing was written, and a close removes the log: with the mark, the log would seem to be lost.
            with suppress(Exception):
                await self._connection.execute(sql.DELETE_VALUE, (OPEN_WRITER,))
            raise
        self.files = OpenFiles(self._path, self._writer_lock.inode)
        return self.files

    async def remove(self, index: GroupIndex, last_position: int) -> None:
        """Move the records of the write-ahead log into the file and its index, as far as readers allow it, and remove
        the mark.

        A store that was never written stays as it is. Raises StoreLost if files were deleted or replaced.
        """
        files, self.files = self.files, None
        if files is None:
            return
        try:
            files.check()
            with suppress(StoreError), translate_sqlite_errors(self._path):
                await index.extend(last_position)
                await self._connection.execute(sql.DELETE_VALUE, (OPEN_WRITER,))
                await self._connection.checkpoint()
        finally:
            files.close()
