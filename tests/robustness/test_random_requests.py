"""Any sequence of group requests over the wire, usual or absurd, truncated anywhere: the emulator survives it."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from structlog.testing import capture_logs

from regroup.coordinator.settings import CoordinatorSettings
from regroup.coordinator.verification import GroupsVerifier
from regroup.protocol.errors import ErrorCode
from regroup.protocol.exceptions import Unencodable
from regroup.protocol.frames import FrameReader, decode_response, encode_request
from regroup.protocol.header import RequestHeader
from regroup.protocol.message import Message
from regroup.protocol.messages import describe as d
from regroup.protocol.messages import group as g
from regroup.protocol.messages import offsets as o
from regroup.server.broker_cluster import BrokerCluster, ClusterOptions
from regroup.storage.memory import MemoryStore
from tests.robustness.member import RetryingMember, running, wait_until

INT16, INT32, INT64 = 2**15 - 1, 2**31 - 1, 2**63 - 1
LATEST = "the latest id"
"""A placeholder for the member id or generation id of the latest response; `RandomClient` replaces it."""

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
assignments = up_to(3, st.builds(g.SyncGroupRequestAssignment, member_id=members, assignment=opaque))
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
fetched = up_to(2, st.builds(o.OffsetFetchRequestTopic, name=topics, partition_indexes=up_to(3, numbers)))
fetched_by_group = up_to(2, st.builds(o.OffsetFetchRequestTopics, name=topics, partition_indexes=up_to(3, numbers)))
deleted = up_to(
    2,
    st.builds(
        o.OffsetDeleteRequestTopic,
        name=topics,
        partitions=up_to(3, st.builds(o.OffsetDeleteRequestPartition, partition_index=numbers)),
    ),
)
usual_member: dict[str, st.SearchStrategy[Any]] = {
    "group_id": st.just("payments"),
    "generation_id": st.just(LATEST),
    "member_id": st.just(LATEST),
}
absurd_member: dict[str, st.SearchStrategy[Any]] = {
    "group_id": groups,
    "member_id": members,
    "group_instance_id": instances,
}
USUAL: list[st.SearchStrategy[Message]] = [
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
        **usual_member,
        protocol_type=st.just("consumer"),
        protocol_name=st.just("range"),
        assignments=st.just([g.SyncGroupRequestAssignment(member_id=LATEST, assignment=b"assignment")]),
    ),
    st.builds(g.HeartbeatRequest, **usual_member),
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
"""Requests that form a working group."""
ABSURD: list[st.SearchStrategy[Message]] = [
    st.builds(
        g.JoinGroupRequest,
        **absurd_member,
        session_timeout_ms=timeouts_ms,
        rebalance_timeout_ms=timeouts_ms,
        protocol_type=kinds,
        protocols=protocols,
        reason=texts,
    ),
    st.builds(
        g.SyncGroupRequest,
        **absurd_member,
        generation_id=generations,
        protocol_type=kinds | st.none(),
        protocol_name=names | st.none(),
        assignments=assignments,
    ),
    st.builds(g.HeartbeatRequest, **absurd_member, generation_id=generations),
    st.builds(g.LeaveGroupRequest, group_id=groups, member_id=members, members=leavers),
    st.builds(
        o.OffsetCommitRequest,
        **absurd_member,
        generation_id_or_member_epoch=generations,
        retention_time_ms=offsets,
        topics=commits,
    ),
    st.builds(
        o.OffsetFetchRequest,
        group_id=groups,
        topics=fetched | st.none(),
        groups=up_to(2, st.builds(o.OffsetFetchRequestGroup, group_id=groups, topics=fetched_by_group | st.none())),
        require_stable=st.booleans(),
    ),
    st.builds(d.DescribeGroupsRequest, groups=up_to(3, groups), include_authorized_operations=st.booleans()),
    st.builds(d.DeleteGroupsRequest, groups_names=up_to(2, groups)),
    st.builds(o.OffsetDeleteRequest, group_id=groups, topics=deleted),
    st.builds(d.ListGroupsRequest, states_filter=up_to(2, kinds), types_filter=up_to(2, kinds)),
]


@dataclass(frozen=True)
class Step:
    """One of three connections sends a request, and the client waits."""

    connection: int
    request: Message
    version: int
    pause_ms: int
    truncated_at: int | None
    """Send only this many bytes, and close the connection."""


steps = st.builds(
    Step,
    connection=st.integers(0, 2),
    request=st.one_of(USUAL[0], USUAL[0], USUAL[0], USUAL[1], USUAL[1], *USUAL, *ABSURD),
    version=st.integers(0, 10) | st.just(10),
    pause_ms=st.sampled_from([3, 3, 10, 0, 10, 40]),
    truncated_at=st.sampled_from([None] * 15 + [3, 12, 40]),
)


class OpenConnection(NamedTuple):
    """A connection, with the API key and version of each request that has no response yet."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    open_requests: "asyncio.Queue[tuple[int, int]]"


