"""A store in a SQLite file, through aiosqlite: its thread waits for the disk, and the event loop does not.

Commits that need not wait for the disk are made in the event loop's thread.
"""

import asyncio
import os
import sqlite3
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, Self

import aiosqlite

from regroup.storage.sqlite.connection import PASSIVE_CHECKPOINT, Argument, Result
from regroup.storage.sqlite.opening import (
    Durability,
    lock_and_initialize,
    open_for_reading,
    open_for_writing,
    resolve_store_path,
)
from regroup.storage.sqlite.schema import OPEN_WRITER
from regroup.storage.sqlite.store import SqliteStore

__all__ = ["open_store"]

COMMITTING_PRAGMAS: Final = ("PRAGMA synchronous = NORMAL", "PRAGMA wal_autocheckpoint = 0")
"""The settings of the connection that commits in the event loop's thread.

SQLite makes no checkpoint there by itself, since the event loop would wait for the disk; the journal asks for them.
"""

BEGIN_LOG_AGAIN: Final = (
    f"UPDATE named_values SET value = CASE value WHEN x'' THEN x'00' ELSE x'' END WHERE name = '{OPEN_WRITER}'"
)
"""The SQL of the first commit after a checkpoint, in which SQLite begins its write-ahead log again.

It changes one byte that has no meaning, since SQLite writes no page that stays the same.
"""


class ThreadConnection:
    """A connection to SQLite in aiosqlite's thread."""

    def __init__(self, connection: aiosqlite.Connection) -> None:
        self._connection = connection

    @classmethod
    async def open(cls, address: str) -> Self:
        return cls(await aiosqlite.connect(address, uri=True, isolation_level=None))

    async def execute(self, statement: str, parameters: Sequence[Any] = ()) -> list[Any]:
        return list(await self._connection.execute_fetchall(statement, parameters))

    async def execute_many(self, statement: str, rows: Iterable[Sequence[Any]]) -> None:
        await self._connection.executemany(statement, rows)

    async def commit(self, statement: str, parameters: Sequence[Any]) -> None:
        await self._connection.execute_fetchall(statement, parameters)

    async def checkpoint(self) -> None:
        await self._connection.execute_fetchall(PASSIVE_CHECKPOINT)

    async def compute(self, function: Callable[[Argument], Result], argument: Argument) -> Result:
        return await asyncio.to_thread(function, argument)

    async def close(self) -> None:
        await self._connection.close()


class ProcessConnection(ThreadConnection):
    """A connection that commits in the caller's thread, and does everything else in aiosqlite's.

    With the durability "process" a commit waits for no disk: it is a write to the page cache of the system, and takes
    less time than the way to another thread and back. What waits for the disk stays in the thread: checkpoints, and the
    first commit after one, in which SQLite begins the write-ahead log again and synchronizes its header.
    """

    def __init__(self, connection: aiosqlite.Connection, committing: sqlite3.Connection) -> None:
        super().__init__(connection)
        self._committing = committing

    @classmethod
    async def open(cls, address: str) -> Self:
        connection = await aiosqlite.connect(address, uri=True, isolation_level=None)
        try:
            return cls(connection, connect_for_commits(address))
        except BaseException:
            await connection.close()
            raise

    async def commit(self, statement: str, parameters: Sequence[Any]) -> None:
        self._committing.execute(statement, parameters)

    async def checkpoint(self) -> None:
        await super().checkpoint()
        await self._connection.execute_fetchall(BEGIN_LOG_AGAIN)

    async def close(self) -> None:
        try:
            self._committing.close()
        finally:
            await super().close()


def connect_for_commits(address: str) -> sqlite3.Connection:
    """Open the connection that commits in the event loop's thread. If that fails, none is left open."""
    connection = sqlite3.connect(address, uri=True, isolation_level=None)
    try:
        for pragma in COMMITTING_PRAGMAS:
            connection.execute(pragma)
    except BaseException:
        connection.close()
        raise
    return connection


async def open_store(
    path: str | os.PathLike[str], *, read_only: bool = False, create: bool = True, durability: Durability = "disk"
) -> SqliteStore:
    """Open the store in this file, or create one, unless `create` is False.

    Use it as `async with await open_store(path) as store`: a store that is still open when the event loop ends leaves
    a thread behind.

    A read-only store needs no lock, works while another process writes, and changes nothing.
    Raises NotAStore, UnsupportedStoreVersion, StoreDamaged, StoreLocked, StoreReadOnly, StoreFull, StoreFailed.
    """
    file = resolve_store_path(path)
    if read_only:
        return await open_for_reading(file, ThreadConnection.open)
    lock = await asyncio.to_thread(lock_and_initialize, file, create=create)
    open_connection = ThreadConnection.open if durability == "disk" else ProcessConnection.open
    return await open_for_writing(file, lock, open_connection, durability)
