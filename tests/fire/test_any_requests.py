"""Any sequence of group requests over the wire, sensible or absurd, cut anywhere: the emulator survives all of it."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, NamedTuple
from uuid import uuid4

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from structlog.testing import capture_logs

from regroup.coordinator.settings import Settings
from regroup.coordinator.verification import Verifier
from regroup.protocol.errors import ErrorCode
from regroup.protocol.exceptions import Unencodable
from regroup.protocol.frames import FrameReader, decode_response, encode_request
from regroup.protocol.header import RequestHeader
from regroup.protocol.message import Message
from regroup.protocol.messages import describe as d
from regroup.protocol.messages import group as g
from regroup.protocol.messages import offsets as o
from regroup.server.broker_cluster import Emulator
from regroup.server.clock import Clock
from regroup.storage.memory import MemoryStore
from tests.fire.member import Member, living, until

INT16, INT32, INT64 = 2**15 - 1, 2**31 - 1, 2**63 - 1
LATEST = "the id that was given last"
"""Stands for what the answers said; the player puts it in."""

groups = st.sampled_from(["payments"] * 6 + ["shipping", "", "a\0b", "\x1b[2J\n", "ü" * 200, "x" * 5_000])
members = st.sampled_from([LATEST] * 6 + ["", "stranger", "m" * 3_000, "\0"])
instances = st.sampled_from([None] * 4 + ["till-1", "till-2", ""])
generations = st.sampled_from([LATEST] * 6 + [-1, 0, -(2**31), INT32])
timeouts_ms = st.sampled_from([20, 20, 50, 300, 0, -1, INT32, -(2**31)])
kinds = st.sampled_from(["consumer"] * 6 + ["connect", "", "\0"])
opaque = st.sampled_from([b"", b"\0", b"\0\1" + b"\xff" * 8, bytes(10), b"\x7f" * 2_000])
names = st.sampled_from(["range"] * 4 + ["roundrobin", "", "n" * 500])
topics = st.sampled_from(["orders"] * 5 + ["unknown", "", "__consumer_offsets", "t" * 300])
numbers = st.sampled_from([0, 0, 1, 3, -1, 99, INT32, -(2**31)])
offsets = st.sampled_from([0, 1, 7, -1, INT64, -(2**63)])
texts = st.sampled_from([None, "", "note", "\0", "x" * 5_000])


def up_to(count: int, each: st.SearchStrategy[Any]) -> st.SearchStrategy[list[Any]]:
    return st.lists(each, max_size=count)


protocols = up_to(3, st.builds(g.JoinGroupRequestProtocol, name=names, metadata=opaque))
shares = up_to(3, st.builds(g.SyncGroupRequestAssignment, member_id=members, assignment=opaque))
leavers = up_to(3, st.builds(g.MemberIdentity, member_id=members, group_instance_id=instances, reason=texts))
commits = up_to(
    2,
    st.builds(
        o.OffsetCommitRequestTopic,
        name=topics,
        partitions=up_to(
            3,
            st.builds(
                o.OffsetCommitRequestPartition,
                partition_index=numbers,
                committed_offset=offsets,
                committed_leader_epoch=numbers,
                commit_timestamp=offsets,
                committed_metadata=texts,
            ),
        ),
    ),
)
asked = up_to(2, st.builds(o.OffsetFetchRequestTopic, name=topics, partition_indexes=up_to(3, numbers)))
asked_newly = up_to(2, st.builds(o.OffsetFetchRequestTopics, name=topics, partition_indexes=up_to(3, numbers)))
forgotten = up_to(
    2,
    st.builds(
        o.OffsetDeleteRequestTopic,
        name=topics,
        partitions=up_to(3, st.builds(o.OffsetDeleteRequestPartition, partition_index=numbers)),
    ),
)
SENSIBLE: list[st.SearchStrategy[Message]] = [
    st.builds(
        g.JoinGroupRequest,
        group_id=st.just("payments"),
        session_timeout_ms=st.just(300),
        rebalance_timeout_ms=st.sampled_from([50, 300]),
        member_id=st.sampled_from([LATEST, LATEST, ""]),
        group_instance_id=st.sampled_from([None, None, None, "till-1"]),
        protocol_type=st.just("consumer"),
        protocols=st.just([g.JoinGroupRequestProtocol(name="range", metadata=bytes(10))]),
    ),
    st.builds(
        g.SyncGroupRequest,
        group_id=st.just("payments"),
        generation_id=st.just(LATEST),
        member_id=st.just(LATEST),
        protocol_type=st.just("consumer"),
        protocol_name=st.just("range"),
        assignments=st.just([g.SyncGroupRequestAssignment(member_id=LATEST, assignment=b"share")]),
    ),
    st.builds(
        g.HeartbeatRequest, group_id=st.just("payments"), generation_id=st.just(LATEST), member_id=st.just(LATEST)
    ),
    st.builds(
        o.OffsetCommitRequest,
        group_id=st.just("payments"),
        generation_id_or_member_epoch=st.just(LATEST),
        member_id=st.just(LATEST),
        topics=st.just(
            [
                o.OffsetCommitRequestTopic(
                    name="orders", partitions=[o.OffsetCommitRequestPartition(partition_index=1, committed_offset=5)]
                )
            ]
        ),
    ),
    st.builds(
        g.LeaveGroupRequest,
        group_id=st.just("payments"),
        member_id=st.just(LATEST),
        members=st.just([g.MemberIdentity(member_id=LATEST)]),
    ),
]
"""With these alone a group would live an ordinary life."""
ABSURD: list[st.SearchStrategy[Message]] = [
    st.builds(
        g.JoinGroupRequest,
        group_id=groups,
        session_timeout_ms=timeouts_ms,
        rebalance_timeout_ms=timeouts_ms,
        member_id=members,
        group_instance_id=instances,
        protocol_type=kinds,
        protocols=protocols,
        reason=texts,
    ),
    st.builds(
        g.SyncGroupRequest,
        group_id=groups,
        generation_id=generations,
        member_id=members,
        group_instance_id=instances,
        protocol_type=kinds | st.none(),
        protocol_name=names | st.none(),
        assignments=shares,
    ),
    st.builds(
        g.HeartbeatRequest,
        group_id=groups,
        generation_id=generations,
        member_id=members,
        group_instance_id=instances,
    ),
    st.builds(g.LeaveGroupRequest, group_id=groups, member_id=members, members=leavers),
    st.builds(
        o.OffsetCommitRequest,
        group_id=groups,
        generation_id_or_member_epoch=generations,
        member_id=members,
        group_instance_id=instances,
        retention_time_ms=offsets,
        topics=commits,
    ),
    st.builds(
        o.OffsetFetchRequest,
        group_id=groups,
        topics=asked | st.none(),
        groups=up_to(2, st.builds(o.OffsetFetchRequestGroup, group_id=groups, topics=asked_newly | st.none())),
        require_stable=st.booleans(),
    ),
    st.builds(d.DescribeGroupsRequest, groups=up_to(3, groups), include_authorized_operations=st.booleans()),
    st.builds(d.DeleteGroupsRequest, groups_names=up_to(2, groups)),
    st.builds(o.OffsetDeleteRequest, group_id=groups, topics=forgotten),
    st.builds(d.ListGroupsRequest, states_filter=up_to(2, kinds), types_filter=up_to(2, kinds)),
]


@dataclass(frozen=True)
class Move:
    """One of three connections sends a request in some version; perhaps only the first bytes, then it hangs up."""

    who: int
    request: Message
    version: int
    pause_ms: int
    cut: int | None


moves = st.builds(
    Move,
    who=st.integers(0, 2),
    request=st.one_of(SENSIBLE[0], SENSIBLE[0], SENSIBLE[0], SENSIBLE[1], SENSIBLE[1], *SENSIBLE, *ABSURD),
    version=st.integers(0, 10) | st.just(10),
    pause_ms=st.sampled_from([3, 3, 10, 0, 10, 40]),
    cut=st.sampled_from([None] * 15 + [3, 12, 40]),
)


class Line(NamedTuple):
    """A connection, and the API and version of each question that is not answered yet."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    asked: "asyncio.Queue[tuple[int, int]]"


