"""The store in a SQLite file, through aiosqlite: the disk is waited for in a thread, never in the event loop."""

import asyncio
import os
from collections.abc import Iterable, Sequence
from typing import Any, Self

import aiosqlite

from regroup.storage.sqlite.opening import Durability, claim, file_of, open_for_reading, open_for_writing
from regroup.storage.sqlite.store import SqlStore


class ThreadConnection:
    """A connection that lives in aiosqlite's thread."""

    def __init__(self, connection: aiosqlite.Connection) -> None:
        self._connection = connection

    @classmethod
    async def open(cls, address: str) -> Self:
        return cls(await aiosqlite.connect(address, uri=True, isolation_level=None))

    async def execute(self, statement: str, parameters: Sequence[Any] = ()) -> list[Any]:
        return list(await self._connection.execute_fetchall(statement, parameters))

    async def execute_many(self, statement: str, rows: Iterable[Sequence[Any]]) -> None:
        await self._connection.executemany(statement, rows)

    async def close(self) -> None:
        await self._connection.close()


async def open_store(
    path: str | os.PathLike[str], *, read_only: bool = False, durability: Durability = "disk"
) -> SqlStore:
    """Open the store in this file, or make one. Use it as `async with await open_store(path) as store`,
    for a store that is still open when the event loop ends leaves a thread behind.

    Read-only needs no lock, works while another process writes, and changes nothing.
    Raises NotAStore, StoreIsNewer, StoreIsDamaged, StoreIsLocked, StoreIsReadOnly, StoreFailed.
    """
    file = file_of(path)
    if read_only:
        return await open_for_reading(file, ThreadConnection.open)
    lock = await asyncio.to_thread(claim, file)
    return await open_for_writing(file, lock, ThreadConnection.open, durability)
