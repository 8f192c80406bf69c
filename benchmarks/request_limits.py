"""What the most expensive requests of 100 kB cost: `python benchmarks/request_limits.py [--rounds N] [--only TEXT]`.

The requests are those of tests/robustness/expensive/all.py, for every API some. For each of them the table shows
the most CPU time between two turns of the event loop, how long it took in all, the size of its response, and the
slowest heartbeat of another process meanwhile. Each figure is the median of the rounds, each with a new cluster in
memory. The CPU time does not depend on other processes; the heartbeats do.
"""

import argparse
import asyncio
import logging
import multiprocessing
import socket
import sys
import time
from collections import defaultdict
from multiprocessing.sharedctypes import Synchronized
from pathlib import Path
from statistics import median
from typing import NamedTuple

import structlog

sys.path.insert(0, str(Path(__file__).parents[1]))
from regroup.protocol.frames import encode_request
from regroup.protocol.header import RequestHeader
from regroup.protocol.messages.group import HeartbeatRequest
from tests.robustness.expensive.all import expensive_requests
from tests.robustness.expensive.world import Client, expensive_world

HEARTBEAT_INTERVAL_S = 0.002
AIM_MS = 200
HEARTBEAT_AIM_MS = 500


class Cost(NamedTuple):
    """What one request has cost the server, and other clients."""

    longest_turn_ms: float
    total_ms: float
    response_bytes: int
    slowest_heartbeat_ms: float


def send_heartbeats(address: tuple[str, int], slowest_s: "Synchronized[float]") -> None:
    """Send heartbeats one after the other, for ever, and keep the longest time of one in `slowest_s`."""
    heartbeat = HeartbeatRequest(group_id="unknown", generation_id=1, member_id="unknown")
    frame = encode_request(RequestHeader(HeartbeatRequest.api_key, 3, 1, "beside"), heartbeat)
    with socket.create_connection(address) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        while True:
            sent_s = time.perf_counter()
            try:
                connection.sendall(frame)
                received = connection.recv(1024)
            except ConnectionError:
                return
            if not received:
                return
            with slowest_s.get_lock():
                slowest_s.value = max(slowest_s.value, time.perf_counter() - sent_s)
            time.sleep(HEARTBEAT_INTERVAL_S)


async def measure(only: str) -> dict[str, Cost]:
    """Measure one round: every request once, in order; with `only`, those whose name contains it."""
    longest_s = 0.0
    run_handle = asyncio.Handle._run

    def timed_run(handle: asyncio.Handle) -> None:
        nonlocal longest_s
        started_s = time.thread_time()
        run_handle(handle)
        longest_s = max(longest_s, time.thread_time() - started_s)

    costs: dict[str, Cost] = {}
    async with expensive_world() as cluster:
        context = multiprocessing.get_context("spawn")
        slowest_s = context.Value("d", 0.0)
        beside = context.Process(target=send_heartbeats, args=(cluster.address, slowest_s), daemon=True)
        beside.start()
        while not slowest_s.value:  # noqa: ASYNC110  # the other process sets it
            await asyncio.sleep(0.05)
        asyncio.Handle._run = timed_run  # type: ignore[method-assign]
        try:
            for each in expensive_requests():
                client = Client(cluster)
                data = client.encode(await each.prepare(client), each.version)
                await asyncio.sleep(0.05)
                longest_s, slowest_s.value = 0.0, 0.0
                started_s = time.perf_counter()
                written = await client.send(data)
                total_s = time.perf_counter() - started_s
                await asyncio.sleep(0.02)  # the heartbeat in flight
                await client.close()
                if only in each.name:
                    costs[each.name] = Cost(longest_s * 1000, total_s * 1000, written, slowest_s.value * 1000)
        finally:
            asyncio.Handle._run = run_handle  # type: ignore[method-assign]
            beside.terminate()
    return costs


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3, help="(default 3)")
    parser.add_argument("--only", default="", help="show only requests whose name has this text")
    options = parser.parse_args()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    rounds: dict[str, list[Cost]] = defaultdict(list)
    for _ in range(options.rounds):
        for name, cost in asyncio.run(measure(options.only)).items():
            rounds[name].append(cost)
    print(f"{'request of 100 kB':56} {'turn ms':>8} {'all ms':>8} {'response':>12} {'heartbeat ms':>13}")
    medians = {name: Cost(*map(median, zip(*costs, strict=True))) for name, costs in rounds.items()}  # type: ignore[arg-type]
    for name, cost in medians.items():
        over = cost.longest_turn_ms > AIM_MS or cost.slowest_heartbeat_ms > HEARTBEAT_AIM_MS
        print(
            f"{name:56} {cost.longest_turn_ms:8.1f} {cost.total_ms:8.0f} {cost.response_bytes:12,.0f} "
            f"{cost.slowest_heartbeat_ms:13.1f}{'  over the aim' if over else ''}"
        )
    turn_ms = max(each.longest_turn_ms for each in medians.values())
    heartbeat_ms = max(each.slowest_heartbeat_ms for each in medians.values())
    print(
        f"at most {turn_ms:.0f} ms of CPU in one turn of the event loop, and {heartbeat_ms:.0f} ms for a heartbeat "
        "beside it"
    )


if __name__ == "__main__":
    main()
