"""SyncGroup: the leader sends the assignments, and every member fetches its own."""

import pytest

from regroup.coordinator.commands import DeadlineKind, LeavingMember
from regroup.coordinator.group import GroupState
from regroup.protocol.errors import ErrorCode
from tests.coordinator.group_harness import GroupHarness, behaviour


@behaviour("sync.empty-group")
def test_a_sync_to_an_empty_group_gets_unknown_member_id() -> None:
    harness = GroupHarness()
    anna = harness.reach_empty()
    assert anna.sync(generation_id=2).code is ErrorCode.UNKNOWN_MEMBER_ID
    assert harness.state is GroupState.EMPTY


@behaviour("sync.unknown-member")
def test_a_sync_of_an_unknown_member_is_refused() -> None:
    harness = GroupHarness()
    harness.reach_stable("anna")
    assert harness.client("ben", member_id="other", generation_id=1).sync().code is ErrorCode.UNKNOWN_MEMBER_ID
    assert harness.state is GroupState.STABLE


@behaviour("sync.illegal-generation")
@pytest.mark.parametrize("generation", [0, 2, -1])
def test_a_sync_other_sync_generation_is_refused(generation: int) -> None:
    harness = GroupHarness()
    [anna] = harness.reach_stable("anna")
    assert anna.sync(generation_id=generation).code is ErrorCode.ILLEGAL_GENERATION
    assert harness.state is GroupState.STABLE


@behaviour("sync.protocol-type-mismatch", "sync.protocol-name-mismatch")
@pytest.mark.parametrize("field", ["protocol_type", "protocol_name"])
def test_a_sync_for_another_protocol_is_refused(field: str) -> None:
    harness = GroupHarness()
    [anna] = harness.reach_completing_rebalance("anna")
    request = anna.sync(**{field: "other"})
    assert (request.code, request.response.assignment) == (ErrorCode.INCONSISTENT_GROUP_PROTOCOL, b"")
    assert (request.response.protocol_type, request.response.protocol_name) == (None, None)
    assert (harness.state, harness.group.pending_sync_members) == (GroupState.COMPLETING_REBALANCE, ("anna",))


@behaviour("sync.protocol-fields-absent-before-v5")
def test_a_sync_without_a_protocol_matches_any() -> None:
    harness = GroupHarness()
    [anna] = harness.reach_completing_rebalance("anna")
    assert anna.sync(protocol_type=None, protocol_name=None).code is ErrorCode.NONE
    assert harness.state is GroupState.STABLE


@behaviour("sync.response-protocol-fields-v5")
def test_the_sync_response_names_protocol_and_protocol_type() -> None:
    harness = GroupHarness()
    [anna] = harness.reach_completing_rebalance("anna")
    response = anna.sync().response
    assert (response.protocol_type, response.protocol_name) == ("consumer", "range")


@behaviour("sync.preparing")
def test_a_sync_in_preparing_rebalance_gets_rebalance_in_progress() -> None:
    harness = GroupHarness()
    anna, _, _ = harness.reach_preparing_rebalance("anna", "ben")
    request = anna.sync()
    assert (request.code, request.response.assignment) == (ErrorCode.REBALANCE_IN_PROGRESS, b"")
    assert harness.state is GroupState.PREPARING_REBALANCE


@behaviour("sync.preparing")
def test_a_sync_in_the_first_join_phase_gets_rebalance_in_progress_for_any_protocol() -> None:
    harness = GroupHarness()
    anna = harness.client("anna", version=3)
    anna.send_join()
    request = anna.sync(member_id="anna", generation_id=0, protocol_name="range")
    assert (harness.state, request.code) == (GroupState.PREPARING_REBALANCE, ErrorCode.REBALANCE_IN_PROGRESS)


def test_a_member_that_syncs_in_stable_is_no_pending_sync_member_any_more() -> None:
    harness = GroupHarness()
    anna, ben = harness.reach_completing_rebalance("anna", "ben")
    anna.sync()
    assert harness.group.pending_sync_members == ("ben",)
    ben.sync()
    assert harness.group.pending_sync_members == ()
    harness.advance(60_001, heartbeating=[anna, ben])
    assert (harness.state, harness.member_ids) == (GroupState.STABLE, ["anna", "ben"])


