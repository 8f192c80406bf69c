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

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from regroup.pipeline.gold.folding import fold_group, records_of_batch, without_garbage_collection
from regroup.pipeline.gold.group_history import GroupHistory
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
    """Build the tables with a plain loop: fold all groups at once, in order of position, and write rows in batches."""
    histories: dict[str, GroupHistory] = {}
    topics: list[Record] = []
    with without_garbage_collection(), ExitStack() as stack:
        writers = {
            name: stack.enter_context(pq.ParquetWriter(folder / f"{name}.parquet", schema, compression="zstd"))
            for name, schema in TABLE_SCHEMAS.items()
        }
        rows = RowBatches(lambda name, batch: writers[name].write_batch(batch))
        for record in all_records(pq.ParquetFile(bronze).iter_batches(POSITIONS_PER_QUERY)):
            if record.group is None:
                topics.append(record)
                for name, history in histories.items():
                    rows.add("store", name, history.on_record(record))
                continue
            history = histories.get(record.group)
            if history is None:
                history = histories[record.group] = GroupHistory(record.group)
                for topic in topics:
                    rows.add("store", record.group, history.on_record(topic))
            rows.add("store", record.group, history.on_record(record))
        for name, history in histories.items():
            rows.add("store", name, history.on_end())
        rows.flush()


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
        records = all_records(in_order.to_arrow_reader(POSITIONS_PER_QUERY))
        for group, of_group in groupby(records, attrgetter("group")):
            fold_group("store", group, of_group, topics, rows)
        rows.flush()
        for name in TABLE_SCHEMAS:
            connection.execute(f"COPY {name} TO '{folder / name}.parquet' (FORMAT parquet, COMPRESSION zstd)")


def all_records(batches: Iterable[pa.RecordBatch]) -> Iterator[Record]:
    for batch in batches:
        stores = pa.array([None] * batch.num_rows, pa.string())
        yield from (record for _, record in records_of_batch(batch.append_column("store", stores)))
