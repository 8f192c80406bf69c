"""Heartbeat and LeaveGroup."""

import pytest

from regroup.coordinator.commands import DeadlineKind, Leaving
from regroup.coordinator.group import State, StoredGroup
from regroup.protocol.errors import ErrorCode
from tests.coordinator.stage import Request
from tests.coordinator.story import Story, behaviour


def codes(request: Request) -> list[tuple[str, ErrorCode]]:
    """Of each entry of a LeaveGroup answer."""
    assert request.code is ErrorCode.NONE
    return [(each.member_id, ErrorCode(each.error_code)) for each in request.answer.members]


@behaviour("heartbeat.unknown-group")
def test_a_heartbeat_for_no_group_is_a_strangers() -> None:
    assert Story().consumer("anna", id="m", generation=1).beats().code is ErrorCode.UNKNOWN_MEMBER_ID


@behaviour("heartbeat.empty-group")
def test_a_heartbeat_into_an_empty_group_is_a_strangers() -> None:
    story = Story()
    assert story.empty().beats(generation_id=2).code is ErrorCode.UNKNOWN_MEMBER_ID
    assert story.state is State.EMPTY


@behaviour("heartbeat.unknown-member")
def test_a_strangers_heartbeat_is_refused() -> None:
    story = Story()
    story.stable("anna")
    assert story.consumer("ben", id="other", generation=1).beats().code is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_reserved_id_has_no_heartbeat_yet() -> None:
    story = Story()
    anna = story.consumer("anna")
    anna.asks_to_join()
    assert anna.beats(generation_id=0).code is ErrorCode.UNKNOWN_MEMBER_ID


@behaviour("heartbeat.illegal-generation")
@pytest.mark.parametrize("generation", [0, 2])
def test_a_heartbeat_of_another_generation_is_refused_and_is_no_sign_of_life(generation: int) -> None:
    story = Story()
    [anna] = story.stable("anna")
    story.passes(4_000)
    assert anna.beats(generation_id=generation).code is ErrorCode.ILLEGAL_GENERATION
    assert story.ms_left(DeadlineKind.SESSION, "anna") == 6_000


@behaviour("heartbeat.stable", "timeout.session.reset-by-heartbeat")
def test_a_heartbeat_starts_the_session_timer_again_and_changes_nothing_else() -> None:
    story = Story()
    [anna] = story.stable("anna")
    story.passes(4_000)
    beat = anna.beats()
    assert (beat.code, beat.events) == (ErrorCode.NONE, ())
    assert story.ms_left(DeadlineKind.SESSION, "anna") == 10_000


@behaviour("heartbeat.completing")
def test_in_the_sync_phase_a_heartbeat_is_welcome() -> None:
    story = Story()
    _, ben = story.completing("anna", "ben")
    story.passes(4_000)
    assert ben.beats().code is ErrorCode.NONE
    assert story.ms_left(DeadlineKind.SESSION, "ben") == 10_000
    assert story.state is State.COMPLETING


@behaviour("heartbeat.completing.previous-generation")
def test_in_the_sync_phase_the_generation_before_is_over() -> None:
    story = Story()
    anna, _ = story.completing("anna", "ben")
    assert anna.beats(generation_id=1).code is ErrorCode.ILLEGAL_GENERATION


@behaviour("heartbeat.fenced-static", "heartbeat.unknown-instance-id")
def test_an_instance_id_belongs_to_one_member() -> None:
    story = Story()
    anna, _ = story.stable("anna", "ben", static=True)
    assert anna.beats(member_id="wrong").code is ErrorCode.FENCED_INSTANCE_ID
    assert anna.beats(group_instance_id="nope").code is ErrorCode.UNKNOWN_MEMBER_ID


@behaviour("heartbeat.discovers-rebalance")
def test_a_follower_learns_of_a_rebalance_by_its_heartbeat() -> None:
    story = Story()
    _, ben, _ = story.preparing("anna", "ben")
    story.passes(4_000)
    assert ben.beats().code is ErrorCode.REBALANCE_IN_PROGRESS
    assert story.ms_left(DeadlineKind.SESSION, "ben") == 10_000


