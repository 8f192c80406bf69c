"""The store in a SQLite file, in the caller's own thread: for the laboratory, where no thread may race the clock."""

import os
import sqlite3
from collections.abc import Iterable, Sequence
from typing import Any, Self

from regroup.storage.sqlite.opening import Durability, claim, file_of, open_for_reading, open_for_writing
from regroup.storage.sqlite.store import SqlStore


class InlineConnection:
    """Its methods never suspend: what they ask is done when they return."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    @classmethod
    async def open(cls, address: str) -> Self:
        return cls(sqlite3.connect(address, uri=True, isolation_level=None))

    async def execute(self, statement: str, parameters: Sequence[Any] = ()) -> list[Any]:
        return self._connection.execute(statement, parameters).fetchall()

    async def execute_many(self, statement: str, rows: Iterable[Sequence[Any]]) -> None:
        self._connection.executemany(statement, rows)

    async def close(self) -> None:
        self._connection.close()


async def open_inline_store(
    path: str | os.PathLike[str], *, read_only: bool = False, durability: Durability = "process"
) -> SqlStore:
    """As `open_store`, but everything happens at once, in this thread.

    A simulation need not outlive a power failure.
    """
    file = file_of(path)
    if read_only:
        return await open_for_reading(file, InlineConnection.open)
    return await open_for_writing(file, claim(file), InlineConnection.open, durability)
