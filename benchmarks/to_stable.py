"""From start to Stable, and on when one member leaves: groups of `regroup serve` beside those of Apache Kafka.

    python benchmarks/to_stable.py [--protocol classic consumer] [--members 10 100 1000] [--runs N] [--alone]

All members join one group at once. Time runs from the first request until a classic group is Stable, each member with
its assignment of the same generation, or until the members of a consumer group are at one epoch and own every partition
once, of which there are as many as members. Then one member leaves, and the time runs until that is so again. After
that the members of a consumer group send heartbeats that change nothing, one in flight on each connection.

Both servers have the same settings: no initial delay, `group.consumer.assignment.interval.ms` of 1,000, and sessions of
ten minutes, since 10,000 members that join at once may send nothing for long on a busy machine. A member sends
a heartbeat each 50 ms, in a group of more than 250 members less often, so that all together send 5,000 a second. The
members run in the process of the benchmark, on asyncio and regroup's codec; their CPU seconds are shown, since they may
be slower than a server. Classic members have a connection each, consumers share 16. Kafka is warmed up by one round
that does not count; regroup is asked first in one round, Kafka first in the next.
"""

import argparse
import asyncio
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from statistics import median
from typing import Final, NamedTuple, TypeAlias

from group_members.classic import ClassicGroup, ClassicMember
from group_members.consumer import TOPICS, ConsumerGroup, ConsumerMember, SharedConnection
from harness.process_cpu import tree_cpu_s
from harness.servers import ROOT, Server, Unavailable, regroup_command, running_server

from regroup.protocol.client import ClientConnection
from regroup.protocol.messages.cluster import FindCoordinatorRequest
from regroup.protocol.messages.topics import CreatableTopic, CreateTopicsRequest, DeleteTopicsRequest

SETTINGS: Final = {
    "group.initial.rebalance.delay.ms": "0",
    "group.consumer.assignment.interval.ms": "1000",
    "group.consumer.session.timeout.ms": "600000",
    "group.consumer.max.session.timeout.ms": "600000",
}
KAFKA_SETTINGS: Final = {"offsets.topic.num.partitions": "50", "log.index.size.max.bytes": "4096"}
"""Indexes of the usual size would take 200 GB of address space for 10,000 partitions."""
JVM_OPTIONS: Final = "-Xms1G -Xmx1G -server -XX:+UseG1GC -XX:MaxGCPauseMillis=20 -Djava.awt.headless=true"
HEARTBEATS_PER_S: Final = 5_000
SHORTEST_INTERVAL_S: Final = 0.05
CONNECTIONS: Final = 16
UNCHANGED_S: Final = 2.0
TIMEOUT_S: Final = 300

AnyGroup: TypeAlias = ClassicGroup | ConsumerGroup


class Measurement(NamedTuple):
    """What one change of one group took."""

    exchanges: int
    seconds: float
    server_cpu_s: float
    client_cpu_s: float


class Unchanged(NamedTuple):
    """The cost of one heartbeat that changes nothing."""

    server_cpu_us: float
    per_second: float


def server_commands(folder: Path, *, alone: bool) -> dict[str, list[str]]:
    regroup = [*regroup_command(folder / "bench.db", initial_delay_ms=0), "--durability", "process"]
    kafka = [sys.executable, "-m", "tests.conformance.apache_kafka", "--jvm-options", JVM_OPTIONS]
    for name, value in SETTINGS.items():
        regroup += ["--set", f"{name}={value}"]
    for name, value in (SETTINGS | KAFKA_SETTINGS).items():
        kafka += ["--set", f"{name}={value}"]
    return {"regroup": regroup} if alone else {"regroup": regroup, "kafka": kafka}


async def find_coordinator(server: Server) -> None:
    """Kafka creates the topic for offsets when a coordinator is looked up."""
    connection = await ClientConnection.open(server.host, server.port)
    await connection.send(FindCoordinatorRequest(key="bench"), 3)
    await connection.close()


