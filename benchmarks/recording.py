"""The price of recording: CPU of the server for a commit and a heartbeat, recording off, in memory and in the store.

    python benchmarks/recording.py [--runs N] [--slices N] [--requests N]

The servers run at the same time. In each run they are driven in turn, in many short slices and each time in another
order, so that a busy machine disturbs all alike; the one client is no part of the figures. All have a store with
`--durability process`. CPU is that of every thread of the server, in nanoseconds (`/proc/PID/task/*/schedstat`), and
includes what the store writes every half second. Shown are medians over the runs; a price is the median of the ratios
within the runs, with its quartiles.
"""

import argparse
import socket
import struct
import sys
import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from itertools import count, cycle, islice, permutations
from pathlib import Path
from statistics import median, quantiles
from typing import NamedTuple

from harness.servers import Server, running_server

from regroup.protocol.frames import decode_response, encode_request
from regroup.protocol.header import RequestHeader
from regroup.protocol.message import Message
from regroup.protocol.messages.group import (
    HeartbeatRequest,
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
    SyncGroupRequest,
    SyncGroupRequestAssignment,
)
from regroup.protocol.messages.offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)

SERVER = """
import asyncio, sys
from functools import partial
from regroup.coordinator.settings import CoordinatorSettings
from regroup.server.broker_cluster import BrokerCluster, ClusterEnvironment, ClusterOptions
from regroup.server.clock import Clock
from regroup.server.recording.recorder import Recorder
from regroup.storage.sqlite.threaded import open_store

async def serve(mode, store):
    clock = Clock()
    environment = ClusterEnvironment(clock=clock, recorder=Recorder(clock) if mode != "off" else None)
    options = ClusterOptions(
        settings=CoordinatorSettings(group_initial_rebalance_delay_ms=0),
        record_max_bytes=256 * 1024 * 1024 if mode == "store" else 0,
    )
    cluster = await BrokerCluster.start(partial(open_store, store, durability="process"), options, environment)
    await cluster.ensure_topic("__consumer_offsets", 50)
    await cluster.ensure_topic("orders", 1)
    print("listening on", ":".join(map(str, cluster.address)), flush=True)
    await asyncio.Event().wait()

asyncio.run(serve(*sys.argv[1:]))
"""
MODES = ("off", "memory", "store")
LOADS = (("commit", 1), ("commit", 16), ("heartbeat", 1), ("heartbeat", 16))
"""The loads to measure: which requests are sent, and how many are in flight on the one connection."""


class Load(NamedTuple):
    """A connection to one server, as the only member of a group."""

    server: Server
    socket: socket.socket
    member_id: str

    @classmethod
    def join(cls, server: Server) -> "Load":
        connection = socket.create_connection((server.host, server.port))
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        protocols = [JoinGroupRequestProtocol(name="range", metadata=b"")]
        join = JoinGroupRequest(
            group_id="g",
            session_timeout_ms=1_800_000,
            rebalance_timeout_ms=60_000,
            protocol_type="consumer",
            protocols=protocols,
        )
        joined = call(connection, join, 3)
        assert isinstance(joined, JoinGroupResponse)
        mine = SyncGroupRequestAssignment(member_id=joined.member_id, assignment=b"")
        call(
            connection,
            SyncGroupRequest(group_id="g", generation_id=1, member_id=joined.member_id, assignments=[mine]),
            3,
        )
        return cls(server, connection, joined.member_id)

    def frame(self, kind: str, number: int) -> bytes:
        member = {"group_id": "g", "member_id": self.member_id}
        if kind == "heartbeat":
            return encode(HeartbeatRequest(generation_id=1, **member), 3, number)
        partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=number, committed_metadata="")
        topic = OffsetCommitRequestTopic(name="orders", partitions=[partition])
        return encode(OffsetCommitRequest(generation_id_or_member_epoch=1, topics=[topic], **member), 7, number)

    def run(self, kind: str, in_flight: int, requests: int, numbers: Callable[[], int]) -> float:
        """Send a number of requests; returns the CPU microseconds of the server for one of them."""
        batches = [
            b"".join(self.frame(kind, numbers()) for _ in range(in_flight))
            for _ in range(max(1, requests // in_flight))
        ]
        call_raw(self.socket, self.frame(kind, 1))
        before_ns = cpu_ns(self.server)
        for batch in batches:
            self.socket.sendall(batch)
            for _ in range(in_flight):
                receive(self.socket)
        return (cpu_ns(self.server) - before_ns) / len(batches) / in_flight / 1e3


def cpu_ns(server: Server) -> int:
    """How many nanoseconds all threads of the server have run so far."""
    tasks = Path(f"/proc/{server.process_id}/task").iterdir()
    return sum(int((task / "schedstat").read_text(encoding="ascii").split()[0]) for task in tasks)


def encode(request: Message, version: int, correlation_id: int) -> bytes:
    return encode_request(RequestHeader(request.api_key, version, correlation_id, "bench"), request)


def receive(connection: socket.socket) -> bytes:
    (length,) = struct.unpack(">i", connection.recv(4, socket.MSG_WAITALL))
    return connection.recv(length, socket.MSG_WAITALL)


def call_raw(connection: socket.socket, frame: bytes) -> bytes:
    connection.sendall(frame)
    return receive(connection)


def call(connection: socket.socket, request: Message, version: int) -> Message:
    return decode_response(request.api_key, version, call_raw(connection, encode(request, version, 0)))[1]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=9, help="runs of each load (default 9)")
    parser.add_argument("--slices", type=int, default=18, help="slices of a run (default 18)")
    parser.add_argument("--requests", type=int, default=160, help="requests to each server in a slice (default 160)")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        loads = {}
        for mode in MODES:
            command = [sys.executable, "-c", SERVER, mode, str(Path(folder, f"{mode}.db"))]
            loads[mode] = Load.join(stack.enter_context(running_server(command)))
        numbers = count(1).__next__
        print("CPU µs of the server for a request, by what is sent × in flight")
        print(f"{'':16}{''.join(f'{mode:>9}' for mode in MODES)}{'price in memory':>22}{'in the store':>19}")
        for kind, in_flight in LOADS:
            runs = []
            for _ in range(options.runs):
                total = dict.fromkeys(MODES, 0.0)
                for order in islice(cycle(permutations(MODES)), options.slices):
                    for mode in order:
                        total[mode] += loads[mode].run(kind, in_flight, options.requests, numbers) / options.slices
                runs.append(total)
            cpu_us = "".join(f"{median(each[mode] for each in runs):9.1f}" for mode in MODES)
            prices = "".join(price([each[mode] / each["off"] - 1 for each in runs]) for mode in MODES[1:])
            print(f"{kind:>10} × {in_flight:<3}{cpu_us}   {prices}", flush=True)
        for load in loads.values():
            load.socket.close()


def price(ratios: list[float]) -> str:
    """The price as text: the median and the quartiles of the ratios in percent, such as `+7 % (+4 to +11)`."""
    lower, middle, upper = quantiles(ratios, n=4)
    return f"{middle * 100:+6.0f} % ({lower * 100:+.0f} to {upper * 100:+.0f})"


if __name__ == "__main__":
    main()