@dataclass
class Player:
    """Three connections, what each has been asked and answered, and what the answers gave away."""

    address: tuple[str, int]
    member: str = ""
    generation: int = -1
    lines: dict[int, Line] = field(default_factory=dict)
    readers: dict[asyncio.Task[None], None] = field(default_factory=dict)
    answered: int = 0

    async def play(self, move: Move) -> None:
        request = self.filled_in(move.request)
        version = min(max(move.version, request.versions.first), request.versions.last)
        try:
            data = encode_request(RequestHeader(request.api_key, version, 7, "fuzz"), request)
        except Unencodable:  # this version has no room for it
            return
        _, writer, asked = await self.line(move.who)
        asked.put_nowait((request.api_key, version))
        with suppress(ConnectionError):
            writer.write(data if move.cut is None else data[: move.cut])
            await writer.drain()
        if move.cut is not None:
            writer.transport.abort()
            del self.lines[move.who]
        await asyncio.sleep(move.pause_ms / 1000)

    def filled_in(self, message: Any) -> Any:
        """The message with what is known in the places where LATEST stands."""
        if isinstance(message, list):
            return [self.filled_in(each) for each in message]
        if not hasattr(message, "__struct_fields__"):
            return message
        values = {}
        for name in message.__struct_fields__:
            value = getattr(message, name)
            if isinstance(value, str) and value == LATEST:
                value = self.generation if name.startswith("generation") else self.member
            values[name] = self.filled_in(value)
        return type(message)(**values)

    async def line(self, who: int) -> Line:
        if who not in self.lines or self.lines[who].writer.is_closing():
            self.lines[who] = line = Line(*await asyncio.open_connection(*self.address), asyncio.Queue())
            self.readers[asyncio.create_task(self.read(line))] = None
        return self.lines[who]

    async def read(self, line: Line) -> None:
        """Every answer that comes belongs to the next question, and can be read."""
        frames = FrameReader()
        with suppress(ConnectionError):
            while data := await line.reader.read(65536):
                for frame in frames.feed(data):
                    correlation_id, answer = decode_response(*line.asked.get_nowait(), frame)
                    assert correlation_id == 7
                    self.learn(answer)
                    self.answered += 1

    def learn(self, answer: Message) -> None:
        if isinstance(answer, g.JoinGroupResponse) and answer.member_id:
            self.member = answer.member_id
            self.generation = max(self.generation, answer.generation_id)
        elif getattr(answer, "error_code", 0) == ErrorCode.UNKNOWN_MEMBER_ID:
            self.member = ""

    async def close(self) -> None:
        """Hang up everywhere; an answer that could not be read is raised here."""
        for line in self.lines.values():
            line.writer.transport.abort()
        await asyncio.gather(*self.readers)