@dataclass
class RandomClient:
    """Sends requests over three connections, and keeps the latest member id and generation id of the responses."""

    address: tuple[str, int]
    member_id: str = ""
    generation_id: int = -1
    connections: dict[int, OpenConnection] = field(default_factory=dict)
    readers: dict[asyncio.Task[None], None] = field(default_factory=dict)

    async def run(self, step: Step) -> None:
        request = self.fill_in(step.request)
        version = min(max(step.version, request.versions.first), request.versions.last)
        try:
            data = encode_request(RequestHeader(request.api_key, version, 7, "fuzz"), request)
        except Unencodable:  # this version lacks one of its fields
            return
        _, writer, open_requests = await self.connect(step.connection)
        open_requests.put_nowait((request.api_key, version))
        with suppress(ConnectionError):
            writer.write(data if step.truncated_at is None else data[: step.truncated_at])
            await writer.drain()
        if step.truncated_at is not None:
            writer.transport.abort()
            del self.connections[step.connection]
        await asyncio.sleep(step.pause_ms / 1000)

    def fill_in(self, message: Any) -> Any:
        """Replace LATEST in the message."""
        if isinstance(message, list):
            return [self.fill_in(each) for each in message]
        if not hasattr(message, "__struct_fields__"):
            return message
        values = {}
        for name in message.__struct_fields__:
            value = getattr(message, name)
            if isinstance(value, str) and value == LATEST:
                value = self.generation_id if name.startswith("generation") else self.member_id
            values[name] = self.fill_in(value)
        return type(message)(**values)

    async def connect(self, number: int) -> OpenConnection:
        """The connection with this number, opened again if it was closed."""
        if number not in self.connections or self.connections[number].writer.is_closing():
            streams = await asyncio.open_connection(*self.address)
            self.connections[number] = connection = OpenConnection(*streams, asyncio.Queue())
            self.readers[asyncio.create_task(self.read(connection))] = None
        return self.connections[number]

    async def read(self, connection: OpenConnection) -> None:
        """Decode the responses, each as one to the next open request."""
        frames = FrameReader()
        with suppress(ConnectionError):
            while data := await connection.reader.read(65536):
                for frame in frames.feed(data):
                    correlation_id, response = decode_response(*connection.open_requests.get_nowait(), frame)
                    assert correlation_id == 7
                    self.note_ids(response)

    def note_ids(self, response: Message) -> None:
        if isinstance(response, g.JoinGroupResponse) and response.member_id:
            self.member_id = response.member_id
            self.generation_id = max(self.generation_id, response.generation_id)
        elif getattr(response, "error_code", 0) == ErrorCode.UNKNOWN_MEMBER_ID:
            self.member_id = ""

    async def close(self) -> None:
        """Close all connections. Raises the error of a response that cannot be decoded."""
        for connection in self.connections.values():
            connection.writer.transport.abort()
        await asyncio.gather(*self.readers)


async def check_survival(run: list[Step]) -> None:
    """Run the steps; then a new member can join, the history is valid, and no handler has failed."""
    store = MemoryStore()
    options = ClusterOptions(
        settings=CoordinatorSettings(group_initial_rebalance_delay_ms=5, group_min_session_timeout_ms=10)
    )
    with capture_logs() as lines:
        async with await BrokerCluster.start(store.open, options) as cluster:
            await cluster.ensure_topic("orders", 4)
            client = RandomClient(cluster.address)
            for step in run:
                await client.run(step)
            await client.close()
            member = RetryingMember("member", "{}:{}".format(*cluster.address))
            async with running(member):
                await wait_until(lambda: member.committed, "the commit of a new member")
        verifier = GroupsVerifier()
        violations = [found async for record in store.read() for found in verifier.violations_of(record)]
        violations += verifier.violations_at_end()
    assert not violations
    failed = [line for line in lines if line["log_level"] in ("error", "critical")]
    assert not failed, "a handler has failed instead of refusing a request"


def with_examples(count: int) -> Callable[[], None]:
    @settings(max_examples=count, deadline=None, suppress_health_check=list(HealthCheck), database=None)
    @given(st.lists(steps, min_size=15, max_size=40))
    def survives_any_run(run: list[Step]) -> None:
        asyncio.run(check_survival(run))

    return survives_any_run


@pytest.mark.timeout(900)
@pytest.mark.parametrize("examples", [4, pytest.param(600, marks=pytest.mark.slow)])
def test_any_sequence_of_requests_leaves_a_valid_history_and_a_working_group(examples: int) -> None:
    with_examples(examples)()
