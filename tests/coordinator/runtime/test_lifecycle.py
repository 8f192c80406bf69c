"""The asyncio coordinator starts and stops, fails with its store, and loads groups and snapshots."""

import asyncio

from regroup.coordinator import commands as c
from regroup.coordinator.group import GroupState
from regroup.coordinator.runtime.group_coordinator import GroupCoordinator
from regroup.coordinator.runtime.loading import load_groups
from regroup.protocol.errors import ErrorCode
from regroup.storage.errors import StoreFull
from regroup.storage.memory import MemoryStore
from tests.coordinator.coordinator_harness import (
    SETTINGS,
    CoordinatorHarness,
    GatedStore,
    fold_history,
    read_records,
    run_ready,
)
from tests.coordinator.group_harness import behaviour

# Start, stop and failure


async def test_before_its_start_a_coordinator_is_not_available() -> None:
    harness = CoordinatorHarness(MemoryStore())
    assert harness.submit(harness.heartbeat("anna")).code is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert not harness.coordinator.is_ready


@behaviour("recovery.unload-answers-parked-requests")
async def test_a_coordinator_that_stops_answers_held_and_new_requests_with_not_coordinator(
    harness: CoordinatorHarness,
) -> None:
    held = harness.submit(harness.join_group("anna"))
    harness.coordinator.stop()
    assert held.code is ErrorCode.NOT_COORDINATOR
    assert harness.submit(harness.heartbeat("anna")).code is ErrorCode.NOT_COORDINATOR
    harness.coordinator.stop()
    assert len(held.responses) == 1


@behaviour("recovery.loading-answers", "heartbeat.loading")
async def test_while_a_coordinator_loads_only_heartbeats_succeed() -> None:
    class SlowlyLoadingStore(MemoryStore):
        async def next_coordinator_epoch(self) -> int:
            await asyncio.sleep(5)
            return await super().next_coordinator_epoch()

    harness = CoordinatorHarness(SlowlyLoadingStore())
    starting = asyncio.create_task(harness.coordinator.start())
    await asyncio.sleep(1)
    assert harness.submit(harness.heartbeat("anna")).code is ErrorCode.NONE
    assert harness.submit(harness.join_group("anna")).code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    await starting
    assert harness.submit(harness.heartbeat("anna")).code is ErrorCode.UNKNOWN_MEMBER_ID
    harness.coordinator.stop()


async def test_when_the_store_fails_held_requests_get_not_coordinator_and_others_load_in_progress(
    harness: CoordinatorHarness, store: GatedStore
) -> None:
    await harness.reach_stable("anna", group="quiet")
    held = harness.submit(harness.join_group("anna"))
    await run_ready()
    store.is_full = True
    not_durable = harness.submit(harness.join_group("ben", supports_member_id_required=True))
    await run_ready()
    assert held.code is ErrorCode.NOT_COORDINATOR
    assert not_durable.code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert not harness.coordinator.is_ready
    assert harness.submit(harness.join_group("carla")).code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert harness.submit(harness.heartbeat("anna", group="quiet")).code is ErrorCode.NONE


async def test_after_a_store_failure_the_coordinator_loads_the_durable_events(
    harness: CoordinatorHarness, store: GatedStore
) -> None:
    await harness.reach_stable("anna")
    assert harness.submit(harness.offset_commit(100, member_id="anna", generation_id=1)).responses == []
    await run_ready()
    store.is_full = True
    lost = harness.submit(harness.offset_commit(200, member_id="anna", generation_id=1))
    await run_ready()
    [partition] = lost.response.topics[0].partitions
    assert partition.error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    store.is_full = False
    harness.journal.reopen(store)
    await harness.coordinator.start()
    assert (harness.group.state, harness.group.generation_id) == (GroupState.STABLE, 1)
    assert harness.group.committed_offsets["foo"][0].offset == 100
    assert harness.submit(harness.heartbeat("anna")).code is ErrorCode.NONE
    assert (await read_records(store))[-1].coordinator_epoch == 2
    await asyncio.sleep(10.1)
    assert harness.group.state is GroupState.EMPTY


async def test_a_stopped_coordinator_still_answers_with_not_coordinator_when_the_store_fails(
    harness: CoordinatorHarness,
) -> None:
    harness.coordinator.stop()
    harness.journal.fail(StoreFull("no room"))
    assert harness.submit(harness.heartbeat("anna")).code is ErrorCode.NOT_COORDINATOR


async def test_a_request_whose_events_cannot_be_appended_gets_load_in_progress(harness: CoordinatorHarness) -> None:
    harness.journal.fail(StoreFull("no room"))
    await harness.coordinator.start()
    assert harness.submit(harness.join_group("anna")).code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert not harness.group.exists
    assert not harness.coordinator.is_ready