@asynccontextmanager
async def an_emulator() -> AsyncIterator[tuple[Emulator, MemoryStore]]:
    store = MemoryStore()
    emulator = Emulator(
        store.open,
        clock=Clock(started_at_ms=time.time_ns() // 1_000_000, monotonic_s=time.monotonic),
        new_uuid=uuid4,
        settings=Settings(group_initial_rebalance_delay_ms=5, group_min_session_timeout_ms=10),
    )
    await emulator.start()
    await emulator.ensure_topic("orders", 4)
    try:
        yield emulator, store
    finally:
        await emulator.close()


async def survives(played: list[Move]) -> None:
    with capture_logs() as lines:
        async with an_emulator() as (emulator, store):
            player = Player(emulator.address)
            for move in played:
                await player.play(move)
            await player.close()
            newcomer = Member("newcomer", "{}:{}".format(*emulator.address))
            async with living(newcomer):
                await until(lambda: newcomer.committed, "a newcomer")
        verifier = Verifier()
        faults = [fault async for record in store.read() for fault in verifier.faults_of(record)]
        faults += verifier.faults_at_the_end()
    assert not faults
    failed = [line for line in lines if line["log_level"] in ("error", "critical")]
    assert not failed, "a request was not refused but failed"


def with_examples(count: int) -> Callable[[], None]:
    @settings(max_examples=count, deadline=None, suppress_health_check=list(HealthCheck), database=None)
    @given(st.lists(moves, min_size=15, max_size=40))
    def survives_anything(played: list[Move]) -> None:
        asyncio.run(survives(played))

    return survives_anything


@pytest.mark.timeout(900)
@pytest.mark.parametrize("examples", [30, pytest.param(600, marks=pytest.mark.slow)])
def test_any_course_of_requests_is_answered_leaves_a_sound_history_and_a_group_that_works(examples: int) -> None:
    with_examples(examples)()
