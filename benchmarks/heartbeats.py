"""Heartbeats a second of `regroup serve`, librdkafka's mock cluster, kfake, and a bare asyncio.Protocol.

    python benchmarks/heartbeats.py [--runs N] [--seconds S]

One client in C drives all of them, in turn within each round, so that a busy machine disturbs all alike. Shown are
medians over the rounds; a ratio is the median of the ratios within the rounds.
"""

import argparse
import subprocess
import tempfile
from contextlib import ExitStack
from pathlib import Path
from statistics import median

from servers import Unavailable, commands, compiled_client, running

LOADS = ((1, 1), (1, 16), (1, 100), (64, 16))
"""Connections, and heartbeats in flight on each."""


def beat(client: Path, address: tuple[str, int], load: tuple[int, int], seconds: float) -> tuple[float, float]:
    """Heartbeats a second, and the share of a core that the client took."""
    host, port = address
    words = [client, host, str(port), *map(str, load), str(seconds)]
    answered = subprocess.run(words, check=True, capture_output=True, text=True).stdout.split()
    return float(answered[0]), float(answered[1])


def measure(
    client: Path, addresses: dict[str, tuple[str, int]], load: tuple[int, int], options: argparse.Namespace
) -> str:
    """One row: the medians, regroup beside the better peer and beside the bare Protocol, and the client's own load."""
    rounds = [
        {name: beat(client, address, load, options.seconds) for name, address in addresses.items()}
        for _ in range(options.runs)
    ]
    speeds = [{name: speed for name, (speed, _) in each.items()} for each in rounds]
    peers = [name for name in ("mock", "kfake") if name in addresses]
    beside_peers = median(each["regroup"] / max(each[name] for name in peers) for each in speeds)
    beside_bare = median(each["regroup"] / each["bare"] for each in speeds)
    figures = "".join(f"{median(each[name] for each in speeds) / 1000:9.0f}" for name in addresses)
    clients_share = median(each["regroup"][1] for each in rounds)
    return f"{load[0]:4} × {load[1]:<4}{figures}{beside_peers:13.2f}{beside_bare:8.2f}{clients_share:9.0%}"


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
        addresses = {name: stack.enter_context(running(command))[0] for name, command in commands(Path(folder)).items()}
        print("Thousand heartbeats a second, by connections × in flight on each")
        print(f"{'':11}{''.join(f'{name:>9}' for name in addresses)}{'/ best peer':>13}{'/ bare':>8}{'client':>9}")
        for load in LOADS:
            print(measure(client, addresses, load, options), flush=True)


if __name__ == "__main__":
    main()
