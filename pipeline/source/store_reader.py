"""Reads a store's events as Arrow batches, and its blocks of recorded exchanges.

It uses ADBC if that is installed, and sqlite3 otherwise.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import TracebackType
from typing import Any, Final, TypeAlias

import pyarrow as pa

from regroup.pipeline.source.columns import EVENT_SCHEMA
from regroup.storage.errors import PositionTrimmed, StoreDamaged
from regroup.storage.sqlite.files import (
    file_size_bytes,
    fingerprint,
    read_only_uri,
    sibling_file,
    translate_sqlite_errors,
)
from regroup.storage.sqlite.statements import POSITIONS

POSITIONS_PER_QUERY: Final = 65_536
"""How many positions one query reads, so a batch has at most so many rows."""

# In brackets, since SQLite takes an unknown name in double quotes for a string.
SELECT_EVENTS: Final = "SELECT {} FROM events WHERE position > ? AND position <= ?".format(
    ", ".join(f"[{name}]" for name in EVENT_SCHEMA.names)
)

BLOCKS_PER_QUERY: Final = 64
"""How many blocks of recorded exchanges one query reads; together they have at most some ten megabytes."""

HAS_EXCHANGES: Final = "SELECT count(*) FROM sqlite_master WHERE type = 'table' AND name = 'exchanges'"
EXCHANGE_BOUNDS: Final = "SELECT ifnull(min(number), 0), ifnull(max(number), 0) FROM exchanges"
SELECT_EXCHANGES: Final = (
    "SELECT number, CAST(payload AS BLOB) FROM exchanges WHERE number > ? AND number <= ? "
    f"ORDER BY number LIMIT {BLOCKS_PER_QUERY}"
)
BLOCK_SCHEMA: Final = pa.schema([("number", pa.int64()), ("payload", pa.binary())])


class Sqlite3Connection:
    """A connection of Python's sqlite3 that returns Arrow tables."""

    def __init__(self, path: Path, uri: str, pragmas: Sequence[str]) -> None:
        self._path = path
        self._connection = sqlite3.connect(uri, uri=True, isolation_level=None)
        with closed_after_an_error(self):
            for pragma in pragmas:
                self._connection.execute(pragma)

    def table(self, statement: str, parameters: Sequence[object], schema: pa.Schema) -> pa.Table:
        """The rows of a query. Raises StoreDamaged if a value does not have its column's type."""
        rows = self._connection.execute(statement, parameters).fetchall()
        values = zip(*rows, strict=True) if rows else ((),) * len(schema)
        try:
            arrays = [pa.array(each, field.type) for each, field in zip(values, schema, strict=True)]
        except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
            raise StoreDamaged(
                f"{self._path} is damaged: a column holds another kind of value ({error}). Restore it from a copy."
            ) from error
        return pa.Table.from_arrays(arrays, schema=schema)

    def close(self) -> None:
        self._connection.close()


class AdbcConnection:
    """A connection through ADBC, which converts rows to Arrow six times as fast as Sqlite3Connection.

    ADBC's errors have no SQLite codes, so a query that fails is repeated with sqlite3.
    """

    def __init__(self, path: Path, uri: str, pragmas: Sequence[str]) -> None:
        # Opened first: it raises errors with SQLite codes.
        self._fallback = Sqlite3Connection(path, uri, pragmas)
        with closed_after_an_error(self._fallback):
            # Optional packages.
            self._error: type[Exception] = import_module("adbc_driver_manager").Error
            self._connection: Any = import_module("adbc_driver_sqlite.dbapi").connect(uri, autocommit=True)
            with closed_after_an_error(self._connection), self._connection.cursor() as cursor:
                for pragma in pragmas:
                    cursor.execute(pragma)

    def table(self, statement: str, parameters: Sequence[object], schema: pa.Schema) -> pa.Table:
        """The rows of a query; raises what `Sqlite3Connection.table` raises."""
        with self._connection.cursor() as cursor:
            # ADBC infers a column's type from the first batch, so all rows must be in one.
            cursor.adbc_statement.set_options(**{"adbc.sqlite.query.batch_rows": str(POSITIONS_PER_QUERY)})
            try:
                cursor.execute(statement, list(parameters))
                return cursor.fetch_arrow_table().rename_columns(schema.names).cast(schema)
            except (self._error, pa.ArrowException):
                return self._fallback.table(statement, parameters, schema)

    def close(self) -> None:
        self._connection.close()
        self._fallback.close()


@contextmanager
def closed_after_an_error(connection: Any) -> Iterator[None]:
    """Close a connection if an error is raised inside the block."""
    with ExitStack() as stack:
        stack.callback(connection.close)
        yield
        stack.pop_all()


