"""The emulated Kafka log delays or loses a group's creation, its assignments, or the replacement of a static member."""

import pytest

from regroup.coordinator.commands import DeadlineKind
from regroup.coordinator.group import GroupState
from regroup.coordinator.responses import heartbeat_response
from regroup.protocol.errors import ErrorCode
from tests.coordinator.group_harness import LOG_AND_CLIENT_ERRORS, GroupHarness, behaviour

E = ErrorCode


# A new group


@behaviour("join.new-group.create-append-failure")
@pytest.mark.parametrize(("log_error", "client_error"), LOG_AND_CLIENT_ERRORS)
def test_a_group_whose_creation_is_lost_does_not_exist(log_error: ErrorCode, client_error: ErrorCode) -> None:
    harness = GroupHarness()
    harness.log_delays_appends = True
    request = harness.client("anna", static=True).send_join()
    assert harness.state is GroupState.PREPARING_REBALANCE
    harness.fail_append(log_error)
    assert request.code is client_error
    assert not harness.group.exists


@behaviour("join.member-id-required.response-before-commit")
def test_a_member_id_is_returned_before_the_group_is_committed_and_may_be_lost() -> None:
    harness = GroupHarness()
    harness.log_delays_appends = True
    anna = harness.client("anna")
    assert anna.send_join().code is E.MEMBER_ID_REQUIRED
    harness.fail_append(E.NOT_LEADER_OR_FOLLOWER)
    assert anna.send_join().code is E.UNKNOWN_MEMBER_ID


@behaviour("describe.uncommitted-group-is-dead")
def test_a_group_whose_creation_is_not_committed_is_described_as_dead() -> None:
    harness = GroupHarness()
    harness.log_delays_appends = True
    harness.client("anna").send_join()
    assert harness.describe_group().group_state == "Dead"
    harness.complete_append()
    assert harness.describe_group().group_state == "Empty"


# The leader's assignment


@behaviour("sync.completing.leader-commits")
def test_sync_responses_are_held_until_the_assignment_is_committed() -> None:
    harness = GroupHarness()
    anna, ben = harness.reach_completing_rebalance("anna", "ben")
    harness.log_delays_appends = True
    held = [ben.sync(), anna.sync()]
    harness.advance(4_000)
    assert [request.is_pending for request in held] == [True, True]
    assert harness.state is GroupState.COMPLETING_REBALANCE
    harness.complete_append()
    assert [request.response.assignment for request in held] == [b"assignment of ben", b"assignment of anna"]
    assert harness.state is GroupState.STABLE
    assert harness.remaining_ms(DeadlineKind.SESSION, "ben") == 10_000


def test_a_repeated_sync_of_the_leader_does_not_replace_its_uncommitted_assignments() -> None:
    harness = GroupHarness()
    anna, ben = harness.reach_completing_rebalance("anna", "ben")
    harness.log_delays_appends = True
    first, again = anna.sync({"anna": b"A1", "ben": b"B1"}), anna.sync({"anna": b"A2", "ben": b"B2"})
    assert (again.events, len(harness.group.pending_appends)) == ((), 1)
    harness.complete_append()
    assert (again.code, again.response.assignment) == (E.NONE, b"A1")
    assert first.is_pending, "the second one replaced it"
    assert ben.sync().response.assignment == b"B1"


@behaviour("sync.append-failure")
@pytest.mark.parametrize(("log_error", "client_error"), LOG_AND_CLIENT_ERRORS)
def test_an_assignment_that_is_lost_starts_a_rebalance(log_error: ErrorCode, client_error: ErrorCode) -> None:
    harness = GroupHarness()
    anna, ben = harness.reach_completing_rebalance("anna", "ben")
    stored = harness.group.group_metadata
    harness.log_delays_appends = True
    held = [ben.sync(), anna.sync()]
    harness.advance(4_000)
    harness.fail_append(log_error)
    assert [(request.code, request.response.assignment) for request in held] == [(client_error, b"")] * 2
    assert (harness.state, harness.generation_id) == (GroupState.PREPARING_REBALANCE, 2)
    assert all(member.assignment == b"" for member in harness.group.members.values())
    assert harness.remaining_ms(DeadlineKind.JOIN_PHASE) == 60_000
    assert [harness.remaining_ms(DeadlineKind.SESSION, name) for name in harness.member_ids] == [10_000, 10_000]
    assert harness.group.group_metadata == stored


@behaviour("sync.rebalance-before-commit")
def test_an_assignment_that_is_committed_after_a_new_rebalance_only_changes_the_log() -> None:
    harness = GroupHarness()
    anna, _ = harness.reach_completing_rebalance("anna", "ben")
    harness.log_delays_appends = True
    held = anna.sync()
    harness.client("carla", version=3).send_join()
    assert (held.code, harness.state) == (E.REBALANCE_IN_PROGRESS, GroupState.PREPARING_REBALANCE)
    harness.complete_append()
    assert (harness.state, harness.generation_id) == (GroupState.PREPARING_REBALANCE, 2)
    harness.fail_over()
    assert (harness.state, harness.generation_id, harness.member_ids) == (GroupState.STABLE, 2, ["anna", "ben"])


def test_an_assignment_that_is_lost_after_a_new_rebalance_changes_nothing() -> None:
    harness = GroupHarness()
    anna, ben = harness.reach_completing_rebalance("anna", "ben")
    harness.log_delays_appends = True
    anna.sync()
    anna.topics = ("bar",)
    anna.send_join()
    ben.send_join()
    assert (harness.state, harness.generation_id) == (GroupState.COMPLETING_REBALANCE, 3)
    harness.fail_append(E.NOT_LEADER_OR_FOLLOWER)
    assert (harness.state, harness.generation_id) == (GroupState.COMPLETING_REBALANCE, 3)


