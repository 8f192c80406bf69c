"""Rows of the table `commits`, kept as columns until they are written, since they are by far the most."""

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from regroup.coordinator.group import CommittedOffset, MemberId

RUN_TYPES: Final = {
    "position": pa.int64(),
    "coordinator_epoch": pa.int64(),
    "at_ms": pa.int64(),
    "member_id": pa.string(),
    "topic": pa.string(),
    "kind": pa.string(),
}


class CommitRun(NamedTuple):
    """What some rows in a row have in common: the columns of `RUN_TYPES`, and the number of all rows so far."""

    position: int
    coordinator_epoch: int
    at_ms: int
    member_id: MemberId | None
    topic: str
    kind: str
    end: int


class CommitRows:
    """Rows of the table `commits`. Those of one commit for one topic differ only in partition and offsets."""

    def __init__(self) -> None:
        self._runs: list[CommitRun] = []
        self.partitions: list[int] = []
        self._offsets: list[int] = []
        self._previous: list[int | None] = []

    def __len__(self) -> int:
        return len(self.partitions)

    def add(
        self,
        position: int,
        coordinator_epoch: int,
        at_ms: int,
        member_id: MemberId,
        topic: str,
        kind: str,
        offsets: Mapping[int, CommittedOffset],
        previous: list[CommittedOffset | None],
    ) -> None:
        """Add a row for each partition of a topic. `previous` has the offset that was committed before for each."""
        self.partitions += offsets
        self._offsets += [each.offset for each in offsets.values()]
        self._previous += [None if each is None else each.offset for each in previous]
        end = len(self.partitions)
        self._runs.append(CommitRun(position, coordinator_epoch, at_ms, member_id or None, topic, kind, end))

    def cut(self, rows: int) -> None:
        """Remove all but the first `rows` rows, which must not end within a commit."""
        while self._runs and self._runs[-1].end > rows:
            self._runs.pop()
        for column in (self.partitions, self._offsets, self._previous):
            del column[rows:]

    def columns(self) -> dict[str, pa.Array]:
        """The columns of all rows by name, except `store` and `group`. There must be a row."""
        *common, ends = zip(*self._runs, strict=True)
        run_ends = pa.array(ends, pa.int32())
        offsets, previous = pa.array(self._offsets, pa.int64()), pa.array(self._previous, pa.int64())
        columns: dict[str, Any] = {
            name: repeated(pa.array(values, kind), run_ends)
            for (name, kind), values in zip(RUN_TYPES.items(), common, strict=True)
        }
        return columns | {
            "partition": pa.array(self.partitions, pa.int32()),
            "offset": offsets,
            "previous_offset": previous,
            # A null counts as less than 0 here.
            "reprocessed": pc.max_element_wise(pc.subtract(previous, offsets), 0),
        }

    def clear(self) -> None:
        for column in (self._runs, self.partitions, self._offsets, self._previous):
            column.clear()


def repeated(values: pa.Array, run_ends: pa.Array) -> pa.Array:
    """Each value as many times as its run is long; `run_ends` are the numbers of rows up to the end of each run."""
    return pc.run_end_decode(pa.RunEndEncodedArray.from_arrays(run_ends, values))
