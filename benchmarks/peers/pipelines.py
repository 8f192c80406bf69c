"""Ways from a store to bronze and to the tables without Spark, with the same fold: a plain loop, and DuckDB.

DuckDB cannot read SQLite files without a download, and cannot fold groups. So it gets the store's rows from Arrow and
writes them as Parquet; then it sorts the events by group for the fold, stores the tables and writes them.
"""

import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from itertools import groupby
from operator import attrgetter
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from regroup.pipeline.gold.folding import GroupFold, records_of_batch, without_garbage_collection
from regroup.pipeline.gold.table_files import TABLE_SCHEMAS, RowBatches
from regroup.pipeline.source.columns import EVENT_SCHEMA
from regroup.pipeline.source.store_reader import POSITIONS_PER_QUERY, StoreReader
from regroup.storage.records import Record

COLUMNS = ", ".join(f'"{field.name}"' for field in EVENT_SCHEMA)


def read_rows_only(store: Path) -> None:
    """Read every row of the store with sqlite3, and do nothing with it."""
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
    """Build the tables with a plain loop: sort all events by group with Arrow, in memory, and fold group by group."""
    with without_garbage_collection(), ExitStack() as stack:
        writers = {
            name: stack.enter_context(pq.ParquetWriter(folder / f"{name}.parquet", schema, compression="zstd"))
            for name, schema in TABLE_SCHEMAS.items()
        }
        rows = RowBatches(lambda name, batch: writers[name].write_batch(batch))
        events = pq.read_table(bronze)
        topics = list(all_records(events.filter(pc.field("group").is_null()).to_batches()))
        order = pc.sort_indices(
            events.select(["group", "position"]), [("group", "ascending"), ("position", "ascending")]
        )
        in_order = (
            events.take(order.slice(start, POSITIONS_PER_QUERY)).filter(pc.field("group").is_valid())
            for start in range(0, len(order), POSITIONS_PER_QUERY)
        )
        fold_all(all_records(batch for some in in_order for batch in some.to_batches()), topics, rows)


def duckdb_tables(bronze: Path, folder: Path) -> None:
    """Build the tables with DuckDB, which sorts the events by group for the fold, and writes the tables."""
    with without_garbage_collection(), duckdb.connect() as connection:
        for name, schema in TABLE_SCHEMAS.items():
            connection.register("empty", schema.empty_table())
            connection.execute(f"CREATE TABLE {name} AS FROM empty")
        rows = RowBatches(lambda name, batch: connection.execute(f"INSERT INTO {name} FROM batch"))
        topic_batches = connection.sql(f"SELECT {COLUMNS} FROM '{bronze}' WHERE \"group\" IS NULL ORDER BY position")
        topics = list(all_records(topic_batches.to_arrow_reader()))
        in_order = connection.cursor().sql(
            f'SELECT {COLUMNS} FROM \'{bronze}\' WHERE "group" IS NOT NULL ORDER BY "group", position'
        )
        fold_all(all_records(in_order.to_arrow_reader(POSITIONS_PER_QUERY)), topics, rows)
        for name in TABLE_SCHEMAS:
            connection.execute(f"COPY {name} TO '{folder / name}.parquet' (FORMAT parquet, COMPRESSION zstd)")


def fold_all(records: Iterable[Record], topics: list[Record], rows: RowBatches) -> None:
    """Fold all groups, whose records follow each other, to the rows of all tables."""
    for group, of_group in groupby(records, attrgetter("group")):
        fold = GroupFold("store", group, topics, rows)
        for record in of_group:
            fold.on_record(record)
        fold.state().history.on_end(rows.folded)
        rows.end_rows("store", group)
    rows.flush()


def all_records(batches: Iterable[pa.RecordBatch]) -> Iterator[Record]:
    for batch in batches:
        stores = pa.array([None] * batch.num_rows, pa.string())
        yield from (record for _, record in records_of_batch(batch.append_column("store", stores)))
