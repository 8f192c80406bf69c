"""The TCP transport against good and bad brokers, and the versions that requests are sent in."""

import asyncio
import struct
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from itertools import pairwise

import pytest
import uvloop
from confluent_kafka import Producer as MockCluster

from regroup.coordinator.settings import CoordinatorSettings
from regroup.lab.simulation.virtual_clock import VirtualLoop, run_in_virtual_time
from regroup.members.consumer.effects import NodeAddress, OutgoingRequest, RequestTarget
from regroup.members.consumer.inputs import RequestFailed, ResponseReceived, Subscribe
from regroup.members.consumer.settings import ConsumerSettings
from regroup.members.consumer.state import MemberState
from regroup.members.runtime.member import SimulatedMember
from regroup.members.runtime.workload import Workload
from regroup.members.transports.base import choose_version, from_version, to_version
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
from regroup.server.broker_cluster import BrokerCluster, ClusterOptions

TIMEOUT_MS = 30_000
HEARTBEAT = HeartbeatRequest(group_id="payments", generation_id=1, member_id="anna")
STATIC_JOIN = JoinGroupRequest(
    group_id="payments", session_timeout_ms=1, protocol_type="consumer", protocols=[], group_instance_id="a"
)


def to_any_broker(message: Message, timeout_ms: int = TIMEOUT_MS) -> OutgoingRequest:
    return OutgoingRequest(7, RequestTarget.ANY_BROKER, None, message, timeout_ms)


async def response_to(transport: TcpTransport, request: OutgoingRequest) -> ResponseReceived | RequestFailed:
    response: asyncio.Future[ResponseReceived | RequestFailed] = asyncio.get_running_loop().create_future()
    transport.send(request, response.set_result)
    return await response


# -- versions


def test_the_newest_common_version_is_chosen_as_long_as_topics_have_names() -> None:
    assert choose_version(HEARTBEAT, Versions(0, 3)) == 3
    assert choose_version(HEARTBEAT, Versions(0, 99)) == 4
    assert choose_version(HEARTBEAT, Versions(50, 99)) is None
    assert choose_version(OffsetCommitRequest(group_id="payments", topics=[]), Versions(2, 10)) == 9


def test_a_request_has_only_the_fields_of_its_version() -> None:
    find = FindCoordinatorRequest(key="payments", coordinator_keys=["payments"])
    assert to_version(find, 3) == FindCoordinatorRequest(key="payments")
    assert to_version(find, 4) == FindCoordinatorRequest(coordinator_keys=["payments"])
    leave = LeaveGroupRequest(group_id="payments", member_id="anna", members=[MemberIdentity(member_id="anna")])
    fetch = OffsetFetchRequest(require_stable=True)
    assert [to_version(fetch, version).require_stable for version in (6, 7, 8)] == [False, True, True]
    assert to_version(leave, 2).members == []
    assert to_version(leave, 3).member_id == ""
    assert to_version(MetadataRequest(topics=None, allow_auto_topic_creation=False), 3) == MetadataRequest(topics=None)


def test_a_response_of_an_older_version_has_the_fields_of_the_newest() -> None:
    found = from_version(
        FindCoordinatorRequest(key="payments"), FindCoordinatorResponse(node_id=3, host="broker", port=9092), 3
    )
    assert isinstance(found, FindCoordinatorResponse)
    assert [(each.node_id, each.host, each.port) for each in found.coordinators] == [(3, "broker", 9092)]
    partition = OffsetFetchResponsePartition(partition_index=1, committed_offset=9)
    fetched = from_version(
        OffsetFetchRequest(group_id="payments"),
        OffsetFetchResponse(topics=[OffsetFetchResponseTopic(name="orders", partitions=[partition])], error_code=14),
        7,
    )
    assert isinstance(fetched, OffsetFetchResponse)
    assert fetched.groups[0].error_code == 14
    assert fetched.groups[0].topics[0].partitions[0].committed_offset == 9


# -- TCP

Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@asynccontextmanager
async def broker(serve: Serve) -> AsyncIterator[TcpTransport]:
    """A transport to a broker whose connections are served like this."""

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await serve(reader, writer)
        except ConnectionError:
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(handle, "127.0.0.1", 0)
    host, port = server.sockets[0].getsockname()[:2]
    transport = TcpTransport([NodeAddress(-1, host, port)])
    try:
        yield transport
    finally:
        await transport.close()
        server.close()
        await server.wait_closed()


async def read_requests(reader: asyncio.StreamReader) -> AsyncIterator[tuple[RequestHeader, Message]]:
    frames = FrameReader()
    while chunk := await reader.read(65536):
        for frame in frames.feed(chunk):
            yield decode_request(frame)