async def create_topics(server: Server, partitions: int) -> None:
    """Create the topics of the consumers, with so many partitions together."""
    connection = await ClientConnection.open(server.host, server.port)
    await connection.send(DeleteTopicsRequest(topic_names=[*TOPICS], timeout_ms=60_000), 5)
    await asyncio.sleep(1)
    for name in TOPICS:
        topic = CreatableTopic(name=name, num_partitions=partitions // len(TOPICS), replication_factor=1)
        await connection.send(CreateTopicsRequest(topics=[topic], timeout_ms=60_000), 5)
    await connection.close()
    await asyncio.sleep(1 + partitions / 1_000)  # Kafka makes the logs after its answer


async def classic_group(server: Server, group_id: str, count: int, interval_s: float) -> ClassicGroup:
    group, loop = ClassicGroup(group_id, interval_s), asyncio.get_running_loop()
    for _ in range(count):
        _, member = await loop.create_connection(lambda: ClassicMember(group), server.host, server.port)
        group.members.append(member)
    return group


async def consumer_group(server: Server, group_id: str, count: int, interval_s: float) -> ConsumerGroup:
    group, loop = ConsumerGroup(group_id, count // len(TOPICS) * len(TOPICS), interval_s), asyncio.get_running_loop()
    connections = [
        (await loop.create_connection(SharedConnection, server.host, server.port))[1]
        for _ in range(min(CONNECTIONS, count))
    ]
    group.members = [ConsumerMember(group, index, connections[index % len(connections)]) for index in range(count)]
    return group


GROUPS: Final = {"classic": classic_group, "consumer": consumer_group}


async def measure_change(server: Server, group: AnyGroup, change: Callable[[], object]) -> Measurement:
    group.exchanges = 0
    server_s, client_s, started_s = tree_cpu_s(server.process_id), time.process_time(), time.perf_counter()
    async with asyncio.timeout(TIMEOUT_S):
        await group.converge(change)
    seconds = time.perf_counter() - started_s
    return Measurement(
        group.exchanges, seconds, tree_cpu_s(server.process_id) - server_s, time.process_time() - client_s
    )


async def measure_unchanged(server: Server, group: ConsumerGroup) -> Unchanged:
    group.stop()
    await asyncio.sleep(2 * group.interval_s + 0.5)  # what is on its way arrives
    before_s = tree_cpu_s(server.process_id)
    sent = await group.unchanged_heartbeats(UNCHANGED_S)
    return Unchanged((tree_cpu_s(server.process_id) - before_s) / sent * 1e6, sent / UNCHANGED_S)


async def measure(
    server: Server, protocol: str, group_id: str, count: int
) -> tuple[Measurement, Measurement, Unchanged | None]:
    interval_s = max(SHORTEST_INTERVAL_S, count / HEARTBEATS_PER_S)
    group: AnyGroup = await GROUPS[protocol](server, group_id, count, interval_s)
    joined = await measure_change(server, group, group.begin)
    left = await measure_change(server, group, group.one_leaves)
    unchanged = await measure_unchanged(server, group) if isinstance(group, ConsumerGroup) else None
    group.close()
    return joined, left, unchanged


async def measure_rounds(servers: dict[str, Server], protocol: str, count: int, runs: int) -> None:
    if protocol == "consumer":
        for server in servers.values():
            await create_topics(server, count)
    rounds = []
    for run in range(runs + 1):
        order = sorted(servers, reverse=bool(run % 2))
        rounds.append(
            {name: await measure(servers[name], protocol, f"{protocol}-{count}-{run}", count) for name in order}
        )
    counted = rounds[1:]
    for index, what in enumerate(("join", "one leaves")):
        for name in servers:
            each = [Measurement(*median_of(counted, name, index))]
            ratio = "" if name == "kafka" or "kafka" not in servers else ratio_of(counted, index)
            for row in each:
                print(
                    f"{protocol:9}{count:7,}  {what:11}{name:9}{row.exchanges:9,.0f}{row.seconds:9.2f}"
                    f"{row.server_cpu_s:14.2f}{row.client_cpu_s:14.2f}   {ratio}",
                    flush=True,
                )
    if protocol == "consumer":
        for name in servers:
            cpu_us, per_second = median_of(counted, name, 2)
            print(
                f"{protocol:9}{count:7,}  unchanged  {name:9}{cpu_us:6.0f} us of CPU each, {per_second:,.0f} /s",
                flush=True,
            )


def median_of(
    rounds: list[dict[str, tuple[Measurement, Measurement, Unchanged | None]]], name: str, index: int
) -> list[float]:
    return [median(values) for values in zip(*(each[name][index] or () for each in rounds), strict=True)]


def ratio_of(rounds: list[dict[str, tuple[Measurement, Measurement, Unchanged | None]]], index: int) -> str:
    """The seconds of regroup beside those of Kafka in the same round."""
    ratios = sorted(
        ours.seconds / theirs.seconds
        for each in rounds
        if isinstance(ours := each["regroup"][index], Measurement)
        and isinstance(theirs := each["kafka"][index], Measurement)
    )
    return f"{median(ratios):.2f} of kafka ({ratios[0]:.2f} to {ratios[-1]:.2f})"


async def measure_all(servers: dict[str, Server], options: argparse.Namespace) -> None:
    print(
        f"{'protocol':9}{'members':>7}  {'':11}{'server':9}{'exchanges':>9}{'seconds':>9}"
        f"{'server CPU s':>14}{'client CPU s':>14}"
    )
    for server in servers.values():
        await find_coordinator(server)
    for protocol in options.protocol:
        for count in options.members:
            await measure_rounds(servers, protocol, count, options.runs)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--protocol", nargs="+", choices=sorted(GROUPS), default=sorted(GROUPS), help="(default both)")
    parser.add_argument("--members", type=int, nargs="+", default=[10, 100, 1000], help="(default 10 100 1000)")
    parser.add_argument("--runs", type=int, default=3, help="rounds for each number of members (default 3)")
    parser.add_argument("--alone", action="store_true", help="without Apache Kafka")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name, ExitStack() as stack:
        try:
            servers = {
                name: stack.enter_context(running_server(command, cwd=ROOT))
                for name, command in server_commands(Path(name), alone=options.alone).items()
            }
            asyncio.run(measure_all(servers, options))
        except Unavailable as reason:
            print(f"Not measured: {reason}.")


if __name__ == "__main__":
    main()
