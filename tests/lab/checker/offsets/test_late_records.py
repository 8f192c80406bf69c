"""Records that Kafka's log has not committed are given up at their deadline, and once."""

import pytest
from msgspec.structs import replace

from regroup.coordinator import commands as c
from regroup.coordinator.events import (
    AppendCommitted,
    AppendFailed,
    AppendTimedOut,
    CoordinatorLoaded,
    Event,
    GroupDeleted,
    OffsetsWritten,
)
from regroup.coordinator.group import Group, LogRecordKind, PendingAppend
from regroup.lab.checker.offsets.late_records import LateRecords
from tests.lab.checker.made_exchanges import made_exchange

EMPTY = Group(group_id="lab")
WAITS = replace(EMPTY, pending_appends={3: PendingAppend(kind=LogRecordKind.OFFSETS, deadline_ms=600)})
"""The record of event 3 has 500 ms from its commit on."""
COMMIT = c.OffsetCommit(group_id="lab", at_ms=100, offsets=(c.RequestedOffset("orders", 0, 7),))
HEARTBEAT = c.Heartbeat(group_id="lab", at_ms=0, member_id="anna", generation_id=1)


def written_at_3() -> LateRecords:
    late = LateRecords()
    assert list(late.on_stored("lab", 3, OffsetsWritten(at_ms=100, offsets={}, commit_deadline_ms=600))) == []
    return late


def timed_out(late: LateRecords, at_ms: int) -> list[str]:
    return list(late.on_stored("lab", 9, AppendTimedOut(at_ms=at_ms, append_number=3, reason="late")))


def test_a_record_may_time_out_at_its_deadline_or_later() -> None:
    assert timed_out(written_at_3(), 600) == []
    assert timed_out(written_at_3(), 9_000) == []


def test_a_record_that_times_out_early_is_found() -> None:
    assert timed_out(written_at_3(), 599) == ["record 3 times out 1 ms before its deadline"]


def test_a_record_that_times_out_again_is_found() -> None:
    late = written_at_3()
    assert timed_out(late, 600) == []
    assert timed_out(late, 700) == ["record 3 times out, and waits for nothing"]


def test_a_load_forgets_the_records() -> None:
    late = written_at_3()
    assert list(late.on_stored("lab", 4, CoordinatorLoaded(at_ms=200, reason="", subscribed_topics=None))) == []
    assert timed_out(late, 600) == ["record 3 times out, and waits for nothing"]


@pytest.mark.parametrize(
    "event",
    [
        AppendCommitted(at_ms=200, append_number=3),
        AppendFailed(at_ms=200, append_number=3, error_code=7, reason=""),
        GroupDeleted(at_ms=200, reason=""),
    ],
    ids=lambda event: type(event).__name__,
)
def test_a_record_that_is_committed_or_lost_has_no_deadline_any_more(event: Event) -> None:
    late = written_at_3()
    assert list(late.on_stored("lab", 4, event)) == []
    assert timed_out(late, 600) == ["record 3 times out, and waits for nothing"]


def committed_at(now_ms: int) -> LateRecords:
    late = LateRecords()
    assert list(late.on_command(made_exchange(COMMIT, EMPTY, WAITS), now_ms)) == []
    return late


def found_at(late: LateRecords, now_ms: int, group: Group = WAITS) -> list[str]:
    return list(late.on_command(made_exchange(HEARTBEAT, group), now_ms))


def test_a_record_that_still_waits_after_its_deadline_is_found_once() -> None:
    late = committed_at(5_000)
    assert found_at(late, 6_500) == [], "a timer may be a second late"
    assert found_at(late, 6_501) == ["record 3 still waits 1001 ms after its deadline"]
    assert found_at(late, 6_502) == []


def test_a_record_that_still_waits_is_found_when_it_is_committed_and_at_the_end_of_a_run() -> None:
    complete = c.CompleteAppend(group_id="lab", at_ms=0, append_number=3)
    found = ["record 3 still waits 2000 ms after its deadline"]
    assert list(committed_at(5_000).on_command(made_exchange(complete, WAITS, EMPTY), 7_500)) == found
    assert list(committed_at(5_000).overdue(WAITS, 7_500)) == found


def test_a_record_that_was_given_up_or_committed_waits_for_nothing() -> None:
    given_up = replace(WAITS, pending_appends={3: replace(WAITS.pending_appends[3], has_timed_out=True)})
    assert found_at(committed_at(5_000), 9_000, given_up) == []
    assert found_at(committed_at(5_000), 9_000, EMPTY) == []


def test_another_coordinator_does_not_know_the_record() -> None:
    late = committed_at(5_000)
    load = made_exchange(c.LoadGroup(group_id="lab", at_ms=0), WAITS, EMPTY)
    assert list(late.on_command(load, 9_000)) == []
    assert list(late.overdue(WAITS, 9_000)) == []
