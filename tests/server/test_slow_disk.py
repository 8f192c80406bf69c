"""A disk that takes 200 ms to synchronize a file: who waits for it, and who does not."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from statistics import median

import pytest

CC = shutil.which("cc")
SHIM = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <unistd.h>

int fsync(int file) { usleep(200000); return ((int (*)(int))dlsym(RTLD_NEXT, "fsync"))(file); }
int fdatasync(int file) { usleep(200000); return ((int (*)(int))dlsym(RTLD_NEXT, "fdatasync"))(file); }
"""

PROGRAM = """
import asyncio, json, sys, time
from functools import partial
from regroup.coordinator.settings import CoordinatorSettings
from regroup.protocol.client import ClientConnection
from regroup.protocol.messages.group import *
from regroup.protocol.messages.offsets import *
from regroup.server.broker_cluster import BrokerCluster, ClusterOptions
from regroup.storage.sqlite.threaded import open_store

async def join(connection):
    protocol = JoinGroupRequestProtocol(name="range", metadata=b"")
    request = JoinGroupRequest(group_id="still", session_timeout_ms=60_000, rebalance_timeout_ms=60_000, member_id="",
                               protocol_type="consumer", protocols=[protocol])
    joined = await connection.send(request, 3)
    member = joined.member_id
    share = SyncGroupRequestAssignment(member_id=member, assignment=b"")
    await connection.send(
        SyncGroupRequest(group_id="still", generation_id=1, member_id=member, assignments=[share]), 3)
    return HeartbeatRequest(group_id="still", generation_id=1, member_id=member)

async def main():
    options = ClusterOptions(settings=CoordinatorSettings(group_initial_rebalance_delay_ms=0))
    cluster = await BrokerCluster.start(partial(open_store, sys.argv[1], durability=sys.argv[2]), options)
    await cluster.ensure_topic("orders", 1)
    still, busy = [await ClientConnection.open(*cluster.address) for _ in range(2)]
    heartbeat = await join(still)
    partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=1)
    topic = OffsetCommitRequestTopic(name="orders", partitions=[partition])
    times = {"commits": [], "heartbeats": []}

    async def repeat(what, act, pause_s):
        while True:
            began_s = time.perf_counter()
            await act()
            times[what].append((time.perf_counter() - began_s) * 1000)
            await asyncio.sleep(pause_s)

    acts = [
        repeat("commits", lambda: busy.send(OffsetCommitRequest(group_id="busy", topics=[topic]), 5), 0),
        repeat("heartbeats", lambda: still.send(heartbeat, 3), 0.005),
    ]
    if sys.argv[2] == "process":
        acts.append(repeat("checkpoints", cluster.store.checkpoint, 0.005))
        times["checkpoints"] = []
    tasks = [asyncio.create_task(act) for act in acts]
    await asyncio.sleep(1.5)
    for task in tasks:
        task.cancel()
    print(json.dumps(times), flush=True)
    import os; os._exit(0)

asyncio.run(main())
"""


@pytest.fixture(scope="module")
def shim(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if CC is None:
        pytest.skip("there is no C compiler (cc)")
    folder = tmp_path_factory.mktemp("shim")
    (folder / "shim.c").write_text(SHIM)
    subprocess.run([CC, "-shared", "-fPIC", "-o", folder / "shim.so", folder / "shim.c", "-ldl"], check=True)
    return folder / "shim.so"


@pytest.mark.slow  # it measures for a second and a half
@pytest.mark.parametrize("durability", ["disk", "process"])
def test_a_heartbeat_beside_commits_does_not_wait_for_the_disk(shim: Path, tmp_path: Path, durability: str) -> None:
    command = [sys.executable, "-c", PROGRAM, str(tmp_path / "store.db"), durability]
    environment = os.environ | {"LD_PRELOAD": str(shim)}
    done = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
    times = json.loads(done.stdout.splitlines()[-1])  # behind the lines of the log
    waits = times["commits" if durability == "disk" else "checkpoints"]
    assert median(waits) > 200, "the disk is slow"
    assert len(times["heartbeats"]) > 50
    assert sorted(times["heartbeats"])[len(times["heartbeats"]) * 9 // 10] < 20
