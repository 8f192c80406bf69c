"""A client's connection: order of responses, invalid and random bytes, bounded buffers."""

import asyncio
import socket
import struct
from contextlib import suppress
from itertools import pairwise

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from structlog.testing import capture_logs

from regroup.protocol.apis import APIS
from regroup.protocol.frames import decode_response, encode_request
from regroup.protocol.header import RequestHeader
from regroup.protocol.messages.cluster import ApiVersionsRequest, MetadataRequest, MetadataRequestTopic
from regroup.protocol.messages.group import HeartbeatRequest
from regroup.protocol.messages.records import (
    FetchPartition,
    FetchRequest,
    FetchTopic,
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from regroup.server.limits import MAX_READ_AHEAD_BYTES
from tests.coordinator.group_harness import behaviour
from tests.server.wire_client import TIMEOUT_S, wait_until

VERSIONS = ApiVersionsRequest(client_software_name="test", client_software_version="1")


def frame_of(request, version: int, correlation_id: int) -> bytes:
    return encode_request(RequestHeader(request.api_key, version, correlation_id, "test"), request)


def fetch(max_wait_ms: int, partition: int = 0, offset: int = 0) -> FetchRequest:
    wanted = FetchPartition(partition=partition, fetch_offset=offset, partition_max_bytes=1000)
    return FetchRequest(max_wait_ms=max_wait_ms, min_bytes=1, topics=[FetchTopic(topic="orders", partitions=[wanted])])


def produce(batch: bytes, *, acks: int = 1, topic: str = "orders") -> ProduceRequest:
    data = TopicProduceData(name=topic, partition_data=[PartitionProduceData(index=0, records=batch)])
    return ProduceRequest(acks=acks, timeout_ms=100, topic_data=[data])


async def serves_others(harness) -> bool:
    """A new client gets its response."""
    client = await harness.connect()
    return bool((await client.call(VERSIONS)).api_keys)


# Order


async def test_requests_sent_together_get_their_responses_in_order(harness) -> None:
    client = await harness.connect()
    sent = [client.send(VERSIONS) for _ in range(100)]
    answered = [decode_response(18, 4, await client.frame())[0] for _ in sent]
    assert answered == sent


async def test_a_request_sent_byte_by_byte_is_one_request(harness) -> None:
    client = await harness.connect()
    for byte in frame_of(VERSIONS, 4, 7):
        client.writer.write(bytes([byte]))
        await client.writer.drain()
        await asyncio.sleep(0)
    assert decode_response(18, 4, await client.frame())[0] == 7


async def test_a_held_request_blocks_all_requests_behind_it(harness, make_batch) -> None:
    await harness.create_topic("orders")
    client, other = await harness.connect(), await harness.connect()
    first, second = client.send(fetch(60_000), 12), client.send(VERSIONS)
    await other.call(VERSIONS)  # by now the broker has read the requests of the first client
    assert not client.reader._buffer
    await other.call(produce(make_batch(b"hello")), 9)
    correlation_id, response = decode_response(1, 12, await client.frame())
    assert correlation_id == first
    assert response.responses[0].partitions[0].records
    assert decode_response(18, 4, await client.frame())[0] == second


async def test_a_produce_without_acknowledgement_is_appended_and_gets_no_response(harness, make_batch) -> None:
    await harness.create_topic("orders")
    client = await harness.connect()
    client.send(produce(make_batch(b"hello"), acks=0), 9)
    fetching = client.send(fetch(60_000), 12)  # waits until the record's offset is durably reserved
    correlation_id, response = decode_response(1, 12, await client.frame())
    assert correlation_id == fetching
    assert response.responses[0].partitions[0].high_watermark == 1


async def test_a_produce_without_acknowledgement_that_fails_closes_the_connection(harness, make_batch) -> None:
    client = await harness.connect()
    client.send(produce(make_batch(b"hello"), acks=0, topic="unknown"), 9)
    assert await client.is_closed_by_the_broker()


# Invalid requests


@behaviour("validation.api-versions.unsupported-version")
async def test_an_unknown_version_of_api_versions_gets_the_oldest_response(harness) -> None:
    client = await harness.connect()
    client.writer.write(bytes.fromhex("0000000d 0012 0063 00000009 0001 78 0000"))
    correlation_id, response = decode_response(18, 0, await client.frame())
    rows = [(row.api_key, row.min_version, row.max_version) for row in response.api_keys]
    assert (correlation_id, response.error_code, rows) == (9, 35, [(18, 0, 5)])
    assert await client.call(VERSIONS)  # the client can use another version on the same connection


@pytest.mark.parametrize(
    ("what", "data"),
    [
        ("an unknown API", bytes.fromhex("0000000a 7fff 0000 00000001 ffff")),
        ("an unknown version of Metadata", bytes.fromhex("0000000a 0003 7fff 00000001 ffff")),
        ("an API that is known and not served", frame_of(HeartbeatRequest(
            group_id="g", generation_id=1, member_id="m"), 4, 1)),
        ("a negative length", b"\xff\xff\xff\xff"),
        ("a length of two gigabytes", b"\x7f\xff\xff\xff"),
        ("a length just above the limit", (100 * 1024 * 1024 + 1).to_bytes(4, "big")),
        ("a frame without a header", bytes(4)),
        ("a truncated request", bytes.fromhex("0000000c 0003 0001 00000001 ffff 0000")),
        ("an array with a length of a billion", bytes.fromhex("0000000e 0003 0001 00000001 ffff 3b9aca00")),
    ],
)  # fmt: skip
async def test_an_invalid_request_closes_its_connection_with_one_line_in_the_log(
    harness, what: str, data: bytes
) -> None:
    client = await harness.connect()
    with capture_logs() as lines:
        client.writer.write(data)
        assert await client.is_closed_by_the_broker()
    assert [line["event"] for line in lines] == ["connection closed"], what
    assert lines[0]["reason"]
    assert await serves_others(harness)


async def test_extra_bytes_behind_a_request_are_ignored(harness) -> None:
    """librdkafka sends three of them when it requests all topics, and Kafka accepts them."""
    client = await harness.connect()
    client.writer.write(bytes.fromhex("00000018 0003 000d 00000003 0007 72646b61666b61 00 00000000 01 00 00"))
    _, response = decode_response(3, 13, await client.frame())
    assert [broker.node_id for broker in response.brokers] == [0]


async def test_requests_before_invalid_bytes_get_their_responses(harness) -> None:
    client = await harness.connect()
    client.writer.write(frame_of(VERSIONS, 4, 1) + frame_of(VERSIONS, 4, 2) + b"\xff\xff\xff\xff")
    assert [decode_response(18, 4, await client.frame())[0] for _ in range(2)] == [1, 2]
    assert await client.is_closed_by_the_broker()


async def test_an_error_in_a_handler_closes_one_connection(harness) -> None:
    def fail(request, exchange) -> None:
        raise RuntimeError("a bug")

    harness.broker.add_handlers({HeartbeatRequest.api_key: fail})
    client = await harness.connect()
    with capture_logs() as lines:
        client.send(HeartbeatRequest(group_id="g", generation_id=1, member_id="m"))
        assert await client.is_closed_by_the_broker()
    assert [line["log_level"] for line in lines] == ["error", "warning"]
    assert await serves_others(harness)


async def test_only_the_first_response_to_a_request_is_sent(harness) -> None:
    exchanges = []
    harness.broker.add_handlers({HeartbeatRequest.api_key: lambda request, exchange: exchanges.append(exchange)})
    client = await harness.connect()
    client.send(HeartbeatRequest(group_id="g", generation_id=1, member_id="m"))
    await wait_until(lambda: exchanges)
    response = APIS[HeartbeatRequest.api_key].response(error_code=27)
    exchanges[0].respond(response)
    exchanges[0].respond(response)
    exchanges[0].close_connection("too late")
    assert (await client.receive(HeartbeatRequest.api_key, 4)).error_code == 27
    assert await client.call(VERSIONS)


# Random bytes


def random_requests() -> st.SearchStrategy[bytes]:
    """Headers that may be valid before bodies that are not."""
    keys = st.sampled_from(sorted(APIS)) | st.integers(-1, 80)
    start = st.builds(
        lambda key, version, client: (
            key.to_bytes(2, "big", signed=True) + version.to_bytes(2, "big") + bytes(4) + client
        ),
        keys,
        st.integers(0, 14),
        st.sampled_from([b"\xff\xff", b"\x00\x00", b"\x00\x01x", b"\xff\xff\x00"]),
    )
    body = st.binary(max_size=80)
    framed = st.builds(lambda start, body: (len(start + body)).to_bytes(4, "big") + start + body, start, body)
    return st.lists(framed | st.binary(max_size=20), max_size=6).map(b"".join)


async def test_random_bytes_do_not_affect_other_connections(harness) -> None:
    """Each connection gets responses or is closed, and the next one is served."""
    await harness.create_topic("orders")
    loop = asyncio.get_running_loop()
    host, port = harness.broker.address

    def send(data: bytes, cuts: list[int]) -> None:
        with socket.create_connection((host, port), TIMEOUT_S) as sender:
            places = sorted({0, len(data), *(cut for cut in cuts if cut < len(data))})
            for start, stop in pairwise(places):
                try:
                    sender.sendall(data[start:stop])
                except ConnectionError:
                    break
            with suppress(OSError):  # the broker may have closed the connection already
                sender.shutdown(socket.SHUT_WR)
            with suppress(ConnectionError):
                while sender.recv(65536):
                    pass
        with socket.create_connection((host, port), TIMEOUT_S) as other:
            other.sendall(frame_of(VERSIONS, 4, 5))
            assert other.recv(8)[4:] == (5).to_bytes(4, "big")

    @settings(max_examples=150, suppress_health_check=list(HealthCheck))
    @given(random_requests(), st.lists(st.integers(1, 60), max_size=3))
    def send_random(data: bytes, cuts: list[int]) -> None:
        send(data, cuts)

    with capture_logs() as lines:
        await loop.run_in_executor(None, send_random)
    assert all(line["event"] == "connection closed" for line in lines), "a handler raised an error"
    await wait_until(lambda: not harness.broker._connections)


# Bounds


async def test_the_queue_behind_a_held_request_is_bounded(harness) -> None:
    await harness.create_topic("orders")
    client = await harness.connect()
    client.send(fetch(60_000), 12)
    await wait_until(lambda: harness.broker._connections and next(iter(harness.broker._connections))._current)
    (connection,) = harness.broker._connections
    flood = frame_of(VERSIONS, 4, 1) * 20_000
    writing = asyncio.create_task(write_all(client, flood * 20))
    await wait_until(lambda: not connection._is_reading)
    queued_bytes = connection._requests.waiting_bytes
    assert queued_bytes <= MAX_READ_AHEAD_BYTES + 256 * 1024  # one read of asyncio may come on top
    writing.cancel()


async def write_all(client, data: bytes) -> None:
    client.writer.write(data)
    await client.writer.drain()


async def test_a_client_that_never_reads_gets_no_further_responses_and_is_closed(start_broker) -> None:
    async with start_broker(connections_max_idle_ms="300") as harness:
        for number in range(60):
            await harness.create_topic(f"topic-with-a-long-name-{number}", 100)
        everything = frame_of(MetadataRequest(topics=None), 13, 1) * 2000
        client = await harness.connect()
        client.writer.transport.pause_reading()
        client.writer.write(everything)
        await wait_until(lambda: harness.broker._connections)
        (connection,) = harness.broker._connections
        await wait_until(lambda: not connection._can_write)
        buffered = connection._transport.get_write_buffer_size()
        await wait_until(lambda: not harness.broker._connections)
        assert buffered < 2 * 1024 * 1024
        assert await serves_others(harness)


async def test_an_idle_connection_is_closed_and_one_with_a_held_request_is_not(start_broker) -> None:
    async with start_broker(connections_max_idle_ms="100") as harness:
        await harness.create_topic("orders")
        idle, waiting = await harness.connect(), await harness.connect()
        waiting.send(fetch(400), 12)
        assert await idle.is_closed_by_the_broker()
        assert (await waiting.receive(1, 12)).error_code == 0


async def test_a_client_that_never_completes_its_request_is_closed(start_broker) -> None:
    """It is idle for too long between two bytes; the buffer has only the bytes that were sent."""
    async with start_broker(connections_max_idle_ms="300") as harness:
        client = await harness.connect()
        client.writer.write((50_000_000).to_bytes(4, "big") + b"some")
        await wait_until(lambda: harness.broker._connections)
        (connection,) = harness.broker._connections
        await wait_until(lambda: connection._requests.waiting_bytes == 8)
        assert await client.is_closed_by_the_broker()


async def test_a_lost_connection_ends_its_held_fetch(harness) -> None:
    await harness.create_topic("orders")
    client = await harness.connect()
    client.send(fetch(2**31 - 1), 12)
    log = harness.state.partition_log(harness.state.topics["orders"], 0)
    await wait_until(lambda: log._listeners)
    await client.close()
    await wait_until(lambda: not log._listeners)


async def test_a_lost_connection_frees_the_bytes_of_its_incomplete_request(harness) -> None:
    client = await harness.connect()
    client.writer.write(struct.pack(">i", 100_000) + bytes(50_000))
    await wait_until(lambda: next(iter(harness.broker._connections))._requests.waiting_bytes == 50_004)
    (connection,) = harness.broker._connections
    await client.close()
    await wait_until(lambda: not harness.broker._connections)
    assert connection._requests.waiting_bytes == 0


async def test_a_stopping_broker_closes_connections_with_held_requests(start_broker) -> None:
    async with start_broker() as harness:
        await harness.create_topic("orders")
        client = await harness.connect()
        client.send(fetch(60_000), 12)
        await client.writer.drain()
        await wait_until(lambda: harness.broker._connections)
        await harness.broker.close()
        assert await client.is_closed_by_the_broker()


async def test_a_topic_created_by_metadata_is_durable_when_the_response_comes(harness) -> None:
    client = await harness.connect()
    response = await client.call(MetadataRequest(topics=[MetadataRequestTopic(name="new")]))
    assert response.topics[0].error_code == 0
    assert [record.type async for record in harness.store.read()] == ["topic-created"]
