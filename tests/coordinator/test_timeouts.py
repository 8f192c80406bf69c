"""What happens when nothing happens: sessions end, newcomers and reserved ids are forgotten, syncs are missed."""

import pytest

from regroup.coordinator.commands import DeadlineKind
from regroup.coordinator.events import MemberExpelled
from regroup.coordinator.group import State, StoredGroup
from regroup.protocol.errors import ErrorCode
from tests.coordinator.story import Story, behaviour


@behaviour("timeout.session.expiry-in-stable")
def test_a_silent_member_is_expelled_after_its_session_timeout() -> None:
    story = Story()
    anna, ben = story.stable("anna", "ben")
    stored = story.group.stored
    story.passes(9_999, beating=[anna])
    assert story.state is State.STABLE
    story.passes(1)
    assert (story.state, story.generation, story.members) == (State.PREPARING, 2, ["anna"])
    assert story.ms_left(DeadlineKind.JOIN_PHASE) == 60_000
    assert ben.beats().code is ErrorCode.UNKNOWN_MEMBER_ID
    assert story.group.stored == stored


@behaviour("timeout.session.expiry-of-last-member")
def test_when_the_last_member_falls_silent_the_group_is_empty() -> None:
    story = Story()
    story.stable("anna")
    story.passes(10_000)
    assert (story.state, story.generation) == (State.EMPTY, 2)
    assert story.group.stored == StoredGroup("consumer", 2, None, None, story.now_ms, ())


@behaviour("timeout.session.parked-join-not-expired")
def test_a_parked_join_is_a_sign_of_life() -> None:
    story = Story()
    anna, ben, _ = story.preparing("anna", "ben")
    assert ben.asks_to_join().is_parked
    story.passes(30_000, beating=[anna])
    assert story.state is State.PREPARING
    assert "ben" in story.members
    assert story.ms_left(DeadlineKind.SESSION, "ben") is None


@behaviour("timeout.session.parked-sync-not-expired")
def test_a_parked_sync_is_a_sign_of_life() -> None:
    story = Story()
    anna, ben = story.completing("anna", "ben")
    parked = ben.syncs()
    story.passes(30_000, beating=[anna])
    assert story.state is State.COMPLETING
    anna.syncs()
    assert parked.code is ErrorCode.NONE
    assert story.ms_left(DeadlineKind.SESSION, "ben") == 10_000


@behaviour("timeout.session.reset-by-offset-commit")
def test_a_commit_is_a_sign_of_life() -> None:
    story = Story()
    [anna] = story.stable("anna")
    story.passes(4_000)
    assert anna.commits(("foo", 0, 1)).codes == {("foo", 0): ErrorCode.NONE}
    assert story.ms_left(DeadlineKind.SESSION, "anna") == 10_000


@behaviour("timeout.session.sync-in-stable-does-not-reset")
def test_a_sync_that_is_answered_at_once_is_no_sign_of_life() -> None:
    story = Story()
    _, ben = story.stable("anna", "ben")
    story.passes(4_000)
    assert (ben.syncs().code, ben.asks_to_join().code) == (ErrorCode.NONE, ErrorCode.NONE)
    assert story.ms_left(DeadlineKind.SESSION, "ben") == 6_000


@behaviour("timeout.session.reset-at-join-completion")
def test_a_new_generation_starts_every_session_timer_again() -> None:
    story = Story()
    anna, ben = story.stable("anna", "ben", static=True)
    story.consumer("carla").joins()
    anna.asks_to_join()
    story.passes(59_000, beating=[ben])
    story.passes(1_000)
    assert [story.ms_left(DeadlineKind.SESSION, name) for name in ("anna", "ben", "carla")] == [10_000] * 3


@behaviour("timeout.new-member.five-minutes")
def test_a_newcomer_has_five_minutes_and_its_parked_join_does_not_help() -> None:
    story = Story()
    story.stable("anna", session_timeout_ms=305_000, rebalance_timeout_ms=600_000)
    request = story.consumer("ben").joins()
    story.passes(299_999)
    assert request.is_parked
    story.passes(1)
    assert (request.code, request.answer.member_id) == (ErrorCode.UNKNOWN_MEMBER_ID, "")
    assert (story.state, story.members) == (State.PREPARING, ["anna"])


