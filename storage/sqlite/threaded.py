"""A store in a SQLite file, through aiosqlite: its thread waits for the disk, and the event loop does not."""

import asyncio
import os
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Self

import aiosqlite

from regroup.storage.sqlite.connection import Argument, Result
from regroup.storage.sqlite.opening import (
    Durability,
    lock_and_initialize,
    open_for_reading,
    open_for_writing,
    resolve_store_path,
)
from regroup.storage.sqlite.store import SqliteStore

__all__ = ["open_store"]


class ThreadConnection:
    """A connection in aiosqlite's thread."""

    def __init__(self, connection: aiosqlite.Connection) -> None:
        self._connection = connection

    @classmethod
    async def open(cls, address: str) -> Self:
        return cls(await aiosqlite.connect(address, uri=True, isolation_level=None))

    async def execute(self, statement: str, parameters: Sequence[Any] = ()) -> list[Any]:
        return list(await self._connection.execute_fetchall(statement, parameters))

    async def execute_many(self, statement: str, rows: Iterable[Sequence[Any]]) -> None:
        await self._connection.executemany(statement, rows)

    async def compute(self, function: Callable[[Argument], Result], argument: Argument) -> Result:
        return await asyncio.to_thread(function, argument)

    async def close(self) -> None:
        await self._connection.close()


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
    return await open_for_writing(file, lock, ThreadConnection.open, durability)
