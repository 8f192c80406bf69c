"""What fault rules cost a repeated heartbeat: emulators with and without rules, beside one whose brokers have no gate.

    python benchmarks/fault_rules.py [--rounds N] [--in-flight N]

Each emulator has one connection, whose bytes do not pass a socket: its own work is timed and nothing else. In each
round all emulators get the same number of heartbeats, in an order that is drawn. Shown are the median CPU time of a
heartbeat, and the median of the ratios to the emulator without a gate within the rounds; the second emulator without a
gate shows how exact that is. While no rule can match a heartbeat, a connection answers repeated ones from its cache.
"""

import argparse
import asyncio
import random
import struct
import time
from contextlib import AsyncExitStack
from statistics import median
from typing import Any, Final

from regroup.protocol.frames import decode_response, encode_request
from regroup.protocol.header import RequestHeader
from regroup.protocol.message import Message
from regroup.protocol.messages.group import (
    HeartbeatRequest,
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    SyncGroupRequest,
    SyncGroupRequestAssignment,
)
from regroup.server.net.connection import Connection
from regroup.testing import AsyncEmulator, Emulator

HEARTBEATS: Final = 1_600
"""How many heartbeats each emulator gets in a round."""
RULES: Final[dict[str, dict[str, Any]]] = {
    "no gate": {},
    "no gate, again": {},
    "no rules": {},
    "a rule for another API": {"on": "OffsetCommit", "drop": "request"},
    "a rule for another client": {"on": "Heartbeat", "client_id": "another", "drop": "request"},
}


class WrittenBytes(asyncio.Transport):
    """A transport that keeps the bytes written to it."""

    def __init__(self) -> None:
        super().__init__()
        self.written = bytearray()
        self.is_closed = False
        self.has_bytes = asyncio.Event()

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.written += data
        self.has_bytes.set()

    def is_closing(self) -> bool:
        return self.is_closed

    def close(self) -> None:
        self.is_closed = True


class Client:
    """The client of an emulator: the only member of its group, which sends heartbeats."""

    def __init__(self, kafka: AsyncEmulator) -> None:
        self._transport = WrittenBytes()
        self._connection = Connection(kafka.cluster.brokers[0], "benchmark")
        self._connection.connection_made(self._transport)

    async def _send(self, request: Message, version: int) -> Any:
        self._connection.data_received(encode_request(RequestHeader(request.api_key, version, 1, "client"), request))
        await self._transport.has_bytes.wait()
        frame = bytes(self._transport.written[4:])
        self._transport.written.clear()
        self._transport.has_bytes.clear()
        return decode_response(request.api_key, version, frame)[1]

    def close(self) -> None:
        self._connection.connection_lost(None)

    async def join(self, in_flight: int) -> None:
        protocols = [JoinGroupRequestProtocol(name="range", metadata=b"")]
        joined = await self._send(
            JoinGroupRequest(group_id="g", session_timeout_ms=60_000, protocol_type="consumer", protocols=protocols), 3
        )
        me = {"group_id": "g", "generation_id": joined.generation_id, "member_id": joined.member_id}
        mine = SyncGroupRequestAssignment(member_id=joined.member_id, assignment=b"")
        await self._send(SyncGroupRequest(**me, assignments=[mine]), 3)
        frames = (
            encode_request(RequestHeader(HeartbeatRequest.api_key, 3, number, "client"), HeartbeatRequest(**me))
            for number in range(in_flight)
        )
        self._burst, self._in_flight = b"".join(frames), in_flight

    def cpu_us_of_heartbeat(self) -> float:
        """CPU time of one heartbeat in microseconds: the mean of many, which are sent `in_flight` at once."""
        self._transport.written.clear()
        bursts = HEARTBEATS // self._in_flight
        receive, burst = self._connection.data_received, self._burst
        began = time.thread_time_ns()
        for _ in range(bursts):
            receive(burst)
        took_ns = time.thread_time_ns() - began
        (length,) = struct.unpack_from(">i", self._transport.written)
        if len(self._transport.written) != bursts * self._in_flight * (4 + length):
            raise AssertionError("not every heartbeat was answered at once")
        return took_ns / bursts / self._in_flight / 1000


async def measure(rounds: int, in_flight: int) -> list[dict[str, float]]:
    async with AsyncExitStack() as stack:
        clients = {}
        for kind, rule in RULES.items():
            kafka = await stack.enter_async_context(Emulator(record=False))
            if kind.startswith("no gate"):
                kafka.cluster.brokers[0].gate = None
            client = clients[kind] = Client(kafka)
            stack.callback(client.close)
            await client.join(in_flight)
            if rule:
                await kafka.fault(**rule)
        measured = []
        for _ in range(rounds):
            order = random.sample(list(clients), len(clients))
            measured.append({kind: clients[kind].cpu_us_of_heartbeat() for kind in order})
            await asyncio.sleep(0)
        return measured


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=200, help="(default 200)")
    parser.add_argument("--in-flight", type=int, default=1, help="heartbeats that come at once, up to 16 (default 1)")
    options = parser.parse_args()
    rounds = asyncio.run(measure(options.rounds, options.in_flight))
    print(f"{f'{options.in_flight} in flight, {options.rounds} rounds':28}{'CPU µs':>8}{'/ no gate':>11}")
    for kind in RULES:
        cpu_us = median(each[kind] for each in rounds)
        print(f"{kind:28}{cpu_us:8.2f}{median(each[kind] / each['no gate'] for each in rounds):11.3f}")


if __name__ == "__main__":
    main()
