"""Cases of bugs in join phases, sessions, folds and offsets."""

import asyncio
from typing import Any

from regroup.coordinator.commands import LeavingMember
from regroup.coordinator.events import OffsetsDeleted
from regroup.coordinator.group import GroupState
from regroup.coordinator.runtime import group_coordinator
from regroup.coordinator.settings import CoordinatorSettings
from regroup.lab.planted_bugs import folding, phases, sessions, transactions
from tests.coordinator.coordinator_harness import CoordinatorHarness, GatedStore
from tests.coordinator.group_harness import GroupHarness
from tests.coordinator.simulated_client import SimulatedClient, sync_all
from tests.lab.planted_bugs.bug_cases import bug_case, run_virtual


def two_newcomers() -> GroupHarness:
    """A group that has just extended its initial delay."""
    harness = GroupHarness()
    harness.client("anna").join()
    harness.advance(1_000)
    harness.client("ben").join()
    harness.advance(2_500)
    return harness


@bug_case(
    phases.initial_delay_is_not_extended,
    expected=GroupState.PREPARING_REBALANCE,
    with_bug=GroupState.COMPLETING_REBALANCE,
)
def a_member_joins_in_the_initial_delay() -> Any:
    return two_newcomers().state


@bug_case(phases.initial_delay_never_gets_shorter, expected=54_000, with_bug=57_000)
def an_initial_delay_is_extended() -> Any:
    phase = two_newcomers().group.join_phase
    return phase and phase.remaining_ms


@bug_case(phases.initial_delay_after_every_rebalance, expected=False, with_bug=True)
def a_group_with_a_member_rebalances() -> Any:
    harness = GroupHarness()
    harness.reach_preparing_rebalance("anna")
    assert harness.group.join_phase is not None
    return harness.group.join_phase.is_initial


@bug_case(
    phases.leaving_ends_no_join_phase,
    expected=GroupState.COMPLETING_REBALANCE,
    with_bug=GroupState.PREPARING_REBALANCE,
)
def the_last_missing_member_leaves() -> Any:
    harness = GroupHarness()
    anna, ben = harness.reach_stable("anna", "ben")
    anna.join()
    harness.remove_members(LeavingMember(ben.member_id, None))
    return harness.state


@bug_case(phases.tie_goes_to_the_last_candidate, expected="range", with_bug="roundrobin")
def two_members_vote_for_different_assignors() -> Any:
    harness = GroupHarness()
    harness.client("anna", protocol_names=("range", "roundrobin")).join()
    harness.client("ben", protocol_names=("roundrobin", "range")).join()
    harness.advance(6_000)
    return harness.group.protocol_name


@bug_case(phases.absent_members_have_no_vote, expected="range", with_bug="roundrobin")
def two_of_three_voters_are_absent() -> Any:
    harness = GroupHarness()
    names = {"anna": ("roundrobin", "range"), "ben": ("range", "roundrobin"), "carla": ("range", "roundrobin")}
    clients = [
        harness.client(name, static=True, protocol_names=each, session_timeout_ms=600_000)
        for name, each in names.items()
    ]
    for each in clients:
        each.join()
    harness.advance(9_000)
    sync_all(clients)
    clients[0].send_join()
    harness.advance(61_000)
    return harness.group.protocol_name


@bug_case(phases.newest_member_leads, expected="anna", with_bug="ben")
def two_members_join() -> Any:
    harness = GroupHarness()
    harness.reach_completing_rebalance("anna", "ben")
    return harness.group.leader_id


@bug_case(phases.another_member_leads_after_a_load, expected="anna", with_bug="ben")
def a_group_of_two_fails_over() -> Any:
    harness = GroupHarness()
    harness.reach_stable("anna", "ben")
    harness.fail_over()
    return harness.group.leader_id


def restarted_leader(version: int) -> SimulatedClient:
    harness = GroupHarness()
    anna, _ = harness.reach_stable("anna", "ben", static=True, version=version)
    anna.restart()
    anna.join()
    return anna


@bug_case(phases.restarted_leader_assigns_again, expected=True, with_bug=False)
def a_static_leader_restarts() -> Any:
    return restarted_leader(9).join_response.skip_assignment


@bug_case(phases.old_client_leads_under_its_new_member_id, expected=False, with_bug=True)
def a_static_leader_with_an_old_client_restarts() -> Any:
    return restarted_leader(8).is_leader


@bug_case(phases.new_member_waits_without_a_limit, expected=["anna"], with_bug=["anna", "carla"])
def a_new_member_waits_for_another_one() -> Any:
    harness = GroupHarness()
    [anna] = harness.reach_stable("anna", rebalance_timeout_ms=600_000)
    harness.client("carla", version=3).join()
    harness.advance(301_000, heartbeating=[anna])
    return harness.member_ids


# -- sessions


@bug_case(sessions.heartbeat_keeps_every_member, expected=["anna"], with_bug=["anna", "ben"])
def one_of_two_members_sends_heartbeats() -> Any:
    harness = GroupHarness()
    anna, _ = harness.reach_stable("anna", "ben")
    harness.advance(9_000, heartbeating=[anna])
    anna.heartbeat()
    harness.advance(2_000)
    return harness.member_ids


def was_seen_now(harness: GroupHarness) -> bool:
    return harness.last_seen_ms.get("anna") == harness.now_ms


@bug_case(sessions.refused_sync_keeps_its_member, expected=False, with_bug=True)
def a_member_syncs_again() -> Any:
    harness = GroupHarness()
    [anna] = harness.reach_stable("anna")
    harness.advance(1_000)
    anna.sync()
    return was_seen_now(harness)


