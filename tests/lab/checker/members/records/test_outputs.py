"""Outputs of transactions: which of them a read-committed member may see, and that each record has one."""

import pytest

from regroup.coordinator.group import CommittedOffset, Group
from regroup.coordinator.serialization import Cause
from regroup.lab.checker.members.records.outputs import OUTPUT_ONCE, READS_ALL_COMMITTED, READS_COMMITTED, OutputLedger
from regroup.protocol.consumer.subscription import TopicPartition
from regroup.server.cluster.events import ProducerInitialized, TransactionPrepared, encode_cluster_event

ORDERS, TOTALS = TopicPartition("orders", 0), TopicPartition("totals", 0)
OFFSETS = {"orders": {0: CommittedOffset(2)}}


def ledger(*, committed: bool | None = None) -> OutputLedger:
    """The outputs of two records, at offsets 0 and 1; None leaves their transaction open."""
    outputs = OutputLedger()
    for offset in (0, 1):
        outputs.on_input("lab", (ORDERS, offset))
        outputs.on_fetched(TOTALS, offset, "transaction 1")
    outputs.begin("transaction 1", "anna-transform", "lab", [(ORDERS, 0), (ORDERS, 1)])
    if committed is not None:
        assert list(outputs.on_prepared("anna-transform", committed=committed)) == []
    return outputs


def again(outputs: OutputLedger, *, committed: bool) -> list[tuple[str, str]]:
    """The record at offset 1 has an output in a second transaction, too."""
    outputs.begin("transaction 2", "ben-transform", "lab", [(ORDERS, 1)])
    return list(outputs.on_prepared("ben-transform", committed=committed))


def test_a_record_that_was_sent_before_a_crash_and_not_processed_need_not_be_found_by_another_reader() -> None:
    outputs = ledger(committed=True)
    outputs.on_crash()
    assert outputs.on_skip("readers", TOTALS, 0, 5) is None
    outputs.on_fetched(TOTALS, 7, "transaction 1")
    assert outputs.on_skip("readers", TOTALS, 5, 9) is not None


@pytest.mark.parametrize(("committed", "state"), [(False, "was aborted"), (None, "is open")])
def test_a_record_of_a_transaction_that_is_not_committed_is_found(committed: bool | None, state: str) -> None:
    found = ledger(committed=committed).on_record("readers", TOTALS, 1)
    assert found == (READS_COMMITTED, f"totals-0@1 is of transaction 1, which {state}")


def test_a_member_that_reads_uncommitted_records_may_process_and_leave_out_any() -> None:
    assert ledger().on_record("readers", TOTALS, 1, reads_committed=False) is None
    assert ledger(committed=False).on_record("readers", TOTALS, 1, reads_committed=False) is None
    assert ledger(committed=True).on_skip("readers", TOTALS, 0, 5, reads_committed=False) is None


def test_records_of_committed_transactions_and_of_none_are_in_order() -> None:
    outputs = ledger(committed=True)
    assert outputs.on_record("readers", TOTALS, 1) is None
    assert outputs.on_record("readers", TOTALS, 9) is None


def test_a_committed_record_that_is_left_out_is_found_unless_it_was_seen_before() -> None:
    outputs = ledger(committed=True)
    found = outputs.on_skip("readers", TOTALS, 0, 5)
    assert found == (READS_ALL_COMMITTED, "totals-0@0 is of transaction 1, which was committed")
    for offset in (0, 1):
        outputs.on_record("readers", TOTALS, offset)
    assert outputs.on_skip("readers", TOTALS, 0, 5) is None
    assert outputs.on_skip("others", TOTALS, 0, 5) is not None


def test_records_of_aborted_transactions_are_left_out() -> None:
    assert ledger(committed=False).on_skip("readers", TOTALS, 0, 5) is None


def test_an_output_in_two_committed_transactions_is_found() -> None:
    detail = "the output of orders-0@1 is in transaction 1, and in transaction 2"
    assert again(ledger(committed=True), committed=True) == [(OUTPUT_ONCE, detail)]


def test_an_output_may_be_in_one_committed_and_one_aborted_transaction() -> None:
    assert again(ledger(committed=True), committed=False) == []
    assert again(ledger(committed=False), committed=True) == []


def test_a_record_below_the_committed_offset_without_an_output_is_found() -> None:
    assert list(ledger(committed=True).without_output("lab", OFFSETS)) == []
    assert list(ledger(committed=False).without_output("lab", OFFSETS)) == [
        (OUTPUT_ONCE, "orders-0@0 is below the committed offset, and has no output")
    ]


def test_records_from_the_committed_offset_on_need_no_output_yet() -> None:
    assert list(ledger().without_output("lab", {"orders": {0: CommittedOffset(0)}})) == []
    assert list(ledger().without_output("lab", {})) == []


def test_a_record_that_a_crash_has_lost_needs_no_output() -> None:
    outputs = ledger(committed=False)
    outputs.on_skip("lab", TOTALS, 0, 2)
    outputs.on_skip("lab", ORDERS, 0, 1)
    missing = [each.detail for each in outputs.without_output("lab", OFFSETS)]
    assert missing == ["orders-0@1 is below the committed offset, and has no output"]
    assert outputs.on_skip("lab", ORDERS, 1, 2) is None
    assert list(outputs.without_output("lab", OFFSETS)) == []


def test_the_outcome_of_a_transaction_comes_from_the_store() -> None:
    outputs = ledger()
    events = (
        ProducerInitialized(transactional_id="anna-transform", producer_id=7, epoch=0, timeout_ms=1_000),
        TransactionPrepared(transactional_id="anna-transform", committed=True, epoch=0),
    )
    states = []
    for number, event in enumerate(events, 1):
        cause = Cause(internal="test")
        record = encode_cluster_event(event, event_number=number, coordinator_epoch=1, at_ms=0, cause=cause)
        assert list(outputs.on_stored(record)) == []
        states.append(outputs.on_record("readers", TOTALS, 1) is None)
    assert states == [False, True]


def changed_by(metadata: str) -> OutputLedger:
    outputs = ledger(committed=True)
    after = Group(group_id="lab", committed_offsets={"orders": {0: CommittedOffset(1, metadata=metadata)}})
    outputs.on_offset_change(Group(group_id="lab"), after)
    return outputs


def test_a_group_whose_offsets_were_set_from_outside_is_not_judged() -> None:
    outputs = changed_by("set by a tool")
    assert again(outputs, committed=True) == []
    outputs.on_input("lab", (ORDERS, -1))
    assert list(outputs.without_output("lab", OFFSETS)) == []


def test_the_offsets_of_its_own_transactions_leave_a_group_judged() -> None:
    assert again(changed_by("transaction 1"), committed=True) != []
