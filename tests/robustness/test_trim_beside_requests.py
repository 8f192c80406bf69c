"""A long history is trimmed while commits go on: no turn of the event loop takes long, and every commit is answered."""

import asyncio
import sqlite3
import time
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from regroup.coordinator import commands as c
from regroup.server.broker_cluster import BrokerCluster, ClusterOptions
from regroup.server.history import upkeep
from regroup.server.history.verify_store import verify_store
from regroup.storage.records import NewRecord
from regroup.storage.sqlite.opening import Durability
from regroup.storage.sqlite.threaded import open_store

EVENTS, GROUPS = 100_000, 500
MAX_TURN_S = 0.2
START_MS = 1_700_000_000_000


async def write_history(path: Path) -> None:
    """Write commits of many groups in turn, which are older than every time for which a test keeps events."""
    async with await open_store(path, durability="process") as store:
        for first in range(0, EVENTS, 10_000):
            await store.append([record(position) for position in range(first, first + 10_000)])
        await store.next_coordinator_epoch()


def record(position: int) -> NewRecord:
    number, group = divmod(position, GROUPS)
    kind, fields = "group-created", '"reason":"OffsetCommit","by_join":false'
    if number:
        kind = "offsets-committed"
        fields = f'"offsets":{{"orders":{{"0":{{"offset":{number},"committed_at_ms":{START_MS}}}}}}}'
    payload = f'{{"at_ms":{START_MS},{fields}}}'.encode()
    return NewRecord(f"g{group}", number + 1, 1, START_MS, kind, 2, payload, None)


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("durability", ["disk", "process"])
async def test_no_turn_is_long_and_commits_are_answered(
    tmp_path: Path, durability: Durability, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "store"
    await write_history(path)
    monkeypatch.setattr(upkeep, "SNAPSHOT_CHECK_INTERVAL_S", 0.05)
    options = ClusterOptions(keep_ms=2_000, snapshot_interval_records=100_000)
    async with await BrokerCluster.start(partial(open_store, path, durability=durability), options) as cluster:
        turns_s: list[float] = []
        run = asyncio.Handle._run

        def timed(handle: Any) -> None:
            began_s = time.thread_time()
            run(handle)
            turns_s.append(time.thread_time() - began_s)

        monkeypatch.setattr(asyncio.Handle, "_run", timed)
        committed = 0
        while first_position(path) <= EVENTS:
            committed += 1
            offset = c.RequestedOffset("orders", 0, committed)
            command = c.OffsetCommit(group_id="beside", at_ms=cluster.state.now_ms(), offsets=(offset,))
            await cluster.coordinator_of("beside").offset_commit(command)
        monkeypatch.undo()
        assert committed > 100
        assert max(turns_s) < MAX_TURN_S
    async with await open_store(path, read_only=True) as store:
        assert (await verify_store(store)).violations == []


def first_position(path: Path) -> int:
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as connection:
        return int(connection.execute("SELECT min(position) FROM events").fetchone()[0])
