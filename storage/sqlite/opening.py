"""Opening a store, for writing or for reading, the same over any connection."""

import os
from collections.abc import Awaitable, Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, Literal

from regroup.storage.errors import NotAStore, StoreIsReadOnly
from regroup.storage.sqlite.files import WriterLock, explained, fingerprint, inspect, prepare, uri, uri_for_reading
from regroup.storage.sqlite.schema import MIGRATIONS
from regroup.storage.sqlite.store import Connection, SqlStore

Durability = Literal["disk", "process"]
"""What an acknowledged record survives: a power failure, or only the death of this process."""

PRAGMAS: dict[Durability, tuple[str, ...]] = {
    # SQLite's own checkpoint, after every 1000 pages, would make one commit in a few wait for milliseconds.
    "disk": ("PRAGMA synchronous = FULL", "PRAGMA wal_autocheckpoint = 20000"),
    "process": ("PRAGMA synchronous = NORMAL", "PRAGMA wal_autocheckpoint = 20000"),
}

Connect = Callable[[str], Awaitable[Connection]]


def file_of(path: str | os.PathLike[str]) -> Path:
    """One file, one name: whoever comes by a link meets the same lock."""
    return Path(path).resolve()


def claim(path: Path) -> WriterLock:
    """Make sure that the file may become ours, lock it, and bring it up to date."""
    inspect(path)
    lock = WriterLock(path)
    try:
        prepare(path)
    except BaseException:
        lock.release()
        raise
    return lock


async def open_for_writing(path: Path, lock: WriterLock, connect: Connect, durability: Durability) -> SqlStore:
    try:
        with explained(path):
            connection = await connect(uri(path, "mode=rw"))
    except BaseException:
        lock.release()
        raise
    return await SqlStore(path, connection, lock).begin(PRAGMAS[durability])


async def open_for_reading(path: Path, connect: Connect) -> SqlStore:
    version = inspect(path)
    if version == 0:
        raise NotAStore(f"There is no store in {path} yet: open it for writing once, or name another file.")
    if version < len(MIGRATIONS):
        raise StoreIsReadOnly(
            f"{path} has the older version {version}: open it for writing once to bring it up to date."
        )
    return await SqlStore(path, PassingReader(path, connect), None).begin()


class PassingReader:
    """A connection that leaves no trace in a store that nobody writes to, and notices when somebody begins to."""

    def __init__(self, path: Path, connect: Connect) -> None:
        self._path, self._connect = path, connect
        self._connection: Connection | None = None
        self._unwatched = False
        self._seen: tuple[object, ...] = ()

    async def execute(self, statement: str, parameters: Sequence[Any] = ()) -> list[Any]:
        while True:
            connection = await self._current()
            rows = await connection.execute(statement, parameters)
            if not self._is_stale():
                return rows

    async def execute_many(self, statement: str, rows: Iterable[Sequence[Any]]) -> None:
        raise NotImplementedError("A reader's store refuses to write before it comes to this.")

    async def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.close()

    async def _current(self) -> Connection:
        if self._connection is None or self._is_stale():
            await self.close()
            self._seen = fingerprint(self._path)
            address, self._unwatched = uri_for_reading(self._path)
            self._connection = await self._connect(address)
            if self._unwatched:
                # Only a connection that believes itself alone needs no shared memory beside the file.
                await self._connection.execute("PRAGMA locking_mode = EXCLUSIVE")
        return self._connection

    def _is_stale(self) -> bool:
        return self._unwatched and fingerprint(self._path) != self._seen
