"""Cases of bugs in heartbeats, deadlines, static members, offsets and durability."""

import asyncio
from typing import Any

from regroup.coordinator.commands import DeadlineKind
from regroup.coordinator.group import GroupState
from regroup.coordinator.runtime import group_coordinator
from regroup.coordinator.serialization import decode_snapshot
from regroup.lab.checker.exchanges import first_error_code
from regroup.lab.planted_bugs import durability, old_generations, staying
from regroup.protocol.errors import ErrorCode as E
from tests.coordinator.coordinator_harness import CoordinatorHarness, GatedStore, run_ready
from tests.coordinator.group_harness import GroupHarness
from tests.lab.planted_bugs.bug_cases import bug_case, run_virtual


def awaited(harness: GroupHarness) -> DeadlineKind | None:
    """The kind of deadline for which the coordinator sets its timer."""
    deadline = group_coordinator.next_deadline(harness.group, harness.last_seen_ms)
    return deadline and deadline.kind


@bug_case(staying.heartbeat_says_27_while_syncing, expected=E.NONE, with_bug=E.REBALANCE_IN_PROGRESS)
def a_heartbeat_arrives_in_the_sync_phase() -> Any:
    anna, _ = GroupHarness().reach_completing_rebalance("anna", "ben")
    return anna.heartbeat().code


@bug_case(staying.heartbeat_does_not_renew_the_session, expected=["anna"], with_bug=[])
def a_member_sends_heartbeats_for_a_minute() -> Any:
    harness = GroupHarness()
    [anna] = harness.reach_stable("anna")
    harness.advance(60_000, heartbeating=[anna])
    return harness.member_ids


@bug_case(staying.session_expires_while_a_response_is_held, expected=["anna", "ben"], with_bug=["ben"])
def one_member_waits_for_the_other_to_join() -> Any:
    harness = GroupHarness()
    anna, ben = harness.reach_stable("anna", "ben")
    anna.send_join()
    harness.advance(30_000, heartbeating=[ben])
    return harness.member_ids


def code_with_the_generation_before(request: str) -> E | int:
    """The error code of a member's request with the generation before the present one."""
    [anna] = GroupHarness().reach_stable("anna")
    response: Any = getattr(anna, request)(generation_id=anna.generation_id - 1).response
    return first_error_code(response)


@bug_case(old_generations.old_heartbeat_is_accepted, expected=E.ILLEGAL_GENERATION, with_bug=E.NONE)
def a_heartbeat_has_the_generation_before() -> Any:
    return code_with_the_generation_before("heartbeat")


@bug_case(old_generations.old_sync_is_accepted, expected=E.ILLEGAL_GENERATION, with_bug=E.NONE)
def a_sync_has_the_generation_before() -> Any:
    return code_with_the_generation_before("sync")


@bug_case(old_generations.old_commit_is_accepted, expected=E.ILLEGAL_GENERATION, with_bug=E.NONE)
def a_commit_has_the_generation_before() -> Any:
    return code_with_the_generation_before("commit")


@bug_case(staying.leave_without_a_rebalance, expected=GroupState.PREPARING_REBALANCE, with_bug=GroupState.STABLE)
def one_of_two_members_leaves() -> Any:
    harness = GroupHarness()
    _, ben = harness.reach_stable("anna", "ben")
    ben.leave()
    return harness.state


@bug_case(staying.leave_is_acknowledged_only, expected=["ben"], with_bug=["anna", "ben"])
def the_first_of_two_members_leaves() -> Any:
    harness = GroupHarness()
    anna, _ = harness.reach_stable("anna", "ben")
    anna.leave()
    return harness.member_ids


@bug_case(staying.deletion_is_acknowledged_only, expected=GroupState.DEAD, with_bug=GroupState.EMPTY)
def an_administrator_deletes_an_empty_group() -> Any:
    harness = GroupHarness()
    harness.reach_empty()
    harness.delete_group()
    return harness.state


@bug_case(staying.removed_leader_is_not_replaced, expected=GroupState.PREPARING_REBALANCE, with_bug=GroupState.STABLE)
def the_leaders_session_expires() -> Any:
    harness = GroupHarness()
    _, ben = harness.reach_stable("anna", "ben")
    harness.advance(11_000, heartbeating=[ben])
    return harness.state


@bug_case(staying.session_never_expires, expected=DeadlineKind.SESSION, with_bug=None)
def a_stable_group_has_a_member() -> Any:
    harness = GroupHarness()
    harness.reach_stable("anna")
    return awaited(harness)


@bug_case(staying.sync_phase_never_ends, expected=DeadlineKind.SYNC_PHASE, with_bug=DeadlineKind.SESSION)
def an_assignment_is_awaited() -> Any:
    harness = GroupHarness()
    harness.reach_completing_rebalance("anna", rebalance_timeout_ms=5_000)
    return awaited(harness)


