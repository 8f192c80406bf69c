"""A store's events as Arrow batches: through ADBC where it is installed, through plain sqlite3 where it is not."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Protocol, Self

import pyarrow as pa

from regroup.pipeline.source.columns import EVENT_COLUMNS, Column
from regroup.storage.errors import PositionTrimmed, StoreIsDamaged
from regroup.storage.sqlite.files import explained, fingerprint, uri_for_reading
from regroup.storage.sqlite.statements import POSITIONS

CHUNK: Final = 65_536
"""Positions that one query reads, and so at most the rows of a batch."""

SCHEMA: Final = pa.schema([(column.name, column.arrow) for column in EVENT_COLUMNS])
"""Of an event as the store has it, without the store's own name."""

SELECT: Final = "SELECT {} FROM events WHERE position > ? AND position <= ?".format(
    ", ".join(f'"{column.name}"' for column in EVENT_COLUMNS)
)


class Connection(Protocol):
    """What a reader needs of SQLite: rows as Arrow, and the end of the connection."""

    def table(self, statement: str, parameters: Sequence[object], columns: Sequence[Column]) -> pa.Table: ...
    def close(self) -> None: ...


class PlainConnection:
    """Python's own sqlite3."""

    def __init__(self, path: Path, address: str, pragmas: Sequence[str]) -> None:
        self._path = path
        self._connection = sqlite3.connect(address, uri=True, isolation_level=None)
        for pragma in pragmas:
            self._connection.execute(pragma)

    def table(self, statement: str, parameters: Sequence[object], columns: Sequence[Column]) -> pa.Table:
        rows = self._connection.execute(statement, parameters).fetchall()
        values = zip(*rows, strict=True) if rows else ((),) * len(columns)
        try:
            arrays = [pa.array(each, column.arrow) for each, column in zip(values, columns, strict=True)]
        except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
            raise wrong_kind(self._path, error) from error
        return pa.Table.from_arrays(arrays, names=[column.name for column in columns])

    def close(self) -> None:
        self._connection.close()


class AdbcConnection:
    """Rows become Arrow in C, six times as quickly. It has no SQLite codes, so what fails is asked again plainly."""

    def __init__(self, path: Path, address: str, pragmas: Sequence[str]) -> None:
        from adbc_driver_manager import Error  # noqa: PLC0415 - a package that may be missing
        from adbc_driver_sqlite import dbapi  # noqa: PLC0415

        self._error: type[Exception] = Error
        self._plain = PlainConnection(path, address, pragmas)
        self._connection: Any = dbapi.connect(address, autocommit=True)
        with self._cursor() as cursor:
            for pragma in pragmas:
                cursor.execute(pragma)

    def table(self, statement: str, parameters: Sequence[object], columns: Sequence[Column]) -> pa.Table:
        with self._cursor() as cursor:
            # It takes a column's type from the first batch; so there is one batch only.
            cursor.adbc_statement.set_options(**{"adbc.sqlite.query.batch_rows": str(CHUNK)})
            try:
                cursor.execute(statement, list(parameters))
                table = cursor.fetch_arrow_table().rename_columns([column.name for column in columns])
                return table.cast(pa.schema([(column.name, column.arrow) for column in columns]))
            except (self._error, pa.ArrowException):
                return self._plain.table(statement, parameters, columns)

    def _cursor(self) -> Any:
        return self._connection.cursor()

    def close(self) -> None:
        self._connection.close()
        self._plain.close()


def wrong_kind(path: Path, error: Exception) -> StoreIsDamaged:
    return StoreIsDamaged(f"{path} is damaged: a column holds another kind of value ({error}). Restore it from a copy.")


class StoreReader:
    """Reads a store without a trace in it, also while another process writes.

    Between two queries no transaction is open. `plainly` leaves ADBC aside. Every method may raise a StoreError.
    """

    def __init__(self, path: Path, *, plainly: bool = False) -> None:
        self._path = path
        self._kind = PlainConnection if plainly or find_spec("adbc_driver_sqlite") is None else AdbcConnection
        self._connection: Connection | None = None
        self._unwatched = False
        self._seen: tuple[object, ...] = ()

    def bounds(self) -> tuple[int, int]:
        """The position through which records have been trimmed, and that of the last commit."""
        columns = [Column("last", pa.int64()), Column("trimmed", pa.int64())]
        table = self._table(POSITIONS, (), columns)
        if table.num_rows != 1:
            raise StoreIsDamaged(f"{self._path} is damaged: a counter is missing. Restore it from a copy.")
        row = table.to_pylist()[0]
        return row["trimmed"], row["last"]

    def check_pages(self) -> None:
        """Read every page, as SQLite checks them. Raises StoreIsDamaged."""
        findings = self._table("PRAGMA quick_check(1)", (), [Column("finding", pa.string())]).column(0).to_pylist()
        if findings != ["ok"]:
            what = " ".join("; ".join(findings).split())
            raise StoreIsDamaged(f"{self._path} is damaged ({what}). Restore it from a copy.")

    def events(
        self, after: int, through: int, condition: str = "", parameters: Sequence[object] = ()
    ) -> Iterator[pa.RecordBatch]:
        """Events with after < position <= through, in order; `condition` is more SQL, such as `AND type = ?`."""
        statement = f"{SELECT} {condition} ORDER BY position"
        for start in range(after, through, CHUNK):
            window = (start, min(start + CHUNK, through))
            table = self._table(statement, (*window, *parameters), EVENT_COLUMNS)
            self._refuse_trimmed(start)
            yield from table.combine_chunks().to_batches()

    def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _refuse_trimmed(self, after: int) -> None:
        """Looked up behind the rows, so that nothing is missed unnoticed."""
        trimmed, _ = self.bounds()
        if after < trimmed:
            raise PositionTrimmed(after, trimmed)

    def _table(self, statement: str, parameters: Sequence[object], columns: Sequence[Column]) -> pa.Table:
        while True:
            with explained(self._path):
                table = self._current().table(statement, parameters, columns)
            if not self._is_stale():
                return table

    def _current(self) -> Connection:
        """The open connection, or a new one: whoever reads as if alone must look whether somebody came."""
        if self._connection is None or self._is_stale():
            self.close()
            self._seen = fingerprint(self._path)
            address, self._unwatched = uri_for_reading(self._path)
            pragmas = ["PRAGMA locking_mode = EXCLUSIVE"] if self._unwatched else []
            self._connection = self._kind(self._path, address, pragmas)
        return self._connection

    def _is_stale(self) -> bool:
        return self._unwatched and fingerprint(self._path) != self._seen
