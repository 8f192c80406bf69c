"""Heartbeat and LeaveGroup."""

import pytest

from regroup.coordinator.commands import DeadlineKind, LeavingMember
from regroup.coordinator.group import GroupMetadata, GroupState
from regroup.protocol.errors import ErrorCode
from tests.coordinator.group_driver import SentRequest
from tests.coordinator.group_harness import GroupHarness, behaviour


def codes(request: SentRequest) -> list[tuple[str, ErrorCode]]:
    """The member ids of a LeaveGroup response, each with its error code."""
    assert request.code is ErrorCode.NONE
    return [(each.member_id, ErrorCode(each.error_code)) for each in request.response.members]


@behaviour("heartbeat.unknown-group")
def test_a_heartbeat_to_an_unknown_group_gets_unknown_member_id() -> None:
    assert GroupHarness().client("anna", member_id="m", generation_id=1).heartbeat().code is ErrorCode.UNKNOWN_MEMBER_ID


@behaviour("heartbeat.empty-group")
def test_a_heartbeat_to_an_empty_group_gets_unknown_member_id() -> None:
    harness = GroupHarness()
    assert harness.reach_empty().heartbeat(generation_id=2).code is ErrorCode.UNKNOWN_MEMBER_ID
    assert harness.state is GroupState.EMPTY


@behaviour("heartbeat.unknown-member")
def test_a_heartbeat_of_an_unknown_member_is_refused() -> None:
    harness = GroupHarness()
    harness.reach_stable("anna")
    assert harness.client("ben", member_id="other", generation_id=1).heartbeat().code is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_heartbeat_with_a_pending_member_id_is_refused() -> None:
    harness = GroupHarness()
    anna = harness.client("anna")
    anna.send_join()
    assert anna.heartbeat(generation_id=0).code is ErrorCode.UNKNOWN_MEMBER_ID


@behaviour("heartbeat.illegal-generation")
@pytest.mark.parametrize("generation", [0, 2])
def test_a_heartbeat_of_another_generation_is_refused_and_restarts_no_timeout(generation: int) -> None:
    harness = GroupHarness()
    [anna] = harness.reach_stable("anna")
    harness.advance(4_000)
    assert anna.heartbeat(generation_id=generation).code is ErrorCode.ILLEGAL_GENERATION
    assert harness.remaining_ms(DeadlineKind.SESSION, "anna") == 6_000


@behaviour("heartbeat.stable", "timeout.session.reset-by-heartbeat")
def test_a_heartbeat_restarts_the_session_timeout_and_changes_nothing_else() -> None:
    harness = GroupHarness()
    [anna] = harness.reach_stable("anna")
    harness.advance(4_000)
    heartbeat = anna.heartbeat()
    assert (heartbeat.code, heartbeat.events) == (ErrorCode.NONE, ())
    assert harness.remaining_ms(DeadlineKind.SESSION, "anna") == 10_000


@behaviour("heartbeat.completing")
def test_a_heartbeat_in_the_sync_phase_succeeds() -> None:
    harness = GroupHarness()
    _, ben = harness.reach_completing_rebalance("anna", "ben")
    harness.advance(4_000)
    assert ben.heartbeat().code is ErrorCode.NONE
    assert harness.remaining_ms(DeadlineKind.SESSION, "ben") == 10_000
    assert harness.state is GroupState.COMPLETING_REBALANCE


@behaviour("heartbeat.completing.previous-generation")
def test_in_the_sync_phase_a_heartbeat_of_the_previous_generation_is_refused() -> None:
    harness = GroupHarness()
    anna, _ = harness.reach_completing_rebalance("anna", "ben")
    assert anna.heartbeat(generation_id=1).code is ErrorCode.ILLEGAL_GENERATION


@behaviour("heartbeat.fenced-static", "heartbeat.unknown-instance-id")
def test_a_heartbeat_with_another_members_instance_id_is_refused() -> None:
    harness = GroupHarness()
    anna, _ = harness.reach_stable("anna", "ben", static=True)
    assert anna.heartbeat(member_id="wrong").code is ErrorCode.FENCED_INSTANCE_ID
    assert anna.heartbeat(group_instance_id="nope").code is ErrorCode.UNKNOWN_MEMBER_ID


@behaviour("heartbeat.discovers-rebalance")
def test_a_heartbeat_in_preparing_rebalance_gets_rebalance_in_progress() -> None:
    harness = GroupHarness()
    _, ben, _ = harness.reach_preparing_rebalance("anna", "ben")
    harness.advance(4_000)
    assert ben.heartbeat().code is ErrorCode.REBALANCE_IN_PROGRESS
    assert harness.remaining_ms(DeadlineKind.SESSION, "ben") == 10_000


