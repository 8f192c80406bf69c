"""Costly requests to a running `regroup serve`: other clients are not disturbed, and its memory stays small."""

import asyncio
import gzip
import struct
import zlib

import pytest

from regroup.protocol.frames import decode_response
from regroup.protocol.message import Message
from regroup.protocol.messages.cluster import ApiVersionsRequest, MetadataRequest, MetadataRequestTopic
from regroup.protocol.messages.describe import DescribeGroupsRequest
from regroup.protocol.messages.group import JoinGroupRequest, JoinGroupRequestProtocol, SyncGroupRequest
from regroup.protocol.messages.records import PartitionProduceData, ProduceRequest, TopicProduceData
from tests.clients.emulator import EmulatorProcess
from tests.clients.processes import Serve
from tests.robustness.attacks import (
    closed_connection_lines,
    frame,
    memory_mb,
    read_bytes,
    read_until_closed,
    sockets,
)
from tests.robustness.test_malformed_traffic import bystander_is_undisturbed

TOPIC = ("--topic", "orders:4")
ANY_VERSION = ("--broker-version", "any")
"""Produce v2, which has legacy messages, is too old for the newest release."""
MAX_HEARTBEAT_S = 20
"""For a busy machine; an idle one needs a few hundredths (`benchmarks/request_limits.py`)."""


async def call(emulator: EmulatorProcess, request: Message, version: int) -> bytes:
    """The frame of the response."""
    with sockets(emulator, 1) as (client,):
        await asyncio.get_running_loop().sock_sendall(client, frame(request, version))
        length = int.from_bytes(await read_bytes(client, 4), "big")
        return await read_bytes(client, length)


async def test_a_large_member_described_many_times_costs_64_mib_and_one_line_in_the_log(serve: Serve) -> None:
    emulator = serve(*TOPIC)
    join = JoinGroupRequest(
        group_id="bomb",
        session_timeout_ms=60_000,
        rebalance_timeout_ms=60_000,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=bytes(1_000_000))],
    )
    _, joined = decode_response(11, 3, await call(emulator, join, 3))
    sync = SyncGroupRequest(group_id="bomb", generation_id=1, member_id=joined.member_id, assignments=[])
    await call(emulator, sync, 2)
    async with bystander_is_undisturbed(emulator) as bystander:
        before_mb = memory_mb(emulator)
        with sockets(emulator, 1) as (client,):
            request = frame(DescribeGroupsRequest(groups=["bomb"] * 20_000), 4)
            await asyncio.get_running_loop().sock_sendall(client, request)
            assert await read_until_closed(client) == b""
        assert memory_mb(emulator, "VmHWM") - before_mb < 200
        assert bystander.slowest_heartbeat_s < MAX_HEARTBEAT_S
    (line,) = closed_connection_lines(emulator)
    assert "--max-response-bytes" in line
    assert "Traceback" not in emulator.log


@pytest.mark.slow
async def test_thirty_thousand_unknown_topics_in_one_request_are_not_created(serve: Serve) -> None:
    """Kafka's controller refuses to create more than 10,000 partitions at once."""
    emulator = serve(*TOPIC)
    async with bystander_is_undisturbed(emulator) as bystander:
        names = [MetadataRequestTopic(name=f"t{number}") for number in range(30_000)]
        _, response = decode_response(3, 4, await call(emulator, MetadataRequest(topics=names), 4))
        assert {topic.error_code for topic in response.topics} == {3}
        assert len(response.topics) == 30_000
        assert bystander.slowest_heartbeat_s < MAX_HEARTBEAT_S


@pytest.mark.slow
async def test_five_thousand_unknown_topics_in_one_request_are_created(serve: Serve) -> None:
    emulator = serve(*TOPIC)
    async with bystander_is_undisturbed(emulator) as bystander:
        names = [MetadataRequestTopic(name=f"t{number}") for number in range(5_000)]
        _, response = decode_response(3, 4, await call(emulator, MetadataRequest(topics=names), 4))
        assert [topic.error_code for topic in response.topics] == [0] * 5_000
        assert bystander.slowest_heartbeat_s < MAX_HEARTBEAT_S


def legacy_message(value: bytes, attributes: int = 0) -> bytes:
    body = bytes([1, attributes]) + bytes(8) + b"\xff" * 4 + struct.pack(">i", len(value)) + value
    return bytes(8) + struct.pack(">iI", len(body) + 4, zlib.crc32(body)) + body


@pytest.mark.slow
async def test_a_thousand_gzipped_sets_in_one_request_share_one_limit(serve: Serve) -> None:
    emulator = serve(*TOPIC, *ANY_VERSION)
    bomb = legacy_message(gzip.compress(legacy_message(bytes(10_000_000))), attributes=1)
    data = [PartitionProduceData(index=number % 4, records=bomb) for number in range(1_000)]
    request = ProduceRequest(acks=1, timeout_ms=100, topic_data=[TopicProduceData(name="orders", partition_data=data)])
    async with bystander_is_undisturbed(emulator) as bystander:
        before_mb = memory_mb(emulator)
        _, response = decode_response(0, 2, await call(emulator, request, 2))
        codes = [each.error_code for each in response.responses[0].partition_responses]
        assert codes == [0, *[10] * 999]
        assert memory_mb(emulator, "VmHWM") - before_mb < 150
        assert bystander.slowest_heartbeat_s < MAX_HEARTBEAT_S


@pytest.mark.slow
async def test_a_gzipped_set_of_nothing_is_refused_and_the_other_partitions_are_answered(serve: Serve) -> None:
    emulator = serve(*TOPIC, *ANY_VERSION)
    good, empty = legacy_message(b"a"), legacy_message(gzip.compress(b""), attributes=1)
    data = [PartitionProduceData(index=index, records=each) for index, each in enumerate([good, empty, good])]
    request = ProduceRequest(acks=1, timeout_ms=100, topic_data=[TopicProduceData(name="orders", partition_data=data)])
    _, response = decode_response(0, 2, await call(emulator, request, 2))
    assert [each.error_code for each in response.responses[0].partition_responses] == [0, 87, 0]
    assert "Traceback" not in emulator.log


@pytest.mark.slow
async def test_the_largest_response_can_be_set(serve: Serve) -> None:
    emulator = serve("--topic", "wide:10000", "--max-response-bytes", "100000")
    with sockets(emulator, 1) as (client,):
        await asyncio.get_running_loop().sock_sendall(client, frame(MetadataRequest(topics=None), 4))
        assert await read_until_closed(client) == b""
    assert "100000" in closed_connection_lines(emulator)[0]
    versions = ApiVersionsRequest(client_software_name="test", client_software_version="1")
    assert await call(emulator, versions, 3)