@bug_case(staying.rebalance_timeout_is_ignored, expected=DeadlineKind.JOIN_PHASE, with_bug=DeadlineKind.SESSION)
def a_join_is_awaited() -> Any:
    harness = GroupHarness()
    harness.reach_preparing_rebalance("anna", session_timeout_ms=70_000)
    return awaited(harness)


@bug_case(staying.pending_member_never_expires, expected=DeadlineKind.PENDING_JOIN, with_bug=None)
def a_member_id_is_pending() -> Any:
    harness = GroupHarness()
    harness.client("anna").send_join()
    return awaited(harness)


@bug_case(
    staying.earlier_deadline_is_overlooked,
    expected=GroupState.COMPLETING_REBALANCE,
    with_bug=GroupState.PREPARING_REBALANCE,
)
def a_group_with_a_pending_member_is_joined() -> Any:
    async def main() -> GroupState:
        harness = CoordinatorHarness(GatedStore())
        await harness.coordinator.start()
        harness.submit(harness.join_group("anna", supports_member_id_required=True))
        await run_ready()
        harness.submit(harness.join_group("ben"))
        await asyncio.sleep(7)
        return harness.coordinator.group("payments").state

    return run_virtual(main)


@bug_case(staying.replaced_process_is_not_fenced, expected=E.FENCED_INSTANCE_ID, with_bug=E.NONE)
def a_replaced_process_sends_a_heartbeat() -> Any:
    harness = GroupHarness()
    _, ben = harness.reach_stable("anna", "ben", static=True)
    former = ben.restart()
    ben.join()
    return former.heartbeat().code


@bug_case(staying.replaced_process_waits_for_ever, expected=False, with_bug=True)
def a_replaced_process_has_a_held_join() -> Any:
    harness = GroupHarness()
    anna, _ = harness.reach_stable("anna", "ben", static=True)
    anna.send_join()
    harness.client("carla").join()
    asked = anna.send_join()
    anna.restart()
    anna.join()
    return asked.is_pending


@bug_case(staying.static_member_is_removed_by_a_rebalance, expected=True, with_bug=False)
def a_static_member_misses_a_rebalance() -> Any:
    harness = GroupHarness()
    anna, ben = harness.reach_stable("anna", "ben", static=True, session_timeout_ms=600_000)
    anna.send_join()
    harness.advance(61_000)
    return ben.member_id in harness.member_ids


@bug_case(durability.zombie_may_commit, expected=E.UNKNOWN_MEMBER_ID, with_bug=E.NONE)
def a_removed_member_commits() -> Any:
    harness = GroupHarness()
    anna, ben = harness.reach_stable("anna", "ben")
    harness.advance(11_000, heartbeating=[anna])
    return ben.commit().codes["foo", 0]


@bug_case(durability.commit_keeps_one_partition, expected=[100, 200], with_bug=[None, 200])
def two_partitions_are_committed() -> Any:
    harness = GroupHarness()
    harness.commit(("foo", 0, 100), ("foo", 1, 200))
    kept = [harness.group.committed_offset("foo", number) for number in (0, 1)]
    return [each and each.offset for each in kept]


@bug_case(durability.response_does_not_wait_for_the_disk, expected=False, with_bug=True)
def the_disk_is_slow() -> Any:
    async def main() -> bool:
        store = GatedStore()
        harness = CoordinatorHarness(store)
        await harness.coordinator.start()
        store.gate.clear()
        answer = harness.submit(harness.offset_commit())
        await run_ready()
        return answer.has_arrived

    return run_virtual(main)


@bug_case(durability.load_forgets_offsets, expected=True, with_bug=False)
def a_group_with_offsets_fails_over() -> Any:
    harness = GroupHarness()
    [anna] = harness.reach_stable("anna")
    anna.commit()
    harness.fail_over()
    return harness.group.committed_offset("foo", 0) is not None


@bug_case(durability.load_begins_at_generation_0, expected=2, with_bug=0)
def a_group_in_generation_2_fails_over() -> Any:
    harness = GroupHarness()
    harness.reach_stable("anna", "ben")
    harness.fail_over()
    return harness.generation_id


@bug_case(
    durability.load_remembers_what_was_never_stored, expected=GroupState.STABLE, with_bug=GroupState.PREPARING_REBALANCE
)
def a_rebalance_runs_at_a_failover() -> Any:
    harness = GroupHarness()
    harness.reach_preparing_rebalance("anna")
    harness.fail_over()
    return harness.state


@bug_case(durability.snapshot_without_offsets, expected=[["foo"]], with_bug=[[]])
def a_group_with_offsets_is_in_a_snapshot() -> Any:
    async def main() -> list[list[str]]:
        harness = CoordinatorHarness(GatedStore())
        await harness.coordinator.start()
        harness.submit(harness.offset_commit())
        await run_ready()
        taken = harness.coordinator.take_snapshots()
        harness.coordinator.stop()
        return [list(decode_snapshot(each).committed_offsets) for each in taken]

    return run_virtual(main)
