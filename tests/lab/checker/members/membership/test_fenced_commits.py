"""A commit that is refused as fenced fails its member in the generation of the commit, and in no later one."""

from collections.abc import Callable

import pytest

from regroup.lab.checker.members.membership.fenced_commits import FENCED_IN_ITS_GENERATION, LATEST_MS, FencedCommits
from regroup.members.consumer.effects import CommitCompleted, ConsumerError, ConsumerErrorKind
from regroup.protocol.consumer.subscription import TopicPartition
from regroup.protocol.errors import ErrorCode
from regroup.protocol.messages.group import (
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    JoinGroupResponse,
)
from regroup.protocol.messages.offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)

JOIN = JoinGroupRequest(group_id="payments", session_timeout_ms=1, member_id="", protocol_type="consumer", protocols=[])
HEARTBEAT = HeartbeatRequest(group_id="payments", generation_id=3, member_id="anna-3")
ROW = OffsetCommitRequestPartition(partition_index=0, committed_offset=7)
COMMIT = OffsetCommitRequest(
    group_id="payments",
    generation_id_or_member_epoch=3,
    member_id="anna-3",
    topics=[OffsetCommitRequestTopic(name="orders", partitions=[ROW])],
)
FENCED, FAILED = ConsumerErrorKind.FENCED, ConsumerErrorKind.COMMIT_FAILED


class Anna:
    """Anna's commits. She is in generation 3."""

    def __init__(self) -> None:
        self.now_ms = 0
        self.paused: set[str] = set()
        self.commits = FencedCommits(lambda: self.now_ms, self.paused)
        self.join(3)

    def join(self, generation_id: int) -> None:
        member_id = f"anna-{generation_id}"
        response = JoinGroupResponse(generation_id=generation_id, member_id=member_id, leader="ben-1", members=[])
        self.commits.on_response("anna", JOIN, response)

    def refuse(self, code: ErrorCode = ErrorCode.FENCED_INSTANCE_ID) -> None:
        row = OffsetCommitResponsePartition(partition_index=0, error_code=code)
        response = OffsetCommitResponse(topics=[OffsetCommitResponseTopic(name="orders", partitions=[row])])
        self.commits.on_response("anna", COMMIT, response)

    def complete(self, kind: ConsumerErrorKind) -> str | None:
        error = ConsumerError(kind, "the commit was refused", ErrorCode.FENCED_INSTANCE_ID)
        found = self.commits.on_completed("anna", CommitCompleted({TopicPartition("orders", 0): 7}, error, True))
        return found.sentence if found else None


@pytest.mark.parametrize(
    ("meanwhile", "wrong"),
    [
        (lambda anna: None, FAILED),
        (lambda anna: anna.commits.on_unsubscribe("anna"), FENCED),
        (lambda anna: anna.join(4), FENCED),
    ],
)
def test_a_commit_that_fails_its_member_in_the_wrong_generation_is_found(
    meanwhile: Callable[[Anna], None], wrong: ConsumerErrorKind
) -> None:
    for kind in (FENCED, FAILED):
        anna = Anna()
        anna.commits.on_request("anna", COMMIT)
        meanwhile(anna)
        anna.refuse()
        assert anna.complete(kind) == (FENCED_IN_ITS_GENERATION if kind is wrong else None)
        assert anna.complete(wrong) is None


def pause(anna: Anna) -> None:
    anna.paused.add("anna")


def lose(anna: Anna) -> None:
    refused = HeartbeatResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID)
    anna.commits.on_response("anna", HEARTBEAT, refused)


@pytest.mark.parametrize(
    "meanwhile",
    [pause, lose, lambda anna: anna.commits.on_new_life("anna"), lambda anna: setattr(anna, "now_ms", LATEST_MS + 1)],
)
def test_a_member_that_may_have_lost_its_generation_is_not_judged(meanwhile: Callable[[Anna], None]) -> None:
    anna = Anna()
    anna.commits.on_request("anna", COMMIT)
    meanwhile(anna)
    anna.refuse()
    assert anna.complete(FAILED) is None


def test_a_commit_with_another_error_is_not_judged() -> None:
    anna = Anna()
    anna.commits.on_request("anna", COMMIT)
    anna.refuse(ErrorCode.REBALANCE_IN_PROGRESS)
    assert anna.complete(FENCED) is None
