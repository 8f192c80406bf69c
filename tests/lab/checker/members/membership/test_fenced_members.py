"""A member that has heard that it is fenced commits and processes nothing until it has joined again."""

import pytest

from regroup.lab.checker.members.membership.fenced_members import (
    FENCED_COMMITS_NOTHING,
    FENCED_INSTANCE_FAILS,
    FENCED_PROCESSES_NOTHING,
    FencedMembers,
)
from regroup.members.faults import parse_fault
from regroup.members.runtime.notes import FaultBegan, RequestRefused
from regroup.protocol.consumer.subscription import TopicPartition
from regroup.protocol.errors import ErrorCode
from regroup.protocol.messages.consumer_group import ConsumerGroupHeartbeatRequest
from regroup.protocol.messages.group import (
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    JoinGroupResponse,
    SyncGroupRequest,
    SyncGroupResponse,
)
from regroup.protocol.messages.offsets import OffsetCommitRequest

COMMIT = OffsetCommitRequest(group_id="g", topics=[])
HEARTBEAT = ConsumerGroupHeartbeatRequest(group_id="g", member_id="m", member_epoch=1)
ORDERS_0 = TopicPartition("orders", 0)


def fenced(error: str = "FENCED_MEMBER_EPOCH", api: str = "ConsumerGroupHeartbeat") -> FencedMembers:
    members = FencedMembers()
    members.on_note("ben", RequestRefused(api, error))
    return members


def test_a_commit_of_a_fenced_member_is_found_and_its_heartbeat_is_not() -> None:
    members = fenced()
    assert members.on_request("ben", HEARTBEAT) is None
    assert members.on_request("anna", COMMIT) is None
    found = members.on_request("ben", COMMIT)
    assert found is not None
    assert found.sentence == FENCED_COMMITS_NOTHING


def test_the_batch_in_hand_is_completed_and_no_other_one() -> None:
    members = fenced("UNKNOWN_MEMBER_ID")
    assert [members.on_record("ben", ORDERS_0, at_ms) for at_ms in (5, 5)] == [None, None]
    found = members.on_record("ben", ORDERS_0, 6)
    assert found is not None
    assert found.sentence == FENCED_PROCESSES_NOTHING


def test_a_join_begins_a_new_life() -> None:
    members = fenced()
    members.on_new_life("ben")
    assert members.on_request("ben", COMMIT) is None


@pytest.mark.parametrize(
    ("error", "api"), [("STALE_MEMBER_EPOCH", "OffsetCommit"), ("NOT_COORDINATOR", "ConsumerGroupHeartbeat")]
)
def test_other_refusals_fence_no_member(error: str, api: str) -> None:
    assert fenced(error, api).on_request("ben", COMMIT) is None


def test_a_fenced_member_that_becomes_a_zombie_commits_by_plan() -> None:
    members = fenced()
    members.on_note("ben", FaultBegan(parse_fault("zombie")))
    assert members.on_request("ben", OffsetCommitRequest(group_id="g", topics=[])) is None


JOIN = JoinGroupRequest(group_id="g", session_timeout_ms=1, protocol_type="consumer", protocols=[])
CLASSIC_HEARTBEAT = HeartbeatRequest(group_id="g", generation_id=3, member_id="m")


def replaced(code: ErrorCode = ErrorCode.FENCED_INSTANCE_ID, generation_id: int = 3) -> FencedMembers:
    """Ben is in this generation, and his heartbeat of generation 3 gets the error."""
    members = FencedMembers()
    joined = JoinGroupResponse(generation_id=generation_id, protocol_name="", leader="", member_id="m", members=[])
    members.on_response("ben", JOIN, joined)
    members.on_response("ben", CLASSIC_HEARTBEAT, HeartbeatResponse(error_code=code))
    return members


def test_a_member_that_joins_again_although_another_one_has_its_instance_id_is_found() -> None:
    found = replaced().on_request("ben", JOIN)
    assert found is not None
    assert found.sentence == FENCED_INSTANCE_FAILS


def test_a_new_process_and_one_with_another_error_or_generation_may_join() -> None:
    restarted, later = replaced(), replaced(generation_id=4)
    restarted.on_exit("ben")
    reset = FencedMembers()
    joined = JoinGroupResponse(generation_id=3, protocol_name="", leader="", member_id="m", members=[])
    sync = SyncGroupRequest(group_id="g", generation_id=3, member_id="m")
    reset.on_response("ben", JOIN, joined)
    reset.on_response("ben", sync, SyncGroupResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID))
    reset.on_response("ben", CLASSIC_HEARTBEAT, HeartbeatResponse(error_code=ErrorCode.FENCED_INSTANCE_ID))
    for members in (restarted, later, reset, replaced(ErrorCode.UNKNOWN_MEMBER_ID)):
        assert members.on_request("ben", JOIN) is None


def test_a_member_that_had_unsubscribed_when_its_heartbeat_was_refused_may_join() -> None:
    members = FencedMembers()
    joined = JoinGroupResponse(generation_id=3, protocol_name="", leader="", member_id="m", members=[])
    members.on_response("ben", JOIN, joined)
    members.on_unsubscribe("ben")
    members.on_response("ben", CLASSIC_HEARTBEAT, HeartbeatResponse(error_code=ErrorCode.FENCED_INSTANCE_ID))
    assert members.on_request("ben", JOIN) is None
