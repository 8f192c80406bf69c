"""From start to Stable: all members join one group of `regroup serve` at once, each over a socket of its own.

    python benchmarks/to_stable.py [--members 10 100 1000] [--runs N]

Every member sends a heartbeat each 50 ms once it is in a generation, and rejoins as soon as a rebalance has begun. Time
runs from the first JoinGroup until every member has its assignment of the same generation; the initial delay of 500 ms
is subtracted. The members run on asyncio and regroup's codec in the process of the benchmark. The CPU seconds of the
server and of the members are shown as well, since on a busy machine the members may be slower than the server.
"""

import argparse
import asyncio
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import cast

from servers import Server, regroup_command, running_server

from regroup.protocol.errors import ErrorCode
from regroup.protocol.frames import FrameReader, decode_response, encode_request
from regroup.protocol.header import RequestHeader
from regroup.protocol.message import Message
from regroup.protocol.messages.group import (
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
    SyncGroupRequest,
    SyncGroupRequestAssignment,
    SyncGroupResponse,
)

INITIAL_DELAY_S = 0.5
HEARTBEAT_INTERVAL_S = 0.05
REJOIN_ERRORS = (ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.ILLEGAL_GENERATION)
ASSIGNMENT = bytes(60)


class Member(asyncio.Protocol):
    """A member: it sends JoinGroup v5, again with the member id from the response, SyncGroup v3 and Heartbeat v3."""

    def __init__(self, group_id: str, on_assignment: Callable[["Member"], None]) -> None:
        self.group_id, self.on_assignment = group_id, on_assignment
        self.member_id, self.generation_id = "", -1
        self.has_assignment = False
        self.reader = FrameReader()
        self.pending_request: Message | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        for frame in self.reader.feed(data):
            request, self.pending_request = self.pending_request, None
            assert request is not None
            response = decode_response(request.api_key, VERSIONS[type(request)], frame)[1]
            RESPONSE_HANDLERS[type(response)](self, response)

    def send(self, request: Message) -> None:
        """Send one request. The next one follows when its response has arrived."""
        self.pending_request = request
        self.transport.write(
            encode_request(RequestHeader(request.api_key, VERSIONS[type(request)], 1, "bench"), request)
        )

    def join(self) -> None:
        self.has_assignment = False
        self.send(
            JoinGroupRequest(
                group_id=self.group_id,
                session_timeout_ms=45_000,
                rebalance_timeout_ms=60_000,
                member_id=self.member_id,
                protocol_type="consumer",
                protocols=[JoinGroupRequestProtocol(name="range", metadata=bytes(6) + b"\xff" * 4)],
            )
        )

    def on_join_group(self, response: JoinGroupResponse) -> None:
        self.member_id = response.member_id
        if response.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            self.join()
            return
        assert not response.error_code, ErrorCode(response.error_code)
        self.generation_id = response.generation_id
        self.send(
            SyncGroupRequest(
                group_id=self.group_id,
                generation_id=self.generation_id,
                member_id=self.member_id,
                assignments=[
                    SyncGroupRequestAssignment(member_id=member.member_id, assignment=ASSIGNMENT)
                    for member in response.members
                ],
            )
        )

    def on_sync_group(self, response: SyncGroupResponse) -> None:
        if response.error_code in REJOIN_ERRORS:
            self.join()
            return
        assert response.assignment == ASSIGNMENT, ErrorCode(response.error_code)
        self.has_assignment = True
        self.on_assignment(self)
        self.schedule_heartbeat()

    def on_heartbeat(self, response: HeartbeatResponse) -> None:
        if response.error_code in REJOIN_ERRORS:
            self.join()
        else:
            self.schedule_heartbeat()

    def schedule_heartbeat(self) -> None:
        asyncio.get_running_loop().call_later(HEARTBEAT_INTERVAL_S, self.send_heartbeat)

    def send_heartbeat(self) -> None:
        if not self.transport.is_closing():
            self.send(
                HeartbeatRequest(group_id=self.group_id, generation_id=self.generation_id, member_id=self.member_id)
            )


VERSIONS = {JoinGroupRequest: 5, SyncGroupRequest: 3, HeartbeatRequest: 3}
RESPONSE_HANDLERS: dict[type[Message], Callable[..., None]] = {
    JoinGroupResponse: Member.on_join_group,
    SyncGroupResponse: Member.on_sync_group,
    HeartbeatResponse: Member.on_heartbeat,
}


async def seconds_to_stable(server: Server, group_id: str, count: int) -> float:
    """Seconds until every member has an assignment of the same generation, without the initial delay."""
    loop = asyncio.get_running_loop()
    stable = loop.create_future()
    members: list[Member] = []

    def on_assignment(member: Member) -> None:
        generation_id = member.generation_id
        if not stable.done() and all(each.has_assignment and each.generation_id == generation_id for each in members):
            stable.set_result(time.perf_counter())

    for _ in range(count):
        _, member = await loop.create_connection(lambda: Member(group_id, on_assignment), server.host, server.port)
        members.append(member)
    started = time.perf_counter()
    for member in members:
        member.join()
    async with asyncio.timeout(120):
        seconds = await stable - started
    for member in members:
        member.transport.abort()
    return float(seconds) - INITIAL_DELAY_S


def measure(count: int, run: int) -> tuple[float, float, float]:
    """Seconds until the group is Stable, and the CPU seconds of the server and of the members meanwhile."""
    with tempfile.TemporaryDirectory() as folder:
        command = regroup_command(Path(folder, "bench.db"), initial_delay_ms=int(INITIAL_DELAY_S * 1000))
        with running_server(command) as server:
            server_before_s, members_before_s = server.cpu_s(), time.process_time()
            seconds = asyncio.run(seconds_to_stable(server, f"bench-{run}", count))
            return seconds, server.cpu_s() - server_before_s, time.process_time() - members_before_s


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--members", type=int, nargs="+", default=[10, 100, 1000], help="(default 10 100 1000)")
    parser.add_argument("--runs", type=int, default=3, help="runs for each number of members (default 3)")
    options = parser.parse_args()
    print(f"{'members':>7}{'seconds to Stable':>20}{'server, CPU s':>18}{'members, CPU s':>17}")
    for count in options.members:
        measurements = [measure(count, run) for run in range(options.runs)]
        seconds, server_s, members_s = (median(each) for each in zip(*measurements, strict=True))
        print(f"{count:7}{seconds:20.2f}{server_s:18.2f}{members_s:17.2f}", flush=True)


if __name__ == "__main__":
    main()
