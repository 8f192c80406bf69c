"""Commits and heartbeats a second of `regroup serve` beside Apache Kafka on the same cores.

    python benchmarks/beside_kafka.py [--only NAME …] [--rounds N] [--seconds S] [--warm-up S]

`load.c` sends the same requests to both, in turn within each round, and checks every response. Shown are medians over
the rounds; a ratio is the median of the ratios within the rounds. "again" is a second regroup with the same settings,
and its ratio to the first shows what is noise. Apache Kafka runs with its own defaults and the JVM flags that its
scripts set, and is warmed up before each workload, because a fresh one reaches a tenth of its rate.
"""

import argparse
import asyncio
import struct
import sys
import tempfile
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Final, NamedTuple

from harness.process_cpu import tree_cpu_s
from harness.servers import ROOT, Server, Unavailable, compile_client, running_server

from regroup.protocol.client import ClientConnection
from regroup.protocol.errors import ErrorCode
from regroup.protocol.frames import encode_request
from regroup.protocol.header import RequestHeader
from regroup.protocol.message import Message
from regroup.protocol.messages.cluster import FindCoordinatorRequest
from regroup.protocol.messages.group import (
    HeartbeatRequest,
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
    SyncGroupRequest,
    SyncGroupRequestAssignment,
    SyncGroupResponse,
)
from regroup.protocol.messages.offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from regroup.protocol.messages.topics import CreatableTopic, CreateTopicsRequest

TOPIC: Final = "orders"
PARTITIONS: Final = 100
SESSION_TIMEOUT_MS: Final = 1_800_000
"""Milliseconds; the longest session timeout that Kafka allows by default.

So no member is removed while the other broker is measured.
"""
PLACEHOLDER: Final = 0x5A6B7C8D9EAFB0C1
"""The number that stands for an offset in a request. `load.c` writes another offset in its place each time."""
JVM_OPTIONS: Final = (
    "-Xms1G -Xmx1G -server -XX:+UseG1GC -XX:MaxGCPauseMillis=20 -XX:InitiatingHeapOccupancyPercent=35 "
    "-XX:+ExplicitGCInvokesConcurrent -Djava.awt.headless=true"
)
"""The JVM options that kafka-server-start.sh and kafka-run-class.sh set."""
VERSIONS: Final[dict[type[Message], int]] = {
    JoinGroupRequest: 3,  # no member id has to be requested first
    SyncGroupRequest: 3,
    HeartbeatRequest: 4,
    OffsetCommitRequest: 9,
    CreateTopicsRequest: 5,
    FindCoordinatorRequest: 3,
}


@dataclass(frozen=True)
class Workload:
    """The requests for a server: how many connections with one member each, in groups of how many members."""

    name: str
    connections: int
    in_flight: int
    partitions: int
    group_size: int = 1
    requests: str = "c"
    """The requests that each member sends in turn: `c` for a commit, `h` for a heartbeat."""


WORKLOADS: Final = (
    Workload("commits 1 x 1", 1, 1, 1),
    Workload("commits 16 x 1", 16, 1, 1),
    Workload("commits 16 x 8", 16, 8, 1),
    Workload("commits 16 x 2, 100 partitions", 16, 2, 100),
    Workload("64 members, 5 heartbeats to 3 commits of 8", 64, 1, 8, 8, "hchchchh"),
    Workload("16 members x 8, 5 heartbeats to 3 commits of 8", 16, 8, 8, 8, "hchchchh"),
)


class Measurement(NamedTuple):
    """The figures of one run of the client."""

    per_second: float
    median_us: float
    p99_us: float
    client_load: float
    server_cpu_us: float
    """CPU time of the server for one request, in microseconds."""


class Member(NamedTuple):
    """A member of a generation."""

    group_id: str
    generation_id: int
    member_id: str


def frame_of(message: Message) -> bytes:
    return encode_request(RequestHeader(message.api_key, VERSIONS[type(message)], 0, "load"), message)


async def prepare(server: Server) -> None:
    """Create the topic, and let Kafka create the one for offsets, which it does when a coordinator is looked up."""
    connection = await ClientConnection.open(server.host, server.port)
    topic = CreatableTopic(name=TOPIC, num_partitions=PARTITIONS, replication_factor=1)
    await connection.send(CreateTopicsRequest(topics=[topic], timeout_ms=30_000), VERSIONS[CreateTopicsRequest])
    await connection.send(FindCoordinatorRequest(key="load"), VERSIONS[FindCoordinatorRequest])
    await connection.close()


