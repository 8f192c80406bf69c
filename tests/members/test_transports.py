"""The two transports: calls in the process, and TCP against good brokers and bad ones."""

import asyncio
import struct
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from uuid import uuid4

import pytest
from confluent_kafka import Producer as MockCluster

from regroup.coordinator.settings import Settings
from regroup.members.consumer.effects import Address, Lane, Outgoing
from regroup.members.consumer.inputs import Answered, Subscribe, Unanswered
from regroup.members.consumer.settings import ConsumerSettings
from regroup.members.consumer.state import Phase
from regroup.members.runtime.member import Member
from regroup.members.runtime.workload import Workload
from regroup.members.transports.base import as_newest, as_of, version_for
from regroup.members.transports.direct import CallTransport
from regroup.members.transports.tcp import TcpTransport, parse_bootstrap
from regroup.protocol.fields import Versions
from regroup.protocol.frames import FrameReader, decode_request, encode_response
from regroup.protocol.header import RequestHeader
from regroup.protocol.message import Message
from regroup.protocol.messages.cluster import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    MetadataRequest,
)
from regroup.protocol.messages.group import (
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    LeaveGroupRequest,
    MemberIdentity,
)
from regroup.protocol.messages.offsets import (
    OffsetCommitRequest,
    OffsetFetchRequest,
    OffsetFetchResponse,
    OffsetFetchResponsePartition,
    OffsetFetchResponseTopic,
)
from regroup.server.broker_cluster import Emulator
from regroup.server.clock import Clock
from regroup.storage.memory import MemoryStore

PATIENCE_MS = 30_000
HEARTBEAT = HeartbeatRequest(group_id="payments", generation_id=1, member_id="anna")
STATIC_JOIN = JoinGroupRequest(
    group_id="payments", session_timeout_ms=1, protocol_type="consumer", protocols=[], group_instance_id="a"
)


def to_anyone(message: Message, timeout_ms: int = PATIENCE_MS) -> Outgoing:
    return Outgoing(7, Lane.ANY_BROKER, None, message, timeout_ms)


async def ask(transport: TcpTransport | CallTransport, outgoing: Outgoing) -> Answered | Unanswered:
    answer: asyncio.Future[Answered | Unanswered] = asyncio.get_running_loop().create_future()
    transport.send(outgoing, answer.set_result)
    return await answer


# -- versions


def test_the_newest_version_that_both_speak_is_chosen_and_topics_keep_their_names() -> None:
    assert version_for(HEARTBEAT, Versions(0, 3)) == 3
    assert version_for(HEARTBEAT, Versions(0, 99)) == 4
    assert version_for(HEARTBEAT, Versions(50, 99)) is None
    assert version_for(OffsetCommitRequest(group_id="payments", topics=[]), Versions(2, 10)) == 9


def test_a_request_holds_only_what_its_version_can_carry() -> None:
    find = FindCoordinatorRequest(key="payments", coordinator_keys=["payments"])
    assert as_of(find, 3) == FindCoordinatorRequest(key="payments")
    assert as_of(find, 4) == FindCoordinatorRequest(coordinator_keys=["payments"])
    leave = LeaveGroupRequest(group_id="payments", member_id="anna", members=[MemberIdentity(member_id="anna")])
    assert as_of(leave, 2).members == []
    assert as_of(leave, 3).member_id == ""
    assert as_of(MetadataRequest(topics=None, allow_auto_topic_creation=False), 3) == MetadataRequest(topics=None)


def test_an_old_answer_is_read_as_a_new_one() -> None:
    found = as_newest(
        FindCoordinatorRequest(key="payments"), FindCoordinatorResponse(node_id=3, host="broker", port=9092), 3
    )
    assert isinstance(found, FindCoordinatorResponse)
    assert [(each.node_id, each.host, each.port) for each in found.coordinators] == [(3, "broker", 9092)]
    partition = OffsetFetchResponsePartition(partition_index=1, committed_offset=9)
    fetched = as_newest(
        OffsetFetchRequest(group_id="payments"),
        OffsetFetchResponse(topics=[OffsetFetchResponseTopic(name="orders", partitions=[partition])], error_code=14),
        7,
    )
    assert isinstance(fetched, OffsetFetchResponse)
    assert fetched.groups[0].error_code == 14
    assert fetched.groups[0].topics[0].partitions[0].committed_offset == 9


# -- calls


async def test_a_call_is_made_with_a_header_and_answered() -> None:
    seen: list[RequestHeader] = []

    async def coordinator(header: RequestHeader, request: Message) -> Message:
        seen.append(header)
        return HeartbeatResponse(error_code=27)

    transport = CallTransport(coordinator, client_id="anna", versions={12: 2})
    assert await ask(transport, to_anyone(HEARTBEAT)) == Answered(7, HeartbeatResponse(error_code=27))
    assert seen == [RequestHeader(12, 2, 1, "anna")]


