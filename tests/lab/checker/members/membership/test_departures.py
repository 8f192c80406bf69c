"""A member that is closed while its coordinator accepts it leaves its group."""

from collections.abc import Container
from typing import Any

import pytest

from regroup.lab.checker.members.membership.departures import CLOSED_MEMBER_LEAVES, LEAVES_AS_A_MEMBER, Departures
from regroup.members.runtime.notes import FaultEnded
from regroup.protocol.errors import ErrorCode
from regroup.protocol.message import Message
from regroup.protocol.messages.cluster import FindCoordinatorRequest
from regroup.protocol.messages.consumer_group import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse
from regroup.protocol.messages.group import (
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    JoinGroupResponse,
    LeaveGroupRequest,
    MemberIdentity,
    SyncGroupRequest,
    SyncGroupResponse,
)
from regroup.protocol.messages.offsets import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)

IDS: dict[str, Any] = {"group_id": "g", "member_id": "m", "generation_id": 1}
NAMED: dict[str, Any] = {"group_id": "g", "session_timeout_ms": 45_000, "protocol_type": "consumer", "protocols": []}
JOIN = JoinGroupRequest(**NAMED)
STATIC_JOIN = JoinGroupRequest(**NAMED, group_instance_id="ben-1")
SYNC = (SyncGroupRequest(**IDS), SyncGroupResponse())
HEARTBEAT = HeartbeatRequest(**IDS)
REBALANCING = (HEARTBEAT, HeartbeatResponse(error_code=27))
_ROW = OffsetCommitResponsePartition(partition_index=0, error_code=ErrorCode.UNKNOWN_MEMBER_ID)
REFUSED_COMMIT = (
    OffsetCommitRequest(group_id="g", topics=[]),
    OffsetCommitResponse(topics=[OffsetCommitResponseTopic(name="orders", partitions=[_ROW])]),
)
LEAVE = LeaveGroupRequest(group_id="g", member_id="m")
CONSUMER_HEARTBEAT = ConsumerGroupHeartbeatRequest(group_id="g", member_id="m", member_epoch=3)
ACCEPTED = (CONSUMER_HEARTBEAT, ConsumerGroupHeartbeatResponse())


def departures(*sent: Message | tuple[Message, Any], paused: Container[str] = ()) -> Departures:
    """What is known of ben after these requests; each is alone, or with its response."""
    known = Departures(paused)
    for each in sent:
        message, *response = each if isinstance(each, tuple) else (each,)
        known.on_request("ben", message)
        if response:
            known.on_response("ben", message, response[0])
    return known


@pytest.mark.parametrize(
    "sent",
    [
        (JOIN, SYNC),
        (JOIN, SYNC, (HEARTBEAT, HeartbeatResponse())),
        (JOIN, SYNC, REBALANCING),
        (JOIN, SYNC, REBALANCING, JoinGroupRequest(**NAMED, member_id="m")),
        (ACCEPTED,),
    ],
)
def test_an_accepted_member_that_closes_and_has_not_left_is_found(sent: Any) -> None:
    found = departures(*sent).on_close("ben")
    assert found is not None
    assert found.sentence == CLOSED_MEMBER_LEAVES


@pytest.mark.parametrize(
    "sent",
    [
        (JOIN, SYNC, LEAVE),
        (ACCEPTED, ConsumerGroupHeartbeatRequest(group_id="g", member_id="m", member_epoch=-1)),
        (ACCEPTED, ConsumerGroupHeartbeatRequest(group_id="g", member_id="m", member_epoch=-2)),
    ],
)
def test_a_member_that_has_left_is_in_order(sent: Any) -> None:
    assert departures(*sent).on_close("ben") is None


@pytest.mark.parametrize(
    "sent",
    [
        (JOIN,),
        (STATIC_JOIN, SYNC),
        (JOIN, SYNC, REBALANCING, JOIN),
        (JOIN, SYNC, (HEARTBEAT, HeartbeatResponse(error_code=25))),
        (JOIN, SYNC, (HEARTBEAT, None)),
        (JOIN, SYNC, REFUSED_COMMIT),
        (JOIN, SYNC, FindCoordinatorRequest(key="g")),
    ],
)
def test_a_member_that_is_static_or_not_accepted_need_not_leave(sent: Any) -> None:
    assert departures(*sent).on_close("ben") is None


