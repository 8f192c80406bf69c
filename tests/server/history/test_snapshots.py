"""Snapshots: they make a load quick, and a load without them is as correct."""

import asyncio
from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st
from structlog.testing import capture_logs

from regroup.coordinator import commands as c
from regroup.coordinator.runtime.loading import load_groups
from regroup.coordinator.verification import Violation
from regroup.server.broker_cluster import BrokerCluster, ClusterEnvironment
from regroup.server.clock import Clock
from regroup.server.history.trim import save_snapshots_at
from regroup.server.history.verify_store import verify_store
from regroup.storage.errors import StoreFailed, StoreLocked
from regroup.storage.memory import MemoryStore
from regroup.storage.records import Snapshot

NOW_MS = 1_700_000_000_000


class BusyStore(MemoryStore):
    """Refuses snapshots while `is_busy`, or holds them until `waits` is set."""

    is_busy = False
    waits: asyncio.Event | None = None

    async def save_snapshots(self, cut: int, snapshots: Sequence[Snapshot]) -> None:
        if self.waits is not None:
            await self.waits.wait()
        if self.is_busy:
            raise StoreLocked("another process reads it in a transaction")
        await super().save_snapshots(cut, snapshots)


async def started(store: MemoryStore) -> BrokerCluster:
    clock = Clock(started_at_ms=NOW_MS, monotonic_s=asyncio.get_running_loop().time)
    cluster = await BrokerCluster.start(store.open, environment=ClusterEnvironment(clock=clock))
    await cluster.ensure_topic("orders", 1)
    return cluster


async def commit(cluster: BrokerCluster, group: str, offset: int) -> None:
    command = c.OffsetCommit(group_id=group, at_ms=NOW_MS, offsets=(c.RequestedOffset("orders", 0, offset),))
    await cluster.coordinator_of(group).offset_commit(command)


async def offsets_after_a_crash(store: MemoryStore) -> dict[str, int]:
    return {name: group.committed_offsets["orders"][0].offset for name, group in (await load_groups(store)).items()}


async def test_a_group_whose_snapshot_was_not_saved_is_in_the_next_one() -> None:
    store = BusyStore()
    cluster = await started(store)
    await commit(cluster, "payments", 10)
    store.is_busy = True
    with capture_logs() as lines:
        await cluster.take_snapshot()
    assert [line["event"] for line in lines] == ["snapshot-failed"]
    store.is_busy = False
    await commit(cluster, "refunds", 2)
    await cluster.take_snapshot()
    assert await offsets_after_a_crash(store) == {"payments": 10, "refunds": 2}
    assert (await verify_store(store)).violations == []
    await cluster.close()


async def test_a_group_whose_snapshot_was_cancelled_is_in_the_last_one() -> None:
    store = BusyStore()
    cluster = await started(store)
    await commit(cluster, "payments", 10)
    store.waits = asyncio.Event()
    snapshot = asyncio.create_task(cluster.take_snapshot())
    await asyncio.sleep(0)
    snapshot.cancel()
    store.waits = None
    await cluster.close()
    assert await store.cuts() == [store.last_position]
    assert await offsets_after_a_crash(store) == {"payments": 10}
    assert (await verify_store(store)).violations == []


async def test_events_lost_by_a_failed_store_are_in_no_snapshot_of_a_broker_that_stops_before_the_reopen() -> None:
    store = BusyStore()
    cluster = await started(store)
    await commit(cluster, "payments", 10)
    lost = asyncio.create_task(commit(cluster, "payments", 20))
    await asyncio.sleep(0)
    cluster.journal.fail(StoreFailed("the disk is gone"))
    await lost
    cluster.journal.reopen(store)
    await cluster.close()
    assert await offsets_after_a_crash(store) == {"payments": 10}
    assert (await verify_store(store)).violations == []


async def test_a_snapshot_has_only_the_groups_that_changed_since_the_last_one() -> None:
    store = MemoryStore()
    cluster = await started(store)
    await commit(cluster, "payments", 10)
    await cluster.take_snapshot()
    await commit(cluster, "refunds", 2)
    assert [each.group for each in cluster.router.take_snapshots()] == ["refunds"]
    await cluster.close()


STEPS = st.one_of(
    st.tuples(st.just("commit"), st.sampled_from(["payments", "refunds", "audits"])),
    st.tuples(st.sampled_from(["snapshot", "failing snapshot", "stop", "crash", "trim"]), st.just("")),
)


async def do(step: str, store: BusyStore, cluster: BrokerCluster) -> BrokerCluster:
    """Do a step, and return the cluster that runs afterwards."""
    store.is_busy = step == "failing snapshot"
    if "snapshot" in step:
        await cluster.take_snapshot()
        return cluster
    if step == "crash":
        cluster.router.stop()
        await cluster.journal.close()
        return await started(store)
    await cluster.close()
    if step == "trim":
        cut = (store.trimmed_through + store.last_position) // 2
        await save_snapshots_at(store, cut)
        await store.trim(cut + 1)
    return await started(store)


async def offsets_after(steps: list[tuple[str, str]]) -> tuple[dict[str, int], dict[str, int], list[Violation]]:
    """The acknowledged offsets, the offsets after a restart, and the violations in the store."""
    store, acknowledged = BusyStore(), dict[str, int]()
    cluster = await started(store)
    for number, (step, group) in enumerate(steps):
        if group:
            await commit(cluster, group, number)
            acknowledged[group] = number
        else:
            cluster = await do(step, store, cluster)
    found = await offsets_after_a_crash(store)
    violations = list((await verify_store(store)).violations)
    await cluster.close()
    return acknowledged, found, violations


@given(st.lists(STEPS, max_size=25))
def test_a_restart_finds_every_acknowledged_offset_whatever_failed_before(steps: list[tuple[str, str]]) -> None:
    with capture_logs():
        acknowledged, found, violations = asyncio.run(offsets_after(steps))
    assert found == acknowledged
    assert violations == []
