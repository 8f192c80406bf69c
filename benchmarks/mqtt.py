"""The MQTT feed through Mosquitto at QoS 1: its rate, its lag, and what it costs the coordinator.

    python benchmarks/mqtt.py [--events N] [--seconds S] [--runs N]

The subscriber is a process of its own, as a dashboard would be; the emulator's store is SQLite on disk. Measured are:
events a second while a backlog is published; how long after it became durable an event is received, at a moderate rate;
and how many commits of offsets a second the coordinator makes durable without a feed and with one, in turn.
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
"""Events a second while the lag is measured."""
CONCURRENT_COMMITS = 64
"""How many commits wait at the same time until they are durable."""


@contextmanager
def mosquitto(folder: Path) -> Iterator[MqttAddress]:
    """Run Mosquitto while the block lasts; returns its address.

    Nagle's algorithm is off, since it delays each small message by up to 40 ms.
    """
    program = shutil.which("mosquitto", path="/usr/sbin:/usr/bin:/usr/local/sbin")
    if program is None:
        raise SystemExit("There is no mosquitto: apt-get install mosquitto")
    with closing(socket.socket()) as listener:
        listener.bind(("127.0.0.1", 0))
        port = listener.getsockname()[1]
    lines = [f"listener {port} 127.0.0.1", "allow_anonymous true", "max_queued_messages 0", "set_tcp_nodelay true"]
    (folder / "mosquitto.conf").write_text("\n".join([*lines, "max_inflight_messages 1000", ""]))
    command = [program, "-c", str(folder / "mosquitto.conf")]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        for _ in range(500):
            with suppress(OSError), closing(socket.create_connection(("127.0.0.1", port))):
                break
            time.sleep(0.01)
        try:
            yield MqttAddress("127.0.0.1", port)
        finally:
            process.kill()


async def subscribe(port: int, event_count: int, prints_messages: bool) -> None:
    """Receive a number of events, and print a line at the end.

    With `prints_messages` a line is printed for each message, too: its time, and the positions of its events.
    """
    async with aiomqtt.Client("127.0.0.1", port, max_inflight_messages=1000) as client:
        await client.subscribe("regroup/main/groups/+/events", qos=1)
        print("ready", flush=True)
        received = 0
        async for message in client.messages:
            at_ns = time.time_ns()
            assert isinstance(message.payload, bytes)
            positions = [event.position for event in msgspec.json.decode(message.payload, type=FeedMessage).events]
            received += len(positions)
            if prints_messages:
                print(at_ns, *positions, flush=True)
            if received >= event_count:
                print("done", at_ns, received, flush=True)
                return


@asynccontextmanager
async def running_subscriber(
    address: MqttAddress, event_count: int, *, prints_messages: bool
) -> AsyncIterator[asyncio.StreamReader]:
    """Run a subscriber in a process of its own while the block lasts, and return the stream of what it prints."""
    command = [sys.executable, __file__, "--subscribe", str(address.port), "--events", str(event_count)]
    if prints_messages:
        command.append("--print-messages")
    process = await asyncio.create_subprocess_exec(*command, stdout=subprocess.PIPE, limit=1 << 24)
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


def mqtt_service(emulator: BrokerCluster, address: MqttAddress) -> MqttService:
    return MqttService(emulator, address, MqttAccess(), new_incarnation=lambda: uuid4().hex)


def commit(emulator: BrokerCluster, number: int) -> int:
    """Commit an offset of the next group; returns the position of the last record.

    It appends one event, or two for a group that is new.
    """
    command = c.OffsetCommit(
        group_id=f"group-{number % GROUPS}",
        at_ms=emulator.state.now_ms(),
        offsets=(c.RequestedOffset("orders", number % 7, number),),
    )
    emulator.coordinator_of(command.group_id).submit(command)
    return emulator.journal.last_position


async def measure_backlog(folder: Path, address: MqttAddress, events: int) -> float:
    """Events a second, from the start of the feed until the subscriber has received the last event."""
    async with await start_cluster(folder / "backlog.db") as emulator:
        for number in range(events):
            commit(emulator, number)
            if number % 1_000 == 0:
                await emulator.journal.wait_until_durable(emulator.journal.last_position)
        await emulator.journal.wait_until_durable(emulator.journal.last_position)
        async with running_subscriber(address, emulator.journal.last_position, prints_messages=False) as lines:
            service = mqtt_service(emulator, address)
            started_ns = time.time_ns()
            await service.start()
            _, at_ns, received = (await lines.readline()).split()
            await service.stop()
    return int(received) / (int(at_ns) - started_ns) * 1e9


async def measure_lags_ms(folder: Path, address: MqttAddress, seconds: float) -> list[float]:
    """For each event, the milliseconds from when it was durable until the subscriber received it."""
    count = int(LAG_RATE * seconds)
    durable_ns: dict[int, int] = {}
    async with (
        await start_cluster(folder / "lag.db") as emulator,
        running_subscriber(address, count + min(count, GROUPS), prints_messages=True) as lines,
    ):
        service = mqtt_service(emulator, address)
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
    return [(received_ns[position] - at_ns) / 1e6 for position, at_ns in durable_ns.items()]


async def measure_commits(store: Path, address: MqttAddress | None, seconds: float) -> float:
    """Durable commits a second; with a feed if an address is given."""
    async with await start_cluster(store) as emulator:
        service = mqtt_service(emulator, address) if address else None
        if service:
            await service.start()
            await service.connected.wait()
        commits = 0
        end_s = time.perf_counter() + seconds

        async def commit_until_end(first: int) -> None:
            nonlocal commits
            number = first
            while time.perf_counter() < end_s:
                await emulator.journal.wait_until_durable(commit(emulator, number))
                number += CONCURRENT_COMMITS
                commits += 1

        started_s = time.perf_counter()
        await asyncio.gather(*(commit_until_end(first) for first in range(CONCURRENT_COMMITS)))
        rate = commits / (time.perf_counter() - started_s)
        if service:
            behind = emulator.journal.durable_position - service.feed.position
            print(f"    with the feed {rate:,.0f}/s; it was {behind:,} of {commits:,} events behind at the end")
            await service.stop()
        return rate


async def measure(args: argparse.Namespace, folder: Path) -> None:
    with mosquitto(folder) as address:
        rate = await measure_backlog(folder, address, args.events)
        print(f"backlog of {args.events:,} events of {GROUPS} groups: {rate:,.0f} events/s published and received")
        lags_ms = await measure_lags_ms(folder, address, args.seconds)
        print(
            f"lag from durable to received at {LAG_RATE} events/s, {len(lags_ms):,} events: "
            f"median {median(lags_ms):.2f} ms, 99th percentile {quantiles(lags_ms, n=100)[98]:.2f} ms"
        )
        without, with_feed = [], []
        for run in range(args.runs):
            without.append(await measure_commits(folder / f"without-{run}.db", None, args.seconds / 2))
            with_feed.append(await measure_commits(folder / f"with-{run}.db", address, args.seconds / 2))
        ratios = sorted(one / other for one, other in zip(with_feed, without, strict=True))
        print(
            f"coordinator, {CONCURRENT_COMMITS} concurrent commits: {median(without):,.0f}/s without a feed, "
            f"{median(with_feed):,.0f}/s with one; ratio {median(ratios):.2f} ({ratios[0]:.2f} to {ratios[-1]:.2f})"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--events", type=int, default=100_000, help="events of the backlog (default 100000)")
    parser.add_argument("--seconds", type=float, default=10.0, help="for which the lag is measured (default 10)")
    parser.add_argument("--runs", type=int, default=5, help="runs without and with a feed (default 5)")
    parser.add_argument("--subscribe", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--print-messages", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(50))
    if args.subscribe:
        asyncio.run(subscribe(args.subscribe, args.events, args.print_messages))
        return
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(measure(args, Path(folder)))


if __name__ == "__main__":
    main()
