"""Folds all groups in parallel with Spark: each task folds some groups and writes Parquet files of all tables."""

import gc
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from operator import itemgetter
from typing import Final, TypeAlias

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from regroup.pipeline.gold.builders.invariant_checks import NUMBERS_SENTENCE, add_violation
from regroup.pipeline.gold.fold_state import (
    STATE_FOLDER,
    STATE_TYPE,
    FoldState,
    StateFile,
    decode_state,
    encode_state,
)
from regroup.pipeline.gold.group_history import TOPIC_EVENT_TYPES, GroupHistory
from regroup.pipeline.gold.table_files import RowBatches, TableFiles
from regroup.pipeline.locations.location import Location
from regroup.pipeline.source.columns import SNAPSHOT_TYPE, STORE_EVENT_SCHEMA
from regroup.storage.records import Record

TASKS_PER_CORE: Final = 4
"""The fold has several tasks for each core, since groups differ in length."""

RECORDS_PER_CHECK: Final = 1_000
"""The rows of a long group are written after each so many records if there are enough."""

SUMMARY_SCHEMA: Final = pa.schema([("table", pa.string()), ("rows", pa.int64())])

TopicRecords: TypeAlias = Mapping[str, list[Record]]
"""The topic events of each store, in order of position, by the name of the store."""


@dataclass(frozen=True, slots=True)
class FoldTarget:
    """Where a fold writes, and whether it keeps the state of each group for a later fold of new events."""

    folder: Location
    file_prefix: str = "part"
    """Files of rows are called `part-00000.parquet` by the number of their task."""
    keeps_state: bool = False
    """If so, rows that are incomplete after the last event have files of their own, `open-00000.parquet`."""


def fold_groups(
    events: DataFrame, topics: TopicRecords, target: FoldTarget, states: DataFrame | None = None
) -> dict[str, int]:
    """Fold all groups, write the rows of all tables to the target, and return the number of rows of each table.

    Each group is folded by one task, however long its history is. With `states`, in the columns of `STATE_SCHEMA`, each
    of these groups goes on from its state.
    """
    cores = events.sparkSession.sparkContext.defaultParallelism
    of_groups = events.where(F.col("group").isNotNull())
    if states is not None:
        as_events = states.withColumns({"position": F.lit(0).cast("long"), "type": F.lit(STATE_TYPE)})
        bytes_as_events = of_groups.withColumn("payload", F.col("payload").cast("binary"))
        of_groups = bytes_as_events.unionByName(as_events, allowMissingColumns=True)
    in_order = (
        of_groups.repartition(TASKS_PER_CORE * cores, "store", "group")
        # `fold_records` checks this order.
        .sortWithinPartitions("store", "group", "position")
    )
    fold = partial(fold_partition, target=target, topics=topics)
    written = in_order.mapInArrow(fold, "table string, rows long").collect()
    rows: Counter[str] = Counter()
    for each in written:
        rows[each["table"]] += each["rows"]
    return rows


def topic_events(events: DataFrame) -> pa.Table:
    """The events of topics. Each group's fold needs those of its store for the numbers of partitions."""
    topics = events.where(F.col("group").isNull() & F.col("type").isin(*TOPIC_EVENT_TYPES)).toArrow()
    return topics.select(STORE_EVENT_SCHEMA.names).cast(STORE_EVENT_SCHEMA)


def topics_by_store(topics: pa.Table) -> TopicRecords:
    found: dict[str, list[Record]] = {}
    for batch in topics.sort_by("position").to_batches():
        for store, record in records_of_batch(batch):
            found.setdefault(store, []).append(record)
    return found


