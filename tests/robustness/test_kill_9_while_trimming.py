"""`kill -9` at random moments while events are trimmed: nothing acknowledged is lost, and the next process goes on."""

import asyncio
import random
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from regroup.coordinator.runtime.loading import load_groups
from regroup.server.history.verify_store import verify_store
from regroup.storage.sqlite.threaded import open_store

SERVER = """
import asyncio, sys
from functools import partial
from regroup.coordinator import commands as c
from regroup.server.broker_cluster import BrokerCluster, ClusterOptions
from regroup.server.history import upkeep
from regroup.storage.sqlite import trimming
from regroup.storage.sqlite.threaded import open_store

upkeep.SNAPSHOT_CHECK_INTERVAL_S, upkeep.MIN_PAUSE_S, upkeep.PORTIONS_PER_CHECKPOINT = 0.01, 0.001, 3
trimming.MAX_PORTION_RECORDS, trimming.MAX_PORTION_SNAPSHOTS = 3, 2

async def main():
    options = ClusterOptions(keep_ms=100, snapshot_interval_records=20)
    cluster = await BrokerCluster.start(partial(open_store, sys.argv[1], durability=sys.argv[2]), options)
    await cluster.ensure_topic("orders", 1)
    groups = ["a", "b", "c"]
    offset = max([g.committed_offsets["orders"][0].offset for g in cluster.groups()], default=0)
    while True:
        for name in groups[: 1 + offset // 50 % 3]:
            offset += 1
            offsets = (c.RequestedOffset("orders", 0, offset),)
            command = c.OffsetCommit(group_id=name, at_ms=cluster.state.now_ms(), offsets=offsets)
            await cluster.coordinator_of(name).offset_commit(command)
            print("acknowledged", name, offset, flush=True)

asyncio.run(main())
"""
"""Commits offsets, each larger than all before, of one to three groups in turn; prints each that is acknowledged."""


@contextmanager
def server(path: Path, durability: str) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-c", SERVER, str(path), durability]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def acknowledged_until_killed(path: Path, durability: str, seconds: float) -> dict[str, int]:
    """Let the server commit for a time, kill it, and return each group's last acknowledged offset."""
    found: dict[str, int] = {}
    with server(path, durability) as process:
        assert process.stdout is not None
        lines = [process.stdout.readline()]
        time.sleep(seconds)
        process.kill()
        lines += process.communicate()[0].splitlines(keepends=True)
    for line in lines:
        if line.startswith("acknowledged ") and line.endswith("\n"):  # the others are of the log
            _, name, offset = line.split()
            found[name] = int(offset)
    assert found, "the server has acknowledged nothing"
    return found


async def trimmed_and_left(path: Path, acknowledged: dict[str, int]) -> tuple[int, int]:
    """Check the store; returns how far it was trimmed, and how many trimmed events are still in the file."""
    async with await open_store(path, read_only=True) as store:
        groups = await load_groups(store)
        for name, offset in acknowledged.items():
            assert groups[name].committed_offsets["orders"][0].offset >= offset
        assert (await verify_store(store)).violations == []
        trimmed = store.trimmed_through
    with closing(sqlite3.connect(path)) as connection:
        query = "SELECT count(*) FROM events WHERE position <= ?"
        return trimmed, connection.execute(query, (trimmed,)).fetchone()[0]


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("durability", ["disk", "process"])
def test_nothing_acknowledged_is_lost_and_the_trim_goes_on(tmp_path: Path, durability: str) -> None:
    path, rng, acknowledged = tmp_path / "store", random.Random(durability), dict[str, int]()
    trims, was_in_the_middle = [0], 0
    for _ in range(25):
        acknowledged |= acknowledged_until_killed(path, durability, rng.uniform(0.1, 0.6))
        trimmed, left = asyncio.run(trimmed_and_left(path, acknowledged))
        trims.append(trimmed)
        was_in_the_middle += left > 0
    assert trims == sorted(trims)
    assert trims[-1] > 100
    assert was_in_the_middle > 3, "the server was hardly ever killed in the middle of a trim"