@behaviour("leave.unknown-group.v3")
def test_a_leave_from_an_unknown_group_is_refused_for_each_member() -> None:
    harness = GroupHarness()
    assert codes(harness.remove_members(LeavingMember("anna"))) == [("anna", ErrorCode.UNKNOWN_MEMBER_ID)]
    assert not harness.group.exists


@behaviour("leave.unknown-member")
def test_a_leave_of_an_unknown_member_is_refused() -> None:
    harness = GroupHarness()
    harness.reach_stable("anna")
    request = harness.remove_members(LeavingMember("other"))
    assert codes(request) == [("other", ErrorCode.UNKNOWN_MEMBER_ID)]
    assert (harness.state, harness.generation_id, request.events) == (GroupState.STABLE, 1, ())


@behaviour("leave.stable.not-last")
def test_a_member_that_leaves_starts_a_rebalance() -> None:
    harness = GroupHarness()
    _, ben = harness.reach_stable("anna", "ben")
    stored = harness.group.group_metadata
    assert codes(ben.leave()) == [("ben", ErrorCode.NONE)]
    assert (harness.state, harness.generation_id, harness.member_ids) == (GroupState.PREPARING_REBALANCE, 2, ["anna"])
    assert harness.remaining_ms(DeadlineKind.SESSION, "ben") is None
    assert harness.remaining_ms(DeadlineKind.JOIN_PHASE) == 60_000
    assert harness.group.group_metadata == stored


@behaviour("leave.stable.last-member")
def test_when_the_last_member_leaves_the_group_is_empty_and_stored_as_empty() -> None:
    harness = GroupHarness()
    [anna] = harness.reach_stable("anna")
    assert codes(anna.leave()) == [("anna", ErrorCode.NONE)]
    assert (harness.state, harness.generation_id) == (GroupState.EMPTY, 2)
    assert harness.group.group_metadata == GroupMetadata("consumer", 2, None, None, harness.now_ms, ())


@behaviour("leave.preparing.completes-join")
def test_the_join_phase_ends_when_the_last_missing_member_leaves() -> None:
    harness = GroupHarness()
    anna, ben, carla = harness.reach_preparing_rebalance("anna", "ben")
    anna.send_join()
    ben.leave()
    assert (harness.state, harness.generation_id) == (GroupState.COMPLETING_REBALANCE, 3)
    assert (anna.generation_id, carla.generation_id) == (3, 3)
    assert harness.remaining_ms(DeadlineKind.JOIN_PHASE) is None


@behaviour("leave.preparing.not-everyone-joined")
def test_the_join_phase_goes_on_while_another_member_is_missing() -> None:
    harness = GroupHarness()
    _, ben, _ = harness.reach_preparing_rebalance("anna", "ben")
    harness.advance(1_000)
    ben.leave()
    assert harness.state is GroupState.PREPARING_REBALANCE
    assert harness.remaining_ms(DeadlineKind.JOIN_PHASE) == 59_000


@behaviour("leave.pending-member")
def test_a_pending_member_that_leaves_a_stable_group_starts_a_rebalance() -> None:
    harness = GroupHarness()
    harness.reach_stable("anna")
    ben = harness.client("ben")
    ben.send_join()
    assert codes(ben.leave()) == [("ben", ErrorCode.NONE)]
    assert (harness.state, harness.generation_id) == (GroupState.PREPARING_REBALANCE, 1), (
        "as in Kafka, though no member left"
    )
    assert harness.remaining_ms(DeadlineKind.PENDING_JOIN, "ben") is None


def test_a_pending_member_that_leaves_an_empty_group_starts_no_rebalance() -> None:
    harness = GroupHarness()
    ben = harness.client("ben")
    ben.send_join()
    assert codes(ben.leave()) == [("ben", ErrorCode.NONE)]
    assert (harness.state, harness.generation_id) == (GroupState.EMPTY, 0), (
        "as in Kafka, no rebalance of an empty group"
    )
    assert harness.remaining_ms(DeadlineKind.JOIN_PHASE) is None


@behaviour("leave.pending-member-completes-join")
def test_the_join_phase_ends_when_the_last_pending_member_leaves() -> None:
    harness = GroupHarness()
    anna, ben, carla = harness.reach_preparing_rebalance("anna", "ben")
    dora = harness.client("dora")
    dora.send_join()
    anna.send_join()
    ben.send_join()
    dora.leave()
    assert (harness.state, harness.generation_id) == (GroupState.COMPLETING_REBALANCE, 3)
    assert [each.generation_id for each in (anna, ben, carla)] == [3, 3, 3]


