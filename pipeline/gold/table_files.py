"""Writes the Parquet files of one task, one for each table: gathers rows over groups and writes them as columns."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from types import TracebackType
from typing import Any, Final, TypeAlias

import pyarrow as pa

from regroup.pipeline.gold.commit_rows import repeated
from regroup.pipeline.gold.folded_rows import FoldedRows, TableRow
from regroup.pipeline.gold.tables import KEY_FIELDS, TABLES
from regroup.pipeline.locations.location import Location
from regroup.pipeline.output_folder import parquet_writer

EMPTY_FILE: Final = "part-empty.parquet"
ROWS_PER_BATCH: Final = 32_768

TABLE_SCHEMAS: Final[Mapping[str, pa.Schema]] = {
    **{
        name: pa.schema([(field.name, field.type) for field in (*KEY_FIELDS, *table.fields)])
        for name, table in TABLES.items()
    },
    "violations": pa.schema(
        [("store", pa.string()), ("group", pa.string()), ("position", pa.int64()), ("sentence", pa.string())]
    ),
}
"""The columns of each table that the fold writes."""

WriteBatch: TypeAlias = Callable[[str, pa.RecordBatch], object]
"""A function that writes a batch of rows to a table, which it gets by name."""


class RowBatches:
    """Collects the rows of every table over groups, and passes them to the function `write` in batches.

    batches.folded.add("gaps", row)
    batches.end_rows("runs/a.db", "payments")       # the rows since the last call are of this group
    """

    def __init__(self, write: WriteBatch) -> None:
        self._write = write
        self.folded = FoldedRows()
        self._keys: dict[str, list[tuple[str, str, int]]] = {name: [] for name in self.folded.tables}
        """By table, store and group of rows that follow each other, and the number of all rows up to their end."""

    def add(self, store: str, group: str, rows: Iterable[tuple[str, TableRow]]) -> None:
        """Add rows of a group, each with the name of its table."""
        for name, row in rows:
            self.folded.add(name, row)
        self.end_rows(store, group)

    def end_rows(self, store: str, group: str) -> None:
        """Note that all rows since the last call are of this group. Rows that fill a batch are written."""
        for (name, keys), count in zip(self._keys.items(), self.folded.counts(), strict=True):
            if count and (not keys or keys[-1][2] < count):
                keys.append((store, group, count))
                if count >= ROWS_PER_BATCH:
                    self._flush(name)

    def flush(self) -> None:
        for name in TABLE_SCHEMAS:
            if self._keys[name]:
                self._flush(name)

    def _flush(self, name: str) -> None:
        schema = TABLE_SCHEMAS[name]
        stores, groups, ends = zip(*self._keys[name], strict=True)
        run_ends = pa.array(ends, pa.int32())
        keys = [repeated(pa.array(values, pa.string()), run_ends) for values in (stores, groups)]
        self._write(name, pa.RecordBatch.from_arrays([*keys, *self._columns(name, schema)], schema=schema))
        self._keys[name] = []

    def _columns(self, name: str, schema: pa.Schema) -> list[pa.Array]:
        """The columns of a table's rows after `store` and `group`, which are then no longer in `folded`."""
        if name == "commits":
            columns = self.folded.commits.columns()
            self.folded.commits.clear()
            return [columns[each] for each in schema.names[2:]]
        rows, fields = self.folded.by_table[name], list(schema)[2:]
        values = columns_of(rows, schema.names[2:])
        arrays = [column_array(each, field.type) for each, field in zip(values, fields, strict=True)]
        rows.clear()
        return arrays


def columns_of(rows: Sequence[Any], names: Sequence[str]) -> Iterator[Sequence[Any]]:
    """Yield the columns of rows. The rows are all tuples, or all dictionaries with these names as keys."""
    if isinstance(rows[0], dict):
        rows = [tuple(map(row.get, names)) for row in rows]
    return zip(*rows, strict=True)


def column_array(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    """The values of a column as an Arrow array. In lists of structs, each struct (as an object) is converted once."""
    if not (pa.types.is_list(kind) and pa.types.is_struct(kind.value_type)):
        return pa.array(values, kind)
    structs: dict[int, Any] = {id(struct): struct for each in values if each for struct in each}
    places = {each: number for number, each in enumerate(structs)}
    lists = [None if each is None else [places[id(struct)] for struct in each] for each in values]
    numbers = pa.array(lists, pa.list_(pa.int32()))
    found = pa.array(list(structs.values()), kind.value_type).take(numbers.values)
    return pa.ListArray.from_arrays(numbers.offsets, found, kind, mask=numbers.is_null())


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
    with parquet_writer(target / name / EMPTY_FILE, TABLE_SCHEMAS[name]):
        pass
