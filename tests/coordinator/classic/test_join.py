"""JoinGroup: new members, pending member ids, and which JoinGroup starts a rebalance."""

import pytest

from regroup.coordinator.commands import DeadlineKind
from regroup.coordinator.events import GroupCreated
from regroup.coordinator.group import AwaitedResponse, GroupMetadata, GroupState
from regroup.protocol.errors import ErrorCode
from tests.coordinator.group_driver import START_MS
from tests.coordinator.group_harness import GroupHarness, behaviour


@behaviour("join.unknown-member-id.nonexistent-group")
@pytest.mark.parametrize("static", [False, True])
def test_a_join_with_an_unknown_member_id_creates_no_group(static: bool) -> None:
    harness = GroupHarness()
    request = harness.client("anna", static=static, member_id="some-id").send_join()
    assert (request.code, request.response.member_id) == (ErrorCode.UNKNOWN_MEMBER_ID, "some-id")
    assert request.response.generation_id == -1
    assert not harness.group.exists


@behaviour("join.member-id-required.first-request")
def test_a_new_dynamic_member_gets_member_id_required_and_a_pending_id() -> None:
    harness = GroupHarness()
    request = harness.client("anna", session_timeout_ms=12_000).send_join()
    assert (request.code, request.response.member_id) == (ErrorCode.MEMBER_ID_REQUIRED, "anna")
    assert (request.response.generation_id, request.response.leader, request.response.members) == (-1, "", [])
    assert (harness.state, harness.generation_id, harness.member_ids) == (GroupState.EMPTY, 0, [])
    assert list(harness.group.pending_join_members) == ["anna"]
    assert harness.remaining_ms(DeadlineKind.PENDING_JOIN, "anna") == 12_000
    assert harness.group.group_metadata == GroupMetadata(state_since_ms=START_MS)


@behaviour("join.member-id-required.response-before-commit")
def test_member_id_required_is_answered_at_once() -> None:
    assert not GroupHarness().client("anna").send_join().is_pending


@behaviour("join.member-id-required.not-before-v4")
def test_a_client_before_join_group_v4_is_added_at_once() -> None:
    harness = GroupHarness()
    anna = harness.client("anna", version=3)
    request = anna.send_join()
    assert request.is_pending
    assert harness.state is GroupState.PREPARING_REBALANCE
    assert harness.remaining_ms(DeadlineKind.NEW_MEMBER_JOIN, "anna") == 300_000
    assert harness.remaining_ms(DeadlineKind.JOIN_PHASE) == 3_000
    harness.advance(3_000)
    assert (request.code, request.response.member_id) == (ErrorCode.NONE, "anna")


@behaviour("join.member-id-required.not-for-static")
def test_a_new_static_member_is_added_at_once() -> None:
    harness = GroupHarness()
    request = harness.client("anna", static=True).send_join()
    assert request.is_pending
    assert (harness.state, harness.member_ids) == (GroupState.PREPARING_REBALANCE, ["anna"])
    assert harness.remaining_ms(DeadlineKind.NEW_MEMBER_JOIN, "anna") == 300_000
    assert harness.remaining_ms(DeadlineKind.JOIN_PHASE) == 3_000


@behaviour("join.member-id-required.stable-group-undisturbed")
def test_a_pending_member_id_does_not_disturb_a_stable_group() -> None:
    harness = GroupHarness()
    harness.reach_stable("anna")
    stored = harness.group.group_metadata
    assert harness.client("ben").send_join().code is ErrorCode.MEMBER_ID_REQUIRED
    assert (harness.state, harness.generation_id) == (GroupState.STABLE, 1)
    assert harness.remaining_ms(DeadlineKind.PENDING_JOIN, "ben") == 10_000
    assert harness.group.group_metadata == stored


@behaviour("join.nonempty.protocol-type-mismatch")
def test_a_join_with_another_protocol_type_is_refused() -> None:
    harness = GroupHarness()
    harness.reach_stable("anna")
    request = harness.client("ben", protocol_type="connect", protocol_names=("range",)).send_join()
    assert (request.code, request.response.member_id) == (ErrorCode.INCONSISTENT_GROUP_PROTOCOL, "")
    assert request.events == ()
    assert not harness.group.pending_join_members