async def join(connection: ClientConnection, group_id: str, member_id: str) -> JoinGroupResponse:
    """Send JoinGroup and return the response.

    While the coordinator is being loaded, the request is repeated.
    """
    while True:
        request = JoinGroupRequest(
            group_id=group_id,
            session_timeout_ms=SESSION_TIMEOUT_MS,
            rebalance_timeout_ms=5_000,
            member_id=member_id,
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol(name="range", metadata=bytes(6) + b"\xff" * 4)],
        )
        response = await connection.send(request, VERSIONS[JoinGroupRequest])
        assert isinstance(response, JoinGroupResponse)
        if response.error_code == ErrorCode.NONE:
            return response
        await asyncio.sleep(0.2)


async def form_group(connections: Sequence[ClientConnection], group_id: str) -> list[Member]:
    """Let one member of each connection join, until all of them are in one generation and Stable."""
    ids = [""] * len(connections)
    while True:
        joined = await asyncio.gather(
            *(join(each, group_id, known) for each, known in zip(connections, ids, strict=True))
        )
        ids = [each.member_id for each in joined]
        members = [Member(group_id, each.generation_id, each.member_id) for each in joined]
        shares = [SyncGroupRequestAssignment(member_id=each, assignment=bytes(10)) for each in ids]
        synced = await asyncio.gather(
            *(
                connection.send(
                    SyncGroupRequest(
                        group_id=group_id,
                        generation_id=each.generation_id,
                        member_id=each.member_id,
                        assignments=shares if each.member_id == response.leader else [],
                    ),
                    VERSIONS[SyncGroupRequest],
                )
                for connection, each, response in zip(connections, members, joined, strict=True)
            )
        )
        if all(isinstance(each, SyncGroupResponse) and each.error_code == ErrorCode.NONE for each in synced):
            return members


def request_of(kind: str, member: Member, partitions: int) -> Message:
    if kind == "h":
        return HeartbeatRequest(
            group_id=member.group_id, generation_id=member.generation_id, member_id=member.member_id
        )
    offsets = [
        OffsetCommitRequestPartition(partition_index=each, committed_offset=PLACEHOLDER) for each in range(partitions)
    ]
    return OffsetCommitRequest(
        group_id=member.group_id,
        generation_id_or_member_epoch=member.generation_id,
        member_id=member.member_id,
        topics=[OffsetCommitRequestTopic(name=TOPIC, partitions=offsets)],
    )


def places_of(frame: bytes) -> list[int]:
    """The places in the frame, in bytes from its start, at which a placeholder stands."""
    sought = PLACEHOLDER.to_bytes(8, "big")
    places, at = [], frame.find(sought)
    while at >= 0:
        places.append(at)
        at = frame.find(sought, at + 8)
    return places


def packed(numbers: Iterable[int]) -> bytes:
    return b"".join(struct.pack("=I", each) for each in numbers)


