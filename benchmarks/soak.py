"""A soak: does `regroup serve` stay as it is under load? `python benchmarks/soak.py [--minutes N] [--rate N]`.

Two servers get the same load in one run: one keeps every event, and one has `--keep`. The load is groups of four whose
members send heartbeats and commits of offsets, and beside them members that come and go: each on a new connection, in
one of 100 groups, joins, syncs, commits and leaves. Every ten seconds the resident memory, the files, the rate and the
times to the response are sampled. At the end it is judged, from the samples after the first third:

- memory: a straight line through the samples rises by less than 3 % over this time
- the store that keeps everything grows by the same number of bytes an event as before
- the store with `--keep` does not grow, although events come

The rate is that of each server, in requests a second. `load.c` sends them and checks every response. Without `--rate`
it is half of what one server answers in five seconds without a pause. The exit code is 1 if a judgement fails.
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

from harness.group_requests import VERSIONS, Member, frame_of, join, member_connections, prepare, request_of
from harness.load_client import Measurement, resident_mib, run_client
from harness.load_file import load_file
from harness.servers import ROOT, Server, Unavailable, compile_client, regroup_command, running_server

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
    """The load of one server: what `load.c` sends for its members, and members that come and go."""

    def __init__(self, client: Path, server: Server, file: Path) -> None:
        self.server = server
        self._client, self._file = client, file

    async def prepare(self) -> None:
        """Form the groups."""
        members = await member_connections(
            self.server, "group", connections=MEMBERS, group_size=GROUP_SIZE, kinds=REQUESTS, partitions=PARTITIONS
        )
        self._file.write_bytes(load_file(members))

    async def run(self, seconds: float, rate: float) -> Measurement:
        """Send requests for some seconds, so many a second; with a rate of 0 as many as the server answers."""
        return await run_client(self._client, self.server, self._file, 1, 0, seconds, rate)

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


async def with_visits(load: Load, stack: AsyncExitStack) -> None:
    """Start the members that come and go; they end with the stack."""
    task = asyncio.create_task(load.run_visits())

    async def stop() -> None:
        task.cancel()
        for result in await asyncio.gather(task, return_exceptions=True):
            if isinstance(result, Exception):
                raise result

    stack.push_async_callback(stop)


def sample_of(load: Load, store: Path, at_s: float, measured: Measurement) -> Sample:
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
        measured.per_second,
        measured.median_us / 1000,
        measured.p99_us / 1000,
    )


async def samples(
    loads: dict[str, Load], folder: Path, minutes: float, rate: float
) -> AsyncIterator[tuple[str, Sample]]:
    """The samples of all servers, until the time is over."""
    began_s = time.monotonic()
    while time.monotonic() - began_s < minutes * 60:
        measured = await asyncio.gather(*(load.run(SAMPLE_INTERVAL_S, rate) for load in loads.values()))
        at_s = time.monotonic() - began_s
        for (name, load), each in zip(loads.items(), measured, strict=True):
            yield name, sample_of(load, folder / f"{name}.db", at_s, each)


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


async def soak(client: Path, servers: dict[str, Server], folder: Path, options: argparse.Namespace) -> bool:
    """Load the servers, print samples and judgements, and return whether all is as it should be."""
    loads = {name: Load(client, server, folder / f"{name}.requests") for name, server in servers.items()}
    for load in loads.values():
        await prepare(load.server)
        await load.prepare()
    rate = options.rate or (await loads["all"].run(CALIBRATION_S, 0)).per_second / 2
    print(f"{rate:,.0f} requests/s for each server, for {options.minutes:g} minutes, events kept for {options.keep}")
    print(
        f"{'':12}{'s':>6}{'memory':>8}{'file':>8}{'log':>7} MiB{'events':>11}{'kept':>11}{'/s':>8}{'p50':>7}{'p99':>8}"
    )
    taken: dict[str, list[Sample]] = {name: [] for name in servers}
    async with AsyncExitStack() as stack:
        for load in loads.values():
            await with_visits(load, stack)
        async for name, each in samples(loads, folder, options.minutes, rate):
            taken[name].append(each)
            if len(taken[name]) % options.every == 1 % options.every:
                print(
                    f"{name:12}{each.at_s:6.0f}{each.memory_mib:8.1f}{each.file_mib:8.1f}{each.log_mib:7.1f}    "
                    f"{each.events:11,}{each.kept:11,}{each.per_second:8,.0f}{each.p50_ms:7.1f}{each.p99_ms:8.1f}",
                    flush=True,
                )
    holds: dict[str, bool] = {}
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
        try:
            holds = asyncio.run(soak(compile_client(folder, "load"), servers, folder, options))
        except Unavailable as reason:
            print(f"FAILS  {reason}")
            holds = False
    sys.exit(0 if holds else 1)


if __name__ == "__main__":
    main()