@behaviour("join.nonempty.no-common-protocol")
def test_a_join_without_a_common_protocol_is_refused() -> None:
    harness = GroupHarness()
    harness.reach_stable("anna", protocol_names=("range",))
    request = harness.client("ben", protocol_names=("roundrobin",)).send_join()
    assert (request.code, request.response.member_id) == (ErrorCode.INCONSISTENT_GROUP_PROTOCOL, "")
    assert request.events == ()


@behaviour("join.unknown-member-id.existing-group")
def test_a_join_with_an_unknown_member_id_is_refused() -> None:
    harness = GroupHarness()
    harness.reach_stable("anna")
    request = harness.client("ben", member_id="other").send_join()
    assert (request.code, request.response.member_id) == (ErrorCode.UNKNOWN_MEMBER_ID, "other")
    assert (request.response.generation_id, request.events) == (-1, ())


@behaviour("join.empty-group.empty-protocol-type")
def test_a_join_to_an_empty_group_must_name_a_protocol_type() -> None:
    harness = GroupHarness()
    harness.reach_empty()
    request = harness.client("ben", protocol_type="", protocol_names=("range",)).send_join()
    assert (request.code, request.response.member_id) == (ErrorCode.INCONSISTENT_GROUP_PROTOCOL, "")
    assert (harness.state, request.events) == (GroupState.EMPTY, ())


@behaviour("join.new-group.rejected-request-still-creates-group")
def test_a_refused_join_still_creates_the_group() -> None:
    harness = GroupHarness()
    request = harness.client("anna", protocol_type="").send_join()
    assert request.code is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert request.event_types == [GroupCreated.__name__]
    assert harness.describe_group().group_state == "Empty"


@behaviour("join.empty-state.known-member")
def test_the_id_of_a_member_that_left_is_unknown() -> None:
    harness = GroupHarness()
    anna = harness.reach_empty()
    request = anna.send_join()
    assert (request.code, request.response.member_id) == (ErrorCode.UNKNOWN_MEMBER_ID, "anna")
    assert (request.response.generation_id, harness.state) == (-1, GroupState.EMPTY)


@behaviour("join.after-empty.protocol-type-can-change")
def test_an_empty_group_can_change_its_protocol_type() -> None:
    harness = GroupHarness()
    harness.reach_empty()
    worker = harness.client("worker", version=3, protocol_type="connect", protocol_names=("sessioned",))
    assert worker.send_join().is_pending
    assert (harness.state, harness.group.protocol_type) == (GroupState.PREPARING_REBALANCE, "connect")


@behaviour("join.preparing.rejoin-parks")
def test_the_response_to_a_rejoin_in_preparing_rebalance_is_held() -> None:
    harness = GroupHarness()
    _, ben, _ = harness.reach_preparing_rebalance("anna", "ben")
    harness.advance(1_000)
    ben.topics, ben.session_timeout_ms, ben.rebalance_timeout_ms = ("bar",), 8_000, 90_000
    assert ben.send_join().is_pending
    assert (harness.state, harness.generation_id) == (GroupState.PREPARING_REBALANCE, 2)
    assert harness.remaining_ms(DeadlineKind.JOIN_PHASE) == 59_000
    member = harness.member_of(ben)
    assert (
        member.profile.supported_protocols,
        member.profile.session_timeout_ms,
        member.profile.rebalance_timeout_ms,
    ) == (
        ben.supported_protocols(),
        8_000,
        90_000,
    )


