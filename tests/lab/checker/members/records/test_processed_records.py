"""What a group's ledger counts is compared with sets of the offsets that its members have processed."""

import pytest

from regroup.coordinator.group import CommittedOffset
from regroup.lab.checker.members.member_invariants import NO_RECORD_SKIPPED, MemberChecker
from regroup.lab.checker.members.records.processed_records import (
    COUNTED_AS_IT_WAS,
    ProcessedRecords,
    first_difference,
    merged,
)
from regroup.members.runtime.workload import _Partition
from regroup.protocol.consumer.subscription import TopicPartition

ORDERS_0 = TopicPartition("orders", 0)


def test_a_record_that_is_counted_as_something_else_than_it_was_is_found() -> None:
    processed = ProcessedRecords()
    processed.start(ORDERS_0, 5)
    for offset, is_first in ((5, True), (5, False), (0, True), (1, True), (0, False)):
        processed.add(ORDERS_0, offset, is_first=is_first)
    assert processed.miscounted == []
    processed.add(ORDERS_0, 2, is_first=False)
    processed.add(ORDERS_0, 1, is_first=True)
    assert [each.rpartition(" is ")[2] for each in processed.miscounted] == [
        "processed again",
        "processed for the first time",
    ]


def test_an_offset_without_a_record_is_not_missing_and_may_count_as_anything() -> None:
    processed = ProcessedRecords()
    processed.skip(ORDERS_0, 0, 9)
    processed.start(ORDERS_0, 2)
    processed.skip(ORDERS_0, 3, 5)
    processed.add(ORDERS_0, 3, is_first=False)
    assert processed.miscounted == []
    assert processed.missing(ORDERS_0, 0, 7) == [(2, 3), (5, 7)]
    assert processed.missing(ORDERS_0, 6, 7) == [(6, 7)]


def test_a_topic_that_is_created_again_has_no_processed_records() -> None:
    processed = ProcessedRecords()
    processed.add(ORDERS_0, 2, is_first=True)
    processed.remove_topic("orders")
    assert processed.missing(ORDERS_0, 0, 5) == []
    processed.add(ORDERS_0, 2, is_first=True)
    assert processed.miscounted == []


def sentences_of(offsets: list[int], committed: int) -> list[str]:
    members = MemberChecker({})
    ledger = members.ledger("payments")
    ledger.start_partition(ORDERS_0, 5)
    for offset in offsets:
        ledger.record_processed(ORDERS_0, offset, 0, 0)
    committed_offsets = {"orders": {0: CommittedOffset(committed)}}
    return [each.sentence for each in members.skipped_records("payments", committed_offsets)]


def test_the_offsets_below_a_commit_far_beyond_the_log_are_not_listed_one_by_one() -> None:
    assert sentences_of([5, 7], 2**60) == [NO_RECORD_SKIPPED] * 2
    processed = ProcessedRecords()
    processed.start(ORDERS_0, 5)
    processed.add(ORDERS_0, 7, is_first=True)
    assert processed.missing(ORDERS_0, 0, 2**60) == [(5, 7), (8, 2**60)]


def test_the_first_difference_of_ranges_is_the_lowest_offset_that_only_one_has() -> None:
    assert merged([(5, 7), (9, 9), (0, 3), (3, 4), (1, 2)]) == [(0, 4), (5, 7)]
    assert first_difference([(0, 4), (5, 7)], [(0, 4), (5, 7)]) is None
    assert first_difference([(0, 4), (5, 7)], [(0, 4), (5, 9)]) == 7
    assert first_difference([(0, 4)], [(2, 4), (5, 9)]) == 0
    assert first_difference([], [(2, 4)]) == 2


def test_a_ledger_that_forgets_what_is_missing_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    assert sentences_of([5, 0, 1, 2, 3, 4], 6) == []
    add = _Partition.add

    def forget_gaps(self: _Partition, offset: int) -> bool:
        is_first = add(self, offset)
        self.gaps.clear()
        return is_first

    monkeypatch.setattr(_Partition, "add", forget_gaps)
    assert sentences_of([5, 0, 1], 1) == [COUNTED_AS_IT_WAS]
    assert sentences_of([5, 0], 6) == [COUNTED_AS_IT_WAS]
