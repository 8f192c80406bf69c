"""The ledger of a group: records that were processed twice, late, or not at all."""

from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regroup.members.runtime.workload import RecordCounts, RecordLedger, Workload
from regroup.protocol.consumer.subscription import TopicPartition

ORDERS_0 = TopicPartition("orders", 0)


def counts_after(*offsets: int, start: int = 0, committed: int | None = None) -> RecordCounts:
    ledger = RecordLedger()
    ledger.start_partition(ORDERS_0, start)
    for offset in offsets:
        ledger.record_processed(ORDERS_0, offset, 0, 0)
    if committed is not None:
        ledger.record_committed(ORDERS_0, committed)
    return ledger.counts


def test_a_record_that_is_processed_again_is_a_duplicate() -> None:
    assert counts_after(0, 1, 2, 1, 2, 2) == RecordCounts(processed=6, duplicates=3)


def test_a_record_is_skipped_once_a_later_offset_is_committed() -> None:
    assert counts_after(0, 1, 4).skipped == 0
    assert counts_after(0, 1, 4, committed=3).skipped == 1
    assert counts_after(0, 1, 4, committed=5).skipped == 2
    assert counts_after(0, 1, 4, 2, committed=5).skipped == 1
    assert counts_after(0, committed=3).skipped == 2


def test_records_before_the_first_position_do_not_count() -> None:
    assert counts_after(100, 101, start=100, committed=102) == RecordCounts(processed=2)


def test_a_record_below_the_first_known_one_is_processed_for_the_first_time() -> None:
    """The group was reset to an earlier offset; the records between are still to come."""
    assert counts_after(5, 3, start=5, committed=6) == RecordCounts(processed=2, skipped=1)
    assert counts_after(5, 3, 4, start=5, committed=6) == RecordCounts(processed=3)
    assert counts_after(5, 3, 1, 3, start=5, committed=6) == RecordCounts(processed=4, duplicates=1, skipped=2)


def test_keys_have_at_least_the_size_that_is_asked_for() -> None:
    workload = Workload(keys=2, key_bytes=8)
    assert [workload.key(number) for number in range(3)] == [b"key-0...", b"key-1...", b"key-0..."]
    assert Workload().key(0) is None


def test_a_record_is_late_if_it_is_first_processed_after_late_after_ms() -> None:
    ledger = RecordLedger(late_after_ms=1_000)
    assert ledger.record_processed(ORDERS_0, 0, 0, 1_000)
    assert ledger.record_processed(ORDERS_0, 1, 0, 1_001)
    assert not ledger.record_processed(ORDERS_0, 1, 0, 9_999)
    assert ledger.counts == RecordCounts(processed=3, duplicates=1, late=1)


@given(st.lists(st.integers(0, 20)), st.integers(0, 25))
def test_the_ledger_agrees_with_counting_one_by_one(offsets: list[int], committed: int) -> None:
    times = Counter(offsets)
    counts = counts_after(*offsets, committed=committed)
    assert counts.processed == len(offsets)
    assert counts.duplicates == sum(count - 1 for count in times.values())
    assert counts.skipped == sum(1 for offset in range(committed) if offset not in times)


@pytest.mark.parametrize("wrong", [{"records_per_s": -1}, {"max_poll_records": 0}, {"process_ms": -0.5}, {"keys": -1}])
def test_a_workload_refuses_negative_values(wrong: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=r"must be at least [01], not"):
        Workload(**wrong)  # type: ignore[arg-type]  # of several types


@pytest.mark.parametrize("name", ["records_per_s", "process_ms"])
@pytest.mark.parametrize("value", [float("inf"), float("nan")])
def test_a_workload_of_a_rate_or_time_that_is_no_finite_number_is_refused(name: str, value: float) -> None:
    with pytest.raises(ValueError, match=f"{name} must be a finite number, not {value}"):
        replace(Workload(), **{name: value})


@pytest.mark.parametrize("name", ["process_ms", "keys", "key_bytes", "value_bytes", "max_poll_records"])
@pytest.mark.parametrize("value", [2**31, 10**400])
def test_a_workload_with_a_number_above_those_of_the_protocol_is_refused(name: str, value: int) -> None:
    with pytest.raises(ValueError, match=f"{name} must be at most 2147483647, not {value}"):
        replace(Workload(), **{name: value})


def test_a_workload_of_more_records_than_a_producer_can_write_is_refused() -> None:
    with pytest.raises(ValueError, match="records_per_s must be at most 100000, not 1000000"):
        Workload(records_per_s=1e9)
    with pytest.raises(ValueError, match="records_per_s must be at most 100000, not 1000000"):
        Workload(records_per_s=10**400)


def test_offsets_without_a_record_are_not_skipped() -> None:
    ledger = RecordLedger()
    ledger.start_partition(ORDERS_0, 0)
    for offset in (0, 1, 7, 8):
        ledger.record_processed(ORDERS_0, offset, 0, 0)
    ledger.record_committed(ORDERS_0, 9)
    assert ledger.counts.skipped == 5

    ledger.skip_offsets(ORDERS_0, 3, 6)
    assert ledger.counts.skipped == 2


def test_a_gap_ahead_of_the_processed_records_leaves_those_before_it_to_come() -> None:
    ledger = RecordLedger()
    ledger.start_partition(ORDERS_0, 0)
    ledger.record_processed(ORDERS_0, 0, 0, 0)
    ledger.skip_offsets(ORDERS_0, 3, 100)
    ledger.record_committed(ORDERS_0, 100)
    assert ledger.counts.skipped == 2

    assert [ledger.record_processed(ORDERS_0, offset, 0, 0) for offset in (1, 2)] == [True, True]
    assert ledger.counts.skipped == 0