def test_a_newcomer_that_gives_a_sign_of_life_is_timed_by_its_session_from_then_on() -> None:
    story = Story()
    story.stable("anna", session_timeout_ms=305_000, rebalance_timeout_ms=600_000)
    ben = story.consumer("ben")
    request = ben.joins()
    story.passes(5_000)
    assert ben.beats(generation_id=1).code is ErrorCode.REBALANCE_IN_PROGRESS
    assert story.ms_left(DeadlineKind.SESSION, "ben") == 10_000
    story.passes(9_999)
    assert request.is_parked
    story.passes(1)
    assert (request.code, request.answer.member_id) == (ErrorCode.UNKNOWN_MEMBER_ID, "")
    assert (story.state, story.members) == (State.PREPARING, ["anna"])


def test_a_newcomer_of_the_very_moment_in_which_the_group_was_loaded_has_five_minutes_too() -> None:
    story = Story()
    story.stable("anna")
    story.fails_over()
    story.consumer("ben", version=3).asks_to_join()
    assert story.ms_left(DeadlineKind.NEWCOMER, "ben") == 300_000
    assert story.ms_left(DeadlineKind.SESSION, "ben") is None


@behaviour("timeout.new-member.becomes-regular")
def test_a_newcomer_becomes_a_member_like_any_other_when_the_join_phase_ends() -> None:
    story = Story()
    anna, ben, carla = story.preparing("anna", "ben")
    anna.asks_to_join()
    ben.asks_to_join()
    assert story.ms_left(DeadlineKind.NEWCOMER, "carla") is None
    assert story.ms_left(DeadlineKind.SESSION, "carla") == 10_000
    parked = carla.syncs()
    story.passes(50_000, beating=[anna, ben])
    assert parked.is_parked


@behaviour("timeout.pending-member.expiry-completes-join")
def test_the_join_phase_ends_when_the_last_reserved_id_is_forgotten() -> None:
    story = Story()
    anna, ben, carla = story.preparing("anna", "ben")
    story.consumer("dora").asks_to_join()
    anna.asks_to_join()
    ben.asks_to_join()
    story.passes(10_000)
    assert [each.generation for each in (anna, ben, carla)] == [3, 3, 3]
    assert story.state is State.COMPLETING


def test_in_an_empty_group_no_generation_begins_when_the_last_reserved_id_is_forgotten() -> None:
    story = Story()
    story.consumer("anna").asks_to_join()
    story.passes(10_000)
    assert [type(event).__name__ for event in story.history] == ["GroupCreated", "MemberIdGiven", "MemberIdForgotten"]
    assert (story.state, story.generation) == (State.EMPTY, 0)


@behaviour("timeout.sync.nobody-syncs")
def test_a_sync_phase_in_which_nobody_syncs_empties_the_group() -> None:
    story = Story()
    everybody = story.completing("anna", "ben", "carla", rebalance_timeout_ms=5_000)
    story.passes(5_000, beating=everybody)
    assert (story.state, story.generation) == (State.EMPTY, 4)
    assert story.group.stored == StoredGroup("consumer", 4, None, None, story.now_ms, ())
    assert {each.beats().code for each in everybody} == {ErrorCode.UNKNOWN_MEMBER_ID}


@behaviour("timeout.sync.followers-missing")
def test_followers_that_never_fetch_their_share_are_expelled_though_the_group_is_stable() -> None:
    story = Story()
    anna, ben, carla = story.completing("anna", "ben", "carla")
    anna.syncs()
    stored = story.group.stored
    story.passes(59_999, beating=[anna, ben, carla])
    assert story.state is State.STABLE
    story.passes(1)
    assert (story.state, story.members) == (State.PREPARING, ["anna"])
    assert anna.beats().code is ErrorCode.REBALANCE_IN_PROGRESS
    assert (ben.beats().code, carla.beats().code) == (ErrorCode.UNKNOWN_MEMBER_ID,) * 2
    assert story.ms_left(DeadlineKind.JOIN_PHASE) == 60_000
    assert story.group.stored == stored


