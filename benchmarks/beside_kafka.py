"""Requests a second of `regroup serve` beside Apache Kafka on the same cores.

    python benchmarks/beside_kafka.py [--only NAME …] [--rounds N] [--seconds S] [--warm-up S]
    python benchmarks/beside_kafka.py --only 'commits 1 x 1' 'commits 16 x 1' --collect rounds.jsonl
    python benchmarks/beside_kafka.py --collect rounds.jsonl --show    # the table of all rounds so far

`load.c` sends the same requests to both, in turn within each round, and checks every response. Shown are medians over
the rounds; a ratio is the median of the ratios within the rounds. "again" is a second regroup with the same settings,
and its ratio to the first shows what is noise. Apache Kafka runs with its own defaults and the JVM flags that its
scripts set, and is warmed up before each workload, because a fresh one reaches a tenth of its rate.

With `--collect` the rounds are added to a file, and those of earlier calls count too, so that the whole table can be
measured in several calls. With the defaults a workload takes 2.3 minutes, of which a minute is the warm-up of Kafka.
"""

import argparse
import asyncio
import sys
import tempfile
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from harness.group_requests import member_connections, prepare
from harness.load_client import Measurement, resident_mib, run_client
from harness.load_file import LoadConnection, load_file
from harness.rounds import Round, add_round, rounds_in, row_of
from harness.servers import ROOT, Server, Unavailable, compile_client, running_server
from harness.transactions import producer_connections, with_new_ids

JVM_OPTIONS: Final = (
    "-Xms1G -Xmx1G -server -XX:+UseG1GC -XX:MaxGCPauseMillis=20 -XX:InitiatingHeapOccupancyPercent=35 "
    "-XX:+ExplicitGCInvokesConcurrent -Djava.awt.headless=true"
)
"""The JVM options that kafka-server-start.sh and kafka-run-class.sh set."""
SERVERS: Final = ("kafka", "process", "again", "disk")
REGROUP_WARM_UP_S: Final = 3.0
"""Seconds of warm-up for regroup, whose first request takes as long as any other."""


@dataclass(frozen=True)
class Workload:
    """The requests for a server: how many connections with one member each, in groups of how many members."""

    name: str
    connections: int
    in_flight: int
    partitions: int
    group_size: int = 1
    requests: str = "c"
    """The requests that each member sends in turn: `c` for a commit, `h` for a heartbeat; `t` for transactions."""


WORKLOADS: Final = (
    Workload("commits 1 x 1", 1, 1, 1),
    Workload("commits 16 x 1", 16, 1, 1),
    Workload("commits 16 x 8", 16, 8, 1),
    Workload("commits 16 x 2, 100 partitions", 16, 2, 100),
    Workload("64 members, 5 heartbeats to 3 commits of 8", 64, 1, 8, 8, "hchchchh"),
    Workload("16 members x 8, 5 heartbeats to 3 commits of 8", 16, 8, 8, 8, "hchchchh"),
    Workload("transactions of 3 requests, 1 producer", 1, 1, 1, 1, "t"),
    Workload("transactions of 3 requests, 16 producers", 16, 1, 1, 1, "t"),
)


class ServerLoad:
    """The load of one workload for one server."""

    def __init__(self, client: Path, name: str, server: Server, workload: Workload, folder: Path) -> None:
        self._client, self._server, self._workload = client, server, workload
        self._groups = f"{workload.name} {name}"
        self._file = folder / f"{name}.requests"
        self._connections: list[LoadConnection] = []

    async def prepare(self) -> None:
        """Form the groups."""
        workload = self._workload
        if workload.requests == "t":
            self._connections = await producer_connections(self._server, self._groups, workload.connections)
            return
        self._connections = await member_connections(
            self._server,
            self._groups,
            connections=workload.connections,
            group_size=workload.group_size,
            kinds=workload.requests,
            partitions=workload.partitions,
        )

    async def run(self, warm_up_s: float, seconds: float) -> Measurement:
        """Send the requests for some seconds."""
        connections = self._connections
        if self._workload.requests == "t":
            connections = await with_new_ids(self._server, self._groups, connections)
        self._file.write_bytes(load_file(connections))
        return await run_client(self._client, self._server, self._file, self._workload.in_flight, warm_up_s, seconds)


