"""The feed through a real Mosquitto at QoS 1: how much of it, how late, and what it costs the coordinator.

    python benchmarks/mqtt.py [--events N] [--seconds S] [--runs N]

The reader is a process of its own, as a dashboard would be; the emulator's store is SQLite on disk. Three questions:
how quickly a backlog goes through; how long after its commit an event is received, at a moderate rate; and how many
commits of offsets a second the coordinator makes durable without a feed and with one, taking turns.
"""

import argparse
import asyncio
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, closing, contextmanager, suppress
from functools import partial
from pathlib import Path
from statistics import median, quantiles
from uuid import uuid4

import aiomqtt
import msgspec
import structlog

from regroup.coordinator import commands as c
from regroup.mqtt.address import MqttAccess, MqttAddress
from regroup.server.broker_cluster import BrokerCluster
from regroup.server.mqtt.messages import FeedMessage
from regroup.server.mqtt.service import MqttService
from regroup.storage.sqlite.threaded import open_store

GROUPS = 50
LAG_RATE = 200
"""Events per second while the lag is measured."""
AT_WORK = 64
"""Requests that the coordinator has in hand at once."""


@contextmanager
def mosquitto(folder: Path) -> Iterator[MqttAddress]:
    """With Nagle's algorithm off: it would hold each small message back for 40 ms."""
    program = shutil.which("mosquitto", path="/usr/sbin:/usr/bin:/usr/local/sbin")
    if program is None:
        raise SystemExit("There is no mosquitto: apt-get install mosquitto")
    with closing(socket.socket()) as listener:
        listener.bind(("127.0.0.1", 0))
        port = listener.getsockname()[1]
    lines = [f"listener {port} 127.0.0.1", "allow_anonymous true", "max_queued_messages 0", "set_tcp_nodelay true"]
    (folder / "mosquitto.conf").write_text("\n".join([*lines, "max_inflight_messages 1000", ""]))
    words = [program, "-c", str(folder / "mosquitto.conf")]
    with subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        for _ in range(500):
            with suppress(OSError), closing(socket.create_connection(("127.0.0.1", port))):
                break
            time.sleep(0.01)
        try:
            yield MqttAddress("127.0.0.1", port)
        finally:
            process.kill()


async def read(port: int, until: int, precise: bool) -> None:
    """The reader's process: one line for each message (when it came, positions), or one at the end."""
    async with aiomqtt.Client("127.0.0.1", port, max_inflight_messages=1000) as client:
        await client.subscribe("regroup/main/groups/+/events", qos=1)
        print("ready", flush=True)
        seen = 0
        async for message in client.messages:
            at_ns = time.time_ns()
            assert isinstance(message.payload, bytes)
            positions = [event.position for event in msgspec.json.decode(message.payload, type=FeedMessage).events]
            seen += len(positions)
            if precise:
                print(at_ns, *positions, flush=True)
            if seen >= until:
                print("done", at_ns, seen, flush=True)
                return


@asynccontextmanager
async def reading(address: MqttAddress, until: int, *, precise: bool) -> AsyncIterator[asyncio.StreamReader]:
    words = [sys.executable, __file__, "--read", str(address.port), "--events", str(until)]
    process = await asyncio.create_subprocess_exec(
        *words, *(["--precise"] if precise else []), stdout=subprocess.PIPE, limit=1 << 24
    )
    assert process.stdout
    assert (await process.stdout.readline()) == b"ready\n"
    try:
        yield process.stdout
    finally:
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()


async def start_cluster(store: Path) -> BrokerCluster:
    return await BrokerCluster.start(partial(open_store, store, durability="disk"))


def feeding(emulator: BrokerCluster, address: MqttAddress) -> MqttService:
    return MqttService(emulator, address, MqttAccess(), new_incarnation=lambda: uuid4().hex)


def commit(emulator: BrokerCluster, number: int) -> int:
    """One event; returns its position."""
    command = c.OffsetCommit(
        group_id=f"group-{number % GROUPS}",
        at_ms=emulator.state.now_ms(),
        offsets=(c.RequestedOffset("orders", number % 7, number),),
    )
    emulator.coordinator_of(command.group_id).submit(command)
    return emulator.journal.last_position