# The replacement of a static member


@behaviour("static.replace.follower.stable")
def test_a_restarted_static_member_is_answered_once_its_new_id_is_committed() -> None:
    harness = GroupHarness()
    _, ben = harness.reach_stable("anna", "ben", static=True)
    harness.log_delays_appends = True
    ben.restart()
    request = ben.send_join()
    assert request.is_pending
    harness.complete_append()
    assert (request.code, request.response.member_id) == (E.NONE, "ben-2")
    assert harness.group.group_metadata is not None
    assert [each.member_id for each in harness.group.group_metadata.members] == ["anna", "ben-2"]


@behaviour("static.replace.persist-failure")
def test_a_replacement_that_is_lost_restores_the_former_process() -> None:
    harness = GroupHarness()
    _, ben = harness.reach_stable("anna", "ben", static=True)
    old = harness.member_of(ben)
    harness.log_delays_appends = True
    former = ben.restart()
    ben.session_timeout_ms, ben.rebalance_timeout_ms = 30_000, 90_000
    request = ben.send_join()
    harness.advance(4_000)
    harness.fail_append(E.UNKNOWN_TOPIC_OR_PARTITION)
    assert (request.code, request.response.member_id) == (E.COORDINATOR_NOT_AVAILABLE, "")
    assert (request.response.generation_id, request.response.leader) == (2, "anna")
    assert (request.response.protocol_name, request.response.skip_assignment) == ("range", False)
    assert harness.state is GroupState.STABLE
    assert harness.group.static_members["instance-ben"] == "ben"
    assert harness.group.members["ben"] == old
    assert harness.remaining_ms(DeadlineKind.SESSION, "ben") == 10_000
    harness.log_delays_appends = False
    assert former.heartbeat().code is E.NONE


def test_a_heartbeat_that_waits_for_a_lost_replacement_gets_a_heartbeat_response() -> None:
    harness = GroupHarness()
    anna, ben = harness.reach_stable("anna", "ben", static=True)
    harness.log_delays_appends = True
    ben.restart()
    ben.send_join()
    heartbeat = anna.heartbeat()
    harness.fail_append(E.NOT_LEADER_OR_FOLLOWER)
    assert heartbeat.response == heartbeat_response(E.NOT_COORDINATOR)


def test_a_leader_whose_replacement_is_lost_stays_the_leader() -> None:
    harness = GroupHarness()
    anna, _ = harness.reach_stable("anna", "ben", static=True)
    harness.log_delays_appends = True
    anna.restart()
    request = anna.send_join()
    assert harness.group.leader_id == "anna-2"
    harness.fail_append(E.NOT_LEADER_OR_FOLLOWER)
    assert (harness.group.leader_id, request.response.leader) == ("anna", "anna")


def test_a_replacement_that_is_lost_while_others_join_restores_the_former_process_and_names_the_former_leader() -> None:
    harness = GroupHarness()
    anna, _ = harness.reach_stable("anna", "ben", static=True)
    old = harness.member_of(anna)
    harness.log_delays_appends = True
    anna.restart()
    request = anna.send_join()
    harness.client("carla").join()
    assert harness.state is GroupState.PREPARING_REBALANCE
    harness.fail_append(E.NOT_ENOUGH_REPLICAS_AFTER_APPEND)
    assert harness.group.members["anna"] == old
    assert "anna-2" not in harness.group.members
    assert (harness.group.leader_id, request.response.leader) == ("anna", "anna")


def test_a_replacement_that_is_lost_in_the_sync_phase_lets_the_former_process_sync() -> None:
    """Kafka holds the SyncGroup of any member. The id of the lost replacement stays pending, so the phase times out."""
    harness = GroupHarness()
    anna, ben = harness.reach_stable("anna", "ben", static=True, session_timeout_ms=45_000, rebalance_timeout_ms=3_000)
    harness.log_delays_appends = True
    former = anna.restart()
    request = anna.send_join()
    carla = harness.client("carla", session_timeout_ms=45_000, rebalance_timeout_ms=3_000)
    carla.join()
    ben.send_join()
    harness.advance(3_000)
    assert (harness.state, harness.group.leader_id) == (GroupState.COMPLETING_REBALANCE, "ben")
    harness.fail_append(E.NOT_ENOUGH_REPLICAS)
    harness.log_delays_appends = False
    assert request.response.leader == "anna", "as when the new process joined"
    assert former.send_join().response.error_code == E.NONE
    synced = former.sync()
    assert synced.is_pending
    for member in (carla, ben):
        member.sync()
    assert (harness.state, synced.response.error_code) == (GroupState.STABLE, E.NONE)
    assert harness.group.pending_sync_members == ("anna-2",)
    harness.advance(3_000)
    assert harness.state is GroupState.PREPARING_REBALANCE


def test_a_replacement_that_does_not_fit_into_a_batch_of_the_log_names_the_leader() -> None:
    harness = GroupHarness()
    _, ben = harness.reach_stable("anna", "ben", static=True)
    old = harness.member_of(ben)
    ben.restart()
    ben.metadata = bytes(1_100_000)
    request = ben.send_join()
    assert (request.response.error_code, request.response.leader) == (E.UNKNOWN_SERVER_ERROR, "anna")
    assert harness.group.members["ben"].profile == old.profile
