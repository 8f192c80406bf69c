"""From start to Stable: so many members join one group of `regroup serve` at once, each over a socket of its own.

    python benchmarks/to_stable.py [--members 10 100 1000] [--runs N]

Every member heartbeats each 50 ms once it is in a generation, and joins again as soon as a rebalance is on. Time runs
from the first JoinGroup until every member has its share of the same generation; the initial delay of 500 ms is
subtracted. The members are ours too, on asyncio and our codec, in a process of their own: what share of the time that
process and the emulator were at work is shown beside it, for on a busy machine members may be what is slow.
"""

import argparse
import asyncio
import resource
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import cast

from servers import regroup, running

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
HEARTBEAT_S = 0.05
TO_BE_JOINED_AGAIN = (ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.ILLEGAL_GENERATION)
SHARE = bytes(60)


class Member(asyncio.Protocol):
    """JoinGroup v5, and again with the id that is handed out; SyncGroup v3; Heartbeat v3."""

    def __init__(self, group: str, synced: Callable[["Member"], None]) -> None:
        self.group, self.synced = group, synced
        self.member_id, self.generation = "", -1
        self.has_share = False
        self.reader = FrameReader()
        self.asked: Message | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        for frame in self.reader.feed(data):
            asked, self.asked = self.asked, None
            assert asked is not None
            answer = decode_response(asked.api_key, VERSIONS[type(asked)], frame)[1]
            HEAR[type(answer)](self, answer)

    def ask(self, request: Message) -> None:
        """One request at a time, as consumers do."""
        self.asked = request
        self.transport.write(
            encode_request(RequestHeader(request.api_key, VERSIONS[type(request)], 1, "bench"), request)
        )

    def join(self) -> None:
        self.has_share = False
        self.ask(
            JoinGroupRequest(
                group_id=self.group,
                session_timeout_ms=45_000,
                rebalance_timeout_ms=60_000,
                member_id=self.member_id,
                protocol_type="consumer",
                protocols=[JoinGroupRequestProtocol(name="range", metadata=bytes(6) + b"\xff" * 4)],
            )
        )

    def hear_joined(self, answer: JoinGroupResponse) -> None:
        self.member_id = answer.member_id
        if answer.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            self.join()
            return
        assert not answer.error_code, ErrorCode(answer.error_code)
        self.generation = answer.generation_id
        shares = [SyncGroupRequestAssignment(member_id=each.member_id, assignment=SHARE) for each in answer.members]
        self.ask(
            SyncGroupRequest(
                group_id=self.group, generation_id=self.generation, member_id=self.member_id, assignments=shares
            )
        )

    def hear_synced(self, answer: SyncGroupResponse) -> None:
        if answer.error_code in TO_BE_JOINED_AGAIN:
            self.join()
            return
        assert answer.assignment == SHARE, ErrorCode(answer.error_code)
        self.has_share = True
        self.synced(self)
        self.beat_later()

    def hear_beat(self, answer: HeartbeatResponse) -> None:
        if answer.error_code in TO_BE_JOINED_AGAIN:
            self.join()
        else:
            self.beat_later()

    def beat_later(self) -> None:
        asyncio.get_running_loop().call_later(HEARTBEAT_S, self.beat)

    def beat(self) -> None:
        if not self.transport.is_closing():
            self.ask(HeartbeatRequest(group_id=self.group, generation_id=self.generation, member_id=self.member_id))


VERSIONS = {JoinGroupRequest: 5, SyncGroupRequest: 3, HeartbeatRequest: 3}
HEAR: dict[type[Message], Callable[..., None]] = {
    JoinGroupResponse: Member.hear_joined,
    SyncGroupResponse: Member.hear_synced,
    HeartbeatResponse: Member.hear_beat,
}


async def to_stable(address: tuple[str, int], group: str, count: int) -> float:
    """Seconds until everybody has a share of one generation, the initial delay not counted."""
    loop = asyncio.get_running_loop()
    stable = loop.create_future()
    members: list[Member] = []

    def synced(member: Member) -> None:
        if not stable.done() and all(each.has_share and each.generation == member.generation for each in members):
            stable.set_result(time.perf_counter())

    for _ in range(count):
        members.append((await loop.create_connection(lambda: Member(group, synced), *address))[1])
    started = time.perf_counter()
    for member in members:
        member.join()
    async with asyncio.timeout(120):
        took = await stable - started
    for member in members:
        member.transport.abort()
    return float(took) - INITIAL_DELAY_S


def cpu_s(who: int) -> float:
    usage = resource.getrusage(who)
    return usage.ru_utime + usage.ru_stime


def cpu_of_process_s(process_id: int) -> float:
    """Linux keeps it in hundredths of a second."""
    fields = Path(f"/proc/{process_id}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / 100


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--members", type=int, nargs="+", default=[10, 100, 1000], help="(default 10 100 1000)")
    parser.add_argument("--runs", type=int, default=3, help="a number of members (default 3)")
    options = parser.parse_args()
    print(f"{'members':>7}{'seconds to Stable':>20}{'emulator, CPU s':>18}{'members, CPU s':>17}")
    for count in options.members:
        rows = []
        for run in range(options.runs):
            with tempfile.TemporaryDirectory() as folder:
                command = regroup(Path(folder, "bench.db"), initial_delay_ms=int(INITIAL_DELAY_S * 1000))
                with running(command) as (address, process_id):
                    before = cpu_of_process_s(process_id), cpu_s(resource.RUSAGE_SELF)
                    took = asyncio.run(to_stable(address, f"bench-{run}", count))
                    rows.append(
                        (took, cpu_of_process_s(process_id) - before[0], cpu_s(resource.RUSAGE_SELF) - before[1])
                    )
        took, emulator, members = (median(each) for each in zip(*rows, strict=True))
        print(f"{count:7}{took:20.2f}{emulator:18.2f}{members:17.2f}", flush=True)


if __name__ == "__main__":
    main()
