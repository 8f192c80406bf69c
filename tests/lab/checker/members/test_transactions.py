"""What a producer was answered about its transaction decides what may become of the offsets in it."""

from regroup.coordinator.group import CommittedOffset, Group, PendingTransactionalOffset
from regroup.lab.checker.members.transactions import COMMIT_TAKES_EFFECT, ONLY_COMMITTED, TransactionLedger
from regroup.protocol.errors import ErrorCode

LABEL = "transaction 3"


def ledger(*, asks: bool = False) -> TransactionLedger:
    transactions = TransactionLedger()
    transactions.begin(LABEL, "payments")
    if asks:
        transactions.asks_to_commit(LABEL)
    return transactions


def committed(metadata: str, offset: int = 7) -> Group:
    offsets = {"orders": {0: CommittedOffset(offset, metadata=metadata)}}
    return Group(group_id="payments", committed_offsets=offsets)


def pending(metadata: str = LABEL) -> dict[str, Group]:
    offset = PendingTransactionalOffset(CommittedOffset(7, metadata=metadata), 2)
    return {"payments": Group(group_id="payments", pending_transactional_offsets={5: {"orders": {0: offset}}})}


EMPTY = Group(group_id="payments")


def test_an_offset_of_a_transaction_that_nobody_asked_to_commit_is_found() -> None:
    found = list(ledger().violations_of(EMPTY, committed(LABEL)))
    assert found == [(ONLY_COMMITTED, "orders-0 has offset 7 of transaction 3")]


def test_an_offset_of_a_transaction_may_be_committed_once_its_producer_has_asked_for_it() -> None:
    assert list(ledger(asks=True).violations_of(EMPTY, committed(LABEL))) == []


def test_offsets_outside_transactions_and_unchanged_ones_are_in_order() -> None:
    assert list(ledger().violations_of(EMPTY, committed("by hand"))) == []
    assert list(ledger().violations_of(committed(LABEL), committed(LABEL))) == []
    assert list(ledger().violations_of(committed(LABEL), EMPTY)) == [], "it is gone"


def test_an_acknowledged_commit_that_stays_open_is_found() -> None:
    transactions = ledger(asks=True)
    transactions.is_answered(LABEL, ErrorCode.NONE, committed=True)
    assert list(transactions.still_open(pending())) == [(COMMIT_TAKES_EFFECT, "transaction 3 of group payments")]


def test_an_acknowledged_commit_whose_offsets_are_gone_or_of_another_transaction_is_in_order() -> None:
    transactions = ledger(asks=True)
    transactions.is_answered(LABEL, ErrorCode.NONE, committed=True)
    assert list(transactions.still_open({})) == [], "the group was deleted"
    assert list(transactions.still_open({"payments": committed(LABEL)})) == []
    assert list(transactions.still_open(pending("transaction 4"))) == []


def test_a_transaction_without_an_acknowledged_commit_may_stay_open() -> None:
    for code, is_commit in ((ErrorCode.COORDINATOR_NOT_AVAILABLE, True), (ErrorCode.NONE, False)):
        transactions = ledger(asks=True)
        transactions.is_answered(LABEL, code, committed=is_commit)
        assert list(transactions.still_open(pending())) == []
