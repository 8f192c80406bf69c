"""Checks that do not depend on the group, and responses of a broker that cannot handle requests for the group."""

import pytest

from regroup.coordinator import commands as c
from regroup.coordinator.commands import DeadlineKind
from regroup.coordinator.runtime.unavailable import unavailable_response
from regroup.protocol.errors import ErrorCode
from regroup.protocol.message import Structure
from tests.coordinator.group_driver import GROUP_ID, START_MS
from tests.coordinator.group_harness import GroupHarness, behaviour
from tests.coordinator.join_requests import join_request

JOIN = join_request(
    group_id=GROUP_ID,
    at_ms=START_MS,
    member_id="anna",
    new_member_id="unused",
    session_timeout_ms=10_000,
    rebalance_timeout_ms=60_000,
    protocol_type="consumer",
    supported_protocols=(),
)
SYNC = c.SyncGroup(group_id=GROUP_ID, at_ms=START_MS, generation_id=1, member_id="anna")
HEARTBEAT = c.Heartbeat(group_id=GROUP_ID, at_ms=START_MS, generation_id=1, member_id="anna")
LEAVE = c.LeaveGroup(group_id=GROUP_ID, at_ms=START_MS, members=(c.LeavingMember("anna"),))
COMMIT = c.OffsetCommit(group_id=GROUP_ID, at_ms=START_MS, offsets=(c.RequestedOffset("foo", 0, 1),))
FETCH = c.OffsetFetch(group_id=GROUP_ID, at_ms=START_MS, partitions=None)
DELETE_OFFSETS = c.OffsetDelete(group_id=GROUP_ID, at_ms=START_MS, partitions={"foo": (0,)})
DESCRIBE = c.DescribeGroup(group_id=GROUP_ID, at_ms=START_MS)
DELETE = c.DeleteGroup(group_id=GROUP_ID, at_ms=START_MS)
EVERY_REQUEST = (JOIN, SYNC, HEARTBEAT, LEAVE, COMMIT, FETCH, DELETE_OFFSETS, DESCRIBE, DELETE)


def codes(response: Structure) -> list[int]:
    """Every error code of a response: the response's own, then those of its partitions."""
    top = [response.error_code] if hasattr(response, "error_code") else []
    topics = getattr(response, "topics", [])
    return top + [each.error_code for topic in topics for each in topic.partitions]


@behaviour("validation.join.empty-group-id")
def test_a_join_with_an_empty_group_id_is_refused() -> None:
    harness = GroupHarness()
    request = harness.client("anna", member_id="m-x").send_join(group_id="")
    assert (request.code, request.response.member_id) == (ErrorCode.INVALID_GROUP_ID, "m-x")
    assert (request.response.generation_id, request.response.leader, request.response.members) == (-1, "", [])
    assert request.events == ()


@behaviour("validation.sync.empty-group-id", "validation.heartbeat.empty-group-id")
def test_syncs_and_heartbeats_with_an_empty_group_id_are_refused() -> None:
    anna = GroupHarness().client("anna", member_id="m", generation_id=1)
    sync = anna.sync(group_id="", protocol_name="range")
    assert (sync.code, sync.response.assignment) == (ErrorCode.INVALID_GROUP_ID, b"")
    assert (sync.response.protocol_type, sync.response.protocol_name) == (None, None)
    assert anna.heartbeat(group_id="").code is ErrorCode.INVALID_GROUP_ID


@behaviour("validation.leave.empty-group-id", "validation.offset-delete.empty-group-id")
def test_an_empty_group_id_is_refused_once_and_not_for_each_entry() -> None:
    harness = GroupHarness()
    leave = harness.handle(c.LeaveGroup(group_id="", at_ms=START_MS, members=(c.LeavingMember("unknown"),)))
    assert (leave.code, leave.response.members) == (ErrorCode.INVALID_GROUP_ID, [])
    deleted = harness.delete_offsets(group_id="", foo=(0,))
    assert (deleted.code, deleted.response.topics) == (ErrorCode.INVALID_GROUP_ID, [])


@behaviour("validation.join.session-timeout-too-large")
@pytest.mark.parametrize("session_timeout_ms", [5_999, 1_800_001, -1])
def test_a_session_timeout_outside_the_limits_creates_no_group(session_timeout_ms: int) -> None:
    harness = GroupHarness()
    request = harness.client("anna", session_timeout_ms=session_timeout_ms).send_join()
    assert (request.code, request.response.generation_id) == (ErrorCode.INVALID_SESSION_TIMEOUT, -1)
    assert not harness.group.exists


@behaviour("validation.join.session-timeout-bounds-inclusive")
@pytest.mark.parametrize("session_timeout_ms", [6_000, 1_800_000])
def test_both_limits_of_the_session_timeout_are_accepted(session_timeout_ms: int) -> None:
    request = GroupHarness().client("anna", session_timeout_ms=session_timeout_ms).send_join()
    assert request.code is ErrorCode.MEMBER_ID_REQUIRED


@behaviour("validation.join.rebalance-timeout-unchecked")
def test_a_negative_rebalance_timeout_counts_as_zero() -> None:
    harness = GroupHarness()
    harness.client("anna", version=3, rebalance_timeout_ms=-1).send_join()
    assert harness.group.rebalance_timeout_ms == 0
    assert harness.remaining_ms(DeadlineKind.JOIN_PHASE) == 3_000
    assert harness.group.join_phase is not None
    assert harness.group.join_phase.remaining_ms == 0


@behaviour("validation.join.error-body-by-version")
def test_the_response_to_a_refused_join_has_no_fields_of_the_group() -> None:
    harness = GroupHarness()
    harness.reach_stable("anna")
    response = harness.client("ben", member_id="nope").send_join().response
    assert (response.error_code, response.generation_id, response.leader) == (ErrorCode.UNKNOWN_MEMBER_ID, -1, "")
    assert (response.members, response.skip_assignment) == ([], False)
    assert (response.protocol_type, response.protocol_name) == (None, None)


@behaviour("validation.not-coordinator", "offset-fetch.not-coordinator")
def test_every_unavailable_response_carries_not_coordinator_where_its_api_has_the_code() -> None:
    responses = [unavailable_response(command, ErrorCode.NOT_COORDINATOR) for command in EVERY_REQUEST]
    assert [codes(response) for response in responses] == [[ErrorCode.NOT_COORDINATOR]] * len(EVERY_REQUEST)
    join, leave, fetch = responses[0], responses[3], responses[5]
    assert (join.member_id, leave.members, fetch.topics) == ("", [], [])


@behaviour("validation.coordinator-not-running")
def test_every_unavailable_response_carries_coordinator_not_available() -> None:
    responses = [unavailable_response(command, ErrorCode.COORDINATOR_NOT_AVAILABLE) for command in EVERY_REQUEST]
    assert [codes(response) for response in responses] == [[ErrorCode.COORDINATOR_NOT_AVAILABLE]] * len(EVERY_REQUEST)
    assert responses[0].member_id == "anna"
    assert responses[1].assignment == b""


@behaviour("recovery.loading-answers", "heartbeat.loading")
def test_while_groups_are_loaded_only_heartbeats_succeed() -> None:
    loading = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    responses = {type(command): codes(unavailable_response(command, loading)) for command in EVERY_REQUEST}
    assert responses.pop(c.Heartbeat) == [ErrorCode.NONE]
    assert list(responses.values()) == [[loading]] * (len(EVERY_REQUEST) - 1)
