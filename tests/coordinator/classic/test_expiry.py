"""Deadlines: session timeouts, new members, pending member ids, and the sync phase."""

import pytest

from regroup.coordinator.commands import DeadlineKind
from regroup.coordinator.events import MemberRemoved
from regroup.coordinator.group import GroupMetadata, GroupState
from regroup.protocol.errors import ErrorCode
from tests.coordinator.group_harness import GroupHarness, behaviour


@behaviour("timeout.session.expiry-in-stable")
def test_a_member_expires_after_its_session_timeout() -> None:
    harness = GroupHarness()
    anna, ben = harness.reach_stable("anna", "ben")
    stored = harness.group.group_metadata
    harness.advance(9_999, heartbeating=[anna])
    assert harness.state is GroupState.STABLE
    harness.advance(1)
    assert (harness.state, harness.generation_id, harness.member_ids) == (GroupState.PREPARING_REBALANCE, 2, ["anna"])
    assert harness.remaining_ms(DeadlineKind.JOIN_PHASE) == 60_000
    assert ben.heartbeat().code is ErrorCode.UNKNOWN_MEMBER_ID
    assert harness.group.group_metadata == stored


@behaviour("timeout.session.expiry-of-last-member")
def test_when_the_last_member_expires_the_group_is_empty() -> None:
    harness = GroupHarness()
    harness.reach_stable("anna")
    harness.advance(10_000)
    assert (harness.state, harness.generation_id) == (GroupState.EMPTY, 2)
    assert harness.group.group_metadata == GroupMetadata("consumer", 2, None, None, harness.now_ms, ())


@behaviour("timeout.session.ends-with-sync-phase")
def test_a_session_that_ends_with_the_sync_phase_ends_it_for_the_others() -> None:
    harness = GroupHarness()
    [sam] = harness.reach_stable("sam", static=True, session_timeout_ms=60_000, rebalance_timeout_ms=1_000)
    old = harness.client("anna", version=0, session_timeout_ms=10_000, rebalance_timeout_ms=10_000)
    joining = old.join()
    sam.send_join()
    assert joining.code is ErrorCode.NONE
    assert harness.remaining_ms(DeadlineKind.SYNC_PHASE) == harness.remaining_ms(DeadlineKind.SESSION, old.member_id)
    harness.advance(10_000)
    assert (harness.state, harness.member_ids) == (GroupState.PREPARING_REBALANCE, [sam.member_id])


@behaviour("timeout.session.parked-join-not-expired")
def test_a_held_join_protects_a_member_from_its_session_timeout() -> None:
    harness = GroupHarness()
    anna, ben, _ = harness.reach_preparing_rebalance("anna", "ben")
    assert ben.send_join().is_pending
    harness.advance(30_000, heartbeating=[anna])
    assert harness.state is GroupState.PREPARING_REBALANCE
    assert "ben" in harness.member_ids
    assert harness.remaining_ms(DeadlineKind.SESSION, "ben") is None


@behaviour("timeout.session.parked-sync-not-expired")
def test_a_held_sync_protects_a_member_from_its_session_timeout() -> None:
    harness = GroupHarness()
    anna, ben = harness.reach_completing_rebalance("anna", "ben")
    held = ben.sync()
    harness.advance(30_000, heartbeating=[anna])
    assert harness.state is GroupState.COMPLETING_REBALANCE
    anna.sync()
    assert held.code is ErrorCode.NONE
    assert harness.remaining_ms(DeadlineKind.SESSION, "ben") == 10_000


@behaviour("timeout.session.reset-by-offset-commit")
def test_a_commit_restarts_the_session_timeout() -> None:
    harness = GroupHarness()
    [anna] = harness.reach_stable("anna")
    harness.advance(4_000)
    assert anna.commit(("foo", 0, 1)).codes == {("foo", 0): ErrorCode.NONE}
    assert harness.remaining_ms(DeadlineKind.SESSION, "anna") == 10_000


@behaviour("timeout.session.sync-in-stable-does-not-reset")
def test_a_sync_that_is_answered_at_once_does_not_restart_the_session_timeout() -> None:
    harness = GroupHarness()
    _, ben = harness.reach_stable("anna", "ben")
    harness.advance(4_000)
    assert (ben.sync().code, ben.send_join().code) == (ErrorCode.NONE, ErrorCode.NONE)
    assert harness.remaining_ms(DeadlineKind.SESSION, "ben") == 6_000


@behaviour("timeout.session.reset-at-join-completion")
def test_a_new_generation_restarts_every_session_timeout() -> None:
    harness = GroupHarness()
    anna, ben = harness.reach_stable("anna", "ben", static=True)
    harness.client("carla").join()
    anna.send_join()
    harness.advance(59_000, heartbeating=[ben])
    harness.advance(1_000)
    assert [harness.remaining_ms(DeadlineKind.SESSION, name) for name in ("anna", "ben", "carla")] == [10_000] * 3