def fold_partition(
    batches: Iterable[pa.RecordBatch], target: FoldTarget, topics: TopicRecords
) -> Iterator[pa.RecordBatch]:
    """Fold the groups of one task, and yield the number of rows of each table.

    The name of a file has the number of its task, so a task that is repeated writes the same files again.
    """
    context = TaskContext.get()
    number = context.partitionId() if context else 0
    records = (each for batch in batches for each in records_of_batch(batch))
    with without_garbage_collection(), FoldFiles(target, number) as files:
        fold_records(records, topics, files)
    yield pa.RecordBatch.from_pydict(
        {"table": list(files.rows_written), "rows": list(files.rows_written.values())}, schema=SUMMARY_SCHEMA
    )


class FoldFiles(ExitStack):
    """The files of one task. After an error no file is written."""

    def __init__(self, target: FoldTarget, number: int) -> None:
        super().__init__()
        self.complete = TableFiles(target.folder, f"{target.file_prefix}-{number:05}.parquet")
        """Rows that later events do not change, or all rows if no state is kept."""
        self.incomplete = self.complete
        self.states: StateFile | None = None
        if target.keeps_state:
            self.incomplete = TableFiles(target.folder, f"open-{number:05}.parquet")
            self.states = StateFile(target.folder / STATE_FOLDER / f"part-{number:05}.parquet")

    def __enter__(self) -> "FoldFiles":
        for each in dict.fromkeys((self.complete, self.incomplete, self.states)):
            if each is not None:
                self.enter_context(each)
        return self

    @property
    def rows_written(self) -> Counter[str]:
        written = Counter(self.complete.rows_written)
        return written if self.incomplete is self.complete else written + Counter(self.incomplete.rows_written)


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


def fold_records(records: Iterable[tuple[str, Record]], topics: TopicRecords, files: FoldFiles) -> None:
    """Fold records of many groups, each record with its store; they are sorted by store, group and position.

    Raises RuntimeError if a group's records are not in order.
    """
    for store, of_store in groupby(records, itemgetter(0)):
        for group, of_group in groupby((record for _, record in of_store), lambda record: record.group):
            assert group is not None
            state = fold_group(store, group, of_group, topics.get(store, []), files.complete.batches)
            if files.states is not None:
                files.states.add(store, group, encode_state(state))
            state.history.on_end(files.incomplete.batches.folded)
            files.incomplete.batches.end_rows(store, group)


def fold_group(
    store: str, group: str, records: Iterable[Record], topics: list[Record], batches: RowBatches
) -> FoldState:
    """Fold one group's records, and the topic events of its store, to the rows of all tables that they complete.

    Both are in order of position. The first record may be the state after former records. Returns the state after all.
    """
    history, rows, last, number, topics_through = GroupHistory(group), batches.folded, 0, 0, 0
    topic = 0
    for count, record in enumerate(records, 1):
        if record.type == STATE_TYPE:
            history, last, number, topics_through = decode_state(record.payload)
            topic = sum(each.position <= topics_through for each in topics)
            continue
        # A snapshot may have the position of the last event that it includes.
        if record.position < last:
            raise RuntimeError(
                f"Spark passed the events of group {group} in another order than that of their positions."
            )
        last = record.position
        while topic < len(topics) and topics[topic].position < last:
            history.on_record(topics[topic], rows)
            topic += 1
        if record.event_number != number + 1 and record.type != SNAPSHOT_TYPE:
            add_violation(rows, last, NUMBERS_SENTENCE)
        number = record.event_number
        history.on_record(record, rows)
        if count % RECORDS_PER_CHECK == 0:
            batches.end_rows(store, group)
    for record in topics[topic:]:
        history.on_record(record, rows)
    batches.end_rows(store, group)
    return FoldState(history, last, number, max(topics_through, topics[-1].position if topics else 0))


def records_of_batch(batch: pa.RecordBatch) -> Iterator[tuple[str, Record]]:
    """The events of a batch as records, each with its store."""
    columns = [
        (batch.column(name).cast(pa.binary()) if name in ("payload", "cause") else batch.column(name)).to_pylist()
        for name in Record.__struct_fields__
    ]
    return zip(batch.column("store").to_pylist(), map(Record, *columns), strict=True)
