"""The tables, beside a count of the same events with code of its own, on many simulated runs."""

from collections import defaultdict
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import msgspec
import pytest

from regroup.coordinator import events as e
from regroup.coordinator.group import CommittedOffset
from regroup.coordinator.serialization import encode_event
from regroup.lab.simulation.run import play
from regroup.pipeline.gold.tables import TABLES
from regroup.storage.records import Record
from tests.lab.classic_plans import draw_classic_plan
from tests.pipeline.gold import recount
from tests.pipeline.histories import GROUP_ID, all_rows, crash_history, rows_of_table


def with_late_and_transactional_commits(records: Sequence[Record]) -> list[Record]:
    """A run, followed by commits of its last owners: late ones, and in transactions of which one is aborted."""
    owners = [row for row in rows_of_table(all_rows(records), "ownership") if row["to_ms"] is None]
    first, second, *_ = dict.fromkeys(str(row["member_id"]) for row in owners)
    last = max(record.event_number for record in records if record.group == GROUP_ID)
    at_ms = records[-1].at_ms
    events = [
        e.OffsetsWritten(offsets=offsets({0: 5, 1: 5}), member_id=first, commit_deadline_ms=at_ms + 9_000),
        e.TransactionalOffsetsWritten(producer_id=7, offsets=offsets({0: 6, 2: 6}), member_id=second),
        e.AppendCommitted(append_number=last + 1),
        e.OffsetsCommitted(offsets=offsets({2: 9}), member_id=first),
        e.TransactionalOffsetsWritten(producer_id=8, offsets=offsets({1: 99}), member_id=second),
        e.TransactionEnded(producer_id=8, committed=False),
        e.TransactionEnded(producer_id=7, committed=True),
        e.OffsetsCommitted(offsets=offsets({0: 2}), member_id=second),
        e.OffsetsCommitted(offsets=offsets({1: 3})),
    ]
    added = []
    for number, event in enumerate(events, 1):
        event = msgspec.structs.replace(event, at_ms=at_ms + number)
        stored = encode_event(GROUP_ID, last + number, 1, event, f'{{"api":"{number}"}}'.encode())
        added.append(stored.stored_at(records[-1].position + number))
    return [*records, *added]


def offsets(numbers: dict[int, int]) -> dict[str, dict[int, CommittedOffset]]:
    return {"orders": {index: CommittedOffset(offset=offset) for index, offset in numbers.items()}}


HISTORIES = {
    **{f"swarm-{seed}": lambda seed=seed: play(draw_classic_plan(seed)).records for seed in range(1, 31)},
    **{each: lambda each=each: crash_history(each, 5) for each in ("range", "cooperative-sticky")},
    "commits": lambda: with_late_and_transactional_commits(crash_history("range", 5)),
}


def complete(name: str, rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The rows with all columns, in an order of their own."""
    columns = [field.name for field in TABLES[name].fields]
    return sorted(({column: row.get(column) for column in columns} for row in rows), key=str)


@pytest.mark.quick("swarm-20", "swarm-21", "range", "commits")
@pytest.mark.parametrize("history", HISTORIES.values(), ids=HISTORIES)
def test_the_tables_equal_another_count_of_the_events(history: Any) -> None:
    records = history()
    rows = all_rows(records)
    for name, count in (("generation_members", recount.generation_members), ("commits", recount.commits)):
        found = complete(name, rows_of_table(rows, name))
        assert found == complete(name, count(records, GROUP_ID)), name
    check_last_commits(rows_of_table(rows, "ownership"), recount.commits(records, GROUP_ID))
    check_gaps(rows_of_table(rows, "gaps"), rows_of_table(rows, "ownership"))


def check_last_commits(ownership: Sequence[dict[str, Any]], commits: Sequence[dict[str, Any]]) -> None:
    """Each period of ownership has the time of its owner's last commit within it."""
    for period in ownership:
        times = [
            each["at_ms"]
            for each in commits
            if all(each[column] == period[column] for column in ("topic", "partition", "member_id"))
            and period["from_ms"] <= each["at_ms"] <= (period["to_ms"] or 2**62)
        ]
        assert period["last_commit_ms"] == max(times, default=None)


def check_gaps(gaps: Sequence[dict[str, Any]], ownership: Sequence[dict[str, Any]]) -> None:
    """No two gaps of a partition overlap, and one with an owner lies within its period and in no other's."""
    by_partition = defaultdict(list)
    for gap in gaps:
        by_partition[gap["topic"], gap["partition"]].append((gap["from_ms"], gap["to_ms"] or 2**62))
        assert (gap["reason"] == "session-expiry") == (gap.get("owner_id") is not None)
        if gap.get("owner_id"):
            of_partition = [
                each for each in ownership if (each["topic"], each["partition"]) == (gap["topic"], gap["partition"])
            ]
            assert [each for each in of_partition if is_removed_owner(each, gap)]
            assert not [
                each
                for each in of_partition
                if each["member_id"] != gap["owner_id"] and is_within(each, gap["to_ms"] - 1)
            ], "another member owned the partition"
    for periods in by_partition.values():
        assert all(before[1] <= after[0] for before, after in pairwise(sorted(periods)))


def is_removed_owner(period: dict[str, Any], gap: dict[str, Any]) -> bool:
    """Whether the period is that of the member of a gap, and includes the gap."""
    return (
        (period["member_id"], period["ended_by"]) == (gap["owner_id"], "removed")
        and period["from_ms"] <= gap["from_ms"]
        and gap["to_ms"] <= period["to_ms"]
    )


def is_within(period: dict[str, Any], at_ms: int) -> bool:
    return bool(period["from_ms"] <= at_ms < (period["to_ms"] or 2**62))


def test_late_and_transactional_commits_have_the_member_that_wrote_the_offset() -> None:
    records = with_late_and_transactional_commits(crash_history("range", 5))
    rows = [row for row in rows_of_table(all_rows(records), "commits") if row["kind"] != "immediate"]
    assert [(row["kind"], row["partition"], row["offset"]) for row in rows] == [
        ("delayed", 0, 5),
        ("delayed", 1, 5),
        ("transactional", 0, 6),
    ]
    late, _, transactional = [row["member_id"] for row in rows]
    assert None not in (late, transactional)
    assert late != transactional