def offered(*versions: ApiVersion) -> ApiVersionsResponse:
    return ApiVersionsResponse(api_keys=[ApiVersion(api_key=18, min_version=0, max_version=3), *versions])


HEARTBEATS_0_TO_3 = ApiVersion(api_key=12, min_version=0, max_version=3)


async def test_api_versions_is_sent_again_in_version_0_to_a_broker_that_knows_no_newer_one() -> None:
    seen: list[tuple[int, int]] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        async for header, _ in read_requests(reader):
            seen.append((header.api_key, header.api_version))
            if header.api_key == 12:
                writer.write(encode_response(12, header.api_version, header.correlation_id, HeartbeatResponse()))
            elif header.api_version > 0:
                refused = ApiVersionsResponse(error_code=35, api_keys=[])
                writer.write(encode_response(18, 0, header.correlation_id, refused))
            else:
                writer.write(encode_response(18, 0, header.correlation_id, offered(HEARTBEATS_0_TO_3)))

    async with broker(serve) as transport:
        assert await response_to(transport, to_any_broker(HEARTBEAT)) == ResponseReceived(7, HeartbeatResponse())
    assert seen == [(18, 3), (18, 0), (12, 3)]


async def test_a_request_that_no_offered_version_can_carry_is_unsupported() -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        async for header, request in read_requests(reader):
            assert isinstance(request, ApiVersionsRequest)
            old_join = ApiVersion(api_key=11, min_version=0, max_version=4)
            writer.write(encode_response(18, header.api_version, header.correlation_id, offered(old_join)))

    async with broker(serve) as transport:
        for message in (HEARTBEAT, STATIC_JOIN):
            answer = await response_to(transport, to_any_broker(message))
            assert isinstance(answer, RequestFailed)
            assert answer.is_unsupported