@behaviour("timeout.new-member.five-minutes")
def test_a_new_member_expires_after_five_minutes_in_spite_of_its_held_join() -> None:
    harness = GroupHarness()
    harness.reach_stable("anna", session_timeout_ms=305_000, rebalance_timeout_ms=600_000)
    request = harness.client("ben").join()
    harness.advance(299_999)
    assert request.is_pending
    harness.advance(1)
    assert (request.code, request.response.member_id) == (ErrorCode.UNKNOWN_MEMBER_ID, "")
    assert (harness.state, harness.member_ids) == (GroupState.PREPARING_REBALANCE, ["anna"])


def test_a_new_member_that_sends_a_heartbeat_has_its_session_timeout_from_then_on() -> None:
    harness = GroupHarness()
    harness.reach_stable("anna", session_timeout_ms=305_000, rebalance_timeout_ms=600_000)
    ben = harness.client("ben")
    request = ben.join()
    harness.advance(5_000)
    assert ben.heartbeat(generation_id=1).code is ErrorCode.REBALANCE_IN_PROGRESS
    assert harness.remaining_ms(DeadlineKind.SESSION, "ben") == 10_000
    harness.advance(9_999)
    assert request.is_pending
    harness.advance(1)
    assert (request.code, request.response.member_id) == (ErrorCode.UNKNOWN_MEMBER_ID, "")
    assert (harness.state, harness.member_ids) == (GroupState.PREPARING_REBALANCE, ["anna"])


def test_a_member_that_joins_at_the_time_of_the_load_has_five_minutes_too() -> None:
    harness = GroupHarness()
    harness.reach_stable("anna")
    harness.fail_over()
    harness.client("ben", version=3).send_join()
    assert harness.remaining_ms(DeadlineKind.NEW_MEMBER_JOIN, "ben") == 300_000
    assert harness.remaining_ms(DeadlineKind.SESSION, "ben") is None


@behaviour("timeout.new-member.becomes-regular")
def test_a_new_member_is_an_ordinary_member_when_the_join_phase_ends() -> None:
    harness = GroupHarness()
    anna, ben, carla = harness.reach_preparing_rebalance("anna", "ben")
    anna.send_join()
    ben.send_join()
    assert harness.remaining_ms(DeadlineKind.NEW_MEMBER_JOIN, "carla") is None
    assert harness.remaining_ms(DeadlineKind.SESSION, "carla") == 10_000
    held = carla.sync()
    harness.advance(50_000, heartbeating=[anna, ben])
    assert held.is_pending


@behaviour("timeout.pending-member.expiry-completes-join")
def test_the_join_phase_ends_when_the_last_pending_member_id_expires() -> None:
    harness = GroupHarness()
    anna, ben, carla = harness.reach_preparing_rebalance("anna", "ben")
    harness.client("dora").send_join()
    anna.send_join()
    ben.send_join()
    harness.advance(10_000)
    assert [each.generation_id for each in (anna, ben, carla)] == [3, 3, 3]
    assert harness.state is GroupState.COMPLETING_REBALANCE


def test_an_empty_group_starts_no_generation_when_the_last_pending_member_id_expires() -> None:
    harness = GroupHarness()
    harness.client("anna").send_join()
    harness.advance(10_000)
    assert [type(event).__name__ for event in harness.events] == [
        "GroupCreated",
        "PendingMemberAdded",
        "PendingMemberRemoved",
    ]
    assert (harness.state, harness.generation_id) == (GroupState.EMPTY, 0)


@behaviour("timeout.sync.nobody-syncs")
def test_a_sync_phase_without_any_sync_empties_the_group() -> None:
    harness = GroupHarness()
    clients = harness.reach_completing_rebalance("anna", "ben", "carla", rebalance_timeout_ms=5_000)
    harness.advance(5_000, heartbeating=clients)
    assert (harness.state, harness.generation_id) == (GroupState.EMPTY, 4)
    assert harness.group.group_metadata == GroupMetadata("consumer", 4, None, None, harness.now_ms, ())
    assert {each.heartbeat().code for each in clients} == {ErrorCode.UNKNOWN_MEMBER_ID}


@behaviour("timeout.sync.followers-missing")
def test_followers_that_do_not_sync_in_time_are_removed_though_the_group_is_stable() -> None:
    harness = GroupHarness()
    anna, ben, carla = harness.reach_completing_rebalance("anna", "ben", "carla")
    anna.sync()
    stored = harness.group.group_metadata
    harness.advance(59_999, heartbeating=[anna, ben, carla])
    assert harness.state is GroupState.STABLE
    harness.advance(1)
    assert (harness.state, harness.member_ids) == (GroupState.PREPARING_REBALANCE, ["anna"])
    assert anna.heartbeat().code is ErrorCode.REBALANCE_IN_PROGRESS
    assert (ben.heartbeat().code, carla.heartbeat().code) == (ErrorCode.UNKNOWN_MEMBER_ID,) * 2
    assert harness.remaining_ms(DeadlineKind.JOIN_PHASE) == 60_000
    assert harness.group.group_metadata == stored


