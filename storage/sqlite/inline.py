"""A store in a SQLite file without a thread of its own: for simulations, whose clock no thread may race."""

import os
import sqlite3
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Self

from regroup.storage.sqlite.connection import PASSIVE_CHECKPOINT, Argument, Result
from regroup.storage.sqlite.opening import (
    Durability,
    lock_and_initialize,
    open_for_reading,
    open_for_writing,
    resolve_store_path,
)
from regroup.storage.sqlite.store import SqliteStore


class InlineConnection:
    """A connection to SQLite in the caller's thread. Its methods never suspend."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    @classmethod
    async def open(cls, address: str) -> Self:
        return cls(sqlite3.connect(address, uri=True, isolation_level=None))

    async def execute(self, statement: str, parameters: Sequence[Any] = ()) -> list[Any]:
        return self._connection.execute(statement, parameters).fetchall()

    async def commit(self, statement: str, parameters: Sequence[Any]) -> None:
        self._connection.execute(statement, parameters)

    async def checkpoint(self) -> None:
        self._connection.execute(PASSIVE_CHECKPOINT).fetchall()

    async def execute_many(self, statement: str, rows: Iterable[Sequence[Any]]) -> None:
        self._connection.executemany(statement, rows)

    async def compute(self, function: Callable[[Argument], Result], argument: Argument) -> Result:
        return function(argument)

    async def close(self) -> None:
        self._connection.close()


async def open_inline_store(
    path: str | os.PathLike[str], *, read_only: bool = False, durability: Durability = "process"
) -> SqliteStore:
    """Open a store as `open_store` does, but without a thread: the event loop waits for the disk.

    By default its records do not survive a power failure, which a simulation need not do.
    """
    file = resolve_store_path(path)
    if read_only:
        return await open_for_reading(file, InlineConnection.open)
    return await open_for_writing(file, lock_and_initialize(file), InlineConnection.open, durability)
