"""Ways from a store to bronze and to the tables without Spark, with the same fold: a plain loop, and DuckDB.

DuckDB cannot read SQLite files without a download, and cannot fold groups. So it gets the store's rows from Arrow and
writes them as Parquet; then it sorts the events by group for the fold, stores the tables and writes them. Neither way
checks the invariants, which Spark does in the same time.
"""

import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from typing import Any, Protocol

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from regroup.pipeline.gold.folding import records_of_batch
from regroup.pipeline.gold.group_history import GroupHistory
from regroup.pipeline.gold.table_builder import TableRow
from regroup.pipeline.gold.tables import TABLES
from regroup.pipeline.source.columns import EVENT_SCHEMA
from regroup.pipeline.source.store_reader import POSITIONS_PER_QUERY, StoreReader
from regroup.storage.records import Record

COLUMNS = ", ".join(f'"{field.name}"' for field in EVENT_SCHEMA)


def read_rows_only(store: Path) -> None:
    """Read every row with sqlite3, and do nothing with it."""
    connection = sqlite3.connect(store)
    for _ in connection.execute("SELECT * FROM events ORDER BY position"):
        pass
    connection.close()


def plain_bronze(store: Path, target: Path) -> None:
    with (
        StoreReader(store, without_adbc=True) as reader,
        pq.ParquetWriter(target, EVENT_SCHEMA, compression="zstd") as writer,
    ):
        for batch in reader.events(*reader.bounds()):
            writer.write_batch(batch)


def duckdb_bronze(store: Path, target: Path) -> None:
    with StoreReader(store) as reader, duckdb.connect() as connection:
        connection.register("events", pa.RecordBatchReader.from_batches(EVENT_SCHEMA, reader.events(*reader.bounds())))
        connection.execute(f"COPY events TO '{target}' (FORMAT parquet, COMPRESSION zstd)")


def plain_tables(bronze: Path, folder: Path) -> None:
    """Fold all groups at once, in order of position, and write the rows as they are complete."""
    histories: dict[str, GroupHistory] = {}
    with ExitStack() as stack:
        writers = {
            name: stack.enter_context(pq.ParquetWriter(folder / f"{name}.parquet", schema_of(name), compression="zstd"))
            for name in TABLES
        }
        rows = RowBatches(lambda name, batch: writers[name].write_batch(batch))
        for batch in pq.ParquetFile(bronze).iter_batches(POSITIONS_PER_QUERY):
            for record in records_of_batch(batch):
                assert record.group is not None
                if record.group not in histories:
                    histories[record.group] = GroupHistory(record.group)
                rows.add(record.group, histories[record.group].on_record(record))
        for name, history in histories.items():
            rows.add(name, history.on_end())
        rows.flush()


def duckdb_tables(bronze: Path, folder: Path) -> None:
    """Fold one group after the other, sorted by DuckDB."""
    with duckdb.connect() as connection:
        for name in TABLES:
            connection.register("empty", schema_of(name).empty_table())
            connection.execute(f"CREATE TABLE {name} AS FROM empty")
        rows = RowBatches(lambda name, batch: connection.execute(f"INSERT INTO {name} FROM batch"))
        in_order = connection.cursor().sql(f"SELECT {COLUMNS} FROM '{bronze}' ORDER BY \"group\", position")
        for group, records in groupby(all_records(in_order.to_arrow_reader(POSITIONS_PER_QUERY)), attrgetter("group")):
            history = GroupHistory(group)
            for record in records:
                rows.add(group, history.on_record(record))
            rows.add(group, history.on_end())
        rows.flush()
        for name in TABLES:
            connection.execute(f"COPY {name} TO '{folder / name}.parquet' (FORMAT parquet, COMPRESSION zstd)")


def all_records(batches: Iterable[pa.RecordBatch]) -> Iterator[Record]:
    for batch in batches:
        yield from records_of_batch(batch)


def schema_of(table: str) -> pa.Schema:
    return pa.schema([("group", pa.string()), *TABLES[table].struct])


class StoreRows(Protocol):
    """Stores a batch of rows of a table."""

    def __call__(self, name: str, batch: pa.RecordBatch) -> object: ...


class RowBatches:
    """Collects the rows of every table, and stores them in batches."""

    def __init__(self, store: StoreRows) -> None:
        self._store = store
        self._rows: dict[str, list[dict[str, Any]]] = {name: [] for name in TABLES}

    def add(self, group: str, rows: Iterable[TableRow]) -> None:
        for name, row in rows:
            batch = self._rows[name]
            batch.append({"group": group, **row})
            if len(batch) == POSITIONS_PER_QUERY:
                self._flush(name)

    def flush(self) -> None:
        for name, rows in self._rows.items():
            if rows:
                self._flush(name)

    def _flush(self, name: str) -> None:
        self._store(name, pa.RecordBatch.from_pylist(self._rows[name], schema_of(name)))
        self._rows[name] = []