@behaviour("leave.unknown-group.v3")
def test_whoever_leaves_no_group_is_unknown_there() -> None:
    story = Story()
    assert codes(story.leave(Leaving("anna"))) == [("anna", ErrorCode.UNKNOWN_MEMBER_ID)]
    assert not story.group.exists


@behaviour("leave.unknown-member")
def test_a_stranger_cannot_leave() -> None:
    story = Story()
    story.stable("anna")
    request = story.leave(Leaving("other"))
    assert codes(request) == [("other", ErrorCode.UNKNOWN_MEMBER_ID)]
    assert (story.state, story.generation, request.events) == (State.STABLE, 1, ())


@behaviour("leave.stable.not-last")
def test_when_one_leaves_the_others_rebalance() -> None:
    story = Story()
    _, ben = story.stable("anna", "ben")
    stored = story.group.stored
    assert codes(ben.leaves()) == [("ben", ErrorCode.NONE)]
    assert (story.state, story.generation, story.members) == (State.PREPARING, 2, ["anna"])
    assert story.ms_left(DeadlineKind.SESSION, "ben") is None
    assert story.ms_left(DeadlineKind.JOIN_PHASE) == 60_000
    assert story.group.stored == stored


@behaviour("leave.stable.last-member")
def test_when_the_last_one_leaves_the_group_is_empty_and_stored_so() -> None:
    story = Story()
    [anna] = story.stable("anna")
    assert codes(anna.leaves()) == [("anna", ErrorCode.NONE)]
    assert (story.state, story.generation) == (State.EMPTY, 2)
    assert story.group.stored == StoredGroup("consumer", 2, None, None, story.now_ms, ())


@behaviour("leave.preparing.completes-join")
def test_the_join_phase_ends_when_the_last_missing_member_leaves() -> None:
    story = Story()
    anna, ben, carla = story.preparing("anna", "ben")
    anna.asks_to_join()
    ben.leaves()
    assert (story.state, story.generation) == (State.COMPLETING, 3)
    assert (anna.generation, carla.generation) == (3, 3)
    assert story.ms_left(DeadlineKind.JOIN_PHASE) is None


@behaviour("leave.preparing.not-everyone-joined")
def test_the_join_phase_goes_on_while_somebody_else_is_missing() -> None:
    story = Story()
    _, ben, _ = story.preparing("anna", "ben")
    story.passes(1_000)
    ben.leaves()
    assert story.state is State.PREPARING
    assert story.ms_left(DeadlineKind.JOIN_PHASE) == 59_000


@behaviour("leave.pending-member")
def test_a_reserved_id_can_be_given_back() -> None:
    story = Story()
    story.stable("anna")
    ben = story.consumer("ben")
    ben.asks_to_join()
    assert codes(ben.leaves()) == [("ben", ErrorCode.NONE)]
    assert (story.state, story.generation) == (State.PREPARING, 1), "as in Kafka, though nobody was lost"
    assert story.ms_left(DeadlineKind.RESERVED_ID, "ben") is None


def test_a_reserved_id_that_is_given_back_to_an_empty_group_changes_nothing_else() -> None:
    story = Story()
    ben = story.consumer("ben")
    ben.asks_to_join()
    assert codes(ben.leaves()) == [("ben", ErrorCode.NONE)]
    assert (story.state, story.generation) == (State.EMPTY, 0), "as in Kafka: no rebalance that finds nobody"
    assert story.ms_left(DeadlineKind.JOIN_PHASE) is None


@behaviour("leave.pending-member-completes-join")
def test_the_join_phase_ends_when_the_last_reserved_id_is_given_back() -> None:
    story = Story()
    anna, ben, carla = story.preparing("anna", "ben")
    dora = story.consumer("dora")
    dora.asks_to_join()
    anna.asks_to_join()
    ben.asks_to_join()
    dora.leaves()
    assert (story.state, story.generation) == (State.COMPLETING, 3)
    assert [each.generation for each in (anna, ben, carla)] == [3, 3, 3]


