"""Scenes with bugs about staying, leaving, static members and offsets, and about what is on disk."""

import asyncio
from typing import Any

from regroup.coordinator.commands import DeadlineKind
from regroup.coordinator.group import State
from regroup.coordinator.runtime import group_coordinator as driver
from regroup.coordinator.serialization import read_snapshot
from regroup.lab.planted_bugs import durability, offsets, static_members, staying
from regroup.protocol.errors import ErrorCode as E
from tests.coordinator.desk import Desk, SlowStore, turns
from tests.coordinator.story import Story
from tests.lab.bug_scenes import scene, virtually


def awaited(story: Story) -> DeadlineKind | None:
    """Which patience the coordinator sets its timer for."""
    deadline = driver.next_deadline(story.group, story.heard)
    return deadline and deadline.kind


@scene(staying.heartbeat_says_27_while_syncing, right=E.NONE, wrong=E.REBALANCE_IN_PROGRESS)
def a_heartbeat_comes_in_the_sync_phase() -> Any:
    anna, _ = Story().completing("anna", "ben")
    return anna.beats().code


@scene(staying.heartbeat_does_not_count, right=["anna"], wrong=[])
def a_member_beats_for_a_minute() -> Any:
    story = Story()
    [anna] = story.stable("anna")
    story.passes(60_000, beating=[anna])
    return story.members


@scene(staying.parked_member_falls_silent, right=["anna", "ben"], wrong=["ben"])
def one_waits_for_the_other_to_join() -> Any:
    story = Story()
    anna, ben = story.stable("anna", "ben")
    anna.asks_to_join()
    story.passes(30_000, beating=[ben])
    return story.members


@scene(staying.leave_without_a_rebalance, right=State.PREPARING, wrong=State.STABLE)
def one_of_two_leaves() -> Any:
    story = Story()
    _, ben = story.stable("anna", "ben")
    ben.leaves()
    return story.state


@scene(staying.expelled_leader_is_not_replaced, right=State.PREPARING, wrong=State.STABLE)
def the_leader_falls_silent() -> Any:
    story = Story()
    _, ben = story.stable("anna", "ben")
    story.passes(11_000, beating=[ben])
    return story.state


@scene(staying.session_never_ends, right=DeadlineKind.SESSION, wrong=None)
def somebody_is_in_a_stable_group() -> Any:
    story = Story()
    story.stable("anna")
    return awaited(story)


@scene(staying.sync_phase_never_ends, right=DeadlineKind.SYNC_PHASE, wrong=DeadlineKind.SESSION)
def a_share_is_awaited() -> Any:
    story = Story()
    story.completing("anna", rebalance_timeout_ms=5_000)
    return awaited(story)


@scene(staying.rebalance_timeout_is_ignored, right=DeadlineKind.JOIN_PHASE, wrong=DeadlineKind.SESSION)
def somebody_is_awaited() -> Any:
    story = Story()
    story.preparing("anna", session_timeout_ms=70_000)
    return awaited(story)


@scene(staying.unused_id_is_kept_for_ever, right=DeadlineKind.RESERVED_ID, wrong=None)
def an_id_is_given_out() -> Any:
    story = Story()
    story.consumer("anna").asks_to_join()
    return awaited(story)


@scene(staying.earlier_deadline_is_overlooked, right=State.COMPLETING, wrong=State.PREPARING)
def a_group_with_an_unused_id_is_joined() -> Any:
    async def main() -> State:
        desk = Desk(SlowStore())
        await desk.coordinator.start()
        desk.asks(desk.join("anna", can_be_asked_to_return=True))
        await turns()
        desk.asks(desk.join("ben"))
        await asyncio.sleep(7)
        return desk.coordinator.group("payments").state

    return virtually(main)


@scene(static_members.replaced_process_is_not_fenced, right=E.FENCED_INSTANCE_ID, wrong=E.NONE)
def a_former_process_sends_a_heartbeat() -> Any:
    story = Story()
    _, ben = story.stable("anna", "ben", static=True)
    former = ben.restarts()
    ben.joins()
    return former.beats().code


@scene(static_members.replaced_process_waits_for_ever, right=False, wrong=True)
def a_former_process_waits_when_the_new_one_comes() -> Any:
    story = Story()
    anna, _ = story.stable("anna", "ben", static=True)
    anna.asks_to_join()
    story.consumer("carla").joins()
    asked = anna.asks_to_join()
    anna.restarts()
    anna.joins()
    return asked.is_parked


@scene(static_members.static_member_does_not_outlive_a_rebalance, right=True, wrong=False)
def a_static_member_misses_a_rebalance() -> Any:
    story = Story()
    anna, ben = story.stable("anna", "ben", static=True, session_timeout_ms=600_000)
    anna.asks_to_join()
    story.passes(61_000)
    return ben.id in story.members


@scene(offsets.zombie_may_commit, right=E.UNKNOWN_MEMBER_ID, wrong=E.NONE)
def somebody_commits_who_was_expelled() -> Any:
    story = Story()
    anna, ben = story.stable("anna", "ben")
    story.passes(11_000, beating=[anna])
    return ben.commits().codes["foo", 0]


@scene(offsets.commit_keeps_one_partition, right=[100, 200], wrong=[None, 200])
def two_partitions_are_committed() -> Any:
    story = Story()
    story.commit(("foo", 0, 100), ("foo", 1, 200))
    kept = [story.group.committed("foo", number) for number in (0, 1)]
    return [each and each.offset for each in kept]


@scene(durability.answer_does_not_wait_for_the_disk, right=False, wrong=True)
def the_disk_is_slow() -> Any:
    async def main() -> bool:
        store = SlowStore()
        desk = Desk(store)
        await desk.coordinator.start()
        store.gate.clear()
        answer = desk.asks(desk.commit())
        await turns()
        return answer.has_come

    return virtually(main)


@scene(durability.load_forgets_offsets, right=True, wrong=False)
def a_group_with_offsets_fails_over() -> Any:
    story = Story()
    [anna] = story.stable("anna")
    anna.commits()
    story.fails_over()
    return story.group.committed("foo", 0) is not None


@scene(durability.load_begins_at_generation_0, right=2, wrong=0)
def a_group_in_generation_2_fails_over() -> Any:
    story = Story()
    story.stable("anna", "ben")
    story.fails_over()
    return story.generation


@scene(durability.load_remembers_what_was_never_stored, right=State.STABLE, wrong=State.PREPARING)
def a_rebalance_is_under_way_at_a_failover() -> Any:
    story = Story()
    story.preparing("anna")
    story.fails_over()
    return story.state


@scene(durability.snapshot_without_offsets, right=[["foo"]], wrong=[[]])
def a_group_with_offsets_is_in_a_snapshot() -> Any:
    async def main() -> list[list[str]]:
        desk = Desk(SlowStore())
        await desk.coordinator.start()
        desk.asks(desk.commit())
        await turns()
        taken = desk.coordinator.take_snapshots()
        desk.coordinator.stop()
        return [list(read_snapshot(each).offsets) for each in taken]

    return virtually(main)
