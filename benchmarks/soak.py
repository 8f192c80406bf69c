"""A soak: does `regroup serve` stay as it is under load? `python benchmarks/soak.py [--minutes N] [--rate N]`.

Two servers get the same load in one run: one keeps every event, and one has `--keep`. The load is groups of four whose
members send heartbeats and commits of offsets, and beside them members that come and go: each on a new connection, in
one of 100 groups, joins, syncs, commits and leaves. Every ten seconds the resident memory, the files, the rate and the
times to the response are sampled. At the end it is judged, from the samples after the first third:

- memory: a straight line through the samples rises by less than 3 % over this time
- the store that keeps everything grows by the same number of bytes an event as before
- the store with `--keep` does not grow, although events come

The rate is that of each server, in requests a second. Without `--rate` it is half of what the client reaches in five
seconds without a pause. The exit code is 1 if a judgement fails.
"""

import argparse
import asyncio
import os
import random
import sqlite3
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, ExitStack, closing, suppress
from itertools import pairwise
from pathlib import Path
from statistics import fmean, linear_regression, median
from typing import Final, NamedTuple

from beside_kafka import (
    VERSIONS,
    Member,
    form_group,
    frame_of,
    join,
    places_of,
    prepare,
    request_of,
    resident_mib,
)
from harness.servers import ROOT, Server, Unavailable, regroup_command, running_server

from regroup.protocol.client import ClientConnection, ConnectionLost
from regroup.protocol.messages.group import (
    LeaveGroupRequest,
    MemberIdentity,
    SyncGroupRequest,
    SyncGroupRequestAssignment,
)

MEMBERS: Final = 32
GROUP_SIZE: Final = 4
PARTITIONS: Final = 8
REQUESTS: Final = "hchchchh"
"""Requests of a member in turn: `h` for a heartbeat, `c` for a commit of eight offsets."""
VISITED_GROUPS: Final = 100
VISITS_PER_SECOND: Final = 2.0
SAMPLE_INTERVAL_S: Final = 10.0
CALIBRATION_S: Final = 5.0
ALLOWED_GROWTH: Final = 0.03
MIN_CHECKPOINTS: Final = 3
ALLOWED_DIFFERENCE: Final = 0.1
"""By how much the bytes of an event may differ between the first and the second half of the run."""


class Sample(NamedTuple):
    """What was seen of one server at one time."""

    at_s: float
    memory_mib: float
    file_mib: float
    log_mib: float
    """SQLite's write-ahead log."""
    events: int
    """Position of the last event."""
    kept: int
    """How many events the store has: those after the trimmed ones."""
    per_second: float
    p50_ms: float
    p99_ms: float


class Load:
    """The load of one server, and the times to the response since the last sample, in milliseconds."""

    def __init__(self, server: Server, rate: float | None) -> None:
        self.server = server
        self.rate = rate
        """Requests a second of all members together; None for as many as they can."""
        self.times_ms: list[float] = []
        self.refused = 0
        self._next_offset = time.time_ns()

    async def run_group(self, number: int) -> None:
        """Four members of one group, until this is cancelled."""
        connections = [await ClientConnection.open(self.server.host, self.server.port) for _ in range(GROUP_SIZE)]
        try:
            members = await form_group(connections, f"group-{number}")
            await asyncio.gather(
                *(self._run_member(each, member) for each, member in zip(connections, members, strict=True))
            )
        finally:
            for each in connections:
                await each.close()

    async def _run_member(self, connection: ClientConnection, member: Member) -> None:
        frames = [frame_of(request_of(kind, member, PARTITIONS)) for kind in REQUESTS]
        places = [places_of(each) for each in frames]
        interval_s = MEMBERS / self.rate if self.rate else 0.0
        due_s = time.monotonic() + random.random() * interval_s
        while True:
            for frame, found in zip(frames, places, strict=True):
                if interval_s:
                    due_s = max(due_s + interval_s, time.monotonic() - interval_s)
                    await asyncio.sleep(due_s - time.monotonic())
                request = bytearray(frame)
                for place in found:
                    self._next_offset += 1
                    request[place : place + 8] = self._next_offset.to_bytes(8, "big")
                sent_s = time.perf_counter()
                response = await connection.send_frame(bytes(request))
                self.times_ms.append((time.perf_counter() - sent_s) * 1000)
                self.refused += not found and any(response[8:10])

    async def run_visits(self) -> None:
        """Members that come and go, until this is cancelled."""
        while True:
            await asyncio.sleep(1 / VISITS_PER_SECOND)
            group = f"visited-{random.randrange(VISITED_GROUPS)}"
            connection = await ClientConnection.open(self.server.host, self.server.port)
            with suppress(ConnectionLost):
                joined = await join(connection, group, "")
                member = Member(group, joined.generation_id, joined.member_id)
                await connection.send(sync_request(member), VERSIONS[SyncGroupRequest])
                await connection.send_frame(frame_of(request_of("c", member, PARTITIONS)))
                leave = LeaveGroupRequest(group_id=group, members=[MemberIdentity(member_id=joined.member_id)])
                await connection.send(leave, 4)
            await connection.close()