async def measure(
    client: Path, servers: dict[str, Server], workload: Workload, folder: Path, options: argparse.Namespace
) -> list[Round]:
    """Measure the rounds of one workload, and add each to the file that collects them."""
    loads = {name: ServerLoad(client, name, server, workload, folder) for name, server in servers.items()}
    for name, load in loads.items():
        await load.prepare()
        await load.run(options.warm_up if name == "kafka" else min(options.warm_up, REGROUP_WARM_UP_S), 0.1)
    rounds = []
    for _ in range(options.rounds):
        rounds.append({name: await load.run(0.3, options.seconds) for name, load in loads.items()})
        add_round(options.collect, workload.name, rounds[-1])
    return rounds


def server_commands(folder: Path) -> dict[str, list[str]]:
    """The command that starts each server."""
    serve = [sys.executable, "-m", "regroup.cli", "serve", "--port", "0", "--log-level", "error"]
    serve += ["--set", "group.initial.rebalance.delay.ms=0"]
    kafka = [sys.executable, "-m", "tests.conformance.apache_kafka", "--jvm-options", JVM_OPTIONS]
    kafka += ["--set", "group.initial.rebalance.delay.ms=0", "--set", "offsets.topic.num.partitions=50"]
    return {
        "kafka": kafka,
        "process": [*serve, "--store", str(folder / "process.db"), "--durability", "process"],
        "again": [*serve, "--store", str(folder / "again.db"), "--durability", "process"],
        "disk": [*serve, "--store", str(folder / "disk.db"), "--durability", "disk"],
    }


async def measure_all(client: Path, servers: dict[str, Server], folder: Path, options: argparse.Namespace) -> None:
    for server in servers.values():
        await prepare(server)
    for workload in WORKLOADS:
        if not options.only or any(each in workload.name for each in options.only):
            rounds = await measure(client, servers, workload, folder, options)
            collected = rounds_in(options.collect)[workload.name] if options.collect else rounds
            print(row_of(workload.name, collected), flush=True)
    sizes = (f"{name} {resident_mib(server.process_id):,.0f}" for name, server in servers.items())
    print(f"MiB of memory at the end: {', '.join(sizes)}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="*", metavar="NAME", help="workloads whose name contains one of these")
    parser.add_argument("--servers", nargs="*", choices=SERVERS, default=SERVERS, help="which of them (default all)")
    parser.add_argument("--rounds", type=int, default=7, help="rounds of each workload (default 7)")
    parser.add_argument("--seconds", type=float, default=2.0, help="seconds of each server in a round (default 2)")
    parser.add_argument("--warm-up", type=float, default=60.0, help="seconds for Kafka before a workload (default 60)")
    parser.add_argument("--collect", type=Path, metavar="FILE", help="add the rounds to a file, and count those in it")
    parser.add_argument("--show", action="store_true", help="measure nothing; print the rounds in the file")
    options = parser.parse_args()
    if options.show:
        print("\n".join(row_of(name, rounds) for name, rounds in rounds_in(options.collect).items()))
        return
    with tempfile.TemporaryDirectory() as name, ExitStack() as stack:
        folder = Path(name)
        try:
            client = compile_client(folder, "load")
            servers = {
                name: stack.enter_context(running_server(command, cwd=ROOT))
                for name, command in server_commands(folder).items()
                if name in options.servers
            }
            asyncio.run(measure_all(client, servers, folder, options))
        except Unavailable as reason:
            print(f"Not measured: {reason}.")


if __name__ == "__main__":
    main()
