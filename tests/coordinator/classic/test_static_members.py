"""Static members (KIP-345): a new process replaces the former one, which is fenced."""

import pytest

from regroup.coordinator.commands import DeadlineKind, LeavingMember
from regroup.coordinator.group import GroupState
from regroup.protocol.errors import ErrorCode
from tests.coordinator.group_harness import GroupHarness, behaviour


@behaviour("static.new-instance-joins-stable")
def test_a_new_instance_id_starts_a_rebalance_like_any_new_member() -> None:
    harness = GroupHarness()
    harness.reach_stable("anna", "ben", static=True)
    assert harness.client("carla", static=True).send_join().is_pending
    assert (harness.state, harness.member_ids) == (GroupState.PREPARING_REBALANCE, ["anna", "ben", "carla"])
    assert harness.remaining_ms(DeadlineKind.NEW_MEMBER_JOIN, "carla") == 300_000


@behaviour("static.replace.follower.stable", "static.replace.keeps-assignment")
def test_a_static_follower_restarts_in_stable_without_a_rebalance() -> None:
    harness = GroupHarness()
    _, ben = harness.reach_stable("anna", "ben", static=True)
    harness.advance(4_000)
    ben.restart()
    request = ben.send_join()
    assert (request.code, request.response.member_id, request.response.generation_id) == (ErrorCode.NONE, "ben-2", 2)
    assert (request.response.leader, request.response.members) == ("anna", [])
    assert (request.response.skip_assignment, request.response.protocol_name) == (False, "range")
    assert (harness.state, harness.generation_id) == (GroupState.STABLE, 2)
    assert harness.remaining_ms(DeadlineKind.SESSION, "ben-2") == 10_000
    stored = harness.group.group_metadata
    assert stored is not None
    assert [(each.member_id, each.assignment) for each in stored.members] == [
        ("anna", b"assignment of anna"),
        ("ben-2", b"assignment of ben"),
    ]
    assert ben.sync().response.assignment == b"assignment of ben"


@behaviour("static.replace.leader.stable.v9")
def test_a_restarted_static_leader_leads_and_must_skip_the_assignment() -> None:
    harness = GroupHarness()
    anna, _ = harness.reach_stable("anna", "ben", static=True)
    anna.restart()
    request = anna.send_join()
    assert (request.code, request.response.member_id, request.response.leader) == (ErrorCode.NONE, "anna-2", "anna-2")
    assert request.response.skip_assignment
    assert sorted(each.member_id for each in request.response.members) == ["anna-2", "ben"]
    assert (harness.state, request.response.generation_id) == (GroupState.STABLE, 2)
    assert harness.group.group_metadata is not None
    assert harness.group.group_metadata.leader_id == "anna-2"


@behaviour("static.replace.leader.stable.before-v9")
def test_a_restarted_leader_before_join_group_v9_gets_its_former_id_as_the_leader() -> None:
    harness = GroupHarness()
    anna, _ = harness.reach_stable("anna", "ben", static=True, version=8)
    anna.restart()
    request = anna.send_join()
    assert (request.response.leader, request.response.members, request.response.generation_id) == ("anna", [], 2)
    assert (harness.state, harness.group.leader_id) == (GroupState.STABLE, "anna-2")
    assert harness.group.group_metadata is not None
    assert harness.group.group_metadata.leader_id == "anna-2"


@behaviour("static.replace.selected-protocol-changes")
def test_a_restart_that_would_change_the_protocol_starts_a_rebalance() -> None:
    harness = GroupHarness()
    _, ben = harness.reach_stable("anna", "ben", static=True)
    stored = harness.group.group_metadata
    ben.restart()
    ben.protocol_names = ("roundrobin",)
    assert ben.send_join().is_pending
    assert harness.state is GroupState.PREPARING_REBALANCE
    assert harness.remaining_ms(DeadlineKind.JOIN_PHASE) == 60_000
    assert harness.group.group_metadata == stored


@behaviour("static.replace.preparing", "static.fenced-join-body")
def test_the_held_join_of_a_replaced_process_is_fenced() -> None:
    harness = GroupHarness()
    anna, ben = harness.reach_stable("anna", "ben", static=True)
    harness.client("carla").join()
    old = ben.send_join()
    ben.restart()
    new = ben.send_join()
    assert (old.code, old.response.member_id) == (ErrorCode.FENCED_INSTANCE_ID, "ben")
    assert (old.response.leader, old.response.generation_id, old.response.members) == ("", -1, [])
    assert (old.response.protocol_type, old.response.protocol_name) == (None, None)
    assert new.is_pending
    assert harness.state is GroupState.PREPARING_REBALANCE
    anna.send_join()
    assert new.response.member_id == "ben-2"


@behaviour("static.replace.preparing")
def test_a_restart_may_complete_the_join_phase() -> None:
    harness = GroupHarness()
    anna, ben = harness.reach_stable("anna", "ben", static=True)
    anna.send_join()
    ben.restart()
    assert ben.send_join().code is ErrorCode.NONE
    assert (harness.state, harness.generation_id) == (GroupState.COMPLETING_REBALANCE, 3)


def test_the_held_sync_of_a_replaced_process_is_fenced_and_the_sync_phase_ends() -> None:
    harness = GroupHarness()
    _, ben = harness.reach_completing_rebalance("anna", "ben", static=True)
    old = ben.sync()
    ben.restart()
    assert ben.send_join().is_pending
    assert old.code is ErrorCode.FENCED_INSTANCE_ID
    assert harness.state is GroupState.PREPARING_REBALANCE