async def backlog(folder: Path, address: MqttAddress, events: int) -> float:
    """Events per second, from the feed's start to the reader's last."""
    async with await start_cluster(folder / "backlog.db") as emulator:
        for number in range(events):
            commit(emulator, number)
            if number % 1_000 == 0:
                await emulator.journal.wait_until_durable(emulator.journal.last_position)
        await emulator.journal.wait_until_durable(emulator.journal.last_position)
        async with reading(address, events, precise=False) as lines:
            service = feeding(emulator, address)
            began_ns = time.time_ns()
            await service.start()
            _, at_ns, seen = (await lines.readline()).split()
            await service.stop()
    return int(seen) / (int(at_ns) - began_ns) * 1e9


async def lag(folder: Path, address: MqttAddress, seconds: float) -> list[float]:
    """Milliseconds from the moment an event was durable to its receipt."""
    count = int(LAG_RATE * seconds)
    durable_ns: dict[int, int] = {}
    async with await start_cluster(folder / "lag.db") as emulator, reading(address, count, precise=True) as lines:
        service = feeding(emulator, address)
        await service.start()
        await service.connected.wait()
        for number in range(count):
            position = commit(emulator, number)
            await emulator.journal.wait_until_durable(position)
            durable_ns[position] = time.time_ns()
            await asyncio.sleep(1 / LAG_RATE)
        received_ns: dict[int, int] = {}
        while (line := (await lines.readline()).split())[0] != b"done":
            received_ns.update(dict.fromkeys(map(int, line[1:]), int(line[0])))
        await service.stop()
    return [(received_ns[position] - at_ns) / 1e6 for position, at_ns in durable_ns.items() if position in received_ns]


async def throughput(store: Path, address: MqttAddress | None, seconds: float) -> float:
    """Durable commits per second, with so many at work at once."""
    async with await start_cluster(store) as emulator:
        service = feeding(emulator, address) if address else None
        if service:
            await service.start()
            await service.connected.wait()
        done = 0
        end_s = time.perf_counter() + seconds

        async def work(first: int) -> None:
            nonlocal done
            number = first
            while time.perf_counter() < end_s:
                await emulator.journal.wait_until_durable(commit(emulator, number))
                number += AT_WORK
                done += 1

        began_s = time.perf_counter()
        await asyncio.gather(*(work(first) for first in range(AT_WORK)))
        took_s = time.perf_counter() - began_s
        if service:
            behind = emulator.journal.durable_position - service.feed.position
            print(f"    with the feed {done / took_s:,.0f}/s; it was {behind:,} of {done:,} events behind at the end")
            await service.stop()
        return done / took_s


async def measure(args: argparse.Namespace, folder: Path) -> None:
    with mosquitto(folder) as address:
        rate = await backlog(folder, address, args.events)
        print(f"backlog of {args.events:,} events of {GROUPS} groups: {rate:,.0f} events/s published and received")
        lags = await lag(folder, address, args.seconds)
        print(
            f"lag from durable to received at {LAG_RATE} events/s, {len(lags):,} events: "
            f"median {median(lags):.2f} ms, 99th percentile {quantiles(lags, n=100)[98]:.2f} ms"
        )
        off, on = [], []
        for run in range(args.runs):
            off.append(await throughput(folder / f"off-{run}.db", None, args.seconds / 2))
            on.append(await throughput(folder / f"on-{run}.db", address, args.seconds / 2))
        ratios = sorted(one / other for one, other in zip(on, off, strict=True))
        print(
            f"coordinator, {AT_WORK} commits at work: {median(off):,.0f}/s without a feed, {median(on):,.0f}/s with "
            f"one; of each pair {median(ratios):.2f} ({ratios[0]:.2f} to {ratios[-1]:.2f})"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--events", type=int, default=100_000)
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--read", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--precise", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(50))
    if args.read:
        asyncio.run(read(args.read, args.events, args.precise))
        return
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(measure(args, Path(folder)))


if __name__ == "__main__":
    main()
