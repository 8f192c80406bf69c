"""Kafka's own log is slow, or loses what was written of a group: what waits meanwhile, and what is undone."""

import pytest

from regroup.coordinator.commands import DeadlineKind
from regroup.coordinator.group import State
from regroup.protocol.errors import ErrorCode
from tests.coordinator.story import AS_SEEN_BY_CLIENTS, Story, behaviour

E = ErrorCode


# A new group


@behaviour("join.new-group.create-append-failure")
@pytest.mark.parametrize(("of_the_log", "of_the_coordinator"), AS_SEEN_BY_CLIENTS)
def test_a_group_whose_first_record_is_lost_never_was(of_the_log: ErrorCode, of_the_coordinator: ErrorCode) -> None:
    story = Story()
    story.log_holds_back = True
    request = story.consumer("anna", static=True).asks_to_join()
    assert story.state is State.PREPARING
    story.the_log_loses(of_the_log)
    assert request.code is of_the_coordinator
    assert not story.group.exists


@behaviour("join.member-id-required.response-before-commit")
def test_an_id_is_handed_out_before_the_group_is_committed_and_may_be_worth_nothing() -> None:
    story = Story()
    story.log_holds_back = True
    anna = story.consumer("anna")
    assert anna.asks_to_join().code is E.MEMBER_ID_REQUIRED
    story.the_log_loses(E.NOT_LEADER_OR_FOLLOWER)
    assert anna.asks_to_join().code is E.UNKNOWN_MEMBER_ID


@behaviour("describe.uncommitted-group-is-dead")
def test_a_group_of_which_nothing_is_committed_is_not_to_be_seen() -> None:
    story = Story()
    story.log_holds_back = True
    story.consumer("anna").asks_to_join()
    assert story.describe().group_state == "Dead"
    story.the_log_commits()
    assert story.describe().group_state == "Empty"


# The leader's assignment


@behaviour("sync.completing.leader-commits")
def test_nobody_has_a_share_before_the_assignment_is_committed() -> None:
    story = Story()
    anna, ben = story.completing("anna", "ben")
    story.log_holds_back = True
    parked = [ben.syncs(), anna.syncs()]
    story.passes(4_000)
    assert [request.is_parked for request in parked] == [True, True]
    assert story.state is State.COMPLETING
    story.the_log_commits()
    assert [request.answer.assignment for request in parked] == [b"share of ben", b"share of anna"]
    assert story.state is State.STABLE
    assert story.ms_left(DeadlineKind.SESSION, "ben") == 10_000


def test_a_leader_that_sends_its_sync_again_meanwhile_is_answered_with_what_it_said_first() -> None:
    story = Story()
    anna, ben = story.completing("anna", "ben")
    story.log_holds_back = True
    first, again = anna.syncs({"anna": b"A1", "ben": b"B1"}), anna.syncs({"anna": b"A2", "ben": b"B2"})
    assert (again.events, len(story.group.appends)) == ((), 1)
    story.the_log_commits()
    assert (again.code, again.answer.assignment) == (E.NONE, b"A1")
    assert first.is_parked, "the second took its place"
    assert ben.syncs().answer.assignment == b"B1"


@behaviour("sync.append-failure")
@pytest.mark.parametrize(("of_the_log", "of_the_coordinator"), AS_SEEN_BY_CLIENTS)
def test_an_assignment_that_is_lost_starts_a_rebalance(of_the_log: ErrorCode, of_the_coordinator: ErrorCode) -> None:
    story = Story()
    anna, ben = story.completing("anna", "ben")
    stored = story.group.stored
    story.log_holds_back = True
    parked = [ben.syncs(), anna.syncs()]
    story.passes(4_000)
    story.the_log_loses(of_the_log)
    assert [(request.code, request.answer.assignment) for request in parked] == [(of_the_coordinator, b"")] * 2
    assert (story.state, story.generation) == (State.PREPARING, 2)
    assert all(member.assignment == b"" for member in story.group.members.values())
    assert story.ms_left(DeadlineKind.JOIN_PHASE) == 60_000
    assert [story.ms_left(DeadlineKind.SESSION, name) for name in story.members] == [10_000, 10_000]
    assert story.group.stored == stored


@behaviour("sync.rebalance-before-commit")
def test_an_assignment_that_is_committed_too_late_is_in_the_log_and_nowhere_else() -> None:
    story = Story()
    anna, _ = story.completing("anna", "ben")
    story.log_holds_back = True
    parked = anna.syncs()
    story.consumer("carla", version=3).asks_to_join()
    assert (parked.code, story.state) == (E.REBALANCE_IN_PROGRESS, State.PREPARING)
    story.the_log_commits()
    assert (story.state, story.generation) == (State.PREPARING, 2)
    story.fails_over()
    assert (story.state, story.generation, story.members) == (State.STABLE, 2, ["anna", "ben"])


def test_an_assignment_that_is_lost_too_late_disturbs_nobody() -> None:
    story = Story()
    anna, ben = story.completing("anna", "ben")
    story.log_holds_back = True
    anna.syncs()
    anna.topics = ("bar",)
    anna.asks_to_join()
    ben.asks_to_join()
    assert (story.state, story.generation) == (State.COMPLETING, 3)
    story.the_log_loses(E.NOT_LEADER_OR_FOLLOWER)
    assert (story.state, story.generation) == (State.COMPLETING, 3)


# A static member that came back


@behaviour("static.replace.follower.stable")
def test_a_restarted_member_is_answered_once_its_new_id_is_committed() -> None:
    story = Story()
    _, ben = story.stable("anna", "ben", static=True)
    story.log_holds_back = True
    ben.restarts()
    request = ben.asks_to_join()
    assert request.is_parked
    story.the_log_commits()
    assert (request.code, request.answer.member_id) == (E.NONE, "ben-2")
    assert story.group.stored is not None
    assert [each.member_id for each in story.group.stored.members] == ["anna", "ben-2"]


@behaviour("static.replace.persist-failure")
def test_a_restart_that_is_lost_leaves_the_old_process_its_place() -> None:
    story = Story()
    _, ben = story.stable("anna", "ben", static=True)
    old = story.member(ben)
    story.log_holds_back = True
    zombie = ben.restarts()
    ben.session_timeout_ms, ben.rebalance_timeout_ms = 30_000, 90_000
    request = ben.asks_to_join()
    story.passes(4_000)
    story.the_log_loses(E.UNKNOWN_TOPIC_OR_PARTITION)
    assert (request.code, request.answer.member_id) == (E.COORDINATOR_NOT_AVAILABLE, "")
    assert (request.answer.generation_id, request.answer.leader) == (2, "anna")
    assert (request.answer.protocol_name, request.answer.skip_assignment) == ("range", False)
    assert story.state is State.STABLE
    assert story.group.static_members["till-of-ben"] == "ben"
    assert story.group.members["ben"] == old
    assert story.ms_left(DeadlineKind.SESSION, "ben") == 10_000
    story.log_holds_back = False
    assert zombie.beats().code is E.NONE


def test_a_leader_whose_restart_is_lost_leads_on() -> None:
    story = Story()
    anna, _ = story.stable("anna", "ben", static=True)
    story.log_holds_back = True
    anna.restarts()
    request = anna.asks_to_join()
    assert story.group.leader == "anna-2"
    story.the_log_loses(E.NOT_LEADER_OR_FOLLOWER)
    assert (story.group.leader, request.answer.leader) == ("anna", "anna")