@behaviour("leave.batch.mixed")
def test_each_entry_of_a_list_has_its_own_answer_and_the_group_reacts_once() -> None:
    story = Story()
    story.stable("anna", "ben", "carla")
    story.consumer("dora").asks_to_join()
    request = story.leave(Leaving("ben"), Leaving("dora"), Leaving("ghost"))
    assert codes(request) == [
        ("ben", ErrorCode.NONE),
        ("dora", ErrorCode.NONE),
        ("ghost", ErrorCode.UNKNOWN_MEMBER_ID),
    ]
    assert request.event_names == ["MemberLeft", "MemberIdForgotten", "RebalanceStarted"]
    assert story.state is State.PREPARING


@behaviour("leave.batch.all-members")
def test_when_all_leave_at_once_there_is_one_generation_more() -> None:
    story = Story()
    story.stable("anna", "ben")
    story.leave(Leaving("anna"), Leaving("ben"))
    assert (story.state, story.generation) == (State.EMPTY, 3)
    assert story.group.stored == StoredGroup("consumer", 3, None, None, story.now_ms, ())


@behaviour("leave.batch.duplicate-entry", "leave.batch.empty-list")
def test_nobody_leaves_twice_and_nobody_may_leave() -> None:
    story = Story()
    story.stable("anna", "ben")
    assert codes(story.leave()) == []
    assert story.state is State.STABLE
    assert codes(story.leave(Leaving("ben"), Leaving("ben"))) == [
        ("ben", ErrorCode.NONE),
        ("ben", ErrorCode.UNKNOWN_MEMBER_ID),
    ]
    assert story.state is State.PREPARING


@behaviour("leave.empty-group")
def test_nobody_can_leave_an_empty_group() -> None:
    story = Story()
    anna = story.empty()
    request = anna.leaves()
    assert codes(request) == [("anna", ErrorCode.UNKNOWN_MEMBER_ID)]
    assert (story.generation, request.events) == (2, ())


@behaviour("leave.static.by-instance-only")
def test_an_operator_removes_a_static_member_by_its_instance_id() -> None:
    story = Story()
    _, ben = story.stable("anna", "ben", static=True)
    request = story.leave(Leaving("", ben.instance_id))
    assert codes(request) == [("", ErrorCode.NONE)]
    assert request.answer.members[0].group_instance_id == ben.instance_id
    assert story.state is State.PREPARING
    assert story.group.static_members == {"till-of-anna": "anna"}


@behaviour("leave.static.by-member-id-only")
def test_a_static_member_may_be_named_by_its_member_id_alone() -> None:
    story = Story()
    story.stable("anna", "ben", static=True)
    assert codes(story.leave(Leaving("ben"))) == [("ben", ErrorCode.NONE)]
    assert (story.state, list(story.group.static_members)) == (State.PREPARING, ["till-of-anna"])


@behaviour("leave.static.unknown-instance")
def test_an_instance_id_that_nobody_has_cannot_leave() -> None:
    story = Story()
    story.stable("anna", "ben", static=True)
    assert codes(story.leave(Leaving("", "nope"), Leaving("anna", "nope"))) == [
        ("", ErrorCode.UNKNOWN_MEMBER_ID),
        ("anna", ErrorCode.UNKNOWN_MEMBER_ID),
    ]
    assert story.state is State.STABLE


@behaviour("leave.static.batch-valid")
def test_an_operator_may_remove_everybody_by_instance_id() -> None:
    story = Story()
    story.stable("anna", "ben", static=True)
    request = story.leave(Leaving("", "till-of-anna"), Leaving("", "till-of-ben"))
    assert codes(request) == [("", ErrorCode.NONE), ("", ErrorCode.NONE)]
    assert story.state is State.EMPTY
    assert story.group.stored == StoredGroup("consumer", 3, None, None, story.now_ms, ())