@behaviour("leave.batch.mixed")
def test_each_leaving_member_has_its_own_error_code_and_the_group_rebalances_once() -> None:
    harness = GroupHarness()
    harness.reach_stable("anna", "ben", "carla")
    harness.client("dora").send_join()
    request = harness.remove_members(LeavingMember("ben"), LeavingMember("dora"), LeavingMember("unknown"))
    assert codes(request) == [
        ("ben", ErrorCode.NONE),
        ("dora", ErrorCode.NONE),
        ("unknown", ErrorCode.UNKNOWN_MEMBER_ID),
    ]
    assert request.event_types == ["MemberLeft", "PendingMemberRemoved", "RebalanceStarted"]
    assert harness.state is GroupState.PREPARING_REBALANCE


@behaviour("leave.batch.all-members")
def test_when_all_members_leave_at_once_the_generation_grows_by_one() -> None:
    harness = GroupHarness()
    harness.reach_stable("anna", "ben")
    harness.remove_members(LeavingMember("anna"), LeavingMember("ben"))
    assert (harness.state, harness.generation_id) == (GroupState.EMPTY, 3)
    assert harness.group.group_metadata == GroupMetadata("consumer", 3, None, None, harness.now_ms, ())


@behaviour("leave.batch.duplicate-entry", "leave.batch.empty-list")
def test_a_repeated_leaving_member_is_unknown_and_an_empty_list_is_accepted() -> None:
    harness = GroupHarness()
    harness.reach_stable("anna", "ben")
    assert codes(harness.remove_members()) == []
    assert harness.state is GroupState.STABLE
    assert codes(harness.remove_members(LeavingMember("ben"), LeavingMember("ben"))) == [
        ("ben", ErrorCode.NONE),
        ("ben", ErrorCode.UNKNOWN_MEMBER_ID),
    ]
    assert harness.state is GroupState.PREPARING_REBALANCE


@behaviour("leave.empty-group")
def test_a_leave_from_an_empty_group_is_refused() -> None:
    harness = GroupHarness()
    anna = harness.reach_empty()
    request = anna.leave()
    assert codes(request) == [("anna", ErrorCode.UNKNOWN_MEMBER_ID)]
    assert (harness.generation_id, request.events) == (2, ())


@behaviour("leave.static.by-instance-only")
def test_a_static_member_can_be_removed_by_its_instance_id_alone() -> None:
    harness = GroupHarness()
    _, ben = harness.reach_stable("anna", "ben", static=True)
    request = harness.remove_members(LeavingMember("", ben.instance_id))
    assert codes(request) == [("", ErrorCode.NONE)]
    assert request.response.members[0].group_instance_id == ben.instance_id
    assert harness.state is GroupState.PREPARING_REBALANCE
    assert harness.group.static_members == {"instance-anna": "anna"}


@behaviour("leave.static.by-member-id-only")
def test_a_static_member_can_be_removed_by_its_member_id_alone() -> None:
    harness = GroupHarness()
    harness.reach_stable("anna", "ben", static=True)
    assert codes(harness.remove_members(LeavingMember("ben"))) == [("ben", ErrorCode.NONE)]
    assert (harness.state, list(harness.group.static_members)) == (GroupState.PREPARING_REBALANCE, ["instance-anna"])


@behaviour("leave.static.unknown-instance")
def test_an_unknown_instance_id_cannot_leave() -> None:
    harness = GroupHarness()
    harness.reach_stable("anna", "ben", static=True)
    assert codes(harness.remove_members(LeavingMember("", "nope"), LeavingMember("anna", "nope"))) == [
        ("", ErrorCode.UNKNOWN_MEMBER_ID),
        ("anna", ErrorCode.UNKNOWN_MEMBER_ID),
    ]
    assert harness.state is GroupState.STABLE


@behaviour("leave.static.batch-valid")
def test_all_static_members_can_be_removed_by_their_instance_ids() -> None:
    harness = GroupHarness()
    harness.reach_stable("anna", "ben", static=True)
    request = harness.remove_members(LeavingMember("", "instance-anna"), LeavingMember("", "instance-ben"))
    assert codes(request) == [("", ErrorCode.NONE), ("", ErrorCode.NONE)]
    assert harness.state is GroupState.EMPTY
    assert harness.group.group_metadata == GroupMetadata("consumer", 3, None, None, harness.now_ms, ())