@behaviour("static.replace.old-id-fenced-everywhere")
def test_every_request_of_a_replaced_process_is_fenced() -> None:
    harness = GroupHarness()
    _, ben = harness.reach_stable("anna", "ben", static=True)
    former = ben.restart()
    ben.send_join()
    fenced = ErrorCode.FENCED_INSTANCE_ID
    assert (former.send_join().code, former.sync().code, former.heartbeat().code) == (fenced, fenced, fenced)
    assert former.commit(("foo", 0, 1)).codes == {("foo", 0): fenced}
    assert former.leave().response.members[0].error_code == fenced
    former.instance_id = None
    unknown = ErrorCode.UNKNOWN_MEMBER_ID
    assert (former.send_join().code, former.sync().code, former.heartbeat().code) == (unknown, unknown, unknown)
    assert former.commit(("foo", 0, 1)).codes == {("foo", 0): unknown}
    assert former.leave().response.members[0].error_code == unknown
    assert harness.state is GroupState.STABLE


@behaviour("static.known-id.follower-unchanged")
def test_a_static_follower_that_kept_its_member_id_starts_no_rebalance() -> None:
    harness = GroupHarness()
    _, ben = harness.reach_stable("anna", "ben", static=True)
    request = ben.send_join()
    assert (request.code, request.response.member_id, request.response.generation_id) == (ErrorCode.NONE, "ben", 2)
    assert (request.response.leader, request.response.members, request.events) == ("anna", [], ())


@behaviour("static.known-id.leader-rebalances")
def test_a_static_leader_that_kept_its_member_id_starts_a_rebalance() -> None:
    harness = GroupHarness()
    anna, _ = harness.reach_stable("anna", "ben", static=True)
    assert anna.send_join().is_pending
    assert harness.state is GroupState.PREPARING_REBALANCE


@behaviour("static.wrong-member-id", "static.unknown-instance-known-member")
def test_instance_id_and_member_id_must_belong_together() -> None:
    harness = GroupHarness()
    anna, _ = harness.reach_stable("anna", "ben", static=True)
    wrong = anna.send_join(member_id="unknown-id")
    assert (wrong.code, wrong.response.member_id) == (ErrorCode.FENCED_INSTANCE_ID, "unknown-id")
    assert anna.send_join(instance_id="nope").code is ErrorCode.UNKNOWN_MEMBER_ID
    assert harness.state is GroupState.STABLE


@behaviour("static.id-changes-every-time")
def test_every_restart_gets_another_member_id() -> None:
    harness = GroupHarness()
    anna, _ = harness.reach_stable("anna", "ben", static=True)
    for process in (2, 3, 4, 5, 6):
        anna.restart()
        request = anna.send_join()
        assert request.response.member_id == f"anna-{process}"
        assert harness.group.static_members["instance-anna"] == f"anna-{process}"
        assert "GroupMetadataWritten" in request.event_types
    assert harness.generation_id == 2


@behaviour("static.session-expiry")
def test_a_static_member_that_restarts_too_late_is_removed() -> None:
    harness = GroupHarness()
    anna, _ = harness.reach_stable("anna", "ben", static=True)
    harness.advance(10_000, heartbeating=[anna])
    assert (harness.state, harness.group.static_members) == (GroupState.PREPARING_REBALANCE, {"instance-anna": "anna"})


@behaviour("static.full-group-cannot-restart")
def test_a_static_member_of_a_full_group_cannot_restart() -> None:
    harness = GroupHarness(group_max_size=2)
    _, ben = harness.reach_stable("anna", "ben", static=True)
    ben.restart()
    request = ben.send_join()
    assert (request.code, request.response.member_id) == (ErrorCode.GROUP_MAX_SIZE_REACHED, "")
    assert (harness.state, harness.group.static_members["instance-ben"]) == (GroupState.STABLE, "ben")


@behaviour("static.does-not-leave-on-close")
def test_a_static_member_that_closes_stays_until_its_session_timeout() -> None:
    harness = GroupHarness()
    anna, _ = harness.reach_stable("anna", "ben", static=True)
    harness.advance(9_999, heartbeating=[anna])
    assert (harness.state, harness.member_ids) == (GroupState.STABLE, ["anna", "ben"])
    harness.advance(1)
    assert harness.member_ids == ["anna"]


@behaviour("static.replace.keeps-client-identity")
def test_a_restart_keeps_the_client_id_and_host_of_the_first_process() -> None:
    harness = GroupHarness()
    _, ben = harness.reach_stable("anna", "ben", static=True)
    ben.restart()
    ben.client_id, ben.client_host = "c9", "/10.0.0.9"
    ben.send_join()
    assert (harness.member_of(ben).profile.client_id, harness.member_of(ben).profile.client_host) == ("c", "/10.0.0.7")


@pytest.mark.parametrize("removed_by", ["the member", "an administrator"])
def test_the_instance_id_of_a_removed_member_can_be_used_again(removed_by: str) -> None:
    harness = GroupHarness()
    anna, ben = harness.reach_stable("anna", "ben", static=True)
    if removed_by == "the member":
        ben.leave()
    else:
        harness.remove_members(LeavingMember("", ben.instance_id))
    anna.send_join()
    ben.restart()
    assert ben.send_join().is_pending
    assert harness.group.static_members["instance-ben"] == "ben-2"


def test_a_new_static_member_that_restarts_is_no_new_member_any_more() -> None:
    harness = GroupHarness()
    harness.reach_stable("anna")
    carla = harness.client("carla", static=True)
    carla.send_join()
    carla.restart()
    assert carla.send_join().is_pending
    assert harness.member_ids == ["anna", "carla-2"]
    assert harness.remaining_ms(DeadlineKind.NEW_MEMBER_JOIN, "carla-2") is None
    assert harness.remaining_ms(DeadlineKind.SESSION, "carla-2") is None
