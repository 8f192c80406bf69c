"""Heartbeats a second of `regroup serve`, librdkafka's mock cluster, kfake, and a bare asyncio.Protocol.

    python benchmarks/heartbeats.py [--runs N] [--seconds S]

One client in C drives all of them, in turn within each round, so that a busy machine disturbs all alike. Shown are
medians over the rounds; a ratio is the median of the ratios within the rounds. "uvloop" is `regroup serve --loop
uvloop`; its ratio to the better peer stands behind that of asyncio's own loop. Below each row stand the microseconds
of CPU time that each server took for one heartbeat, joining included: they vary less than the rates do. "bare" is the
fastest that asyncio allows: the same loop, and hardly anything behind it.
"""

import argparse
import subprocess
import tempfile
from contextlib import ExitStack
from pathlib import Path
from statistics import median
from typing import NamedTuple

from harness.servers import Server, Unavailable, compile_client, running_server, server_commands

LOADS = ((1, 1), (1, 16), (1, 100), (64, 16))
"""The loads to measure: the number of connections, and of heartbeats in flight on each of them."""
REGROUP_NAMES = ("regroup", "uvloop")
WARM_UP_S = 0.2
"""How long the client sends heartbeats before it counts them."""


class Measurement(NamedTuple):
    """The figures of one run of the client in C against one server."""

    heartbeats_per_second: float
    client_load: float
    """The share of a core that the client took, from 0 to 1."""
    server_cpu_us: float
    """CPU time of the server for one heartbeat, in microseconds; 0 on a system that does not report it."""


def run_client(client: Path, server: Server, load: tuple[int, int], seconds: float) -> Measurement:
    arguments = [server.host, str(server.port), *map(str, load), str(seconds)]
    cpu_s_before = server.cpu_s()
    output = subprocess.run([client, *arguments], check=True, capture_output=True, text=True).stdout
    per_second, client_load = map(float, output.split())
    cpu_s = server.cpu_s() - cpu_s_before
    return Measurement(per_second, client_load, cpu_s / (per_second * (seconds + WARM_UP_S)) * 1e6)


def measure(client: Path, servers: dict[str, Server], load: tuple[int, int], options: argparse.Namespace) -> str:
    """Measure one load; returns the row of the table.

    It has the medians, regroup beside the better peer and beside the bare Protocol, and the client's own load.
    """
    rounds = [
        {name: run_client(client, server, load, options.seconds) for name, server in servers.items()}
        for _ in range(options.runs)
    ]
    rates = [{name: each.heartbeats_per_second for name, each in measurements.items()} for measurements in rounds]
    peers = [name for name in ("mock", "kfake") if name in servers]
    beside_peers = "".join(
        f"{median(each[name] / max(each[peer] for peer in peers) for each in rates):8.2f}" for name in REGROUP_NAMES
    )
    beside_bare = median(each["regroup"] / each["bare"] for each in rates)
    thousands = "".join(f"{median(each[name] for each in rates) / 1000:9.0f}" for name in servers)
    client_load = median(each["regroup"].client_load for each in rounds)
    cpu_us = "".join(f"{median(each[name].server_cpu_us for each in rounds):9.1f}" for name in servers)
    row = f"{load[0]:4} × {load[1]:<4}{thousands}{beside_peers}{beside_bare:8.2f}{client_load:9.0%}"
    return f"{row}\n{'  CPU µs':11}{cpu_us}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=5, help="rounds of each load (default 5)")
    parser.add_argument("--seconds", type=float, default=1.0, help="seconds of each server in a round (default 1)")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        try:
            client = compile_client(Path(folder), "heartbeats")
        except Unavailable as reason:
            print(f"Heartbeats are not measured: {reason}.")
            return
        commands = server_commands(Path(folder))
        servers = {name: stack.enter_context(running_server(command)) for name, command in commands.items()}
        print("Thousand heartbeats a second, by connections × in flight on each")
        print(f"{'':11}{''.join(f'{name:>9}' for name in servers)}{'/ best peer':>16}{'/ bare':>8}{'client':>9}")
        for load in LOADS:
            print(measure(client, servers, load, options), flush=True)


if __name__ == "__main__":
    main()
