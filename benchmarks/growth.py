"""What grows with a store: commits a second, and the time to start. `python benchmarks/growth.py [--only NAME …]`

    groups      commits of 16 connections to 1, 100 and 10,000 groups
    partitions  commits of one offset to a group that has 1, 100 and 10,000 of them
    events      commits to an empty store, and to one of 10 million events
    start       the time from the start of `regroup serve` until it listens, on both

Every server runs at the same time, and `load.c` measures them in turn within each round. Shown are medians, and behind
them the slope: the last value divided by the first one. Other work on the machine disturbs the CPU time of the server
for a commit less than commits a second. This script writes the store of 10 million events, in some minutes: 100 groups,
and snapshots of all of them after every 50,000 events but the last 50,000. `--store` keeps it for the next run.
"""

import argparse
import asyncio
import json
import signal
import sqlite3
import subprocess
import tempfile
import time
from collections.abc import Callable, Coroutine, Iterable, Iterator, Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from statistics import median
from typing import Any, Final, TypeAlias

from harness.group_requests import TOPIC, frame_of
from harness.load_client import resident_mib, run_client
from harness.load_file import OFFSET, LoadConnection, LoadRequest
from harness.load_file import load_file as file_of
from harness.servers import ROOT, Server, Unavailable, compile_client, regroup_command, running_server

from regroup.protocol.client import ClientConnection
from regroup.protocol.messages.offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from regroup.storage.sqlite.files import initialize_store
from regroup.storage.sqlite.statements import INSERT_RECORD, SAVE_SNAPSHOT
from regroup.storage.sqlite.threaded import open_store

CONNECTIONS: Final = 16
IN_FLIGHT: Final = 4
SIZES: Final = (1, 100, 10_000)
MAX_PARTITIONS_OF_REQUEST: Final = 1_000
STORED_GROUPS: Final = 100
EVENTS_BETWEEN_SNAPSHOTS: Final = 50_000
FIRST_MS: Final = 1_700_000_000_000
MakeFile: TypeAlias = Callable[[Server, int], Coroutine[Any, Any, bytes]]
"""A function that prepares a server for a size, and returns what `load.c` reads."""


def commit_frame(group: str, partitions: Iterable[int]) -> bytes:
    """A commit of a consumer that is no member; `load.c` replaces its offsets."""
    offsets = [OffsetCommitRequestPartition(partition_index=each, committed_offset=OFFSET) for each in partitions]
    return frame_of(
        OffsetCommitRequest(
            group_id=group,
            generation_id_or_member_epoch=-1,
            member_id="",
            topics=[OffsetCommitRequestTopic(name=TOPIC, partitions=offsets)],
        )
    )


