"""Every group's history folded in parallel: events in, rows of all tables out."""

from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema

from regroup.pipeline.gold.group_history import TOPIC_EVENTS, Chronicle
from regroup.pipeline.gold.tables import KEYS, TABLES
from regroup.pipeline.gold.transition import Row
from regroup.storage.records import Record

WIDE: Final = pa.schema(
    [
        *((field.name, field.type) for field in KEYS),
        ("table", pa.string()),
        *((name, table.struct) for name, table in TABLES.items()),
    ]
)
"""Rows of every table in one: `table` names the column that is filled. So one pass over the events is enough."""

TASKS_PER_CORE: Final = 4
"""Groups differ in length, and small tasks level that out."""


def fold(events: DataFrame) -> DataFrame:
    """The rows of every table, in the shape of `WIDE`. Each group is folded by one task, however long it is."""
    cores = events.sparkSession.sparkContext.defaultParallelism
    in_order = (
        with_topics(events)
        .repartition(TASKS_PER_CORE * cores, "store", "group")
        # Spark keeps this order, since it begins as the grouping needs it; `chronicle_of` makes sure.
        .sortWithinPartitions("store", "group", "position")
    )
    return in_order.groupBy("store", "group").applyInArrow(chronicle_of, from_arrow_schema(WIDE))


def with_topics(events: DataFrame) -> DataFrame:
    """Events of groups, and to each group also what happened to its store's topics."""
    of_groups = events.where(F.col("group").isNotNull())
    topics = events.where(F.col("group").isNull() & F.col("type").isin(*TOPIC_EVENTS)).drop("group")
    groups = of_groups.select("store", "group").distinct()
    return of_groups.unionByName(F.broadcast(topics).join(groups, "store").select(*events.columns))


def chronicle_of(key: tuple[pa.Scalar, ...], batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """One group's rows."""
    store, group = (each.as_py() for each in key)
    chronicle = Chronicle(group)
    last = 0
    for batch in batches:
        # A snapshot may stand at the position of the last event that it covers.
        positions = [last, *batch.column("position").to_pylist()]
        if positions != sorted(positions):
            raise RuntimeError(f"Spark handed the events of group {group} in another order than they happened in.")
        last = positions[-1]
        rows = chain.from_iterable(chronicle.reads(record) for record in records_in(batch))
        yield from wide(store, group, rows)
    yield from wide(store, group, chronicle.ends())


def records_in(batch: pa.RecordBatch) -> Iterator[Record]:
    """The records of a batch."""
    columns = [batch.column(name) for name in Record.__struct_fields__]
    texts = {"payload", "cause"}
    values = [
        (column.cast(pa.binary()) if name in texts else column).to_pylist()
        for name, column in zip(Record.__struct_fields__, columns, strict=True)
    ]
    for row in zip(*values, strict=True):
        yield Record(*row)


def wide(store: str, group: str, rows: Iterable[Row]) -> Iterator[pa.RecordBatch]:
    """Rows of several tables as one batch: below one another, each in its own column."""
    by_table: dict[str, list[dict[str, Any]]] = {}
    for name, row in rows:
        by_table.setdefault(name, []).append(row)
    total = sum(map(len, by_table.values()))
    if not total:
        return
    names = list(chain.from_iterable([name] * len(found) for name, found in by_table.items()))
    arrays = [pa.array([store] * total), pa.array([group] * total), pa.array(names)]
    before = dict(zip(by_table, running_totals(len(found) for found in by_table.values()), strict=True))
    for name, table in TABLES.items():
        found = by_table.get(name, [])
        start = before.get(name, 0)
        parts = [
            pa.nulls(start, table.struct),
            pa.array(found, table.struct),
            pa.nulls(total - start - len(found), table.struct),
        ]
        arrays.append(pa.concat_arrays(parts))
    yield pa.RecordBatch.from_arrays(arrays, schema=WIDE)


def running_totals(counts: Iterable[int]) -> Iterator[int]:
    """What comes before each."""
    total = 0
    for count in counts:
        yield total
        total += count
