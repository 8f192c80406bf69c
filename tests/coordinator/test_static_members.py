"""Static members (KIP-345): they keep their place while they restart, and whoever uses an old id is fenced."""

import pytest

from regroup.coordinator.commands import DeadlineKind, Leaving
from regroup.coordinator.group import State
from regroup.protocol.errors import ErrorCode
from tests.coordinator.story import Story, behaviour


@behaviour("static.new-instance-joins-stable")
def test_a_new_instance_id_starts_a_rebalance_like_any_newcomer() -> None:
    story = Story()
    story.stable("anna", "ben", static=True)
    assert story.consumer("carla", static=True).asks_to_join().is_parked
    assert (story.state, story.members) == (State.PREPARING, ["anna", "ben", "carla"])
    assert story.ms_left(DeadlineKind.NEWCOMER, "carla") == 300_000


@behaviour("static.replace.follower.stable", "static.replace.keeps-assignment")
def test_a_follower_restarts_and_nobody_notices() -> None:
    story = Story()
    _, ben = story.stable("anna", "ben", static=True)
    story.passes(4_000)
    ben.restarts()
    request = ben.asks_to_join()
    assert (request.code, request.answer.member_id, request.answer.generation_id) == (ErrorCode.NONE, "ben-2", 2)
    assert (request.answer.leader, request.answer.members) == ("anna", [])
    assert (request.answer.skip_assignment, request.answer.protocol_name) == (False, "range")
    assert (story.state, story.generation) == (State.STABLE, 2)
    assert story.ms_left(DeadlineKind.SESSION, "ben-2") == 10_000
    stored = story.group.stored
    assert stored is not None
    assert [(each.member_id, each.assignment) for each in stored.members] == [
        ("anna", b"share of anna"),
        ("ben-2", b"share of ben"),
    ]
    assert ben.syncs().answer.assignment == b"share of ben"


@behaviour("static.replace.leader.stable.v9")
def test_a_leader_restarts_leads_on_and_must_not_assign_again() -> None:
    story = Story()
    anna, _ = story.stable("anna", "ben", static=True)
    anna.restarts()
    request = anna.asks_to_join()
    assert (request.code, request.answer.member_id, request.answer.leader) == (ErrorCode.NONE, "anna-2", "anna-2")
    assert request.answer.skip_assignment
    assert sorted(each.member_id for each in request.answer.members) == ["anna-2", "ben"]
    assert (story.state, request.answer.generation_id) == (State.STABLE, 2)
    assert story.group.stored is not None
    assert story.group.stored.leader == "anna-2"


@behaviour("static.replace.leader.stable.before-v9")
def test_a_leader_that_would_assign_again_is_not_told_that_it_leads() -> None:
    story = Story()
    anna, _ = story.stable("anna", "ben", static=True, version=8)
    anna.restarts()
    request = anna.asks_to_join()
    assert (request.answer.leader, request.answer.members, request.answer.generation_id) == ("anna", [], 2)
    assert (story.state, story.group.leader) == (State.STABLE, "anna-2")
    assert story.group.stored is not None
    assert story.group.stored.leader == "anna-2"


@behaviour("static.replace.selected-protocol-changes")
def test_a_restart_that_would_change_the_protocol_starts_a_rebalance() -> None:
    story = Story()
    _, ben = story.stable("anna", "ben", static=True)
    stored = story.group.stored
    ben.restarts()
    ben.protocols = ("roundrobin",)
    assert ben.asks_to_join().is_parked
    assert story.state is State.PREPARING
    assert story.ms_left(DeadlineKind.JOIN_PHASE) == 60_000
    assert story.group.stored == stored


@behaviour("static.replace.preparing", "static.fenced-join-body")
def test_whoever_restarts_while_its_join_waits_is_fenced_there() -> None:
    story = Story()
    anna, ben = story.stable("anna", "ben", static=True)
    story.consumer("carla").joins()
    old = ben.asks_to_join()
    ben.restarts()
    new = ben.asks_to_join()
    assert (old.code, old.answer.member_id) == (ErrorCode.FENCED_INSTANCE_ID, "ben")
    assert (old.answer.leader, old.answer.generation_id, old.answer.members) == ("", -1, [])
    assert (old.answer.protocol_type, old.answer.protocol_name) == (None, None)
    assert new.is_parked
    assert story.state is State.PREPARING
    anna.asks_to_join()
    assert new.answer.member_id == "ben-2"


@behaviour("static.replace.preparing")
def test_a_restart_may_be_the_last_thing_the_join_phase_waited_for() -> None:
    story = Story()
    anna, ben = story.stable("anna", "ben", static=True)
    anna.asks_to_join()
    ben.restarts()
    assert ben.asks_to_join().code is ErrorCode.NONE
    assert (story.state, story.generation) == (State.COMPLETING, 3)


def test_whoever_restarts_while_its_sync_waits_is_fenced_there_and_the_sync_phase_ends() -> None:
    story = Story()
    _, ben = story.completing("anna", "ben", static=True)
    old = ben.syncs()
    ben.restarts()
    assert ben.asks_to_join().is_parked
    assert old.code is ErrorCode.FENCED_INSTANCE_ID
    assert story.state is State.PREPARING


