"""Folds all groups in parallel with Spark: each task folds some groups and writes Parquet files of all tables."""

import gc
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
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

NO_POSITION: Final = 2**63
"""Greater than every position."""

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
    fold: GroupFold | None = None
    for store, record in records:
        if fold is None or record.group != fold.group or store != fold.store:
            if fold is not None:
                end_group(fold, files)
            assert record.group is not None
            fold = GroupFold(store, record.group, topics.get(store, []), files.complete.batches)
        fold.on_record(record)
    if fold is not None:
        end_group(fold, files)


def end_group(fold: "GroupFold", files: FoldFiles) -> None:
    """Write what is left of a group after its last record, and its state if states are kept."""
    state = fold.state()
    if files.states is not None:
        files.states.add(fold.store, fold.group, encode_state(state))
    state.history.on_end(files.incomplete.batches.folded)
    files.incomplete.batches.end_rows(fold.store, fold.group)


class GroupFold:
    """Folds one group's records, and the topic events of its store, to the rows of all tables that they complete.

    Both are in order of position. The first record may be the state after former records.
    """

    def __init__(self, store: str, group: str, topics: list[Record], batches: RowBatches) -> None:
        self.store, self.group = store, group
        self._topics, self._batches, self._rows = topics, batches, batches.folded
        self._history = GroupHistory(group)
        self._position, self._number, self._topic, self._count = 0, 0, 0, 0
        self._next_topic_position = topics[0].position if topics else NO_POSITION

    def on_record(self, record: Record) -> None:
        """Fold the next record. Raises RuntimeError if its position is lower than that of the last one."""
        position = record.position
        if record.type == STATE_TYPE:
            self._begin_with(decode_state(record.payload))
            return
        # A snapshot may have the position of the last event that it includes.
        if position < self._position:
            raise RuntimeError(
                f"Spark passed the events of group {self.group} in another order than that of their positions."
            )
        self._position = position
        if self._next_topic_position < position:
            self._take_topics(position)
        if record.event_number != self._number + 1 and record.type != SNAPSHOT_TYPE:
            add_violation(self._rows, position, NUMBERS_SENTENCE)
        self._number = record.event_number
        self._history.on_record(record, self._rows)
        self._count += 1
        if self._count == RECORDS_PER_CHECK:
            self._batches.end_rows(self.store, self.group)
            self._count = 0

    def state(self) -> FoldState:
        """Fold the topic events that are left, and return the state after all."""
        self._take_topics(NO_POSITION)
        self._batches.end_rows(self.store, self.group)
        topic_position = self._topics[-1].position if self._topics else 0
        return FoldState(self._history, self._position, self._number, topic_position)

    def _begin_with(self, state: FoldState) -> None:
        self._history, self._position, self._number, topic_position = state
        self._topic = sum(each.position <= topic_position for each in self._topics)
        self._take_topics(0)

    def _take_topics(self, before: int) -> None:
        """Fold the topic events before a position, and note the position of the next one."""
        topics = self._topics
        while self._topic < len(topics) and topics[self._topic].position < before:
            self._history.on_record(topics[self._topic], self._rows)
            self._topic += 1
        self._next_topic_position = topics[self._topic].position if self._topic < len(topics) else NO_POSITION


def records_of_batch(batch: pa.RecordBatch) -> Iterator[tuple[str, Record]]:
    """The events of a batch as records, each with its store."""
    columns = [
        (batch.column(name).cast(pa.binary()) if name in ("payload", "cause") else batch.column(name)).to_pylist()
        for name in Record.__struct_fields__
    ]
    return zip(batch.column("store").to_pylist(), map(Record, *columns), strict=True)
