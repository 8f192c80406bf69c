"""Ways from a store to bronze and to the tables without Spark, with the same fold: a plain loop, and DuckDB.

DuckDB reads no SQLite file without a download, and folds no groups. So it gets the store's rows from Arrow and writes
them as Parquet; and from there it sorts the events by group, hands them to the fold, keeps the tables and writes them.
Neither checks the invariants, which Spark does in the same time.
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

from regroup.pipeline.gold.folding import records_in
from regroup.pipeline.gold.group_history import Chronicle
from regroup.pipeline.gold.tables import TABLES
from regroup.pipeline.gold.transition import Row
from regroup.pipeline.source.arrow_rows import CHUNK, SCHEMA, StoreReader
from regroup.storage.records import Record

COLUMNS = ", ".join(f'"{field.name}"' for field in SCHEMA)


def bare_read(store: Path) -> None:
    """What sqlite3 alone needs for every row."""
    connection = sqlite3.connect(store)
    for _ in connection.execute("SELECT * FROM events ORDER BY position"):
        pass
    connection.close()


def plain_bronze(store: Path, target: Path) -> None:
    with StoreReader(store, plainly=True) as reader, pq.ParquetWriter(target, SCHEMA, compression="zstd") as writer:
        for batch in reader.events(*reader.bounds()):
            writer.write_batch(batch)


def duckdb_bronze(store: Path, target: Path) -> None:
    with StoreReader(store) as reader, duckdb.connect() as connection:
        connection.register("events", pa.RecordBatchReader.from_batches(SCHEMA, reader.events(*reader.bounds())))
        connection.execute(f"COPY events TO '{target}' (FORMAT parquet, COMPRESSION zstd)")


def plain_tables(bronze: Path, folder: Path) -> None:
    """In order of position, with every group's state in memory at once; the rows go to Parquet as they come."""
    chronicles: dict[str, Chronicle] = {}
    with ExitStack() as stack:
        writers = {
            name: stack.enter_context(pq.ParquetWriter(folder / f"{name}.parquet", schema_of(name), compression="zstd"))
            for name in TABLES
        }
        rows = Rows(lambda name, batch: writers[name].write_batch(batch))
        for batch in pq.ParquetFile(bronze).iter_batches(CHUNK):
            for record in records_in(batch):
                assert record.group is not None
                if record.group not in chronicles:
                    chronicles[record.group] = Chronicle(record.group)
                rows.add(record.group, chronicles[record.group].reads(record))
        for name, chronicle in chronicles.items():
            rows.add(name, chronicle.ends())
        rows.flush()


def duckdb_tables(bronze: Path, folder: Path) -> None:
    """Group after group."""
    with duckdb.connect() as connection:
        for name in TABLES:
            connection.register("empty", schema_of(name).empty_table())
            connection.execute(f"CREATE TABLE {name} AS FROM empty")
        rows = Rows(lambda name, batch: connection.execute(f"INSERT INTO {name} FROM batch"))
        in_order = connection.cursor().sql(f"SELECT {COLUMNS} FROM '{bronze}' ORDER BY \"group\", position")
        for group, records in groupby(all_records(in_order.to_arrow_reader(CHUNK)), attrgetter("group")):
            chronicle = Chronicle(group)
            for record in records:
                rows.add(group, chronicle.reads(record))
            rows.add(group, chronicle.ends())
        rows.flush()
        for name in TABLES:
            connection.execute(f"COPY {name} TO '{folder / name}.parquet' (FORMAT parquet, COMPRESSION zstd)")


def all_records(batches: Iterable[pa.RecordBatch]) -> Iterator[Record]:
    for batch in batches:
        yield from records_in(batch)


def schema_of(table: str) -> pa.Schema:
    return pa.schema([("group", pa.string()), *TABLES[table].struct])


class Keep(Protocol):
    """Puts rows of a table where they stay."""

    def __call__(self, name: str, batch: pa.RecordBatch) -> object: ...


class Rows:
    """Gathers rows of every table, and has them kept in batches."""

    def __init__(self, keep: Keep) -> None:
        self._keep = keep
        self._rows: dict[str, list[dict[str, Any]]] = {name: [] for name in TABLES}

    def add(self, group: str, rows: Iterable[Row]) -> None:
        for name, row in rows:
            kept = self._rows[name]
            kept.append({"group": group, **row})
            if len(kept) == CHUNK:
                self._flush(name)

    def flush(self) -> None:
        for name, rows in self._rows.items():
            if rows:
                self._flush(name)

    def _flush(self, name: str) -> None:
        self._keep(name, pa.RecordBatch.from_pylist(self._rows[name], schema_of(name)))
        self._rows[name] = []
