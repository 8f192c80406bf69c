"""The interface of a connection to SQLite, as a store needs it."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, Protocol, TypeVar

PASSIVE_CHECKPOINT: Final = "PRAGMA wal_checkpoint(PASSIVE)"
"""The SQL of a checkpoint that does not wait for readers of the store."""

Argument = TypeVar("Argument")
Result = TypeVar("Result")


class SqliteConnection(Protocol):
    """The methods that a store needs of a connection to SQLite, which is in autocommit mode."""

    async def execute(self, statement: str, parameters: Sequence[Any] = ()) -> list[Any]: ...
    async def commit(self, statement: str, parameters: Sequence[Any]) -> None:
        """Execute one statement as a transaction of its own. Nearly every event is stored in this way."""
        ...

    async def checkpoint(self) -> None:
        """Copy the write-ahead log into the store's file, without waiting for readers."""
        ...

    async def execute_many(self, statement: str, rows: Iterable[Sequence[Any]]) -> None: ...
    async def compute(self, function: Callable[[Argument], Result], argument: Argument) -> Result:
        """Call a function that takes long and does not use the connection, and return its result.

        A store with a thread of its own calls the function in another thread, an inline store in the caller's.
        """
        ...

    async def close(self) -> None: ...
