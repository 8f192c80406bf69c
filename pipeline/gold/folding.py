"""Folds all groups in parallel with Spark: each task folds some groups and writes Parquet files of all tables."""

import gc
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from itertools import groupby
from operator import itemgetter
from typing import Final, TypeAlias

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from regroup.pipeline.gold.group_history import TOPIC_EVENT_TYPES, GroupHistory
from regroup.pipeline.gold.table_files import RowBatches, TableFiles
from regroup.pipeline.locations.location import Location
from regroup.pipeline.source.columns import SNAPSHOT_TYPE
from regroup.storage.records import Record

TASKS_PER_CORE: Final = 4
"""The fold has several tasks for each core, since groups differ in length."""

SUMMARY_SCHEMA: Final = pa.schema([("table", pa.string()), ("rows", pa.int64())])

TopicRecords: TypeAlias = Mapping[str, list[Record]]
"""The topic events of each store, in order of position, by the name of the store."""


def fold_groups(events: DataFrame, target: Location) -> dict[str, int]:
    """Fold all groups, write the rows of all tables below `target`, and return the number of rows of each table.

    Each group is folded by one task, however long its history is.
    """
    cores = events.sparkSession.sparkContext.defaultParallelism
    in_order = (
        events.where(F.col("group").isNotNull())
        .repartition(TASKS_PER_CORE * cores, "store", "group")
        # `fold_records` checks this order.
        .sortWithinPartitions("store", "group", "position")
    )
    fold = partial(fold_partition, target=target, topics=topic_records(events))
    written = in_order.mapInArrow(fold, "table string, rows long").groupBy("table").agg(F.sum("rows").alias("rows"))
    return {row["table"]: row["rows"] for row in written.collect()}


def topic_records(events: DataFrame) -> TopicRecords:
    """The events of topics, by store. Each group's fold needs those of its store for the numbers of partitions."""
    topics = events.where(F.col("group").isNull() & F.col("type").isin(*TOPIC_EVENT_TYPES)).toArrow()
    found: dict[str, list[Record]] = {}
    for batch in topics.sort_by("position").to_batches():
        for store, record in records_of_batch(batch):
            found.setdefault(store, []).append(record)
    return found


def fold_partition(
    batches: Iterable[pa.RecordBatch], target: Location, topics: TopicRecords
) -> Iterator[pa.RecordBatch]:
    """Fold the groups of one task, and yield the number of rows of each table.

    The name of a file is the number of its task, so a task that is repeated writes the same files again.
    """
    context = TaskContext.get()
    number = context.partitionId() if context else 0
    with without_garbage_collection(), TableFiles(target, f"part-{number:05}.parquet") as files:
        fold_records((each for batch in batches for each in records_of_batch(batch)), topics, files)
    yield pa.RecordBatch.from_pydict(
        {"table": list(files.rows_written), "rows": list(files.rows_written.values())}, schema=SUMMARY_SCHEMA
    )


@contextmanager
def without_garbage_collection() -> Iterator[None]:
    """Switch Python's garbage collector off while the block lasts.

    A fold makes no reference cycles, and the search for them takes a third of its time.
    """
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def fold_records(records: Iterable[tuple[str, Record]], topics: TopicRecords, files: TableFiles) -> None:
    """Fold records of many groups, each record with its store; they are sorted by store, group and position.

    Raises RuntimeError if a group's records are not in order.
    """
    for store, of_store in groupby(records, itemgetter(0)):
        for group, of_group in groupby((record for _, record in of_store), lambda record: record.group):
            assert group is not None
            fold_group(store, group, of_group, topics.get(store, []), files.batches)


def fold_group(store: str, group: str, records: Iterable[Record], topics: list[Record], rows: RowBatches) -> None:
    """Fold one group's records, and the topic events of its store, to rows of all tables.

    Both are in order of position.
    """
    history, last, number, topic = GroupHistory(group), 0, 0, 0
    for record in records:
        # A snapshot may have the position of the last event that it includes.
        if record.position < last:
            raise RuntimeError(
                f"Spark passed the events of group {group} in another order than that of their positions."
            )
        last = record.position
        while topic < len(topics) and topics[topic].position < last:
            rows.add(store, group, history.on_record(topics[topic]))
            topic += 1
        if record.type != SNAPSHOT_TYPE and record.event_number != number + 1:
            rows.add(store, group, [("number_gaps", {"position": last})])
        number = record.event_number
        rows.add(store, group, history.on_record(record))
    for record in topics[topic:]:
        rows.add(store, group, history.on_record(record))
    rows.add(store, group, history.on_end())


def records_of_batch(batch: pa.RecordBatch) -> Iterator[tuple[str, Record]]:
    """The events of a batch as records, each with its store."""
    columns = [
        (batch.column(name).cast(pa.binary()) if name in ("payload", "cause") else batch.column(name)).to_pylist()
        for name in Record.__struct_fields__
    ]
    return zip(batch.column("store").to_pylist(), map(Record, *columns), strict=True)
