"""The Spark format `regroup`: the events of many stores as one table, in batch or as a stream.

    spark.read.format("regroup").load("runs/*.db")      # or a list of files and patterns
    spark.read.format("regroup").option("group", "payments").option("after", 1000).load("regroup.db")
    spark.readStream.format("regroup").load("regroup.db").writeStream…

Options: `group`, `type` (several with commas), `after` and `until` (positions), `on_error` (`fail`, or `skip` to leave
bad stores out and name them), `rows_per_split` (events that one task reads), for streams `rows_per_batch`, and
`pushdown` (`true` passes the filters of a query to the stores; use each loaded table for one query only).

Why `pushdown` is not the default: Spark 4.3 keeps pushed filters with the loaded table, not with the query. For
`a = df.where(…)`, `b = df.where(…)`, `a.union(b)` reads b's events twice, and a later `df.count()` counts b's alone.
The other options apply to the loaded table as a whole.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple, cast

import msgspec
import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, Filter, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from regroup.coordinator.serialization import EVENT_TYPES
from regroup.pipeline.source.columns import EVENTS_DDL, STORE_EVENT_SCHEMA
from regroup.pipeline.source.pushdown import SqlCondition, narrow_positions, one_of, to_condition
from regroup.pipeline.source.store_reader import StoreReader
from regroup.pipeline.source.stores import (
    ON_ERROR_CHOICES,
    OnError,
    SkippedStore,
    StoreExtent,
    check_host,
    find_stores,
    inspect_stores,
)
from regroup.server.cluster.events import CLUSTER_EVENT_TYPES
from regroup.storage.errors import PositionTrimmed, StoreDamaged

__all__ = ["RegroupSource"]

DEFAULT_ROWS_PER_SPLIT: Final = 250_000

OPTION_NAMES: Final = ("group", "type", "after", "until", "on_error", "rows_per_split", "rows_per_batch", "pushdown")
MAX_DIGITS: Final = 4_300
"""Of a whole number in an option: Python reads no longer ones."""
KNOWN_TYPES: Final = EVENT_TYPES.keys() | CLUSTER_EVENT_TYPES.keys()
SPARK_OPTION_NAMES: Final = ("path", "paths")
"""Options in which Spark passes the argument of `load`."""


class InvalidOption(ValueError):
    """Raised for an option of the data source that is unknown, or has an invalid value."""


@dataclass(frozen=True)
class StoreSplit(InputPartition):
    """The events that one task reads: those of one store with after < position <= through."""

    path: str
    after: int
    through: int
    host: str
    """The name of the machine that inspected the store."""


class RegroupSource(DataSource):
    """The data source that Spark creates for each `load`."""

    @classmethod
    def name(cls) -> str:
        return "regroup"

    def schema(self) -> str:
        return EVENTS_DDL

    def reader(self, schema: StructType) -> StoreBatchReader:
        return StoreBatchReader(self.options)

    def streamReader(self, schema: StructType) -> StoreStreamReader:
        return StoreStreamReader(self.options)


class SourceOptions:
    """The options of one `load`, parsed and checked. Raises InvalidOption."""

    def __init__(self, options: Mapping[str, str]) -> None:
        for name in options:
            if name not in (*OPTION_NAMES, *SPARK_OPTION_NAMES):
                raise InvalidOption(f"The format regroup has no option {name}; there are {', '.join(OPTION_NAMES)}.")
        self.patterns = parse_patterns(options)
        self.on_error = cast(OnError, parse_choice(options, "on_error", ON_ERROR_CHOICES))
        self.after = parse_whole_number(options, "after", 0)
        self.until = parse_whole_number(options, "until", 0) if "until" in options else None
        self.rows_per_split = max(1, parse_whole_number(options, "rows_per_split", DEFAULT_ROWS_PER_SPLIT))
        self.rows_per_batch = parse_whole_number(options, "rows_per_batch", 0)
        self.pushdown = parse_choice(options, "pushdown", ("false", "true")) == "true"
        self.conditions: list[SqlCondition] = []
        if "group" in options:
            self.conditions.append(one_of("group", [options["group"]]))
        if "type" in options:
            self.conditions.append(one_of("type", parse_types(options["type"])))

    def stores(self) -> list[StoreExtent]:
        """Every store that can be read now. Stores that are skipped are named on standard error."""
        stores = []
        for each in inspect_stores(find_stores(self.patterns), self.on_error):
            if isinstance(each, SkippedStore):
                print(f"regroup: skipped: {each.reason}", file=sys.stderr)
            else:
                stores.append(each)
        return stores

    def last_position(self, store: StoreExtent) -> int:
        """The last position to read from a store: the option `until`, or the store's last position if that is lower."""
        return store.last_position if self.until is None else min(store.last_position, self.until)

    def splits(self, store: StoreExtent, after: int, through: int) -> Iterator[StoreSplit]:
        """Yield tasks of equal size for the events of a store with after < position <= through."""
        for start in range(after, through, self.rows_per_split):
            yield StoreSplit(store.path, start, min(start + self.rows_per_split, through), store.host)


def parse_patterns(options: Mapping[str, str]) -> str:
    """The paths and patterns in the argument of `load`, with commas.

    Spark passes one path as the option `path`, and several as `paths`, a JSON list.
    """
    try:
        several = msgspec.json.decode(options.get("paths", "[]"), type=list[str])
    except msgspec.DecodeError as error:
        raise InvalidOption(f"The option paths is a JSON list of files and patterns ({error}).") from error
    patterns = [each for each in (options.get("path", ""), *several) if each]
    if not patterns:
        raise InvalidOption("The format regroup needs a file or a pattern: .load('runs/*.db').")
    return ",".join(patterns)


