"""The asyncio coordinator starts, stops, fails with its disk, and takes over what another has left."""

import asyncio

from regroup.coordinator import commands as c
from regroup.coordinator.group import State
from regroup.coordinator.runtime.loading import load_groups
from regroup.protocol.errors import ErrorCode
from regroup.storage.memory import MemoryStore
from tests.coordinator.desk import Desk, SlowStore, every_record, full_fold, turns
from tests.coordinator.story import behaviour

# Starting, stopping, failing


async def test_before_it_starts_a_coordinator_is_not_available() -> None:
    desk = Desk(MemoryStore())
    assert desk.asks(desk.beat("anna")).code is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert not desk.coordinator.is_ready


@behaviour("recovery.unload-answers-parked-requests")
async def test_a_coordinator_that_stops_sends_everybody_elsewhere(desk: Desk) -> None:
    parked = desk.asks(desk.join("anna"))
    desk.coordinator.stop()
    assert parked.code is ErrorCode.NOT_COORDINATOR
    assert desk.asks(desk.beat("anna")).code is ErrorCode.NOT_COORDINATOR


@behaviour("recovery.loading-answers", "heartbeat.loading")
async def test_while_it_loads_a_coordinator_answers_heartbeats_alone() -> None:
    class StoreThatReadsSlowly(MemoryStore):
        async def next_reign(self) -> int:
            await asyncio.sleep(5)
            return await super().next_reign()

    desk = Desk(StoreThatReadsSlowly())
    starting = asyncio.create_task(desk.coordinator.start())
    await asyncio.sleep(1)
    assert desk.asks(desk.beat("anna")).code is ErrorCode.NONE
    assert desk.asks(desk.join("anna")).code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    await starting
    assert desk.asks(desk.beat("anna")).code is ErrorCode.UNKNOWN_MEMBER_ID
    desk.coordinator.stop()


async def test_when_the_disk_fails_parked_requests_get_16_and_all_others_14(desk: Desk, store: SlowStore) -> None:
    await desk.stable("anna", group="quiet")
    parked = desk.asks(desk.join("anna"))
    await turns()
    store.is_full = True
    waiting = desk.asks(desk.join("ben", can_be_asked_to_return=True))
    await turns()
    assert parked.code is ErrorCode.NOT_COORDINATOR
    assert waiting.code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert not desk.coordinator.is_ready
    assert desk.asks(desk.join("carla")).code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert desk.asks(desk.beat("anna", group="quiet")).code is ErrorCode.NONE


async def test_after_a_failure_the_coordinator_goes_on_from_what_is_durable(desk: Desk, store: SlowStore) -> None:
    await desk.stable("anna")
    assert desk.asks(desk.commit(100, member_id="anna", generation_id=1)).all == []
    await turns()
    store.is_full = True
    lost = desk.asks(desk.commit(200, member_id="anna", generation_id=1))
    await turns()
    [row] = lost.message.topics[0].partitions
    assert row.error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    store.is_full = False
    desk.journal.reopen(store)
    await desk.coordinator.start()
    group = desk.coordinator.group("payments")
    assert (group.state, group.generation) == (State.STABLE, 1)
    assert group.offsets["foo"][0].offset == 100
    assert desk.asks(desk.beat("anna")).code is ErrorCode.NONE
    assert (await every_record(store))[-1].reign == 2
    await asyncio.sleep(10.1)
    assert desk.coordinator.group("payments").state is State.EMPTY


async def test_a_failure_while_nothing_is_written_is_noticed_by_the_next_write(desk: Desk, store: SlowStore) -> None:
    await desk.stable("anna")
    store.is_full = True
    assert desk.asks(desk.beat("anna")).code is ErrorCode.NONE
    await asyncio.sleep(11)
    assert not desk.coordinator.is_ready


# Loading


async def test_another_coordinator_finds_the_groups_as_they_were(desk: Desk, store: SlowStore) -> None:
    await desk.stable("anna", "ben")
    desk.asks(desk.commit(7, group="simple"))
    desk.asks(desk.join("carla", group="forming"))
    await turns()
    desk.coordinator.stop()
    after = Desk(store)
    await after.coordinator.start()
    groups = {group.name: group for group in after.coordinator.groups()}
    assert {name: group.state for name, group in groups.items()} == {
        "payments": State.STABLE,
        "simple": State.EMPTY,
        "forming": State.EMPTY,
    }
    assert await load_groups(store) == groups == await full_fold(store)
    assert after.asks(after.beat("ben")).code is ErrorCode.NONE
    again = after.join("", group="forming", member_id="carla")
    assert after.asks(again).code is ErrorCode.UNKNOWN_MEMBER_ID
    after.coordinator.stop()


async def test_a_snapshot_and_what_came_after_it_are_the_whole_history(desk: Desk, store: SlowStore) -> None:
    await desk.stable("anna", "ben")
    await desk.stable("carla", group="another")
    await desk.journal.durable(desk.journal.last_position)
    cut = desk.journal.last_position
    snapshots = desk.coordinator.take_snapshots()
    assert sorted(each.group or "" for each in snapshots) == ["another", "payments"]
    await store.save_snapshots(cut, snapshots)
    desk.coordinator.snapshots_are_saved(snapshots)
    assert desk.coordinator.take_snapshots() == []
    everything = await full_fold(store)
    await store.trim(cut + 1)
    assert await load_groups(store) == everything
    desk.asks(desk.commit(5, group="payments", member_id="anna", generation_id=1))
    await turns()
    assert [each.group for each in desk.coordinator.take_snapshots()] == ["payments"]
    loaded = await load_groups(store)
    assert loaded["payments"] == desk.coordinator.group("payments")
    assert loaded["another"] == desk.coordinator.group("another")


async def test_a_group_that_changed_while_its_snapshot_was_saved_is_in_the_next_one(desk: Desk) -> None:
    await desk.stable("anna")
    await desk.stable("ben", group="another")
    taken = desk.coordinator.take_snapshots()
    desk.asks(desk.commit(5, group="payments", member_id="anna", generation_id=1))
    desk.coordinator.snapshots_are_saved(taken)
    assert [each.group for each in desk.coordinator.take_snapshots()] == ["payments"]


async def test_a_snapshot_names_the_position_of_its_group_s_last_event_also_after_a_load(
    desk: Desk, store: SlowStore
) -> None:
    desk.asks(desk.commit(7, group="gone"))
    desk.asks(c.DeleteGroup(group_id="gone", at_ms=desk.now()))
    await desk.stable("ben")
    await turns()
    desk.coordinator.stop()
    after = Desk(store)
    await after.coordinator.start()
    heads = await store.heads()
    assert {each.group: each.position for each in after.coordinator.take_snapshots()} == {
        "gone": heads["gone"].position,
        "payments": heads["payments"].position,
    }
    after.coordinator.stop()
