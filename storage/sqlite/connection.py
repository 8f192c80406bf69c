"""A connection to SQLite as a store uses it."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol, TypeVar

Argument = TypeVar("Argument")
Result = TypeVar("Result")


class SqliteConnection(Protocol):
    """The methods that a store needs of a connection to SQLite, which is in autocommit mode."""

    async def execute(self, statement: str, parameters: Sequence[Any] = ()) -> list[Any]: ...
    async def execute_many(self, statement: str, rows: Iterable[Sequence[Any]]) -> None: ...
    async def compute(self, function: Callable[[Argument], Result], argument: Argument) -> Result:
        """The result of a function that takes long and uses no connection: in another thread, if there is one."""
        ...

    async def close(self) -> None: ...