@behaviour("join.preparing.last-rejoin-completes")
def test_the_last_rejoin_starts_the_generation() -> None:
    harness = GroupHarness()
    anna, ben, carla = harness.reach_preparing_rebalance("anna", "ben")
    stored = harness.group.group_metadata
    first = anna.send_join()
    last = ben.send_join()
    assert (harness.state, harness.generation_id) == (GroupState.COMPLETING_REBALANCE, 3)
    assert (anna.generation_id, ben.generation_id, carla.generation_id) == (3, 3, 3)
    assert [each.member_id for each in first.response.members] == ["anna", "ben", "carla"]
    assert last.response.members == []
    assert harness.remaining_ms(DeadlineKind.JOIN_PHASE) is None
    assert harness.remaining_ms(DeadlineKind.SYNC_PHASE) == 60_000
    assert [harness.remaining_ms(DeadlineKind.SESSION, name) for name in harness.member_ids] == [10_000] * 3
    assert harness.group.group_metadata == stored


@behaviour("join.completing.follower-unchanged")
def test_an_unchanged_follower_gets_its_join_response_again_in_the_sync_phase() -> None:
    harness = GroupHarness()
    _, ben = harness.reach_completing_rebalance("anna", "ben")
    request = ben.send_join()
    assert (request.code, request.response.generation_id, request.events) == (ErrorCode.NONE, 2, ())
    assert (request.response.leader, request.response.member_id, request.response.members) == ("anna", "ben", [])
    assert (request.response.skip_assignment, request.response.protocol_name) == (False, "range")
    assert (harness.state, harness.generation_id) == (GroupState.COMPLETING_REBALANCE, 2)


@behaviour("join.completing.leader-unchanged")
def test_an_unchanged_leader_gets_its_join_response_with_the_members_again_in_the_sync_phase() -> None:
    harness = GroupHarness()
    anna, ben = harness.reach_completing_rebalance("anna", "ben")
    request = anna.send_join()
    assert (request.code, request.response.generation_id, request.response.leader) == (ErrorCode.NONE, 2, "anna")
    assert {each.member_id: each.metadata for each in request.response.members} == {
        "anna": anna.supported_protocols()[0].metadata,
        "ben": ben.supported_protocols()[0].metadata,
    }
    assert (harness.state, harness.generation_id) == (GroupState.COMPLETING_REBALANCE, 2)


@behaviour("join.completing.changed-metadata", "sync.rejoin-aborts-parked-syncs")
def test_a_changed_subscription_ends_the_sync_phase() -> None:
    harness = GroupHarness()
    anna, ben = harness.reach_completing_rebalance("anna", "ben")
    harness.advance(4_000)
    held = ben.sync()
    anna.topics = ("bar",)
    assert anna.send_join().is_pending
    assert (held.code, held.response.assignment) == (ErrorCode.REBALANCE_IN_PROGRESS, b"")
    assert (harness.state, harness.generation_id) == (GroupState.PREPARING_REBALANCE, 2)
    assert harness.remaining_ms(DeadlineKind.SYNC_PHASE) is None
    assert harness.group.pending_sync_members == ()
    assert harness.remaining_ms(DeadlineKind.JOIN_PHASE) == 60_000
    assert harness.remaining_ms(DeadlineKind.SESSION, "ben") == 10_000
    assert all(member.assignment == b"" for member in harness.group.members.values())


def test_the_held_sync_of_a_member_that_rejoins_gets_rebalance_in_progress() -> None:
    harness = GroupHarness()
    _, ben = harness.reach_completing_rebalance("anna", "ben")
    held = ben.sync()
    ben.topics = ("bar",)
    assert ben.send_join().is_pending
    assert held.code is ErrorCode.REBALANCE_IN_PROGRESS


@behaviour("join.completing.new-member", "sync.rejoin-aborts-parked-syncs")
def test_a_new_member_ends_the_sync_phase() -> None:
    harness = GroupHarness()
    _, ben = harness.reach_completing_rebalance("anna", "ben")
    held = ben.sync()
    assert harness.client("carla", version=3).send_join().is_pending
    assert held.code is ErrorCode.REBALANCE_IN_PROGRESS
    assert (harness.state, harness.generation_id) == (GroupState.PREPARING_REBALANCE, 2)
    assert harness.remaining_ms(DeadlineKind.JOIN_PHASE) == 60_000
    assert harness.remaining_ms(DeadlineKind.NEW_MEMBER_JOIN, "carla") == 300_000


