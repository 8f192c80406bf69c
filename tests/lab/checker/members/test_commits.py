"""Which commits a classic member repeats after an error and which not, and that it commits at all."""

from typing import Any

import pytest

from regroup.lab.checker.members.commits import COMMITS_AT_LAST, NOT_REPEATED, REPEATED, Commits
from regroup.lab.checker.members.member_invariants import MemberViolation
from regroup.members.consumer.effects import CommitCompleted, ConsumerError, ConsumerErrorKind
from regroup.members.faults import parse_fault
from regroup.members.runtime.notes import FaultBegan
from regroup.protocol.consumer.subscription import TopicPartition
from regroup.protocol.errors import ErrorCode
from regroup.protocol.message import Message
from regroup.protocol.messages.group import JoinGroupRequest, LeaveGroupRequest
from regroup.protocol.messages.offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)

ORDERS_0 = TopicPartition("orders", 0)
JOIN = JoinGroupRequest(group_id="payments", session_timeout_ms=1, protocol_type="consumer", protocols=[])
TEMPORARY = ConsumerError(ConsumerErrorKind.RETRIABLE_COMMIT_FAILED, "the connection broke")
FINAL = ConsumerError(ConsumerErrorKind.COMMIT_FAILED, "the member was removed")


def commit(generation: int = 1) -> OffsetCommitRequest:
    row = OffsetCommitRequestPartition(partition_index=0, committed_offset=3)
    topics = [OffsetCommitRequestTopic(name="orders", partitions=[row])]
    return OffsetCommitRequest(
        group_id="payments", member_id="anna-1", generation_id_or_member_epoch=generation, topics=topics
    )


def response(*codes: int) -> OffsetCommitResponse:
    rows = [OffsetCommitResponsePartition(partition_index=each, error_code=code) for each, code in enumerate(codes)]
    return OffsetCommitResponse(topics=[OffsetCommitResponseTopic(name="orders", partitions=rows)])


class Anna:
    """Anna as the lab sees her commits, and the clock of the run."""

    def __init__(self, *, auto_commits: bool = True, joins: bool = True) -> None:
        self.now_ms = 1_000_000
        self.paused: set[str] = set()
        self.commits = Commits(lambda: self.now_ms, self.paused)
        self.commits.add_member("anna", auto_commits=auto_commits)
        if joins:
            assert self.send(JOIN) is None

    def send(self, message: Message) -> str | None:
        return sentence(self.commits.on_request("anna", message))

    def get(self, message: Message, received: Any) -> None:
        self.commits.on_response("anna", message, received)

    def complete(self, error: ConsumerError | None) -> None:
        self.commits.on_completed("anna", CommitCompleted({ORDERS_0: 3}, error, True))

    def revoke(self, *partitions: TopicPartition) -> str | None:
        return sentence(self.commits.on_revoked("anna", partitions))


def sentence(found: MemberViolation | None) -> str | None:
    return found.sentence if found else None


@pytest.mark.parametrize(
    ("code", "found"),
    [
        (ErrorCode.UNKNOWN_MEMBER_ID, NOT_REPEATED),
        (ErrorCode.ILLEGAL_GENERATION, NOT_REPEATED),
        (ErrorCode.FENCED_INSTANCE_ID, NOT_REPEATED),
        (ErrorCode.REBALANCE_IN_PROGRESS, None),
        (ErrorCode.NONE, None),
    ],
)
def test_a_commit_that_is_refused_for_its_membership_is_not_repeated(code: ErrorCode, found: str | None) -> None:
    anna = Anna()
    assert anna.send(commit()) is None
    anna.get(commit(), response(code))
    assert anna.send(commit(generation=2)) is None
    assert anna.send(commit()) == found


def test_the_first_error_of_a_response_decides() -> None:
    anna = Anna()
    anna.get(commit(), response(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.ILLEGAL_GENERATION))
    assert anna.send(commit()) is None
    anna.get(commit(), response(ErrorCode.NONE, ErrorCode.ILLEGAL_GENERATION))
    assert anna.send(commit()) == NOT_REPEATED