@behaviour("timeout.sync.leader-missing")
def test_a_leader_that_never_assigns_is_expelled() -> None:
    story = Story()
    anna, ben, carla = story.completing("anna", "ben", "carla")
    parked = [ben.syncs(), carla.syncs()]
    story.passes(60_000, beating=[anna])
    assert (story.state, story.members) == (State.PREPARING, ["ben", "carla"])
    assert story.group.leader in ("ben", "carla")
    assert [request.code for request in parked] == [ErrorCode.REBALANCE_IN_PROGRESS] * 2
    assert anna.beats().code is ErrorCode.UNKNOWN_MEMBER_ID
    assert story.ms_left(DeadlineKind.JOIN_PHASE) == 60_000


@behaviour("timeout.sync.duration")
def test_a_sync_phase_lasts_for_the_most_patient_member() -> None:
    story = Story()
    story.consumer("anna", rebalance_timeout_ms=5_000).joins()
    story.consumer("ben", rebalance_timeout_ms=20_000).joins()
    story.passes(5_000)
    assert story.state is State.COMPLETING
    assert story.ms_left(DeadlineKind.SYNC_PHASE) == 20_000


@behaviour("timeout.sync.removes-static-members-too")
def test_a_static_member_that_never_syncs_goes_too() -> None:
    story = Story()
    anna, ben = story.completing("anna", "ben", static=True)
    anna.syncs()
    story.passes(60_000, beating=[anna, ben])
    assert (story.state, story.group.static_members) == (State.PREPARING, {"till-of-anna": "anna"})


@behaviour("timeout.sync.cancelled-by-new-rebalance")
def test_a_new_rebalance_ends_the_wait_for_syncs() -> None:
    story = Story()
    anna, _ = story.completing("anna", "ben")
    anna.topics = ("bar",)
    anna.asks_to_join()
    assert story.ms_left(DeadlineKind.SYNC_PHASE) is None
    assert story.group.owes_sync == ()


@behaviour("timeout.sync.stale-static-id-forces-rebalance")
def test_a_replaced_static_member_owes_its_sync_for_ever() -> None:
    story = Story()
    anna, ben = story.completing("anna", "ben", static=True)
    anna.syncs()
    ben.restarts()
    ben.joins()
    ben.syncs()
    story.passes(59_999, beating=[anna, ben])
    assert story.state is State.STABLE
    story.passes(1)
    assert (story.state, len(story.members)) == (State.PREPARING, 2)


@pytest.mark.parametrize("session_timeout_ms", [6_000, 45_000])
def test_an_expulsion_says_when_the_member_was_last_heard_and_how_long_it_was_waited_for(
    session_timeout_ms: int,
) -> None:
    story = Story()
    [anna] = story.stable("anna", session_timeout_ms=session_timeout_ms)
    story.passes(2_000)
    anna.beats()
    heard_ms = story.now_ms
    story.passes(session_timeout_ms)
    expelled = next(event for event in story.history if isinstance(event, MemberExpelled))
    assert (expelled.last_heard_ms, expelled.timeout_ms) == (heard_ms, session_timeout_ms)
    assert expelled.at_ms == heard_ms + session_timeout_ms


@behaviour("static.replace.session-timer-uses-old-timeout")
def test_a_replaced_static_member_is_timed_as_its_predecessor_until_it_is_heard() -> None:
    story = Story()
    anna, ben = story.stable("anna", "ben", static=True)
    ben.restarts()
    ben.session_timeout_ms = 30_000
    ben.asks_to_join()
    assert story.ms_left(DeadlineKind.SESSION, "ben-2") == 10_000
    story.passes(1_000)
    ben.beats()
    assert story.ms_left(DeadlineKind.SESSION, "ben-2") == 30_000
    story.passes(30_000, beating=[anna])
    expelled = next(event for event in story.history if isinstance(event, MemberExpelled))
    assert (expelled.member, expelled.timeout_ms) == ("ben-2", 30_000)
