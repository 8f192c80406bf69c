"""The books of a run: which records were processed twice, late, or not at all."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regroup.members.runtime.workload import Ledger, Tally, Workload
from regroup.protocol.consumer.subscription import TopicPartition

ORDERS_0 = TopicPartition("orders", 0)


def after(*offsets: int, begins: int = 0, committed: int | None = None) -> Tally:
    ledger = Ledger()
    ledger.begins(ORDERS_0, begins)
    for offset in offsets:
        ledger.processed(ORDERS_0, offset, 0, 0)
    if committed is not None:
        ledger.committed(ORDERS_0, committed)
    return ledger.tally


def test_a_record_that_is_processed_again_counts_as_twice() -> None:
    assert after(0, 1, 2, 1, 2, 2) == Tally(processed=6, twice=3)


def test_a_record_is_skipped_once_the_group_has_committed_beyond_it() -> None:
    assert after(0, 1, 4).skipped == 0
    assert after(0, 1, 4, committed=3).skipped == 1
    assert after(0, 1, 4, committed=5).skipped == 2
    assert after(0, 1, 4, 2, committed=5).skipped == 1
    assert after(0, committed=3).skipped == 2


def test_what_lies_before_the_first_position_is_not_part_of_the_run() -> None:
    assert after(100, 101, begins=100, committed=102) == Tally(processed=2)


def test_a_record_is_late_if_it_waited_longer_than_agreed_and_only_the_first_time_counts() -> None:
    ledger = Ledger(late_after_ms=1_000)
    assert ledger.processed(ORDERS_0, 0, 0, 1_000)
    assert ledger.processed(ORDERS_0, 1, 0, 1_001)
    assert not ledger.processed(ORDERS_0, 1, 0, 9_999)
    assert ledger.tally == Tally(processed=3, twice=1, late=1)


@given(st.lists(st.integers(0, 20)), st.integers(0, 25))
def test_the_books_agree_with_counting_one_by_one(offsets: list[int], committed: int) -> None:
    counts = Counter(offsets)
    tally = after(*offsets, committed=committed)
    assert tally.processed == len(offsets)
    assert tally.twice == sum(count - 1 for count in counts.values())
    assert tally.skipped == sum(1 for offset in range(committed) if offset not in counts)


@pytest.mark.parametrize("wrong", [{"records_per_s": -1}, {"max_poll_records": 0}, {"process_ms": -0.5}, {"keys": -1}])
def test_a_workload_counts_nothing_below_zero(wrong: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=r"below zero|at least 1"):
        Workload(**wrong)  # type: ignore[arg-type]  # that is the point


def test_offsets_without_a_record_are_not_skipped() -> None:
    ledger = Ledger()
    ledger.begins(ORDERS_0, 0)
    for offset in (0, 1, 7, 8):
        ledger.processed(ORDERS_0, offset, 0, 0)
    ledger.committed(ORDERS_0, 9)
    assert ledger.tally.skipped == 5

    ledger.holds_nothing(ORDERS_0, 3, 6)
    assert ledger.tally.skipped == 2


def test_a_hole_that_a_reader_finds_ahead_of_what_is_processed_leaves_what_is_still_to_come() -> None:
    ledger = Ledger()
    ledger.begins(ORDERS_0, 0)
    ledger.processed(ORDERS_0, 0, 0, 0)
    ledger.holds_nothing(ORDERS_0, 3, 100)
    ledger.committed(ORDERS_0, 100)
    assert ledger.tally.skipped == 2

    assert [ledger.processed(ORDERS_0, offset, 0, 0) for offset in (1, 2)] == [True, True]
    assert ledger.tally.skipped == 0
