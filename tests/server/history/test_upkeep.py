"""The upkeep of a running history: snapshots in time, and a trim of what is older than it is to be kept."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from msgspec.structs import replace
from structlog.testing import capture_logs

from regroup.coordinator import commands as c
from regroup.coordinator.runtime.group_coordinator import GroupCoordinator
from regroup.coordinator.runtime.loading import load_groups
from regroup.coordinator.settings import CoordinatorSettings
from regroup.lab.simulation.virtual_clock import VirtualLoop, run_in_virtual_time
from regroup.server.history.trim import last_position_before
from regroup.server.history.upkeep import MAX_PAUSE_S, HistoryUpkeep
from regroup.server.history.verify_store import verify_store
from regroup.storage.errors import StoreFull, StoreLost
from regroup.storage.journal import Journal
from regroup.storage.memory import MemoryStore
from regroup.storage.records import NewRecord

START_MS = 1_700_000_000_000
MINUTE_MS, HOUR_MS = 60_000, 3_600_000


class PortionedStore(MemoryStore):
    """A store whose trims leave portions to be deleted, of which each takes a second; it fails as long as `error` is
    set."""

    portions = 0
    error: Exception | None = None
    checkpoints = 0

    def __init__(self) -> None:
        super().__init__()
        self.began = asyncio.Event()

    async def trim(self, before: int) -> int:
        if self.error:
            raise self.error
        self.portions = 3
        return await super().trim(before)

    async def delete_trimmed(self) -> bool:
        await asyncio.sleep(1)
        had_more, self.portions = self.portions > 0, max(0, self.portions - 1)
        if had_more:
            self.began.set()
        return had_more

    async def checkpoint(self) -> None:
        self.checkpoints += 1


class History:
    """The running history of one coordinator, whose time is that of the loop."""

    def __init__(self) -> None:
        self.store = PortionedStore()
        self.journal = Journal(self.store)
        self.coordinator = GroupCoordinator(self.journal, settings=CoordinatorSettings(), now=self.now_ms)
        self.is_consistent = True
        self.last_snapshot_position = 0
        self.committed = 0

    @staticmethod
    def now_ms() -> int:
        return START_MS + round(asyncio.get_running_loop().time() * 1000)

    async def take_snapshot(self) -> None:
        position, snapshots = self.journal.last_position, self.coordinator.take_snapshots()
        await self.journal.wait_until_durable(position)
        await self.store.save_snapshots(position, snapshots)
        self.coordinator.mark_saved(snapshots)
        self.last_snapshot_position = position

    async def commit(self) -> None:
        self.committed += 1
        offset = c.RequestedOffset("orders", 0, self.committed)
        await self.coordinator.offset_commit(c.OffsetCommit(group_id="g", at_ms=self.now_ms(), offsets=(offset,)))

    async def commit_every(self, interval_ms: int, count: int) -> None:
        for _ in range(count):
            await self.commit()
            await asyncio.sleep(interval_ms / 1000)

    async def oldest_ms(self) -> int:
        """How long ago the first event happened that is left."""
        first = self.store.trimmed_through
        times = [each.at_ms async for each in self.store.read(after=first, until=first + 1)]
        return self.now_ms() - times.pop()


def in_virtual_time(
    keep_ms: int, scenario: Callable[[History], Coroutine[Any, Any, None]], *, interval_records: int = 0
) -> None:
    """Run the scenario beside the upkeep of a new history, which holds what it must at the end."""

    async def run() -> None:
        history = History()
        await history.coordinator.start()
        upkeep = HistoryUpkeep(history, history.now_ms, snapshot_interval_records=interval_records, keep_ms=keep_ms)
        upkeep.start()
        await scenario(history)
        await upkeep.stop()
        offset = (await load_groups(history.store))["g"].committed_offsets["orders"][0].offset
        assert offset == history.committed
        assert (await verify_store(history.store)).violations == []

    run_in_virtual_time(run(), VirtualLoop())


@pytest.mark.parametrize(
    ("keep_ms", "interval_ms", "snapshots"), [(6 * HOUR_MS, 10 * MINUTE_MS, 30), (10 * MINUTE_MS, 20_000, 30)]
)
def test_events_are_kept_for_the_time_and_at_most_a_snapshot_longer(
    keep_ms: int, interval_ms: int, snapshots: int
) -> None:
    async def scenario(history: History) -> None:
        await history.commit_every(interval_ms, 2 * keep_ms // interval_ms)
        late_ms = min(keep_ms // 20, HOUR_MS) + interval_ms + 2 * MINUTE_MS
        assert keep_ms - interval_ms <= await history.oldest_ms() <= keep_ms + late_ms
        assert 0 < len(await history.store.cuts()) < snapshots

    in_virtual_time(keep_ms, scenario)


def test_without_a_time_everything_is_kept() -> None:
    async def scenario(history: History) -> None:
        await history.commit_every(10_000, 100)
        assert history.store.trimmed_through == 0
        assert len(await history.store.cuts()) == 10

    in_virtual_time(0, scenario, interval_records=10)


def test_a_history_without_new_events_needs_no_more_snapshots_and_ends_as_a_snapshot() -> None:
    async def scenario(history: History) -> None:
        await history.commit_every(MINUTE_MS, 3)
        await asyncio.sleep(3 * HOUR_MS / 1000)
        assert history.store.trimmed_through == history.store.last_position
        assert await history.store.cuts() == [history.store.last_position]

    in_virtual_time(HOUR_MS, scenario)


def test_nothing_is_trimmed_before_this_process_has_taken_a_snapshot() -> None:
    async def scenario(history: History) -> None:
        await history.commit()
        await history.store.save_snapshots(1, history.coordinator.take_snapshots()[:0])
        history.is_consistent = False
        await asyncio.sleep(3 * HOUR_MS / 1000)
        assert history.store.trimmed_through == 0
        history.is_consistent = True
        await asyncio.sleep(HOUR_MS / 1000)
        assert history.store.trimmed_through == history.store.last_position

    in_virtual_time(HOUR_MS, scenario)


def test_a_cut_with_snapshots_of_another_version_is_no_beginning() -> None:
    async def scenario(history: History) -> None:
        await history.commit()
        position, snapshots = history.journal.last_position, history.coordinator.take_snapshots()
        await history.take_snapshot()
        await history.store.save_snapshots(position, [replace(each, version=1) for each in snapshots])
        await asyncio.sleep(3 * HOUR_MS / 1000)
        assert history.store.trimmed_through == 0
        await history.commit()
        await asyncio.sleep(3 * HOUR_MS / 1000)
        assert history.store.trimmed_through == history.store.last_position

    in_virtual_time(HOUR_MS, scenario)


def test_commits_go_on_between_portions_and_a_checkpoint_follows() -> None:
    async def scenario(history: History) -> None:
        await history.commit()
        await history.store.began.wait()
        began, before = history.now_ms(), history.committed
        while history.store.portions > 0:
            await history.commit()
            await asyncio.sleep(0.1)
        assert history.committed - before >= 20
        assert history.now_ms() - began >= 2 * (1 + MAX_PAUSE_S) * 1000
        await asyncio.sleep(2)
        assert history.store.checkpoints == 1

    in_virtual_time(10 * MINUTE_MS, scenario)


def test_a_trim_that_fails_is_logged_and_repeated() -> None:
    async def scenario(history: History) -> None:
        history.store.error = StoreFull("no space")
        await history.commit()
        with capture_logs() as lines:
            await asyncio.sleep(2 * HOUR_MS / 1000)
        assert {line["event"] for line in lines} == {"history-not-trimmed"}
        history.store.error = None
        await asyncio.sleep(HOUR_MS / 1000)
        assert history.store.trimmed_through == history.store.last_position

    in_virtual_time(HOUR_MS, scenario)


def test_a_store_that_is_lost_during_a_trim_ends_the_journal() -> None:
    async def scenario(history: History) -> None:
        await history.commit()
        history.store.error = StoreLost("replaced")
        with capture_logs():
            await asyncio.sleep(2 * HOUR_MS / 1000)
        assert history.journal.failure is history.store.error

    in_virtual_time(HOUR_MS, scenario)


async def test_the_last_position_before_a_time_is_found_also_in_a_trimmed_history() -> None:
    store = MemoryStore()
    times = [10, 10, 20, 30, 30, 30, 50]
    await store.append([NewRecord("a", number, 1, at, "joined", 1, b"{}", None) for number, at in enumerate(times, 1)])
    wanted = {5: 0, 10: 0, 11: 2, 30: 3, 31: 6, 50: 6, 51: 7, 90: 7}
    assert {at: await last_position_before(store, at) for at in wanted} == wanted
    await store.save_snapshots(3, [])
    await store.trim(4)
    assert {at: await last_position_before(store, at) for at in wanted} == {at: max(3, n) for at, n in wanted.items()}