def parse_types(text: str) -> list[str]:
    """The event types in a text with commas. Raises InvalidOption for one that no event has."""
    types = [each.strip() for each in text.split(",")]
    if unknown := [each for each in types if each not in KNOWN_TYPES]:
        raise InvalidOption(
            f"The option type of the format regroup names no event type with {', '.join(map(repr, unknown))}; "
            f"there are {', '.join(sorted(KNOWN_TYPES))}."
        )
    return types


def parse_whole_number(options: Mapping[str, str], name: str, default: int) -> int:
    text = options.get(name, str(default))
    if not text.isascii() or not text.isdigit() or len(text) > MAX_DIGITS:
        raise InvalidOption(f"The option {name} of the format regroup is a whole number, not {text!r}.")
    return int(text)


def parse_choice(options: Mapping[str, str], name: str, choices: Sequence[str]) -> str:
    """The value of an option, which must be one of the choices. The first choice is the default."""
    text = options.get(name, choices[0]).lower()
    if text not in choices:
        raise InvalidOption(
            f"The option {name} of the format regroup is {' or '.join(choices)}, not {options[name]!r}."
        )
    return text


def read_split(split: StoreSplit, conditions: Sequence[SqlCondition]) -> Iterator[pa.RecordBatch]:
    """Yield the events of a split that fulfil the conditions, with the name of their store. Raises a StoreError."""
    path = Path(split.path)
    check_host(path, split.host)
    sql = " ".join(f"AND {condition.sql}" for condition in conditions)
    parameters = [value for condition in conditions for value in condition.parameters]
    with StoreReader(path) as reader:
        for batch in reader.events(split.after, split.through, sql, parameters):
            store = pa.DictionaryArray.from_arrays(pa.array([0] * batch.num_rows, pa.int32()), [split.path])
            arrays = [store.cast(pa.string()), *batch.columns]
            yield pa.RecordBatch.from_arrays(arrays, schema=STORE_EVENT_SCHEMA)


class StoreBatchReader(DataSourceReader):
    """Reads each store in a batch query, up to the store's last commit when the query is planned."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self._options = SourceOptions(options)
        self._conditions = list(self._options.conditions)
        self._filters: list[Filter] = []

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:
        for each in filters:
            condition = to_condition(each) if self._options.pushdown else None
            if condition is None:
                yield each
            else:
                self._conditions.append(condition)
                self._filters.append(each)

    def partitions(self) -> Sequence[StoreSplit]:
        splits: list[StoreSplit] = []
        for store in self._options.stores():
            first, last = max(self._options.after, store.trimmed_through), self._options.last_position(store)
            splits += self._options.splits(store, *narrow_positions(self._filters, first, last))
        return splits

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, StoreSplit)
        return read_split(partition, self._conditions)


class StoreBounds(NamedTuple):
    """The events of a store that a new stream reads: those with after < position <= through."""

    after: int
    through: int


class StoreStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads stores as they grow. A stream's offsets are positions by store: {"/runs/a.db": 1200}.

    A store that appears later is read from its start.
    """

    def __init__(self, options: Mapping[str, str]) -> None:
        self._options = SourceOptions(options)
        self._target: dict[str, StoreBounds] | None = None

    def initialOffset(self) -> dict[str, int]:
        return {}

    def getDefaultReadLimit(self) -> ReadLimit:
        return ReadMaxRows(self._options.rows_per_batch) if self._options.rows_per_batch else ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:
        self._target = self._bounds()

    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:
        bounds = self._bounds() if self._target is None else self._target
        remaining = limit.max_rows if isinstance(limit, ReadMaxRows) else None
        offsets = dict(start)
        for path, (after, last) in bounds.items():
            begin = offsets.get(path, after)
            step = max(0, last - begin)
            if remaining is not None:
                step = min(remaining, step)
                remaining -= step
            if step or path in offsets:
                offsets[path] = begin + step
        return dict(sorted(offsets.items()))

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[StoreSplit]:
        stores = {store.path: store for store in self._options.stores()} if start != end else {}
        return [
            split for path, through in end.items() for split in self._splits_between(stores, path, start, int(through))
        ]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, StoreSplit)
        return read_split(partition, self._options.conditions)

    def _bounds(self) -> dict[str, StoreBounds]:
        """Of each store the position after which a new stream begins, and the last position to read."""
        return {
            store.path: StoreBounds(max(self._options.after, store.trimmed_through), self._options.last_position(store))
            for store in self._options.stores()
        }

    def _splits_between(
        self, stores: Mapping[str, StoreExtent], path: str, start: Mapping[str, Any], through: int
    ) -> Iterator[StoreSplit]:
        """The splits of one store. Only a new stream may begin after the trimmed events; raises a StoreError."""
        after = int(start.get(path, self._options.after))
        if after >= through:
            return
        store = stores.get(path)
        if store is None:
            raise StoreDamaged(
                f"{path} was removed while the stream was reading it: restore it, or start a new stream."
            )
        if store.last_position < through:
            raise StoreDamaged(
                f"{path} ends at position {store.last_position}, and this stream has already read up to {through}: it "
                "is another store under the same name. Give it another name, or begin with a new checkpoint."
            )
        if path in start and after < store.trimmed_through:
            raise PositionTrimmed(after, store.trimmed_through)
        yield from self._options.splits(store, max(after, store.trimmed_through), through)