async def garbage(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.read(1)
    writer.write(struct.pack(">i", 20) + b"\xff" * 20)


async def no_response(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while await reader.read(65536):
        pass


async def close_at_once(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.read(1)


async def negative_length(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(struct.pack(">i", -5))
    await writer.drain()


@pytest.mark.parametrize(
    ("serve", "reason", "timeout_ms"),
    [
        (garbage, "cannot be decoded", TIMEOUT_MS),
        (no_response, "no response in time", 200),
        (close_at_once, "closed the connection", TIMEOUT_MS),
        (negative_length, "cannot be decoded", TIMEOUT_MS),
    ],
    ids=["garbage", "no response", "closed at once", "negative length"],
)
async def test_a_request_to_a_bad_broker_fails_with_the_reason(serve: Serve, reason: str, timeout_ms: int) -> None:
    async with broker(serve) as transport:
        answer = await response_to(transport, to_any_broker(HEARTBEAT, timeout_ms))
        assert isinstance(answer, RequestFailed)
        assert not answer.is_unsupported
        assert reason in answer.reason or "reset" in answer.reason
        # The next request gets a new connection.
        assert isinstance(await response_to(transport, to_any_broker(HEARTBEAT, timeout_ms)), RequestFailed)


async def test_disconnecting_from_the_coordinator_leaves_other_requests_in_flight() -> None:
    received, closed = asyncio.Event(), asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        is_coordinator = False
        async for header, request in read_requests(reader):
            if isinstance(request, ApiVersionsRequest):
                response = offered(HEARTBEATS_0_TO_3)
                writer.write(encode_response(18, header.api_version, header.correlation_id, response))
            elif isinstance(request, HeartbeatRequest) and request.group_id == "coordinated":
                is_coordinator = True
                received.set()
            else:
                await closed.wait()
                writer.write(encode_response(12, header.api_version, header.correlation_id, HeartbeatResponse()))
        if is_coordinator:
            closed.set()

    async with broker(serve) as transport:
        responses: list[object] = []
        heartbeat = HeartbeatRequest(group_id="coordinated", generation_id=1, member_id="anna")
        address = next(transport._bootstrap)
        transport.send(OutgoingRequest(1, RequestTarget.COORDINATOR, address, heartbeat, TIMEOUT_MS), responses.append)
        other = asyncio.create_task(response_to(transport, to_any_broker(HEARTBEAT)))
        await received.wait()
        transport.disconnect_coordinator()
        assert await other == ResponseReceived(7, HeartbeatResponse())
        assert responses == []


async def test_an_address_without_a_listener_is_named() -> None:
    server = await asyncio.start_server(lambda reader, writer: None, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    server.close()
    await server.wait_closed()
    transport = TcpTransport([NodeAddress(-1, "127.0.0.1", port)])
    answer = await response_to(transport, to_any_broker(HEARTBEAT))
    assert isinstance(answer, RequestFailed)
    assert f"127.0.0.1:{port} cannot be reached" in answer.reason
    await transport.close()


def test_the_backoff_before_a_connection_is_opened_again_doubles_up_to_a_second() -> None:
    dialled_s: list[float] = []

    async def refuse(factory: Callable[[], asyncio.Protocol], host: str, port: int) -> None:
        dialled_s.append(asyncio.get_running_loop().time())
        raise ConnectionRefusedError

    async def main() -> None:
        transport = TcpTransport([NodeAddress(-1, "broker", 9092)], connect=refuse)
        for _ in range(8):
            await response_to(transport, to_any_broker(HEARTBEAT))

    run_in_virtual_time(main(), VirtualLoop())
    waits_s = [round(after - before, 3) for before, after in pairwise(dialled_s)]
    assert waits_s == [0.05, 0.1, 0.2, 0.4, 0.8, 1.0, 1.0]


def test_an_invalid_address_is_named_with_an_example() -> None:
    assert parse_bootstrap("broker:9092, [::1]:9093") == (NodeAddress(-1, "broker", 9092), NodeAddress(-1, "::1", 9093))
    for wrong in ("broker", ":9092", "broker:", "broker:x", "broker:70000", ""):
        with pytest.raises(ValueError, match=r"invalid address: .*; write HOST:PORT, for example localhost:9092"):
            parse_bootstrap(wrong)


# -- whole groups


class Until:
    """Waits for a condition, which is checked after each report of a member."""

    def __init__(self) -> None:
        self._condition: Callable[[], bool] = lambda: False
        self._event = asyncio.Event()

    def observe(self, name: str, change: object) -> None:
        asyncio.get_running_loop().call_soon(self._check)

    def _check(self) -> None:
        if self._condition():
            self._event.set()

    async def __call__(self, condition: Callable[[], bool]) -> None:
        self._condition = condition
        self._event.clear()
        self._check()
        async with asyncio.timeout(20):
            await self._event.wait()


@pytest.mark.parametrize("new_loop", [asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"])
def test_members_share_a_topic_of_the_emulator_over_tcp(new_loop: Callable[[], asyncio.AbstractEventLoop]) -> None:
    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(share_a_topic())


async def share_a_topic() -> None:
    options = ClusterOptions(settings=CoordinatorSettings(group_initial_rebalance_delay_ms=0))
    emulator = await BrokerCluster.start(options=options)
    await emulator.ensure_topic("orders", 6)
    members, transports, until = [], [], Until()
    for name in ("anna", "ben", "carla"):
        transport = TcpTransport([NodeAddress(-1, *emulator.address)], client_id=name)
        settings = ConsumerSettings(
            group_id="payments", heartbeat_interval_ms=50, partition_assignment_strategy=("cooperative-sticky",)
        )
        subscription = Subscribe(("orders",))
        members.append(
            SimulatedMember(name, settings, transport, subscription, workload=Workload(), observe=until.observe)
        )
        transports.append(transport)
        members[-1].start()
    await until(lambda: [len(member.consumer.assigned_partitions) for member in members] == [2, 2, 2])
    await members[0].close()
    await until(lambda: [len(member.consumer.assigned_partitions) for member in members] == [0, 3, 3])
    for member, transport in zip(members, transports, strict=True):
        await member.close()
        await transport.close()
    await emulator.close()


@pytest.fixture
def mock_cluster() -> Iterator[NodeAddress]:
    cluster = MockCluster({"bootstrap.servers": "x:1", "test.mock.num.brokers": 1, "log_level": 3})
    cluster.list_topics("orders", timeout=30)
    found = next(iter(cluster.list_topics(timeout=30).brokers.values()))
    yield NodeAddress(-1, found.host, found.port)
    cluster.flush(1)


@pytest.mark.slow  # its initial rebalance delay is three seconds
async def test_a_member_gets_all_partitions_from_librdkafkas_mock_cluster(mock_cluster: NodeAddress) -> None:
    # The mock advertises JoinGroup v6 and SyncGroup v4 but reads and writes them as if they were not flexible, and
    # leaves the throttle time out of LeaveGroup.
    transport = TcpTransport([mock_cluster], max_versions={11: 5, 14: 3, 13: 0, 9: 5, 8: 7})
    settings = ConsumerSettings(group_id="payments", partition_assignment_strategy=("range",))
    until = Until()
    member = SimulatedMember(
        "anna", settings, transport, Subscribe(("orders",)), workload=Workload(), observe=until.observe
    )
    member.start()
    await until(lambda: len(member.consumer.assigned_partitions) == 4)
    assert member.view.state is MemberState.STABLE
    await member.close()
    assert member.view.condition == "left"
    await transport.close()
