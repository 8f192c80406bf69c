"""Folds all groups in parallel: events in, rows of all tables out."""

from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema

from regroup.pipeline.gold.group_history import TOPIC_EVENT_TYPES, GroupHistory
from regroup.pipeline.gold.table_builder import TableRow
from regroup.pipeline.gold.tables import KEY_FIELDS, TABLES
from regroup.storage.records import Record

FOLDED_SCHEMA: Final = pa.schema(
    [
        *((field.name, field.type) for field in KEY_FIELDS),
        ("table", pa.string()),
        *((name, table.struct) for name, table in TABLES.items()),
    ]
)
"""One schema for the rows of all tables, so that the events are read once: `table` names the one struct that is set."""

TASKS_PER_CORE: Final = 4
"""Several, since groups differ in length."""


def fold_groups(events: DataFrame) -> DataFrame:
    """The rows of all tables in `FOLDED_SCHEMA`. Each group is folded by one task, however long its history is."""
    cores = events.sparkSession.sparkContext.defaultParallelism
    in_order = (
        with_topics(events)
        .repartition(TASKS_PER_CORE * cores, "store", "group")
        # Spark keeps this order, since its first columns are those of the grouping; `fold_group` checks it.
        .sortWithinPartitions("store", "group", "position")
    )
    return in_order.groupBy("store", "group").applyInArrow(fold_group, from_arrow_schema(FOLDED_SCHEMA))


def with_topics(events: DataFrame) -> DataFrame:
    """The events of groups, and for each group a copy of its store's topic events."""
    of_groups = events.where(F.col("group").isNotNull())
    topics = events.where(F.col("group").isNull() & F.col("type").isin(*TOPIC_EVENT_TYPES)).drop("group")
    groups = of_groups.select("store", "group").distinct()
    return of_groups.unionByName(F.broadcast(topics).join(groups, "store").select(*events.columns))


def fold_group(key: tuple[pa.Scalar, ...], batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The rows of one group. Raises RuntimeError if its events are not in order."""
    store, group = (each.as_py() for each in key)
    history, last = GroupHistory(group), 0
    for batch in batches:
        # A snapshot may have the position of the last event that it includes.
        positions = [last, *batch.column("position").to_pylist()]
        if positions != sorted(positions):
            raise RuntimeError(
                f"Spark passed the events of group {group} in another order than that of their positions."
            )
        last = positions[-1]
        rows = chain.from_iterable(history.on_record(record) for record in records_of_batch(batch))
        yield from folded_rows(store, group, rows)
    yield from folded_rows(store, group, history.on_end())


def records_of_batch(batch: pa.RecordBatch) -> Iterator[Record]:
    """The events of a batch as records."""
    columns = [
        (batch.column(name).cast(pa.binary()) if name in ("payload", "cause") else batch.column(name)).to_pylist()
        for name in Record.__struct_fields__
    ]
    for row in zip(*columns, strict=True):
        yield Record(*row)


def folded_rows(store: str, group: str, rows: Iterable[TableRow]) -> Iterator[pa.RecordBatch]:
    """One batch with the rows of all tables, one table after another; none if there are no rows."""
    by_table: dict[str, list[dict[str, Any]]] = {name: [] for name in TABLES}
    for name, row in rows:
        by_table[name].append(row)
    total = sum(map(len, by_table.values()))
    if not total:
        return
    names = chain.from_iterable([name] * len(found) for name, found in by_table.items())
    arrays = [pa.array([store] * total), pa.array([group] * total), pa.array(list(names), pa.string())]
    start = 0
    for name, found in by_table.items():
        struct, end = TABLES[name].struct, start + len(found)
        arrays.append(
            pa.concat_arrays([pa.nulls(start, struct), pa.array(found, struct), pa.nulls(total - end, struct)])
        )
        start = end
    yield pa.RecordBatch.from_arrays(arrays, schema=FOLDED_SCHEMA)
