"""Owners and gaps against the tables of the pipeline, which have code of their own for the same meaning."""

from collections.abc import Iterable, Iterator
from itertools import groupby

import pytest

pytest.importorskip("pyarrow")

from regroup.classroom.fold.build import timeline_of
from regroup.classroom.timeline import GroupTimeline
from regroup.storage.records import Record
from tests.classroom.histories import drawn_history, groups_of, scenario_history
from tests.pipeline.histories import all_rows

SEEDS = (4, 9, 11, 23, 31)
SCENARIOS = (
    "cooperative-pause",
    "eager-beside-cooperative",
    "static-member-back-inside-its-session",
    "kafkas-log-refuses-the-assignment",
    "coordinator-fails-over-mid-rebalance",
    "partitions-added-while-a-rebalance-runs",
)

Interval = tuple[str, int, str, int, int | None]


def history(source: int | str) -> tuple[Record, ...]:
    return drawn_history(source) if isinstance(source, int) else scenario_history(source)


def joined(intervals: Iterable[Interval]) -> set[Interval]:
    """Intervals of the same thing that touch, as one; those that took no time are left out."""
    found = set()
    for _, same in groupby(sorted(intervals, key=lambda each: (each[:4], each[4] or 10**15)), lambda each: each[:3]):
        open_one: Interval | None = None
        for each in same:
            if open_one is not None and open_one[4] == each[3]:
                open_one = (*open_one[:4], each[4])
                continue
            if open_one is not None and open_one[3] != open_one[4]:
                found.add(open_one)
            open_one = each
        if open_one is not None and open_one[3] != open_one[4]:
            found.add(open_one)
    return found


def owners(timeline: GroupTimeline) -> Iterator[Interval]:
    for partition, spans in timeline.ownership.items():
        for span in spans:
            for member_id in span.owners:
                ended_ms = span.ended.at_ms if span.ended else None
                yield partition.topic, partition.partition, member_id, span.began.at_ms, ended_ms


def gaps(timeline: GroupTimeline) -> Iterator[Interval]:
    for partition, spans in timeline.ownership.items():
        for span in spans:
            if not span.owners:
                ended_ms = span.ended.at_ms if span.ended else None
                yield partition.topic, partition.partition, "", span.began.at_ms, ended_ms


@pytest.mark.quick("-", "[9]", "[11]")
@pytest.mark.parametrize("source", [*SEEDS, *SCENARIOS])
def test_owners_and_gaps_equal_those_of_the_tables(source: int | str) -> None:
    records = history(source)
    for group in groups_of(records):
        timeline, rows = timeline_of(group, records), all_rows(records, group)
        in_table = joined(
            (row["topic"], row["partition"], row["member_id"], row["from_ms"], row["to_ms"])
            for table, row in rows
            if table == "ownership"
        )
        assert joined(owners(timeline)) == in_table
        gaps_in_table = joined(
            (row["topic"], row["partition"], "", row["from_ms"], row["to_ms"])
            for table, row in rows
            # The time since a removed member was last seen counts as a gap in the table, though it was the owner.
            if table == "gaps" and row["reason"] != "session-expiry"
        )
        assert joined(gaps(timeline)) == gaps_in_table
