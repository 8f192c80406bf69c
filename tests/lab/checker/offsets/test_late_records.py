"""Records that Kafka's log has not committed are given up at their deadline, and once."""

from regroup.coordinator.events import AppendTimedOut, CoordinatorLoaded, OffsetsWritten
from regroup.lab.checker.offsets.late_records import LateRecords


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
