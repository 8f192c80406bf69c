"""A transaction whose outcome is stored ends with it in each of its groups, and no transaction ends otherwise."""

from regroup.coordinator import events as e
from regroup.coordinator.events import Event
from regroup.coordinator.group import CommittedOffset
from regroup.coordinator.serialization import Cause, encode_event
from regroup.coordinator.settings import CoordinatorSettings
from regroup.lab.checker.classic.groups import ClassicGroups
from regroup.lab.checker.offsets.prepared_transactions import GRACE_MS, OUTCOME_IS_CARRIED_OUT, PreparedTransactions
from regroup.server.cluster.events import (
    ClusterEvent,
    ProducerInitialized,
    TransactionCompleted,
    TransactionPrepared,
    encode_cluster_event,
)

COMMIT = TransactionPrepared(transactional_id="t", committed=True, epoch=0)
ABORT = TransactionPrepared(transactional_id="t", committed=False, epoch=0)
COMPLETED = TransactionCompleted(transactional_id="t")


class Stored:
    """The stored records of one producer, 7, whose transaction has an offset of the group `payments`."""

    def __init__(self) -> None:
        self.prepared = PreparedTransactions()
        self.groups = ClassicGroups(CoordinatorSettings())
        self._position = 0
        self.cluster(ProducerInitialized(transactional_id="t", producer_id=7, epoch=0, timeout_ms=1_000))
        self.group(e.GroupCreated(at_ms=0, by_join=False, reason="TxnOffsetCommit"))
        offsets = {"orders": {0: CommittedOffset(5)}}
        self.group(e.TransactionalOffsetsWritten(at_ms=0, producer_id=7, member_id="", offsets=offsets))

    def cluster(self, event: ClusterEvent, now_ms: int = 0) -> list[str]:
        record = encode_cluster_event(event, event_number=1, coordinator_epoch=1, at_ms=0, cause=Cause(internal="test"))
        return self._found(list(self.prepared.on_stored(record, None, self.groups, now_ms)))

    def group(self, event: Event) -> list[str]:
        self._position += 1
        record = encode_event("payments", self._position, 1, event, None)
        found = list(self.prepared.on_stored(record, event, self.groups, 0))
        self.groups.on_stored(record, event)
        return self._found(found)

    def end(self, *, committed: bool, producer_id: int = 7) -> list[str]:
        return self.group(e.TransactionEnded(at_ms=0, producer_id=producer_id, committed=committed))

    def unfinished(self, now_ms: int) -> list[str]:
        return self._found(list(self.prepared.unfinished(now_ms)))

    @staticmethod
    def _found(violations: list[tuple[str, str]]) -> list[str]:
        assert {sentence for sentence, _ in violations} <= {OUTCOME_IS_CARRIED_OUT}
        return [detail for _, detail in violations]


def test_a_transaction_that_ends_as_it_is_stored_is_in_order() -> None:
    for outcome in (COMMIT, ABORT):
        stored = Stored()
        assert stored.cluster(outcome) == []
        assert stored.end(committed=outcome.committed) == []
        assert stored.cluster(COMPLETED) == []
        assert stored.unfinished(60_000) == []


def test_another_end_than_the_stored_outcome_is_found() -> None:
    for outcome, detail in ((COMMIT, "to be committed, and is aborted"), (ABORT, "to be aborted, and is committed")):
        stored = Stored()
        stored.cluster(outcome)
        assert stored.end(committed=not outcome.committed) == [f"the transaction of t was {detail} in group payments"]


def test_an_end_without_an_outcome_is_found() -> None:
    assert Stored().end(committed=True) == ["the transaction of t is committed in group payments, without an outcome"]


def test_an_end_of_an_unknown_producers_transaction_is_found() -> None:
    found = ["the transaction of producer 8 is aborted in group payments, without an outcome"]
    stored = Stored()
    stored.cluster(ABORT)
    offsets = {"orders": {0: CommittedOffset(5)}}
    stored.group(e.TransactionalOffsetsWritten(at_ms=0, producer_id=8, member_id="", offsets=offsets))
    assert stored.end(committed=False, producer_id=8) == found


def test_the_next_transaction_of_a_producer_with_a_new_id_is_checked_as_well() -> None:
    stored = Stored()
    stored.cluster(TransactionPrepared(transactional_id="t", committed=True, epoch=0, next_producer_id=8))
    assert stored.end(committed=True) == []
    stored.cluster(COMPLETED)
    stored.cluster(ABORT)
    offsets = {"orders": {0: CommittedOffset(6)}}
    stored.group(e.TransactionalOffsetsWritten(at_ms=0, producer_id=8, member_id="", offsets=offsets))
    expected = ["the transaction of t was to be aborted, and is committed in group payments"]
    assert stored.end(committed=True, producer_id=8) == expected


def test_a_complete_transaction_that_is_open_in_a_group_is_found() -> None:
    stored = Stored()
    stored.cluster(COMMIT)
    assert stored.cluster(COMPLETED) == ["the transaction of t is complete, and is open in group payments"]


def test_a_transaction_that_is_never_completed_is_found_after_a_grace() -> None:
    stored = Stored()
    stored.cluster(COMMIT, now_ms=1_000)
    assert stored.unfinished(1_000 + GRACE_MS) == []
    assert stored.unfinished(1_001 + GRACE_MS) == ["the transaction of t was to be committed, and is open for 2001 ms"]


def test_a_coordinator_that_crashes_or_loads_has_the_grace_again() -> None:
    stored = Stored()
    stored.cluster(COMMIT, now_ms=1_000)
    stored.prepared.on_disturbance(9_000)
    assert stored.unfinished(9_000 + GRACE_MS) == []
    assert stored.unfinished(9_001 + GRACE_MS)


def test_a_transaction_without_an_outcome_may_stay_open() -> None:
    assert Stored().unfinished(60_000) == []