@bug_case(sessions.commit_does_not_renew_the_session, expected=True, with_bug=False)
def a_member_commits() -> Any:
    harness = GroupHarness()
    [anna] = harness.reach_stable("anna")
    harness.advance(1_000)
    anna.commit(("foo", 0, 1))
    return was_seen_now(harness)


@bug_case(sessions.generation_does_not_renew_sessions, expected=True, with_bug=False)
def a_generation_begins() -> Any:
    harness = GroupHarness()
    harness.client("anna", version=3).join()
    harness.advance(4_000)
    return "anna" in harness.last_seen_ms


@bug_case(sessions.assignment_does_not_renew_sessions, expected=True, with_bug=False)
def an_assignment_is_committed() -> Any:
    harness = GroupHarness()
    clients = harness.reach_completing_rebalance("anna")
    harness.advance(1_000)
    sync_all(clients)
    return was_seen_now(harness)


@bug_case(sessions.refused_commit_keeps_its_member, expected=False, with_bug=True)
def a_commit_is_refused() -> Any:
    harness = GroupHarness()
    [anna] = harness.reach_stable("anna")
    harness.advance(1_000)
    anna.commit(generation_id=5)
    return was_seen_now(harness)


@bug_case(sessions.answered_join_keeps_its_member, expected=False, with_bug=True)
def a_follower_joins_without_a_rebalance() -> Any:
    harness = GroupHarness()
    ben, anna = harness.reach_stable("ben", "anna")
    harness.advance(1_000, heartbeating=[ben])
    anna.join()
    return was_seen_now(harness)


@bug_case(sessions.interrupted_sync_does_not_renew_the_session, expected=True, with_bug=False)
def a_rebalance_refuses_a_held_sync() -> Any:
    harness = GroupHarness()
    _, anna = harness.reach_completing_rebalance("ben", "anna")
    anna.sync()
    harness.advance(1_000)
    harness.client("carla", version=3).send_join()
    return was_seen_now(harness)


@bug_case(sessions.pending_member_has_half_its_time, expected=10_000, with_bug=5_000)
def a_member_has_got_its_id() -> Any:
    harness = GroupHarness()
    harness.client("anna").send_join()
    deadline = group_coordinator.next_deadline(harness.group, harness.last_seen_ms)
    return deadline and deadline.at_ms - harness.now_ms


# -- folds and offsets


@bug_case(folding.fold_keeps_the_newcomers, expected=False, with_bug=True)
def a_delay_was_extended() -> Any:
    return two_newcomers().group.new_member_added


@bug_case(folding.fold_drops_assignments_of_a_stable_group, expected=True, with_bug=False)
def a_stable_group_begins_a_rebalance() -> Any:
    harness = GroupHarness()
    harness.reach_preparing_rebalance("anna")
    return harness.group.members["anna"].assignment != b""


@bug_case(folding.fold_keeps_the_protocol_of_an_empty_group, expected=None, with_bug="range")
def the_only_member_leaves() -> Any:
    harness = GroupHarness()
    harness.reach_empty()
    return harness.group.protocol_name


@bug_case(folding.fold_dates_an_empty_group_back, expected=0, with_bug=50_000)
def members_leave_until_none_is_left() -> Any:
    harness = GroupHarness()
    harness.reach_empty()
    return harness.now_ms - harness.group.state_since_ms


@bug_case(folding.fold_commits_aborted_transactions, expected=None, with_bug=5)
def a_transaction_is_aborted() -> Any:
    harness = GroupHarness()
    harness.commit_in_transaction(7, ("foo", 0, 5))
    harness.end_transaction(7, committed=False)
    committed = harness.group.committed_offset("foo", 0)
    return committed and committed.offset


@bug_case(transactions.older_transaction_wins, expected=8, with_bug=7)
def two_transactions_commit_in_another_order_than_they_have_written() -> Any:
    harness = GroupHarness()
    for producer_id in (7, 8):
        harness.commit_in_transaction(producer_id, ("foo", 0, producer_id))
    for producer_id in (8, 7):
        harness.end_transaction(producer_id, committed=True)
    committed = harness.group.committed_offset("foo", 0)
    return committed and committed.offset


@bug_case(folding.fetch_returns_one_offset_less, expected=100, with_bug=99)
def an_offset_is_fetched() -> Any:
    harness = GroupHarness()
    harness.commit(("foo", 0, 100))
    [topic] = harness.fetch(foo=(0,)).response.topics
    return topic.partitions[0].committed_offset


@bug_case(folding.offsets_of_subscribed_topics_expire, expected=0, with_bug=1)
def an_offset_is_older_than_its_retention() -> Any:
    harness = GroupHarness(offsets_retention_minutes=1)
    [anna] = harness.reach_stable("anna")
    anna.commit(("foo", 0, 1))
    harness.advance(61_000, heartbeating=[anna])
    return len(harness.expire_offsets())


@bug_case(folding.offsets_never_expire, expected=1, with_bug=0)
def a_group_is_empty_for_longer_than_the_retention() -> Any:
    harness = GroupHarness(offsets_retention_minutes=1)
    [anna] = harness.reach_stable("anna")
    anna.commit(("foo", 0, 1))
    anna.leave()
    harness.advance(61_000)
    return len([each for each in harness.expire_offsets() if isinstance(each, OffsetsDeleted)])


@bug_case(folding.retention_is_checked_once, expected=False, with_bug=True)
def offsets_are_due_at_the_second_check() -> Any:
    async def main() -> bool:
        settings = CoordinatorSettings(offsets_retention_minutes=1, offsets_retention_check_interval_ms=40_000)
        harness = CoordinatorHarness(GatedStore(), settings)
        await harness.coordinator.start()
        harness.submit(harness.offset_commit())
        await asyncio.sleep(81)
        return harness.coordinator.group("payments").exists

    return run_virtual(main)
