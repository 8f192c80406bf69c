"""The rows of a store, read and changed with SQLite itself."""

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any


def rows_of(store: Path, query: str = "SELECT * FROM events ORDER BY position") -> list[tuple[Any, ...]]:
    with closing(sqlite3.connect(store)) as connection:
        return connection.execute(query).fetchall()


def change(store: Path, statement: str, *parameters: object) -> None:
    with closing(sqlite3.connect(store)) as connection, connection:
        assert connection.execute(statement, parameters).rowcount > 0, "something was changed"