@behaviour("static.replace.old-id-fenced-everywhere")
def test_the_old_process_is_fenced_whatever_it_sends() -> None:
    story = Story()
    _, ben = story.stable("anna", "ben", static=True)
    zombie = ben.restarts()
    ben.asks_to_join()
    fenced = ErrorCode.FENCED_INSTANCE_ID
    assert (zombie.asks_to_join().code, zombie.syncs().code, zombie.beats().code) == (fenced, fenced, fenced)
    assert zombie.commits(("foo", 0, 1)).codes == {("foo", 0): fenced}
    assert zombie.leaves().answer.members[0].error_code == fenced
    zombie.instance_id = None
    unknown = ErrorCode.UNKNOWN_MEMBER_ID
    assert (zombie.asks_to_join().code, zombie.syncs().code, zombie.beats().code) == (unknown, unknown, unknown)
    assert zombie.commits(("foo", 0, 1)).codes == {("foo", 0): unknown}
    assert zombie.leaves().answer.members[0].error_code == unknown
    assert story.state is State.STABLE


@behaviour("static.known-id.follower-unchanged")
def test_a_static_follower_that_kept_its_id_disturbs_nobody() -> None:
    story = Story()
    _, ben = story.stable("anna", "ben", static=True)
    request = ben.asks_to_join()
    assert (request.code, request.answer.member_id, request.answer.generation_id) == (ErrorCode.NONE, "ben", 2)
    assert (request.answer.leader, request.answer.members, request.events) == ("anna", [], ())


@behaviour("static.known-id.leader-rebalances")
def test_a_static_leader_that_kept_its_id_starts_a_rebalance() -> None:
    story = Story()
    anna, _ = story.stable("anna", "ben", static=True)
    assert anna.asks_to_join().is_parked
    assert story.state is State.PREPARING


@behaviour("static.wrong-member-id", "static.unknown-instance-known-member")
def test_instance_id_and_member_id_must_belong_together() -> None:
    story = Story()
    anna, _ = story.stable("anna", "ben", static=True)
    wrong = anna.asks_to_join(member_id="unknown-id")
    assert (wrong.code, wrong.answer.member_id) == (ErrorCode.FENCED_INSTANCE_ID, "unknown-id")
    assert anna.asks_to_join(group_instance_id="nope").code is ErrorCode.UNKNOWN_MEMBER_ID
    assert story.state is State.STABLE


@behaviour("static.id-changes-every-time")
def test_every_restart_brings_another_member_id() -> None:
    story = Story()
    anna, _ = story.stable("anna", "ben", static=True)
    for life in (2, 3, 4, 5, 6):
        anna.restarts()
        request = anna.asks_to_join()
        assert request.answer.member_id == f"anna-{life}"
        assert story.group.static_members["till-of-anna"] == f"anna-{life}"
        assert "GroupStored" in request.event_names
    assert story.generation == 2


@behaviour("static.session-expiry")
def test_a_restart_that_takes_too_long_costs_the_place() -> None:
    story = Story()
    anna, _ = story.stable("anna", "ben", static=True)
    story.passes(10_000, beating=[anna])
    assert (story.state, story.group.static_members) == (State.PREPARING, {"till-of-anna": "anna"})


@behaviour("static.full-group-cannot-restart")
def test_in_a_full_group_nobody_can_restart() -> None:
    story = Story(group_max_size=2)
    _, ben = story.stable("anna", "ben", static=True)
    ben.restarts()
    request = ben.asks_to_join()
    assert (request.code, request.answer.member_id) == (ErrorCode.GROUP_MAX_SIZE_REACHED, "")
    assert (story.state, story.group.static_members["till-of-ben"]) == (State.STABLE, "ben")


@behaviour("static.does-not-leave-on-close")
def test_a_static_member_that_closes_without_a_word_keeps_its_place_until_its_session_ends() -> None:
    story = Story()
    anna, _ = story.stable("anna", "ben", static=True)
    story.passes(9_999, beating=[anna])
    assert (story.state, story.members) == (State.STABLE, ["anna", "ben"])
    story.passes(1)
    assert story.members == ["anna"]


@behaviour("static.replace.keeps-client-identity")
def test_a_restart_keeps_the_client_id_and_host_of_the_first_process() -> None:
    story = Story()
    _, ben = story.stable("anna", "ben", static=True)
    ben.restarts()
    ben.client_id, ben.client_host = "c9", "/10.0.0.9"
    ben.asks_to_join()
    assert (story.member(ben).client_id, story.member(ben).client_host) == ("c", "/10.0.0.7")


@pytest.mark.parametrize("kind", ["leaves", "is removed"])
def test_an_instance_id_that_is_free_again_belongs_to_whoever_comes_next(kind: str) -> None:
    story = Story()
    anna, ben = story.stable("anna", "ben", static=True)
    if kind == "leaves":
        ben.leaves()
    else:
        story.leave(Leaving("", ben.instance_id))
    anna.asks_to_join()
    ben.restarts()
    assert ben.asks_to_join().is_parked
    assert story.group.static_members["till-of-ben"] == "ben-2"


def test_a_static_newcomer_that_restarts_before_its_first_generation_is_a_newcomer_no_more() -> None:
    story = Story()
    story.stable("anna")
    carla = story.consumer("carla", static=True)
    carla.asks_to_join()
    carla.restarts()
    assert carla.asks_to_join().is_parked
    assert story.members == ["anna", "carla-2"]
    assert story.ms_left(DeadlineKind.NEWCOMER, "carla-2") is None
    assert story.ms_left(DeadlineKind.SESSION, "carla-2") is None