def with_length(data: bytes, width: int = 1) -> bytes:
    return packed([len(data) // width]) + data


async def requests_of(server: Server, workload: Workload, groups: str) -> bytes:
    """Form the groups of a workload, and return what `load.c` sends for them and expects."""
    connections = [await ClientConnection.open(server.host, server.port) for _ in range(workload.connections)]
    out = packed([workload.connections])
    size = workload.group_size
    for first in range(0, len(connections), size):
        group = connections[first : first + size]
        for connection, member in zip(group, await form_group(group, f"{groups}-{first}"), strict=True):
            out += packed([len(workload.requests)])
            for kind in workload.requests:
                frame = frame_of(request_of(kind, member, workload.partitions))
                response = await connection.send_frame(frame)
                if any(response[8:10]) and kind == "h":
                    raise Unavailable(f"a heartbeat was refused: {response.hex()}")
                out += with_length(frame) + with_length(packed(places_of(frame)), 4) + with_length(response[4:])
    for connection in connections:
        await connection.close()
    return out


async def run_client(
    client: Path, server: Server, file: Path, in_flight: int, warm_up_s: float, seconds: float
) -> Measurement:
    arguments = [server.host, server.port, file, in_flight, warm_up_s, seconds]
    before_s = tree_cpu_s(server.process_id)
    process = await asyncio.create_subprocess_exec(client, *map(str, arguments), stdout=asyncio.subprocess.PIPE)
    output, _ = await process.communicate()
    if process.returncode:
        raise Unavailable("the client ended with an error, which stands above")
    per_second, median_us, p99_us, client_load = map(float, output.split())
    cpu_us = (tree_cpu_s(server.process_id) - before_s) / (per_second * (seconds + warm_up_s)) * 1e6
    return Measurement(per_second, median_us, p99_us, client_load, cpu_us)


async def measure(
    client: Path, servers: dict[str, Server], workload: Workload, folder: Path, options: argparse.Namespace
) -> list[dict[str, Measurement]]:
    """The rounds of one workload: the figures of each server."""
    files = {name: folder / f"{name}.requests" for name in servers}
    for name, server in servers.items():
        files[name].write_bytes(await requests_of(server, workload, f"{workload.name} {name}"))
        warm_up_s = options.warm_up if name == "kafka" else min(options.warm_up, 3)
        await run_client(client, server, files[name], workload.in_flight, warm_up_s, 0.1)
    return [
        {
            name: await run_client(client, server, files[name], workload.in_flight, 0.3, options.seconds)
            for name, server in servers.items()
        }
        for _ in range(options.rounds)
    ]


def row_of(workload: Workload, rounds: list[dict[str, Measurement]]) -> str:
    def middle(server: str, field: str) -> float:
        return median(getattr(each[server], field) for each in rounds)

    def ratio(server: str, other: str) -> str:
        ratios = sorted(each[server].per_second / each[other].per_second for each in rounds)
        return f"{median(ratios):.2f} ({ratios[0]:.2f} to {ratios[-1]:.2f})"

    lines = [workload.name]
    for name in rounds[0]:
        beside = "" if name == "kafka" else f"   / kafka {ratio(name, 'kafka')}"
        itself = f"   / process {ratio(name, 'process')}" if name in ("again", "disk") else ""
        lines.append(
            f"  {name:8}{middle(name, 'per_second'):9,.0f} /s   p50 {middle(name, 'median_us') / 1000:7.2f} ms"
            f"   p99 {middle(name, 'p99_us') / 1000:7.2f} ms   server {middle(name, 'server_cpu_us'):6.1f} us"
            f"   client {middle(name, 'client_load'):4.0%}{beside}{itself}"
        )
    return "\n".join(lines)


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


def resident_mib(process_id: int) -> float:
    """Resident memory of a server in MiB; if the server has started a Java process, the memory of that."""
    children = Path(f"/proc/{process_id}/task/{process_id}/children").read_text().split()
    status = Path(f"/proc/{children[0] if children else process_id}/status").read_text()
    return int(status.partition("VmRSS:")[2].split()[0]) / 1024


async def measure_all(client: Path, servers: dict[str, Server], folder: Path, options: argparse.Namespace) -> None:
    for server in servers.values():
        await prepare(server)
    for workload in WORKLOADS:
        if not options.only or any(each in workload.name for each in options.only):
            print(row_of(workload, await measure(client, servers, workload, folder, options)), flush=True)
    sizes = (f"{name} {resident_mib(server.process_id):,.0f}" for name, server in servers.items())
    print(f"MiB of memory at the end: {', '.join(sizes)}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="*", metavar="NAME", help="workloads whose name contains one of these")
    parser.add_argument("--rounds", type=int, default=7, help="rounds of each workload (default 7)")
    parser.add_argument("--seconds", type=float, default=2.0, help="seconds of each server in a round (default 2)")
    parser.add_argument("--warm-up", type=float, default=60.0, help="seconds for Kafka before a workload (default 60)")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name, ExitStack() as stack:
        folder = Path(name)
        try:
            client = compile_client(folder, "load")
            servers = {
                name: stack.enter_context(running_server(command, cwd=ROOT))
                for name, command in server_commands(folder).items()
            }
            asyncio.run(measure_all(client, servers, folder, options))
        except Unavailable as reason:
            print(f"Not measured: {reason}.")


if __name__ == "__main__":
    main()
