"""Commits, snapshots, trims, portions, stops and crashes in any order: no offset is lost, and the store verifies."""

import asyncio
import shutil
import tempfile
from itertools import count
from pathlib import Path
from unittest.mock import patch

from hypothesis import given, settings
from hypothesis import strategies as st
from structlog.testing import capture_logs

from regroup.coordinator import commands as c
from regroup.coordinator.runtime.group_coordinator import GroupCoordinator
from regroup.coordinator.runtime.loading import load_groups
from regroup.coordinator.settings import CoordinatorSettings
from regroup.server.history.trim import newest_cut_before, save_snapshots_at
from regroup.server.history.verify_store import verify_store
from regroup.storage.journal import Journal
from regroup.storage.sqlite.inline import open_inline_store
from regroup.storage.sqlite.store import SqliteStore

NOW_MS = 1_700_000_000_000
STEPS = st.one_of(
    st.sampled_from(["payments", "refunds", "audits"]),
    st.sampled_from(["snapshot", "trim", "portion", "portion", "offline trim", "stop", "crash"]),
)


class RestartedHistory:
    """The history of one coordinator over a SQLite file, which is stopped, killed and started again."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.path = folder / "store"
        self.copies = count()
        self.acknowledged: dict[str, int] = {}
        self.offset = 0
        self.store: SqliteStore
        self.journal: Journal
        self.coordinator: GroupCoordinator

    async def start(self) -> None:
        self.store = await open_inline_store(self.path)
        self.journal = Journal(self.store)
        self.coordinator = GroupCoordinator(self.journal, settings=CoordinatorSettings(), now=lambda: NOW_MS)
        await self.coordinator.start()

    async def do(self, step: str) -> None:
        match step:
            case "snapshot":
                await self.take_snapshot()
            case "trim":
                cut = await newest_cut_before(self.store, NOW_MS + 1)
                if cut > self.store.trimmed_through:
                    await self.store.trim(cut + 1)
            case "portion":
                await self.store.delete_trimmed()
            case "offline trim":
                cut = (self.store.trimmed_through + self.store.last_position) // 2
                await save_snapshots_at(self.store, cut)
                await self.store.trim(cut + 1)
            case "stop":
                await self.take_snapshot()
                await self.stop()
                await self.start()
            case "crash":
                await self.crash()
                await self.start()
            case group:
                self.offset += 1
                offsets = (c.RequestedOffset("orders", 0, self.offset),)
                await self.coordinator.offset_commit(c.OffsetCommit(group_id=group, at_ms=NOW_MS, offsets=offsets))
                self.acknowledged[group] = self.offset

    async def take_snapshot(self) -> None:
        position, snapshots = self.journal.last_position, self.coordinator.take_snapshots()
        await self.journal.wait_until_durable(position)
        await self.store.save_snapshots(position, snapshots)
        self.coordinator.mark_saved(snapshots)

    async def stop(self) -> None:
        self.coordinator.stop()
        await self.journal.close()
        await self.store.close()

    async def crash(self) -> None:
        """Go on with the files as they are now, as after a kill: those of the old path are closed and forgotten."""
        after = self.folder / f"store-{next(self.copies)}"
        for suffix in ("", "-wal"):
            shutil.copy(f"{self.path}{suffix}", f"{after}{suffix}")
        await self.stop()
        self.path = after


async def check(history: RestartedHistory) -> None:
    groups = await load_groups(history.store)
    offsets = {name: group.committed_offsets["orders"][0].offset for name, group in groups.items()}
    assert offsets == history.acknowledged
    assert (await verify_store(history.store)).violations == []


async def play(steps: list[str]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        history = RestartedHistory(Path(folder))
        await history.start()
        await history.do("payments")
        for step in steps:
            await history.do(step)
            await check(history)
        await history.stop()


@given(st.lists(STEPS, max_size=20))
@settings(max_examples=10)
def test_no_offset_is_lost_in_whatever_order_a_history_is_trimmed_and_restarted(steps: list[str]) -> None:
    with (
        capture_logs(),
        patch("regroup.storage.sqlite.trimming.MAX_PORTION_RECORDS", 3),
        patch("regroup.storage.sqlite.trimming.MAX_PORTION_SNAPSHOTS", 2),
    ):
        asyncio.run(play(steps))
