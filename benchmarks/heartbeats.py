"""Heartbeats a second of `regroup serve`, librdkafka's mock cluster, kfake, and a bare asyncio.Protocol.

    python benchmarks/heartbeats.py [--runs N] [--seconds S]

One client in C drives all of them, in turn within each round, so that a busy machine disturbs all alike. Shown are
medians over the rounds; a ratio is the median of the ratios within the rounds. "uvloop" is `regroup serve --loop
uvloop`; its ratio to the better peer stands behind that of asyncio's own loop. Below each row stand the microseconds
of processor time that each coordinator took for one heartbeat, joining included: they waver less than the speed does.
"bare" is the physical limit of asyncio: the same loop, and nothing behind it.
"""

import argparse
import os
import subprocess
import tempfile
from contextlib import ExitStack
from pathlib import Path
from statistics import median
from typing import NamedTuple

from servers import Unavailable, commands, compiled_client, running

LOADS = ((1, 1), (1, 16), (1, 100), (64, 16))
"""Connections, and heartbeats in flight on each."""
OURS = ("regroup", "uvloop")
WARM_UP_S = 0.2
"""What the client does before it counts."""


Address = tuple[tuple[str, int], int]
"""Where a coordinator listens, and its process id."""


class Beaten(NamedTuple):
    """What one run of the client showed."""

    per_second: float
    client_share: float
    """Of a core."""
    server_us: float
    """Processor time for a heartbeat; 0 where the system does not tell."""


def cpu_seconds(process_id: int) -> float:
    """User and system time so far; 0 where there is no /proc."""
    try:
        fields = Path(f"/proc/{process_id}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    except FileNotFoundError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def beat(client: Path, address: Address, load: tuple[int, int], seconds: float) -> Beaten:
    (host, port), process_id = address
    words = [client, host, str(port), *map(str, load), str(seconds)]
    before = cpu_seconds(process_id)
    answered = subprocess.run(words, check=True, capture_output=True, text=True).stdout.split()
    per_second, client_share = map(float, answered)
    used = cpu_seconds(process_id) - before
    return Beaten(per_second, client_share, used / (per_second * (seconds + WARM_UP_S)) * 1e6)


def measure(client: Path, addresses: dict[str, Address], load: tuple[int, int], options: argparse.Namespace) -> str:
    """One row: the medians, regroup beside the better peer and beside the bare Protocol, and the client's own load."""
    rounds = [
        {name: beat(client, address, load, options.seconds) for name, address in addresses.items()}
        for _ in range(options.runs)
    ]
    speeds = [{name: beaten.per_second for name, beaten in each.items()} for each in rounds]
    peers = [name for name in ("mock", "kfake") if name in addresses]
    beside_peers = "".join(
        f"{median(each[ours] / max(each[name] for name in peers) for each in speeds):8.2f}" for ours in OURS
    )
    beside_bare = median(each["regroup"] / each["bare"] for each in speeds)
    figures = "".join(f"{median(each[name] for each in speeds) / 1000:9.0f}" for name in addresses)
    clients_share = median(each["regroup"].client_share for each in rounds)
    cpu = "".join(f"{median(each[name].server_us for each in rounds):9.1f}" for name in addresses)
    row = f"{load[0]:4} × {load[1]:<4}{figures}{beside_peers}{beside_bare:8.2f}{clients_share:9.0%}"
    return f"{row}\n{'  CPU µs':11}{cpu}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=5, help="rounds a load (default 5)")
    parser.add_argument("--seconds", type=float, default=1.0, help="a coordinator and round (default 1)")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        try:
            client = compiled_client(Path(folder))
        except Unavailable as reason:
            print(f"Heartbeats are not measured: {reason}.")
            return
        addresses = {name: stack.enter_context(running(command)) for name, command in commands(Path(folder)).items()}
        print("Thousand heartbeats a second, by connections × in flight on each")
        print(f"{'':11}{''.join(f'{name:>9}' for name in addresses)}{'/ best peer':>16}{'/ bare':>8}{'client':>9}")
        for load in LOADS:
            print(measure(client, addresses, load, options), flush=True)


if __name__ == "__main__":
    main()