def test_members_that_do_not_handle_the_refusal_are_not_judged() -> None:
    paused, zombie, consumer = Anna(), Anna(), Anna(joins=False)
    paused.paused.add("anna")
    zombie.commits.on_note("anna", FaultBegan(parse_fault("zombie")))
    for anna in (paused, zombie, consumer):
        anna.get(commit(), response(ErrorCode.UNKNOWN_MEMBER_ID))
    paused.paused.clear()
    assert [anna.send(commit()) for anna in (paused, zombie, consumer)] == [None, None, None]
    zombie.commits.on_new_life("anna")
    zombie.get(commit(), response(ErrorCode.UNKNOWN_MEMBER_ID))
    assert zombie.send(commit()) is None, "it commits on beside its next process"


@pytest.mark.parametrize(
    ("after_ms", "error", "found"),
    [
        (100, TEMPORARY, REPEATED),
        (30_000, TEMPORARY, None),
        (100, FINAL, None),
        (100, None, None),
    ],
)
def test_a_commit_before_partitions_are_given_up_is_repeated_after_a_temporary_error(
    after_ms: int, error: ConsumerError | None, found: str | None
) -> None:
    anna = Anna()
    anna.send(commit())
    anna.now_ms += after_ms
    anna.complete(error)
    assert anna.revoke(ORDERS_0) == found


def test_a_periodic_commit_that_fails_has_nothing_to_do_with_a_later_revocation() -> None:
    anna = Anna()
    anna.send(commit())
    anna.complete(TEMPORARY)
    anna.now_ms += 1
    assert anna.revoke(ORDERS_0) is None


def fetched(anna: Anna, offset: int | None = 17) -> Anna:
    """Anna has fetched this committed offset, and a minute has passed."""
    anna.commits.on_fetched("anna", {ORDERS_0: offset})
    anna.now_ms += 60_001
    return anna


def test_what_is_sent_within_a_backoff_may_repeat_an_earlier_commit_of_the_same_offsets() -> None:
    for backoff_ms, found in ((900, None), (1_300, REPEATED)):
        anna = Anna()
        anna.send(commit())  # by interval
        anna.now_ms += 3_000
        anna.send(commit())  # before partitions are given up
        anna.complete(TEMPORARY)  # the first one; the second one is repeated
        anna.now_ms += backoff_ms
        anna.send(commit())
        anna.now_ms += 3_000
        anna.complete(TEMPORARY)
        assert anna.revoke(ORDERS_0) == found


def test_a_member_that_joins_again_without_any_commit_is_found() -> None:
    anna = fetched(Anna())
    assert anna.revoke(ORDERS_0) is None
    assert anna.send(JOIN) == COMMITS_AT_LAST
    assert anna.send(JOIN) is None


def test_a_member_that_has_committed_or_has_nothing_to_commit_joins_again_in_order() -> None:
    committed, early, nothing, lost, manual = Anna(), Anna(), fetched(Anna(), None), Anna(), Anna(auto_commits=False)
    fetched(committed).send(commit())
    early.commits.on_fetched("anna", {ORDERS_0: 17})
    fetched(lost).commits.on_lost("anna", [ORDERS_0])
    for anna in (committed, early, nothing, lost, fetched(manual)):
        assert anna.revoke(ORDERS_0) is None
        assert anna.send(JOIN) is None


def test_a_member_that_is_closed_need_not_have_committed() -> None:
    anna = fetched(Anna())
    anna.revoke(ORDERS_0)
    anna.send(LeaveGroupRequest(group_id="payments", member_id="anna-1"))
    assert anna.send(JOIN) is None


def test_a_member_that_unsubscribes_gives_its_partitions_up_without_a_commit() -> None:
    anna = fetched(Anna())
    anna.commits.on_unsubscribe("anna")
    anna.revoke(ORDERS_0)
    assert anna.send(JOIN) is None