@behaviour("join.stable.follower-unchanged")
def test_an_unchanged_follower_that_rejoins_in_stable_starts_no_rebalance() -> None:
    harness = GroupHarness()
    _, ben = harness.reach_stable("anna", "ben")
    request = ben.send_join()
    assert (request.code, request.response.generation_id, request.response.leader) == (ErrorCode.NONE, 2, "anna")
    assert (request.response.members, request.response.member_id) == ([], "ben")
    assert (harness.state, request.events) == (GroupState.STABLE, ())


@behaviour("join.stable.follower-changed-metadata")
def test_a_follower_that_changes_its_subscription_starts_a_rebalance() -> None:
    harness = GroupHarness()
    _, ben = harness.reach_stable("anna", "ben")
    stored = harness.group.group_metadata
    ben.topics = ("foo", "bar")
    assert ben.send_join().is_pending
    assert (harness.state, harness.generation_id) == (GroupState.PREPARING_REBALANCE, 2)
    assert harness.remaining_ms(DeadlineKind.JOIN_PHASE) == 60_000
    assert harness.group.group_metadata == stored


@behaviour("join.stable.protocol-order-matters")
def test_a_changed_order_of_protocols_starts_a_rebalance() -> None:
    harness = GroupHarness()
    _, ben = harness.reach_stable("anna", "ben")
    ben.protocol_names = ("roundrobin", "range")
    assert ben.send_join().is_pending
    assert harness.state is GroupState.PREPARING_REBALANCE


@behaviour("join.stable.leader-unchanged-rebalances")
def test_a_leader_that_rejoins_in_stable_always_starts_a_rebalance() -> None:
    harness = GroupHarness()
    anna, ben = harness.reach_stable("anna", "ben")
    request = anna.send_join()
    assert request.is_pending
    assert (harness.state, harness.generation_id) == (GroupState.PREPARING_REBALANCE, 2)
    assert harness.remaining_ms(DeadlineKind.JOIN_PHASE) == 60_000
    ben.send_join()
    assert request.response.generation_id == 3


@behaviour("join.stable.new-member-rebalances")
def test_a_new_member_starts_a_rebalance() -> None:
    harness = GroupHarness()
    harness.reach_stable("anna")
    stored = harness.group.group_metadata
    ben = harness.client("ben", rebalance_timeout_ms=70_000)
    assert ben.join().is_pending
    assert (harness.state, harness.generation_id) == (GroupState.PREPARING_REBALANCE, 1)
    assert harness.remaining_ms(DeadlineKind.NEW_MEMBER_JOIN, "ben") == 300_000
    assert harness.remaining_ms(DeadlineKind.JOIN_PHASE) == 70_000
    assert harness.group.group_metadata == stored


@behaviour("join.pending-blocks-completion")
def test_a_pending_member_id_keeps_the_join_phase_open() -> None:
    harness = GroupHarness()
    anna, ben, _ = harness.reach_preparing_rebalance("anna", "ben")
    harness.client("dora").send_join()
    assert anna.send_join().is_pending
    assert ben.send_join().is_pending
    assert harness.state is GroupState.PREPARING_REBALANCE


@behaviour("join.pending-joins-completes")
def test_the_last_pending_member_completes_the_join_phase_by_joining() -> None:
    harness = GroupHarness()
    anna, ben, carla = harness.reach_preparing_rebalance("anna", "ben")
    dora = harness.client("dora")
    dora.send_join()
    anna.send_join()
    ben.send_join()
    assert dora.send_join().code is ErrorCode.NONE
    assert [each.generation_id for each in (anna, ben, carla, dora)] == [3, 3, 3, 3]
    assert harness.state is GroupState.COMPLETING_REBALANCE
    assert harness.remaining_ms(DeadlineKind.JOIN_PHASE) is None
    assert harness.remaining_ms(DeadlineKind.SYNC_PHASE) == 60_000