async def load_file(server: Server, frames: Sequence[bytes], first: Sequence[bytes] = ()) -> bytes:
    """Send the frames once, after those of `first`; return what `load.c` reads. They are dealt to the connections."""
    connection = await ClientConnection.open(server.host, server.port)
    for frame in first:
        await connection.send_frame(frame)
    responses = [await connection.send_frame(frame) for frame in frames]
    await connection.close()
    requests = [LoadRequest(frame, each[4:]) for frame, each in zip(frames, responses, strict=True)]
    steps = range(max(1, len(frames) // CONNECTIONS))
    return file_of(
        [
            LoadConnection([requests[(number + step * CONNECTIONS) % len(frames)] for step in steps])
            for number in range(CONNECTIONS)
        ]
    )


async def groups_file(server: Server, size: int) -> bytes:
    return await load_file(server, [commit_frame(f"group-{number}", [0]) for number in range(size)])


async def partitions_file(server: Server, size: int) -> bytes:
    numbers = range(size)
    first = [
        commit_frame("g", numbers[at : at + MAX_PARTITIONS_OF_REQUEST])
        for at in range(0, size, MAX_PARTITIONS_OF_REQUEST)
    ]
    return await load_file(server, [commit_frame("g", [each]) for each in numbers[:MAX_PARTITIONS_OF_REQUEST]], first)


# The store of 10 million events


def event_rows(events: int) -> Iterator[tuple[object, ...]]:
    """A commit of each group in turn, a millisecond after the last one; the first event of a group creates it."""
    cause = '{"api":"OffsetCommit","connection":"0-18@1","correlation_id":77,"client_id":"load"}'
    for position in range(1, events + 1):
        number, group = divmod(position - 1, STORED_GROUPS)
        at_ms = FIRST_MS + position
        if number:
            payload = f'{{"at_ms":{at_ms},"offsets":{{"{TOPIC}":{{"0":{{"offset":7,"committed_at_ms":{at_ms}}}}}}}}}'
            kind = "offsets-committed"
        else:
            payload, kind = f'{{"at_ms":{at_ms},"reason":"OffsetCommit","by_join":false}}', "group-created"
        yield f"group-{group}", number + 1, 1, at_ms, kind, 2, payload, cause, position


def snapshot_row(group: int, cut: int) -> tuple[object, ...]:
    """The snapshot of a group at a cut that is a multiple of the number of groups."""
    position = cut - STORED_GROUPS + group + 1
    state = {
        "group_id": f"group-{group}",
        "state": "Empty",
        "state_since_ms": FIRST_MS + group + 1,
        "committed_offsets": {TOPIC: {"0": {"offset": 7, "committed_at_ms": FIRST_MS + position}}},
        "event_number": cut // STORED_GROUPS,
    }
    return state["group_id"], cut, state["event_number"], position, 1, 2, json.dumps(state).encode()


def write_store(path: Path, events: int) -> None:
    """Write a store as `regroup serve` leaves it when it is killed: the last events are in no snapshot."""
    initialize_store(path)
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA synchronous = OFF")
        connection.execute("BEGIN")
        connection.executemany(INSERT_RECORD, event_rows(events))
        for cut in range(EVENTS_BETWEEN_SNAPSHOTS, events, EVENTS_BETWEEN_SNAPSHOTS):
            connection.execute("INSERT INTO cuts VALUES (?)", (cut,))
            connection.executemany(SAVE_SNAPSHOT, [snapshot_row(group, cut) for group in range(STORED_GROUPS)])
        connection.execute("UPDATE counters SET value = 1 WHERE name = 'coordinator_epoch'")
        connection.execute("COMMIT")
    asyncio.run(checkpoint(path))


async def checkpoint(path: Path) -> None:
    """Do what a server has done that wrote so many events: whatever a store does at checkpoints."""
    async with await open_store(path) as store:
        await store.checkpoint()


# Measuring


def command(store: Path, durability: str) -> list[str]:
    return [*regroup_command(store, 0), "--durability", durability, "--topic", f"{TOPIC}:10000"]


def row(name: str, values: Sequence[float], digits: int = 0) -> str:
    """One line: the values of the sizes, and their slope."""
    shown = "".join(f"{each:12,.{digits}f}" for each in values)
    return f"{name:44}{shown}   slope {values[-1] / values[0]:.2f}"


async def measure_commits(
    name: str, client: Path, servers: Sequence[Server], files: Sequence[Path], options: argparse.Namespace
) -> None:
    """Print commits a second, the CPU time of one, and the memory of the servers."""
    measured = list(zip(servers, files, strict=True))
    rounds = [
        [await run_client(client, server, file, IN_FLIGHT, 0.3, options.seconds) for server, file in measured]
        for _ in range(options.rounds)
    ]
    sizes = list(zip(*rounds, strict=True))
    print(row(f"{name}: commits/s", [median(each.per_second for each in size) for size in sizes]))
    print(row(f"{name}: microseconds of CPU", [median(each.server_cpu_us for each in size) for size in sizes], 1))
    print(row(f"{name}: MiB of memory", [resident_mib(each.process_id) for each in servers], 1), flush=True)


def measure_sizes(name: str, make_file: MakeFile, client: Path, folder: Path, options: argparse.Namespace) -> None:
    with ExitStack() as stack:
        servers, files = [], []
        for size in SIZES:
            server = running_server(command(folder / f"{name}-{size}.db", options.durability), cwd=ROOT)
            servers.append(stack.enter_context(server))
            files.append(folder / f"{name}-{size}.requests")
            files[-1].write_bytes(asyncio.run(make_file(servers[-1], size)))
        asyncio.run(
            measure_commits(f"{name} {' '.join(f'{each:,}' for each in SIZES)}", client, servers, files, options)
        )


def measure_events(client: Path, stores: Sequence[Path], folder: Path, options: argparse.Namespace) -> None:
    with ExitStack() as stack:
        servers, files = [], []
        for store in stores:
            servers.append(stack.enter_context(running_server(command(store, options.durability), cwd=ROOT)))
            files.append(folder / f"{store.name}.requests")
            files[-1].write_bytes(asyncio.run(groups_file(servers[-1], STORED_GROUPS)))
        asyncio.run(measure_commits(f"events 0 {options.events:,}", client, servers, files, options))


def start_s(store: Path, durability: str, *, stop: signal.Signals) -> float:
    """Seconds from the start of the process until it listens; then it is stopped."""
    began_s = time.perf_counter()
    with subprocess.Popen(command(store, durability), stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        seconds = time.perf_counter() - began_s
        process.send_signal(stop)
    if not line.startswith("listening"):
        raise Unavailable("a server has not started")
    return seconds


def measure_start(stores: Sequence[Path], options: argparse.Namespace) -> None:
    """Print the seconds to start after a kill, with events that are in no snapshot, and after a clean stop."""
    for name, stop in (("killed before", signal.SIGKILL), ("stopped before", signal.SIGTERM)):
        if stop == signal.SIGTERM:
            for store in stores:
                start_s(store, options.durability, stop=stop)
        rounds = [[start_s(store, options.durability, stop=stop) for store in stores] for _ in range(options.rounds)]
        values = [median(each) for each in zip(*rounds, strict=True)]
        print(row(f"start, {name}, events 0 {options.events:,}: s", values, 2), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="*", default=["groups", "partitions", "start", "events"], metavar="NAME")
    parser.add_argument("--events", type=int, default=10_000_000, help="events of the large store (default 10000000)")
    parser.add_argument("--store", type=Path, help="the large store; it is written if it does not exist, and kept")
    parser.add_argument("--rounds", type=int, default=5, help="rounds of each measurement (default 5)")
    parser.add_argument("--seconds", type=float, default=2.0, help="seconds of each server in a round (default 2)")
    parser.add_argument("--durability", choices=("disk", "process"), default="process")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        try:
            client = compile_client(folder, "load")
            if "groups" in options.only:
                measure_sizes("groups", groups_file, client, folder, options)
            if "partitions" in options.only:
                measure_sizes("partitions", partitions_file, client, folder, options)
            if {"start", "events"} & set(options.only):
                large = options.store or folder / "large.db"
                if not large.exists():
                    write_store(large, options.events)
                stores = [folder / "empty.db", large]
                if "start" in options.only:
                    measure_start(stores, options)
                if "events" in options.only:
                    measure_events(client, stores, folder, options)
        except Unavailable as reason:
            print(f"Not measured: {reason}.")


if __name__ == "__main__":
    main()