async def test_a_store_failure_is_noticed_by_the_next_write(harness: CoordinatorHarness, store: GatedStore) -> None:
    await harness.reach_stable("anna")
    store.is_full = True
    assert harness.submit(harness.heartbeat("anna")).code is ErrorCode.NONE
    await asyncio.sleep(11)
    assert not harness.coordinator.is_ready


# Loading


async def test_another_coordinator_loads_the_same_groups(harness: CoordinatorHarness, store: GatedStore) -> None:
    await harness.reach_stable("anna", "ben")
    harness.submit(harness.offset_commit(7, group="simple"))
    harness.submit(harness.join_group("carla", group="forming"))
    await run_ready()
    harness.coordinator.stop()
    after = CoordinatorHarness(store)
    await after.coordinator.start()
    groups = {group.group_id: group for group in after.coordinator.groups()}
    assert {name: group.state for name, group in groups.items()} == {
        "payments": GroupState.STABLE,
        "simple": GroupState.EMPTY,
        "forming": GroupState.EMPTY,
    }
    assert await load_groups(store) == groups == await fold_history(store)
    assert after.submit(after.heartbeat("ben")).code is ErrorCode.NONE
    rejoin = after.join_group("", group="forming", member_id="carla")
    assert after.submit(rejoin).code is ErrorCode.UNKNOWN_MEMBER_ID
    after.coordinator.stop()


async def test_a_coordinator_loads_only_the_groups_that_it_owns(harness: CoordinatorHarness) -> None:
    for group in ("first", "second"):
        harness.submit(harness.offset_commit(group=group))
    await run_ready()
    harness.coordinator.stop()
    both = harness.coordinator.take_snapshots()
    owner = GroupCoordinator(harness.journal, settings=SETTINGS, now=harness.now, owns=lambda group: group == "first")
    await owner.start()
    assert [group.group_id for group in owner.groups()] == ["first"]
    assert [snapshot.group for snapshot in owner.take_snapshots()] == ["first"]
    owner.mark_saved(both)
    owner.stop()


async def test_a_deleted_group_is_not_loaded(harness: CoordinatorHarness, store: GatedStore) -> None:
    harness.submit(harness.offset_commit())
    harness.submit(c.DeleteGroup(group_id="payments", at_ms=harness.now()))
    await run_ready()
    harness.coordinator.stop()
    records = await read_records(store)
    await harness.coordinator.start()
    assert await read_records(store) == records
    assert list(harness.coordinator.groups()) == []


async def test_snapshots_and_later_events_load_to_the_same_groups_as_the_whole_history(
    harness: CoordinatorHarness, store: GatedStore
) -> None:
    await harness.reach_stable("anna", "ben")
    await harness.reach_stable("carla", group="another")
    await harness.journal.wait_until_durable(harness.journal.last_position)
    position = harness.journal.last_position
    snapshots = harness.coordinator.take_snapshots()
    assert sorted(each.group or "" for each in snapshots) == ["another", "payments"]
    await store.save_snapshots(position, snapshots)
    harness.coordinator.mark_saved(snapshots)
    assert harness.coordinator.take_snapshots() == []
    expected = await fold_history(store)
    await store.trim(position + 1)
    assert await load_groups(store) == expected
    harness.submit(harness.offset_commit(5, group="payments", member_id="anna", generation_id=1))
    await run_ready()
    assert [each.group for each in harness.coordinator.take_snapshots()] == ["payments"]
    loaded = await load_groups(store)
    assert loaded["payments"] == harness.group
    assert loaded["another"] == harness.coordinator.group("another")


async def test_a_group_that_changed_while_its_snapshot_was_saved_is_in_the_next_snapshots(
    harness: CoordinatorHarness,
) -> None:
    await harness.reach_stable("anna")
    await harness.reach_stable("ben", group="another")
    taken = harness.coordinator.take_snapshots()
    harness.submit(harness.offset_commit(5, group="payments", member_id="anna", generation_id=1))
    harness.coordinator.mark_saved(taken)
    assert [each.group for each in harness.coordinator.take_snapshots()] == ["payments"]


async def test_after_a_load_too_a_snapshot_has_the_position_of_its_groups_last_event(
    harness: CoordinatorHarness, store: GatedStore
) -> None:
    harness.submit(harness.offset_commit(7, group="gone"))
    harness.submit(c.DeleteGroup(group_id="gone", at_ms=harness.now()))
    await harness.reach_stable("ben")
    await run_ready()
    harness.coordinator.stop()
    after = CoordinatorHarness(store)
    await after.coordinator.start()
    heads = await store.heads()
    assert {each.group: each.position for each in after.coordinator.take_snapshots()} == {
        "gone": heads["gone"].position,
        "payments": heads["payments"].position,
    }
    after.coordinator.stop()