def sync_request(member: Member) -> SyncGroupRequest:
    """The request of a leader that is alone in its group."""
    return SyncGroupRequest(
        group_id=member.group_id,
        generation_id=member.generation_id,
        member_id=member.member_id,
        assignments=[SyncGroupRequestAssignment(member_id=member.member_id, assignment=bytes(10))],
    )


async def with_load(load: Load, stack: AsyncExitStack) -> None:
    """Start the load; it ends with the stack."""
    tasks = [asyncio.create_task(load.run_group(number)) for number in range(MEMBERS // GROUP_SIZE)]
    tasks.append(asyncio.create_task(load.run_visits()))

    async def stop() -> None:
        for each in tasks:
            each.cancel()
        for result in await asyncio.gather(*tasks, return_exceptions=True):
            if isinstance(result, Exception):
                raise result

    stack.push_async_callback(stop)


async def calibrated_rate(server: Server) -> float:
    """Half of the requests a second that the client reaches without a pause."""
    load = Load(server, None)
    async with AsyncExitStack() as stack:
        await with_load(load, stack)
        await asyncio.sleep(CALIBRATION_S)
    return len(load.times_ms) / CALIBRATION_S / 2


def sample_of(load: Load, store: Path, at_s: float, seconds: float) -> Sample:
    times, load.times_ms = sorted(load.times_ms), []
    with closing(sqlite3.connect(f"file:{store}?mode=ro", uri=True)) as connection:
        last, trimmed = connection.execute(
            "SELECT max(position), (SELECT value FROM counters WHERE name = 'trimmed_through') FROM events"
        ).fetchone()
    return Sample(
        at_s,
        resident_mib(load.server.process_id),
        store.stat().st_size / 2**20,
        store.with_name(store.name + "-wal").stat().st_size / 2**20,
        last,
        last - trimmed,
        len(times) / seconds,
        median(times) if times else 0.0,
        times[len(times) * 99 // 100] if times else 0.0,
    )


async def samples(loads: dict[str, Load], folder: Path, minutes: float) -> AsyncIterator[tuple[str, Sample]]:
    """The samples of all servers, until the time is over."""
    began_s = sampled_s = time.monotonic()
    while sampled_s - began_s < minutes * 60:
        await asyncio.sleep(SAMPLE_INTERVAL_S)
        now_s = time.monotonic()
        for name, load in loads.items():
            yield name, sample_of(load, folder / f"{name}.db", now_s - began_s, now_s - sampled_s)
        sampled_s = now_s


def rise(points: list[tuple[float, float]]) -> float:
    """By which share of its mean a straight line through the points rises from the first to the last."""
    slope, _ = linear_regression([at for at, _ in points], [value for _, value in points])
    return slope * (points[-1][0] - points[0][0]) / fmean(value for _, value in points)


def bytes_of_event(first: Sample, last: Sample) -> float:
    return (last.file_mib - first.file_mib) * 2**20 / (last.events - first.events)


def judgements(name: str, taken: list[Sample]) -> dict[str, bool]:
    """What is said of one server at the end, and whether it is as it should be."""
    later = taken[len(taken) // 3 :]
    memory = rise([(each.at_s, each.memory_mib) for each in later])
    found = {
        f"memory rises by {memory:+.1%}, from {later[0].memory_mib:.1f} to {later[-1].memory_mib:.1f} MiB": (
            memory < ALLOWED_GROWTH
        )
    }
    if name == "all":
        # The file grows at checkpoints only, which come every 20,000 events: the samples that follow one are compared.
        grown = [after for before, after in pairwise(taken) if after.file_mib > before.file_mib]
        if len(grown) < MIN_CHECKPOINTS:
            raise Unavailable(
                "the run is too short for several checkpoints: let it take longer, or give a higher --rate"
            )
        middle = grown[len(grown) // 2]
        halves = bytes_of_event(grown[0], middle), bytes_of_event(middle, grown[-1])
        found[f"an event takes {halves[0]:.0f} bytes in the first half, {halves[1]:.0f} in the second"] = (
            abs(halves[1] / halves[0] - 1) < ALLOWED_DIFFERENCE
        )
    else:
        growth = rise([(each.at_s, each.file_mib) for each in later])
        found[
            f"the file rises by {growth:+.1%}, from {later[0].file_mib:.1f} to {later[-1].file_mib:.1f} MiB, while "
            f"{later[-1].events - later[0].events:,} events come; {later[0].kept:,} and {later[-1].kept:,} are kept"
        ] = growth < ALLOWED_GROWTH
    times = f"p50 {median(each.p50_ms for each in later):.1f}, p99 {median(each.p99_ms for each in later):.1f} ms"
    found[f"{median(each.per_second for each in later):,.0f} requests/s, {times}, the median of the samples"] = True
    return found


async def soak(servers: dict[str, Server], folder: Path, options: argparse.Namespace) -> bool:
    """Load the servers, print samples and judgements, and return whether all is as it should be."""
    for server in servers.values():
        await prepare(server)
    rate = options.rate or await calibrated_rate(servers["all"])
    print(f"{rate:,.0f} requests/s for each server, for {options.minutes:g} minutes, events kept for {options.keep}")
    print(
        f"{'':12}{'s':>6}{'memory':>8}{'file':>8}{'log':>7} MiB{'events':>11}{'kept':>11}{'/s':>8}{'p50':>7}{'p99':>8}"
    )
    loads = {name: Load(server, rate) for name, server in servers.items()}
    taken: dict[str, list[Sample]] = {name: [] for name in servers}
    async with AsyncExitStack() as stack:
        for load in loads.values():
            await with_load(load, stack)
        async for name, each in samples(loads, folder, options.minutes):
            taken[name].append(each)
            if len(taken[name]) % options.every == 1 % options.every:
                print(
                    f"{name:12}{each.at_s:6.0f}{each.memory_mib:8.1f}{each.file_mib:8.1f}{each.log_mib:7.1f}    "
                    f"{each.events:11,}{each.kept:11,}{each.per_second:8,.0f}{each.p50_ms:7.1f}{each.p99_ms:8.1f}",
                    flush=True,
                )
    refused = sum(load.refused for load in loads.values())
    holds = {f"{refused} heartbeats were refused": not refused}
    for name in servers:
        holds |= {f"{name}: {what}": ok for what, ok in judgements(name, taken[name]).items()}
    for what, ok in holds.items():
        print("holds " if ok else "FAILS ", what)
    return all(holds.values())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=30, help="how long (default 30)")
    parser.add_argument("--rate", type=float, help="requests a second of each server (default: half of what it can)")
    parser.add_argument("--keep", default="5m", help="the --keep of the second server (default 5m)")
    parser.add_argument("--durability", choices=("disk", "process"), default="process")
    parser.add_argument("--every", type=int, default=6, help="print every so many samples (default 6, each minute)")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=os.environ.get("SOAK_FOLDER")) as name, ExitStack() as stack:
        folder = Path(name)
        commands = {
            which: [*regroup_command(folder / f"{which}.db", 0), "--durability", options.durability]
            for which in ("all", "keep")
        }
        commands["keep"] += ["--keep", options.keep]
        servers = {which: stack.enter_context(running_server(command, cwd=ROOT)) for which, command in commands.items()}
        holds = asyncio.run(soak(servers, folder, options))
    sys.exit(0 if holds else 1)


if __name__ == "__main__":
    main()