ArrowConnection: TypeAlias = Sqlite3Connection | AdbcConnection


class StoreReader(AbstractContextManager["StoreReader"]):
    """Reads a store without changing any file, also while another process writes to it.

    No transaction is open between two queries. Every method may raise a StoreError.
    """

    def __init__(self, path: Path, *, without_adbc: bool = False) -> None:
        self._path = path
        self._connect: type[ArrowConnection] = AdbcConnection
        if without_adbc or find_spec("adbc_driver_sqlite") is None:
            self._connect = Sqlite3Connection
        self._connection: ArrowConnection | None = None
        self._is_unlocked = False
        self._fingerprint: tuple[object, ...] = ()

    def bounds(self) -> tuple[int, int]:
        """The position through which records have been trimmed, and the position of the last commit."""
        rows = self._query(POSITIONS, (), pa.schema([("last", pa.int64()), ("trimmed", pa.int64())])).to_pylist()
        if len(rows) != 1:
            raise StoreDamaged(f"{self._path} is damaged: a counter is missing. Restore it from a copy.")
        trimmed, last = rows[0]["trimmed"], rows[0]["last"]
        size_bytes = sum(file_size_bytes(sibling_file(self._path, suffix)) for suffix in ("", "-wal"))
        # Jobs are divided by positions. A damaged position may be any number, and an event takes many bytes.
        if not 0 <= last - trimmed <= size_bytes:
            raise StoreDamaged(
                f"{self._path} is damaged: it has {size_bytes} bytes, and its positions go from {trimmed} to {last}. "
                "Restore it from a copy."
            )
        return trimmed, last

    def check_pages(self) -> None:
        """Check every page of the file with SQLite. Raises StoreDamaged."""
        table = self._query("PRAGMA quick_check(1)", (), pa.schema([("finding", pa.string())]))
        findings = table.column("finding").to_pylist()
        if findings != ["ok"]:
            what = " ".join("; ".join(findings).split())
            raise StoreDamaged(f"{self._path} is damaged ({what}). Restore it from a copy.")

    def events(
        self, after: int, through: int, condition: str = "", parameters: Sequence[object] = ()
    ) -> Iterator[pa.RecordBatch]:
        """Events with after < position <= through, in order. `condition` is further SQL, such as `AND type = ?`."""
        statement = f"{SELECT_EVENTS} {condition} ORDER BY position"
        for start in range(after, through, POSITIONS_PER_QUERY):
            window = (start, min(start + POSITIONS_PER_QUERY, through))
            table = self._query(statement, (*window, *parameters), EVENT_SCHEMA)
            # Checked after the rows were read, so that a trim meanwhile is noticed.
            trimmed, _ = self.bounds()
            if start < trimmed:
                raise PositionTrimmed(start, trimmed)
            yield from table.combine_chunks().to_batches()

    def exchange_bounds(self) -> tuple[int, int]:
        """The numbers of the first and of the last block of recorded exchanges; zeros if nothing was recorded."""
        [has_table] = self._query(HAS_EXCHANGES, (), pa.schema([("count", pa.int64())])).column(0).to_pylist()
        if not has_table:
            return 0, 0
        bounds = pa.schema([("first", pa.int64()), ("last", pa.int64())])
        [found] = self._query(EXCHANGE_BOUNDS, (), bounds).to_pylist()
        return found["first"], found["last"]

    def exchange_blocks(self, after: int, through: int) -> Iterator[tuple[int, bytes]]:
        """Yield the blocks with after < number <= through that the store still has: number and compressed payload."""
        while after < through:
            rows = self._query(SELECT_EXCHANGES, (after, through), BLOCK_SCHEMA).to_pylist()
            for row in rows:
                after = row["number"]
                yield after, row["payload"] or b""
            if not rows:
                return

    def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _query(self, statement: str, parameters: Sequence[object], schema: pa.Schema) -> pa.Table:
        while True:
            with translate_sqlite_errors(self._path):
                table = self._current_connection().table(statement, parameters, schema)
            if not self._is_stale():
                return table

    def _current_connection(self) -> ArrowConnection:
        """The open connection, or a new one.

        Without a writer a store is opened without locks; if a writer has opened it since, the connection is replaced.
        """
        if self._connection is None or self._is_stale():
            self.close()
            self._fingerprint = fingerprint(self._path)
            uri, self._is_unlocked = read_only_uri(self._path)
            pragmas = ["PRAGMA locking_mode = EXCLUSIVE"] if self._is_unlocked else []
            self._connection = self._connect(self._path, uri, pragmas)
        return self._connection

    def _is_stale(self) -> bool:
        return self._is_unlocked and fingerprint(self._path) != self._fingerprint