@behaviour("sync.completing.leader-commits")
def test_the_leaders_sync_answers_every_held_sync() -> None:
    harness = GroupHarness()
    anna, ben = harness.reach_completing_rebalance("anna", "ben")
    started_ms = harness.now_ms
    harness.advance(2_000)
    held = ben.sync()
    assert held.is_pending
    harness.advance(3_000)
    leader_sync = anna.sync({"anna": b"A1", "ben": b"A2"})
    assert (leader_sync.code, leader_sync.response.assignment) == (ErrorCode.NONE, b"A1")
    assert (held.code, held.response.assignment) == (ErrorCode.NONE, b"A2")
    assert (harness.state, harness.generation_id) == (GroupState.STABLE, 2)
    assert harness.remaining_ms(DeadlineKind.SYNC_PHASE) is None
    assert [harness.remaining_ms(DeadlineKind.SESSION, name) for name in harness.member_ids] == [10_000, 10_000]
    stored = harness.group.group_metadata
    assert stored is not None
    assert (stored.generation_id, stored.protocol_name, stored.leader_id) == (2, "range", "anna")
    assert stored.state_since_ms == started_ms
    assert [(each.member_id, each.assignment) for each in stored.members] == [("anna", b"A1"), ("ben", b"A2")]
    assert [[protocol.name for protocol in each.profile.supported_protocols] for each in stored.members] == [
        ["range"],
        ["range"],
    ]


@behaviour("sync.leader-omits-members", "sync.leader-adds-unknown-members")
def test_a_member_that_the_leader_leaves_out_gets_an_empty_assignment_and_an_unknown_one_none() -> None:
    harness = GroupHarness()
    anna, ben = harness.reach_completing_rebalance("anna", "ben")
    anna.sync({"anna": b"A1", "unknown": b"X"})
    assert ben.sync().response.assignment == b""
    stored = harness.group.group_metadata
    assert stored is not None
    assert {each.member_id: each.assignment for each in stored.members} == {"anna": b"A1", "ben": b""}
    assert harness.state is GroupState.STABLE


@behaviour("sync.stable.leader-again")
def test_in_stable_a_leader_cannot_change_the_assignments() -> None:
    harness = GroupHarness()
    anna, ben = harness.reach_stable("anna", "ben")
    again = anna.sync({"anna": b"NEW1", "ben": b"NEW2"})
    assert (again.code, again.response.assignment, again.events) == (ErrorCode.NONE, b"assignment of anna", ())
    assert ben.sync().response.assignment == b"assignment of ben"


@behaviour("sync.duplicate-follower-request")
def test_a_repeated_sync_replaces_the_held_one() -> None:
    harness = GroupHarness()
    anna, ben = harness.reach_completing_rebalance("anna", "ben")
    first, second = ben.sync(), ben.sync()
    anna.sync()
    assert first.is_pending
    assert second.response.assignment == b"assignment of ben"


def test_the_held_sync_of_a_removed_member_is_never_answered() -> None:
    harness = GroupHarness()
    _, ben, carla = harness.reach_completing_rebalance("anna", "ben", "carla")
    removed_sync, other_sync = ben.sync(), carla.sync()
    harness.remove_members(LeavingMember("ben"))
    assert removed_sync.is_pending
    assert other_sync.code is ErrorCode.REBALANCE_IN_PROGRESS
    harness.fail_over()
    assert removed_sync.is_pending, "the coordinator does not hold it any more"


@behaviour("sync.fenced-static", "sync.replaced-static-without-instance-id")
def test_the_sync_of_a_replaced_process_is_refused() -> None:
    harness = GroupHarness()
    _, ben = harness.reach_stable("anna", "ben", static=True)
    former = ben.restart()
    ben.join()
    assert former.sync().code is ErrorCode.FENCED_INSTANCE_ID
    assert former.sync(group_instance_id=None).code is ErrorCode.UNKNOWN_MEMBER_ID


@behaviour("sync.rejoin-aborts-parked-syncs")
def test_a_member_that_leaves_ends_the_sync_phase() -> None:
    harness = GroupHarness()
    anna, ben, carla = harness.reach_completing_rebalance("anna", "ben", "carla")
    harness.advance(4_000)
    held = ben.sync()
    carla.leave()
    assert (held.code, held.response.assignment) == (ErrorCode.REBALANCE_IN_PROGRESS, b"")
    assert harness.state is GroupState.PREPARING_REBALANCE
    assert harness.remaining_ms(DeadlineKind.SESSION, "ben") == 10_000
    assert anna.sync().code is ErrorCode.REBALANCE_IN_PROGRESS


@behaviour("sync.rejoin-aborts-parked-syncs")
def test_a_member_that_expires_ends_the_sync_phase() -> None:
    harness = GroupHarness()
    anna, ben = harness.reach_completing_rebalance("anna", "ben")
    held = ben.sync()
    harness.advance(10_000)
    assert anna.member_id not in harness.member_ids
    assert held.code is ErrorCode.REBALANCE_IN_PROGRESS