@behaviour("timeout.sync.leader-missing")
def test_a_leader_that_does_not_sync_in_time_is_removed() -> None:
    harness = GroupHarness()
    anna, ben, carla = harness.reach_completing_rebalance("anna", "ben", "carla")
    held = [ben.sync(), carla.sync()]
    harness.advance(60_000, heartbeating=[anna])
    assert (harness.state, harness.member_ids) == (GroupState.PREPARING_REBALANCE, ["ben", "carla"])
    assert harness.group.leader_id in ("ben", "carla")
    assert [request.code for request in held] == [ErrorCode.REBALANCE_IN_PROGRESS] * 2
    assert anna.heartbeat().code is ErrorCode.UNKNOWN_MEMBER_ID
    assert harness.remaining_ms(DeadlineKind.JOIN_PHASE) == 60_000


@behaviour("timeout.sync.duration")
def test_a_sync_phase_lasts_for_the_longest_rebalance_timeout() -> None:
    harness = GroupHarness()
    harness.client("anna", rebalance_timeout_ms=5_000).join()
    harness.client("ben", rebalance_timeout_ms=20_000).join()
    harness.advance(5_000)
    assert harness.state is GroupState.COMPLETING_REBALANCE
    assert harness.remaining_ms(DeadlineKind.SYNC_PHASE) == 20_000


@behaviour("timeout.sync.removes-static-members-too")
def test_a_static_member_that_does_not_sync_in_time_is_removed_too() -> None:
    harness = GroupHarness()
    anna, ben = harness.reach_completing_rebalance("anna", "ben", static=True)
    anna.sync()
    harness.advance(60_000, heartbeating=[anna, ben])
    assert (harness.state, harness.group.static_members) == (GroupState.PREPARING_REBALANCE, {"instance-anna": "anna"})


@behaviour("timeout.sync.cancelled-by-new-rebalance")
def test_a_new_rebalance_ends_the_sync_phase() -> None:
    harness = GroupHarness()
    anna, _ = harness.reach_completing_rebalance("anna", "ben")
    anna.topics = ("bar",)
    anna.send_join()
    assert harness.remaining_ms(DeadlineKind.SYNC_PHASE) is None
    assert harness.group.pending_sync_members == ()


@behaviour("timeout.sync.stale-static-id-forces-rebalance")
def test_a_replaced_static_member_stays_a_pending_sync_member() -> None:
    harness = GroupHarness()
    anna, ben = harness.reach_completing_rebalance("anna", "ben", static=True)
    anna.sync()
    ben.restart()
    ben.join()
    ben.sync()
    harness.advance(59_999, heartbeating=[anna, ben])
    assert harness.state is GroupState.STABLE
    harness.advance(1)
    assert (harness.state, len(harness.member_ids)) == (GroupState.PREPARING_REBALANCE, 2)


@pytest.mark.parametrize("session_timeout_ms", [6_000, 45_000])
def test_member_removed_has_the_last_seen_time_and_the_timeout(
    session_timeout_ms: int,
) -> None:
    harness = GroupHarness()
    [anna] = harness.reach_stable("anna", session_timeout_ms=session_timeout_ms)
    harness.advance(2_000)
    anna.heartbeat()
    last_seen_ms = harness.now_ms
    harness.advance(session_timeout_ms)
    removed = next(event for event in harness.events if isinstance(event, MemberRemoved))
    assert (removed.last_seen_ms, removed.timeout_ms) == (last_seen_ms, session_timeout_ms)
    assert removed.at_ms == last_seen_ms + session_timeout_ms


@behaviour("static.replace.session-timer-uses-old-timeout")
def test_a_replaced_static_member_keeps_the_former_session_timeout_until_it_is_seen() -> None:
    harness = GroupHarness()
    anna, ben = harness.reach_stable("anna", "ben", static=True)
    ben.restart()
    ben.session_timeout_ms = 30_000
    ben.send_join()
    assert harness.remaining_ms(DeadlineKind.SESSION, "ben-2") == 10_000
    harness.advance(1_000)
    ben.heartbeat()
    assert harness.remaining_ms(DeadlineKind.SESSION, "ben-2") == 30_000
    harness.advance(30_000, heartbeating=[anna])
    removed = next(event for event in harness.events if isinstance(event, MemberRemoved))
    assert (removed.member_id, removed.timeout_ms) == ("ben-2", 30_000)
