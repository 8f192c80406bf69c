"""Opens a store for writing or for reading, over any kind of connection to SQLite."""

import os
from collections.abc import Awaitable, Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, Literal

from regroup.storage.errors import NotAStore
from regroup.storage.sqlite.connection import Argument, Result, SqliteConnection
from regroup.storage.sqlite.files import (
    fingerprint,
    initialize_store,
    read_only_uri,
    sqlite_uri,
    store_exists,
    translate_sqlite_errors,
)
from regroup.storage.sqlite.store import SqliteStore
from regroup.storage.sqlite.writer_lock import WriterLock

Durability = Literal["disk", "process"]
"""The failures that a durable record survives: "disk" a power failure, "process" only a crash of this process."""

PRAGMAS: dict[Durability, tuple[str, ...]] = {
    # With SQLite's own checkpoint after every 1000 pages, one commit in a few would wait for milliseconds.
    "disk": ("PRAGMA synchronous = FULL", "PRAGMA wal_autocheckpoint = 20000"),
    "process": ("PRAGMA synchronous = NORMAL", "PRAGMA wal_autocheckpoint = 20000"),
}

REFUSED_EARLIER = "a store that is open for reading refuses to write before this is called"

OpenConnection = Callable[[str], Awaitable[SqliteConnection]]


def resolve_store_path(path: str | os.PathLike[str]) -> Path:
    """The path without symbolic links: a store has the same lock under each of its names."""
    return Path(path).resolve()


def lock_and_initialize(path: Path, *, create: bool = True) -> WriterLock:
    """Lock the file for writing, and return the lock. If the file is empty or does not exist, make it a store.

    Without `create` such a file raises NotAStore.
    """
    if not store_exists(path) and not create:
        raise NotAStore(f"{path} holds no store any more: put it back.")
    lock = WriterLock(path)
    try:
        initialize_store(path)
    except BaseException:
        lock.release()
        raise
    return lock


async def open_for_writing(
    path: Path, lock: WriterLock, open_connection: OpenConnection, durability: Durability
) -> SqliteStore:
    """Open a store for writing, whose file is locked. The lock is released with the store, or if opening it fails."""
    try:
        with translate_sqlite_errors(path):
            connection = await open_connection(sqlite_uri(path, "mode=rw"))
    except BaseException:
        lock.release()
        raise
    return await SqliteStore(path, connection, lock).begin(PRAGMAS[durability])


async def open_for_reading(path: Path, open_connection: OpenConnection) -> SqliteStore:
    """Open a store read-only, also while another process writes to it."""
    if not store_exists(path):
        raise NotAStore(f"{path} holds no store yet: open it for writing once, or name another file.")
    return await SqliteStore(path, ReadOnlyConnection(path, open_connection), None).begin()


class ReadOnlyConnection:
    """A connection that changes no file, and is opened again when another process has opened the store for writing."""

    def __init__(self, path: Path, open_connection: OpenConnection) -> None:
        self._path, self._open_connection = path, open_connection
        self._connection: SqliteConnection | None = None
        self._must_watch = False
        self._fingerprint: tuple[object, ...] = ()

    async def execute(self, statement: str, parameters: Sequence[Any] = ()) -> list[Any]:
        while True:
            if self._connection is None or self._is_stale():
                await self.close()
                self._fingerprint = fingerprint(self._path)
                address, self._must_watch = read_only_uri(self._path)
                self._connection = await self._open_connection(address)
                if self._must_watch:
                    # In exclusive locking mode SQLite needs no shared memory file.
                    await self._connection.execute("PRAGMA locking_mode = EXCLUSIVE")
            rows = await self._connection.execute(statement, parameters)
            if not self._is_stale():
                return rows

    async def commit(self, statement: str, parameters: Sequence[Any]) -> None:
        raise NotImplementedError(REFUSED_EARLIER)

    async def checkpoint(self) -> None:
        raise NotImplementedError(REFUSED_EARLIER)

    async def execute_many(self, statement: str, rows: Iterable[Sequence[Any]]) -> None:
        raise NotImplementedError(REFUSED_EARLIER)

    async def compute(self, function: Callable[[Argument], Result], argument: Argument) -> Result:
        return function(argument)

    async def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.close()

    def _is_stale(self) -> bool:
        return self._must_watch and fingerprint(self._path) != self._fingerprint
