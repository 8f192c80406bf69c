"""Writes the Parquet files of one task, one for each table: gathers rows over groups and writes them as columns."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from types import TracebackType
from typing import Any, Final, TypeAlias

import pyarrow as pa

from regroup.pipeline.gold.builders.table_builder import TableRow
from regroup.pipeline.gold.tables import KEY_FIELDS, TABLES
from regroup.pipeline.locations.location import Location
from regroup.pipeline.output_folder import parquet_writer

ROWS_PER_BATCH: Final = 32_768

TABLE_SCHEMAS: Final[Mapping[str, pa.Schema]] = {
    **{
        name: pa.schema([(field.name, field.type) for field in (*KEY_FIELDS, *table.fields)])
        for name, table in TABLES.items()
    },
    # Events of a group whose number does not follow the one before: `violations` takes them from here.
    "number_gaps": pa.schema([("store", pa.string()), ("group", pa.string()), ("position", pa.int64())]),
    # Invariants of groups of the consumer protocol that do not hold, for `violations` too.
    "consumer_violations": pa.schema(
        [("store", pa.string()), ("group", pa.string()), ("position", pa.int64()), ("sentence", pa.string())]
    ),
}
"""The columns of each table that the fold writes."""

WriteBatch: TypeAlias = Callable[[str, pa.RecordBatch], object]
"""A function that writes a batch of rows to a table, which it gets by name."""


class RowBatches:
    """Collects the rows of every table, and passes them to the function `write` in batches."""

    def __init__(self, write: WriteBatch) -> None:
        self._write = write
        self._rows: dict[str, list[Any]] = {name: [] for name in TABLE_SCHEMAS}
        self._keys: dict[str, list[tuple[str, str]]] = {name: [] for name in TABLE_SCHEMAS}
        """By table, the store and the group of each gathered row."""

    def add(self, store: str, group: str, rows: Iterable[TableRow]) -> None:
        key = (store, group)
        for name, row in rows:
            gathered = self._rows[name]
            gathered.append(row)
            self._keys[name].append(key)
            if len(gathered) == ROWS_PER_BATCH:
                self._flush(name)

    def flush(self) -> None:
        for name, rows in self._rows.items():
            if rows:
                self._flush(name)

    def _flush(self, name: str) -> None:
        schema, rows = TABLE_SCHEMAS[name], self._rows[name]
        columns = [*zip(*self._keys[name], strict=True), *columns_of(rows, schema.names[2:])]
        self._rows[name], self._keys[name] = [], []
        arrays = [pa.array(values, field.type) for values, field in zip(columns, schema, strict=True)]
        self._write(name, pa.RecordBatch.from_arrays(arrays, schema=schema))


def columns_of(rows: Sequence[Any], names: Sequence[str]) -> Iterator[Sequence[Any]]:
    """Yield the columns of rows. The rows are all tuples, or all dictionaries with these names as keys."""
    if isinstance(rows[0], dict):
        rows = [tuple(map(row.get, names)) for row in rows]
    return zip(*rows, strict=True)


class TableFiles(AbstractContextManager["TableFiles"]):
    """Writes the rows of one task, those of each table to a file called `name`. After an error no file is written."""

    def __init__(self, target: Location, name: str) -> None:
        self._target, self._name = target, name
        self._stack = ExitStack()
        self._writers: dict[str, Any] = {}
        self.batches = RowBatches(self._write)
        self.rows_written: dict[str, int] = {}

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:
            self._stack.__exit__(kind, error, trace)
            return
        with self._stack:
            self.batches.flush()

    def _write(self, name: str, batch: pa.RecordBatch) -> None:
        if name not in self._writers:
            file = parquet_writer(self._target / name / self._name, TABLE_SCHEMAS[name])
            self._writers[name] = self._stack.enter_context(file)
        self._writers[name].write_batch(batch)
        self.rows_written[name] = self.rows_written.get(name, 0) + batch.num_rows


def write_empty_table(target: Location, name: str) -> None:
    """Write a file without rows, so that readers find the columns of a table that has none."""
    with parquet_writer(target / name / "part-empty.parquet", TABLE_SCHEMAS[name]):
        pass