async def test_a_static_member_is_told_that_a_coordinator_before_kip_345_is_too_old() -> None:
    async def coordinator(header: RequestHeader, request: Message) -> Message:
        raise AssertionError("it should never get here")

    answer = await ask(CallTransport(coordinator, versions={11: 4}), to_anyone(STATIC_JOIN))
    assert isinstance(answer, Unanswered)
    assert answer.unsupported


async def test_a_call_that_breaks_is_a_broken_connection() -> None:
    async def coordinator(header: RequestHeader, request: Message) -> Message:
        raise ConnectionResetError("gone")

    assert await ask(CallTransport(coordinator), to_anyone(HEARTBEAT)) == Unanswered(7, "gone")


async def test_hanging_up_cancels_what_waits_for_the_coordinator_and_nothing_else() -> None:
    cancelled: list[int] = []

    async def coordinator(header: RequestHeader, request: Message) -> Message:
        try:
            await asyncio.get_running_loop().create_future()
        except asyncio.CancelledError:
            cancelled.append(header.correlation_id)
            raise
        raise AssertionError("nobody answers")

    transport = CallTransport(coordinator)
    for lane in (Lane.COORDINATOR, Lane.ANY_BROKER):
        transport.send(Outgoing(1, lane, None, HEARTBEAT, 5_000), lambda answer: None)
    await asyncio.sleep(0)
    transport.hang_up()
    await asyncio.sleep(0)
    assert cancelled == [1]
    await transport.close()
    assert cancelled == [1, 2]


# -- TCP