@pytest.mark.parametrize(
    ("before", "after", "found"),
    [
        ((JOIN, SYNC), (), True),
        ((JOIN, SYNC), (LEAVE,), False),
        ((JOIN, SYNC), (FindCoordinatorRequest(key="g"),), False),
        ((JOIN, SYNC, (HEARTBEAT, None)), (), False),
        ((STATIC_JOIN, SYNC), (), False),
    ],
)
def test_an_accepted_member_that_unsubscribes_leaves_before_it_joins_again(
    before: Any, after: Any, found: bool
) -> None:
    known = departures(*before)
    known.on_unsubscribe("ben")
    for message in after:
        known.on_request("ben", message)
    violation = known.on_request("ben", JOIN)
    assert (violation is not None and violation.sentence == CLOSED_MEMBER_LEAVES) is found
    assert known.on_request("ben", JOIN) is None, "it is reported once"


def test_a_member_that_unsubscribes_after_a_pause_need_not_leave() -> None:
    known = departures(JOIN, SYNC)
    known.on_unsubscribe("ben")
    known.on_note("ben", FaultEnded("paused"))
    assert known.on_request("ben", JOIN) is None


def test_a_member_that_goes_on_after_a_pause_need_not_leave_before_it_is_accepted_again() -> None:
    known = departures(JOIN, SYNC)
    known.on_note("ben", FaultEnded("paused"))
    assert known.on_close("ben") is None
    known.on_response("ben", HEARTBEAT, HeartbeatResponse())
    assert known.on_close("ben") is not None


def test_a_process_that_has_ended_need_not_leave() -> None:
    known = departures(JOIN, SYNC)
    known.on_new_life("ben")
    assert known.on_close("ben") is None


JOINED = (JOIN, JoinGroupResponse(generation_id=1, protocol_name="range", leader="", member_id="m", members=[]))
ILLEGAL = (HEARTBEAT, HeartbeatResponse(error_code=ErrorCode.ILLEGAL_GENERATION))


@pytest.mark.parametrize(
    "leave", [LeaveGroupRequest(group_id="g"), LeaveGroupRequest(group_id="g", members=[MemberIdentity(member_id="")])]
)
def test_a_member_that_leaves_without_a_member_id_is_found(leave: LeaveGroupRequest) -> None:
    found = departures(JOIN).on_request("ben", leave)
    assert found is not None
    assert found.sentence == LEAVES_AS_A_MEMBER


def test_a_member_that_leaves_after_its_generation_was_refused_is_found() -> None:
    assert departures(JOINED, SYNC).on_request("ben", LEAVE) is None
    found = departures(JOINED, ILLEGAL).on_request("ben", LEAVE)
    assert found is not None
    assert found.sentence == LEAVES_AS_A_MEMBER


def test_a_member_that_joins_again_or_does_not_know_of_the_refusal_may_leave() -> None:
    later = JoinGroupResponse(generation_id=2, protocol_name="range", leader="", member_id="m", members=[])
    paused = departures(JOINED, paused={"ben"})
    paused.on_response("ben", *ILLEGAL)
    refused_while_joining = departures(JOINED)
    refused_while_joining.on_request("ben", JOIN)
    refused_while_joining.on_response("ben", *ILLEGAL)
    refused_while_joining.on_response("ben", JOIN, later)
    known_members = (departures(JOINED, ILLEGAL, JOIN), departures(JOINED, (JOIN, later), ILLEGAL), paused)
    for known in (*known_members, refused_while_joining):
        assert known.on_request("ben", LEAVE) is None


def test_a_static_member_of_a_classic_group_that_leaves_is_found() -> None:
    found = departures(STATIC_JOIN, SYNC).on_request("ben", LEAVE)
    assert found is not None
    assert found.sentence == CLOSED_MEMBER_LEAVES
