"""The format `regroup` of Spark: the events of many stores as one table, at rest or as they are written.

    spark.read.format("regroup").load("runs/*.db")      # or a list of files and patterns
    spark.read.format("regroup").option("group", "payments").option("after", 1000).load("regroup.db")
    spark.readStream.format("regroup").load("regroup.db").writeStream…

Options: `group`, `type` (several with commas), `after` and `until` (positions), `on_error` (`fail`, or `skip` to leave
bad stores out and name them), `rows_per_split` (events that one task reads), for streams `rows_per_batch`, and
`pushdown` (`true` hands the filters of the one query that a load is used for to the stores).

Why `pushdown` must be asked for: Spark 4.3 keeps what was pushed with the loaded table, not with the query. Of
`a = df.where(…)`, `b = df.where(…)`, `a.union(b)` reads b's events twice, and a later `df.count()` counts b's alone.
The options above say the same, and hold for the table as a whole.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, cast

import msgspec
import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, Filter, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from regroup.pipeline.source.arrow_rows import SCHEMA, StoreReader
from regroup.pipeline.source.columns import EVENTS
from regroup.pipeline.source.pushdown import (
    BadOption,
    Condition,
    as_sql,
    check_names,
    from_options,
    narrowed,
    position_bounds,
    pushed,
    true_or_false,
    whole_number,
)
from regroup.pipeline.source.stores import ON_ERROR, OnError, StoreSeen, check_place, files_of, look_at_all, seen_among
from regroup.storage.errors import PositionTrimmed, StoreIsDamaged

ROWS_PER_SPLIT: Final = 250_000

OPTIONS: Final = ("group", "type", "after", "until", "on_error", "rows_per_split", "rows_per_batch", "pushdown")
FROM_SPARK: Final = ("path", "paths")
"""How Spark hands on what `load` was given."""

WITH_STORE: Final = pa.schema([pa.field("store", pa.string()), *SCHEMA])


@dataclass(frozen=True)
class Split(InputPartition):
    """What one task reads: after < position <= through of one store."""

    path: str
    after: int
    through: int
    host: str
    """Where the store was found."""


class RegroupSource(DataSource):
    """Spark makes one for each table that is read."""

    @classmethod
    def name(cls) -> str:
        return "regroup"

    def schema(self) -> str:
        return EVENTS

    def reader(self, schema: StructType) -> BatchReader:
        return BatchReader(self.options)

    def streamReader(self, schema: StructType) -> StreamReader:
        return StreamReader(self.options)


class Options:
    """What the user asked for. Raises BadOption."""

    def __init__(self, options: Mapping[str, str]) -> None:
        check_names({name: value for name, value in options.items() if name not in FROM_SPARK}, OPTIONS)
        self.patterns = patterns_in(options)
        on_error = options.get("on_error", "fail")
        if on_error not in ON_ERROR:
            raise BadOption(f"The option on_error is one of {', '.join(ON_ERROR)}, not {on_error!r}.")
        self.on_error = cast(OnError, on_error)
        self.after, self.until = position_bounds(options)
        self.rows_per_split = max(1, whole_number(options, "rows_per_split", ROWS_PER_SPLIT))
        self.rows_per_batch = whole_number(options, "rows_per_batch")
        self.conditions = from_options(options)
        self.pushdown = true_or_false(options, "pushdown")

    def stores(self) -> list[StoreSeen]:
        """Every store that can be read now."""
        return seen_among(look_at_all(files_of(self.patterns), self.on_error))

    def splits(self, store: StoreSeen, after: int, through: int) -> Iterator[Split]:
        """The range cut into tasks, each with as many events as another."""
        for start in range(after, through, self.rows_per_split):
            yield Split(store.path, start, min(start + self.rows_per_split, through), store.host)


def patterns_in(options: Mapping[str, str]) -> str:
    """What `load` was given: Spark has one path as `path`, and several as a JSON list, `paths`."""
    try:
        several = msgspec.json.decode(options.get("paths", "[]"), type=list[str])
    except msgspec.DecodeError as error:
        raise BadOption(f"The option paths is a JSON list of files and patterns ({error}).") from error
    patterns = [each for each in (options.get("path", ""), *several) if each]
    if not patterns:
        raise BadOption("The format regroup needs a file or a pattern: .load('runs/*.db').")
    return ",".join(patterns)


def read_split(split: Split, conditions: Iterable[Condition]) -> Iterator[pa.RecordBatch]:
    """The events of a split with the name of their store. Raises a StoreError."""
    path = Path(split.path)
    check_place(path, split.host)
    condition = as_sql(conditions)
    with StoreReader(path) as reader:
        for batch in reader.events(split.after, split.through, condition.sql, condition.parameters):
            store = pa.DictionaryArray.from_arrays(pa.array([0] * batch.num_rows, pa.int32()), [split.path])
            arrays = [store.cast(pa.string()), *batch.columns]
            yield pa.RecordBatch.from_arrays(arrays, schema=WITH_STORE)


class BatchReader(DataSourceReader):
    """A store that is still written is read up to its last commit as the query is planned."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self._options = Options(options)
        self._conditions = list(self._options.conditions)
        self._filters: list[Filter] = []

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:
        for each in filters:
            condition = pushed(each) if self._options.pushdown else None
            if condition is None:
                yield each
            else:
                self._conditions.append(condition)
                self._filters.append(each)

    def partitions(self) -> Sequence[Split]:
        return [split for store in self._options.stores() for split in self._splits_of(store)]

    def _splits_of(self, store: StoreSeen) -> Iterator[Split]:
        last = store.last if self._options.until is None else min(store.last, self._options.until)
        after, through = narrowed(self._filters, max(self._options.after, store.trimmed_through), last)
        return self._options.splits(store, after, through)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, Split)
        return read_split(partition, self._conditions)


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Offsets are positions, by store: {"/runs/a.db": 1200}. Stores that appear later are read from their start."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self._options = Options(options)
        self._target: dict[str, int] | None = None

    def initialOffset(self) -> dict[str, int]:
        return {}

    def getDefaultReadLimit(self) -> ReadLimit:
        rows = self._options.rows_per_batch
        return ReadMaxRows(rows) if rows else ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:
        self._target = self._ends()

    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:
        ends = self._ends() if self._target is None else self._target
        left = limit.max_rows if isinstance(limit, ReadMaxRows) else None
        reached = dict(start)
        for path, last in ends.items():
            begin = reached.get(path, self._options.after)
            step = max(0, last - begin) if left is None else min(left, max(0, last - begin))
            left = None if left is None else left - step
            if step or path in reached:
                reached[path] = begin + step
        return dict(sorted(reached.items()))

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[Split]:
        stores = {store.path: store for store in self._options.stores()} if start != end else {}
        return [
            split for path, through in end.items() for split in self._splits_between(stores, path, start, int(through))
        ]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, Split)
        return read_split(partition, self._options.conditions)

    def _ends(self) -> dict[str, int]:
        until = self._options.until
        return {store.path: store.last if until is None else min(store.last, until) for store in self._options.stores()}

    def _splits_between(
        self, stores: Mapping[str, StoreSeen], path: str, start: Mapping[str, Any], through: int
    ) -> Iterator[Split]:
        """What was promised must still be there. Only a stream that begins now may begin behind what was trimmed."""
        after = int(start.get(path, self._options.after))
        if after >= through:
            return
        store = stores.get(path)
        if store is None:
            raise StoreIsDamaged(f"{path} has gone while the stream was reading it: put it back, or begin anew.")
        if store.last < through:
            raise StoreIsDamaged(
                f"{path} ends at position {store.last}, and this stream has seen {through} already: it is another "
                "store under the same name. Give it another name, or begin with a new checkpoint."
            )
        if path in start and after < store.trimmed_through:
            raise PositionTrimmed(after, store.trimmed_through)
        yield from self._options.splits(store, max(after, store.trimmed_through), through)