@behaviour("join.pending-survives-rebalance-timeout")
def test_a_pending_member_id_outlives_the_join_phase() -> None:
    harness = GroupHarness()
    anna, ben, carla = harness.reach_preparing_rebalance("anna", "ben")
    harness.advance(55_000, heartbeating=[anna, ben])
    dora = harness.client("dora")
    dora.send_join()
    harness.advance(5_000, heartbeating=[anna, ben])
    assert (carla.generation_id, harness.member_ids, harness.state) == (3, ["carla"], GroupState.COMPLETING_REBALANCE)
    assert dora.send_join().is_pending
    assert harness.state is GroupState.PREPARING_REBALANCE


@behaviour("join.pending.with-instance-id")
def test_a_pending_member_id_with_an_instance_id_is_an_unknown_server_error() -> None:
    harness = GroupHarness()
    anna = harness.client("anna")
    anna.send_join()
    anna.instance_id = "instance-1"
    assert anna.send_join().code is ErrorCode.UNKNOWN_SERVER_ERROR
    assert list(harness.group.pending_join_members) == ["anna"]


@behaviour("join.response.leader-sees-all-members")
def test_the_leaders_join_response_lists_absent_static_members_too() -> None:
    harness = GroupHarness()
    anna, ben = harness.reach_stable("anna", "ben", static=True)
    ben.topics = ("foo", "bar")
    request = ben.send_join()
    harness.advance(60_000, heartbeating=[anna])
    assert (request.code, request.response.leader) == (ErrorCode.NONE, "ben")
    assert [(each.member_id, each.group_instance_id, each.metadata) for each in request.response.members] == [
        ("anna", "instance-anna", anna.supported_protocols()[0].metadata),
        ("ben", "instance-ben", ben.supported_protocols()[0].metadata),
    ]
    assert harness.state is GroupState.COMPLETING_REBALANCE


@behaviour("join.response.protocol-type-v7")
def test_the_join_response_names_protocol_and_protocol_type() -> None:
    harness = GroupHarness()
    [anna] = harness.reach_completing_rebalance("anna")
    assert (anna.join_response.protocol_type, anna.join_response.protocol_name) == ("consumer", "range")


@behaviour("join.generation.first-is-one")
def test_the_first_generation_is_one_and_an_empty_generation_counts() -> None:
    harness = GroupHarness()
    [anna] = harness.reach_completing_rebalance("anna")
    assert (anna.generation_id, harness.state) == (1, GroupState.COMPLETING_REBALANCE)
    anna.leave()
    assert (harness.generation_id, harness.state) == (2, GroupState.EMPTY)


@behaviour("join.generation.unchanged-while-preparing")
def test_the_previous_generation_is_valid_until_the_join_phase_ends() -> None:
    harness = GroupHarness()
    _, ben, _ = harness.reach_preparing_rebalance("anna", "ben")
    assert harness.generation_id == 2
    assert ben.heartbeat().code is ErrorCode.REBALANCE_IN_PROGRESS
    assert ben.commit().codes == {("foo", 0): ErrorCode.NONE}


@behaviour("join.sole-member-disjoint-protocols-rejected")
def test_a_sole_member_cannot_change_to_disjoint_protocols() -> None:
    harness = GroupHarness()
    [anna] = harness.reach_stable("anna", protocol_names=("range",))
    anna.protocol_names = ("roundrobin",)
    request = anna.send_join()
    assert (request.code, request.response.member_id) == (ErrorCode.INCONSISTENT_GROUP_PROTOCOL, "anna")
    assert (harness.state, request.events) == (GroupState.STABLE, ())


def test_a_repeated_join_replaces_the_held_one() -> None:
    harness = GroupHarness()
    anna, ben, _ = harness.reach_preparing_rebalance("anna", "ben")
    first, second = ben.send_join(), ben.send_join()
    anna.send_join()
    assert first.is_pending
    assert second.code is ErrorCode.NONE
    assert harness.member_of(ben).awaiting is not AwaitedResponse.JOIN