Talk = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@asynccontextmanager
async def broker(talk: Talk) -> AsyncIterator[TcpTransport]:
    """A transport to a broker that talks like this."""

    async def served(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await talk(reader, writer)
        except ConnectionError:
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(served, "127.0.0.1", 0)
    host, port = server.sockets[0].getsockname()[:2]
    transport = TcpTransport([Address(-1, host, port)])
    try:
        yield transport
    finally:
        await transport.close()
        server.close()
        await server.wait_closed()


async def requests_of(reader: asyncio.StreamReader) -> AsyncIterator[tuple[RequestHeader, Message]]:
    frames = FrameReader()
    while chunk := await reader.read(65536):
        for frame in frames.feed(chunk):
            yield decode_request(frame)


def speaks(*versions: ApiVersion) -> ApiVersionsResponse:
    return ApiVersionsResponse(api_keys=[ApiVersion(api_key=18, min_version=0, max_version=3), *versions])


HEARTBEATS_0_TO_3 = ApiVersion(api_key=12, min_version=0, max_version=3)


async def test_a_broker_that_knows_only_old_api_versions_is_asked_again() -> None:
    seen: list[tuple[int, int]] = []

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        async for header, _ in requests_of(reader):
            seen.append((header.api_key, header.api_version))
            if header.api_key == 12:
                writer.write(encode_response(12, header.api_version, header.correlation_id, HeartbeatResponse()))
            elif header.api_version > 0:
                refused = ApiVersionsResponse(error_code=35, api_keys=[])
                writer.write(encode_response(18, 0, header.correlation_id, refused))
            else:
                writer.write(encode_response(18, 0, header.correlation_id, speaks(HEARTBEATS_0_TO_3)))

    async with broker(talk) as transport:
        assert await ask(transport, to_anyone(HEARTBEAT)) == Answered(7, HeartbeatResponse())
    assert seen == [(18, 3), (18, 0), (12, 3)]


async def test_what_the_broker_cannot_do_is_unsupported() -> None:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        async for header, request in requests_of(reader):
            assert isinstance(request, ApiVersionsRequest)
            old_join = ApiVersion(api_key=11, min_version=0, max_version=4)
            writer.write(encode_response(18, header.api_version, header.correlation_id, speaks(old_join)))

    async with broker(talk) as transport:
        for message in (HEARTBEAT, STATIC_JOIN):
            answer = await ask(transport, to_anyone(message))
            assert isinstance(answer, Unanswered)
            assert answer.unsupported


async def garbage(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.read(1)
    writer.write(struct.pack(">i", 20) + b"\xff" * 20)


async def silence(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while await reader.read(65536):
        pass


async def goodbye(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.read(1)


async def huge(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(struct.pack(">i", -5))
    await writer.drain()


@pytest.mark.parametrize(
    ("talk", "says", "timeout_ms"),
    [
        (garbage, "cannot be read", PATIENCE_MS),
        (silence, "no answer in time", 200),
        (goodbye, "closed the connection", PATIENCE_MS),
        (huge, "cannot be read", PATIENCE_MS),
    ],
    ids=["garbage", "silence", "goodbye", "huge"],
)
async def test_a_bad_broker_leaves_the_request_unanswered_and_says_why(talk: Talk, says: str, timeout_ms: int) -> None:
    async with broker(talk) as transport:
        answer = await ask(transport, to_anyone(HEARTBEAT, timeout_ms))
        assert isinstance(answer, Unanswered)
        assert not answer.unsupported
        assert says in answer.reason or "reset" in answer.reason
        # The next request gets a new connection, and its own answer.
        assert isinstance(await ask(transport, to_anyone(HEARTBEAT, timeout_ms)), Unanswered)


async def test_nobody_at_the_address_is_said_with_the_address() -> None:
    server = await asyncio.start_server(lambda reader, writer: None, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    server.close()
    await server.wait_closed()
    transport = TcpTransport([Address(-1, "127.0.0.1", port)])
    answer = await ask(transport, to_anyone(HEARTBEAT))
    assert isinstance(answer, Unanswered)
    assert f"127.0.0.1:{port} cannot be reached" in answer.reason
    await transport.close()


def test_addresses_are_read_and_bad_ones_are_explained() -> None:
    assert parse_bootstrap("broker:9092, [::1]:9093") == (Address(-1, "broker", 9092), Address(-1, "::1", 9093))
    for wrong in ("broker", ":9092", "broker:", "broker:x", "broker:70000", ""):
        with pytest.raises(ValueError, match="write host:port, for example localhost:9092"):
            parse_bootstrap(wrong)


# -- whole groups


class Until:
    """Looks whether something has become true each time a member has told something."""

    def __init__(self) -> None:
        self._true: Callable[[], bool] = lambda: False
        self._event = asyncio.Event()

    def told(self, name: str, happening: object) -> None:
        asyncio.get_running_loop().call_soon(self._look)

    def _look(self) -> None:
        if self._true():
            self._event.set()

    async def __call__(self, true: Callable[[], bool]) -> None:
        self._true = true
        self._event.clear()
        self._look()
        async with asyncio.timeout(20):
            await self._event.wait()


async def test_members_share_a_topic_of_the_emulator_over_tcp() -> None:
    async def open_store() -> MemoryStore:
        return MemoryStore()

    clock = Clock(started_at_ms=0, monotonic_s=asyncio.get_running_loop().time)
    emulator = Emulator(open_store, clock=clock, new_uuid=uuid4, settings=Settings(group_initial_rebalance_delay_ms=0))
    await emulator.start()
    await emulator.ensure_topic("orders", 6)
    members, transports, until = [], [], Until()
    for name in ("anna", "ben", "carla"):
        transport = TcpTransport([Address(-1, *emulator.address)], client_id=name)
        settings = ConsumerSettings(
            group_id="payments", heartbeat_interval_ms=50, partition_assignment_strategy=("cooperative-sticky",)
        )
        subscription = Subscribe(("orders",))
        members.append(Member(name, settings, transport, subscription, workload=Workload(), observe=until.told))
        transports.append(transport)
        members[-1].start()
    await until(lambda: [len(member.consumer.assigned) for member in members] == [2, 2, 2])
    await members[0].close()
    await until(lambda: [len(member.consumer.assigned) for member in members] == [0, 3, 3])
    for member, transport in zip(members, transports, strict=True):
        await member.close()
        await transport.close()
    await emulator.close()


@pytest.fixture
def mock_cluster() -> Iterator[Address]:
    cluster = MockCluster({"bootstrap.servers": "x:1", "test.mock.num.brokers": 1, "log_level": 3})
    cluster.list_topics("orders", timeout=30)
    found = next(iter(cluster.list_topics(timeout=30).brokers.values()))
    yield Address(-1, found.host, found.port)
    cluster.flush(1)


async def test_a_member_gets_all_partitions_from_librdkafkas_mock_cluster(mock_cluster: Address) -> None:
    # The mock advertises JoinGroup v6 and SyncGroup v4 but reads and writes them as if they were not flexible, and
    # leaves the throttle time out of LeaveGroup.
    transport = TcpTransport([mock_cluster], newest={11: 5, 14: 3, 13: 0, 9: 5, 8: 7})
    settings = ConsumerSettings(group_id="payments", partition_assignment_strategy=("range",))
    until = Until()
    member = Member("anna", settings, transport, Subscribe(("orders",)), workload=Workload(), observe=until.told)
    member.start()
    await until(lambda: len(member.consumer.assigned) == 4)
    assert member.view.phase is Phase.STABLE
    await member.close()
    assert member.view.condition == "left"
    await transport.close()
