"""Snapshots make a start quick; one that could not be saved costs nobody anything."""

import asyncio
from collections.abc import Sequence
from functools import partial
from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st
from structlog.testing import capture_logs

from regroup.coordinator import commands as c
from regroup.coordinator.runtime.loading import load_groups
from regroup.coordinator.verification import Fault
from regroup.server.broker_cluster import Emulator
from regroup.server.clock import Clock
from regroup.server.history.trim import make_cut
from regroup.server.history.verify_store import verify_store
from regroup.storage.errors import StoreFailed, StoreIsLocked
from regroup.storage.memory import MemoryStore
from regroup.storage.records import Snapshot
from regroup.storage.store import EventStore

NOW_MS = 1_700_000_000_000


class BusyStore(MemoryStore):
    """Somebody else holds it whenever the next snapshots are to be saved, if told so."""

    is_busy = False
    waits: asyncio.Event | None = None

    async def save_snapshots(self, cut: int, snapshots: Sequence[Snapshot]) -> None:
        if self.waits is not None:
            await self.waits.wait()
        if self.is_busy:
            raise StoreIsLocked("somebody looks at it in a transaction")
        await super().save_snapshots(cut, snapshots)


async def started(store: MemoryStore) -> Emulator:
    async def open_it() -> EventStore:
        return store

    clock = Clock(started_at_ms=NOW_MS, monotonic_s=asyncio.get_running_loop().time)
    emulator = Emulator(open_it, clock=clock, new_uuid=partial(UUID, int=7))
    await emulator.start()
    await emulator.ensure_topic("orders", 1)
    return emulator


async def commits(emulator: Emulator, group: str, offset: int) -> None:
    command = c.CommitOffsets(group_id=group, at_ms=NOW_MS, offsets=(c.OffsetToCommit("orders", 0, offset),))
    await emulator.shares.coordinators[0].commit_offsets(command)


async def offsets_after_a_crash(store: MemoryStore) -> dict[str, int]:
    return {name: group.offsets["orders"][0].offset for name, group in (await load_groups(store)).items()}


async def test_groups_whose_snapshot_could_not_be_saved_are_in_the_next_one() -> None:
    store = BusyStore()
    emulator = await started(store)
    await commits(emulator, "payments", 10)
    store.is_busy = True
    with capture_logs() as lines:
        await emulator.take_snapshot()
    assert [line["event"] for line in lines] == ["snapshot-failed"]
    store.is_busy = False
    await commits(emulator, "refunds", 2)
    await emulator.take_snapshot()
    assert await offsets_after_a_crash(store) == {"payments": 10, "refunds": 2}
    assert (await verify_store(store)).faults == []
    await emulator.close()


async def test_groups_whose_snapshot_was_given_up_half_way_are_in_the_last_one() -> None:
    store = BusyStore()
    emulator = await started(store)
    await commits(emulator, "payments", 10)
    store.waits = asyncio.Event()
    snapshot = asyncio.create_task(emulator.take_snapshot())
    await asyncio.sleep(0)
    snapshot.cancel()
    store.waits = None
    await emulator.close()
    assert await store.cuts() == [store.last_position]
    assert await offsets_after_a_crash(store) == {"payments": 10}
    assert (await verify_store(store)).faults == []


async def test_what_a_failing_disk_has_lost_is_in_no_snapshot_though_the_broker_ends_before_it_is_mended() -> None:
    store = BusyStore()
    emulator = await started(store)
    await commits(emulator, "payments", 10)
    lost = asyncio.create_task(commits(emulator, "payments", 20))
    await asyncio.sleep(0)
    emulator.journal.give_up(StoreFailed("the disk is gone"))
    await lost
    emulator.journal.reopen(store)
    await emulator.close()
    assert await offsets_after_a_crash(store) == {"payments": 10}
    assert (await verify_store(store)).faults == []


async def test_a_snapshot_holds_only_what_has_changed_since_the_one_before() -> None:
    store = MemoryStore()
    emulator = await started(store)
    await commits(emulator, "payments", 10)
    await emulator.take_snapshot()
    await commits(emulator, "refunds", 2)
    assert [each.group for each in emulator.shares.take_snapshots()] == ["refunds"]
    await emulator.close()


STEPS = st.one_of(
    st.tuples(st.just("commit"), st.sampled_from(["payments", "refunds", "audits"])),
    st.tuples(st.sampled_from(["snapshot", "failing snapshot", "stop", "crash", "trim"]), st.just("")),
)


async def do(step: str, store: BusyStore, emulator: Emulator) -> Emulator:
    """The emulator that runs afterwards."""
    store.is_busy = step == "failing snapshot"
    if "snapshot" in step:
        await emulator.take_snapshot()
        return emulator
    if step == "crash":
        emulator.shares.stop()
        await emulator.journal.close()
        return await started(store)
    await emulator.close()
    if step == "trim":
        cut = (store.trimmed_through + store.last_position) // 2
        await make_cut(store, cut)
        await store.trim(cut + 1)
    return await started(store)


async def offsets_after(steps: list[tuple[str, str]]) -> tuple[dict[str, int], dict[str, int], list[Fault]]:
    """What was acknowledged, and what a restart finds behind it."""
    store, acknowledged = BusyStore(), dict[str, int]()
    emulator = await started(store)
    for number, (step, group) in enumerate(steps):
        if group:
            await commits(emulator, group, number)
            acknowledged[group] = number
        else:
            emulator = await do(step, store, emulator)
    found = await offsets_after_a_crash(store)
    faults = list((await verify_store(store)).faults)
    await emulator.close()
    return acknowledged, found, faults


@given(st.lists(STEPS, max_size=25))
def test_whatever_fails_in_between_a_restart_finds_what_was_acknowledged(steps: list[tuple[str, str]]) -> None:
    with capture_logs():
        acknowledged, found, faults = asyncio.run(offsets_after(steps))
    assert found == acknowledged
    assert faults == []
