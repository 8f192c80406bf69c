"""A client's connection: any bytes, any cutting, any order, and nothing without bound."""

import asyncio
import socket
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
from regroup.server.net.connection import READ_AHEAD_BYTES
from tests.coordinator.story import behaviour
from tests.server.client import PATIENCE_S

VERSIONS = ApiVersionsRequest(client_software_name="test", client_software_version="1")


def frame_of(request, version: int, correlation_id: int) -> bytes:
    return encode_request(RequestHeader(request.api_key, version, correlation_id, "test"), request)


def fetch(max_wait_ms: int, partition: int = 0, offset: int = 0) -> FetchRequest:
    wanted = FetchPartition(partition=partition, fetch_offset=offset, partition_max_bytes=1000)
    return FetchRequest(max_wait_ms=max_wait_ms, min_bytes=1, topics=[FetchTopic(topic="orders", partitions=[wanted])])


def produce(batch: bytes, *, acks: int = 1, topic: str = "orders") -> ProduceRequest:
    data = TopicProduceData(name=topic, partition_data=[PartitionProduceData(index=0, records=batch)])
    return ProduceRequest(acks=acks, timeout_ms=100, topic_data=[data])


async def lives(served) -> bool:
    """A newcomer is served as if nothing had happened."""
    client = await served.connect()
    return bool((await client.call(VERSIONS)).api_keys)


# Order


async def test_requests_that_come_together_are_answered_together_and_in_order(served) -> None:
    client = await served.connect()
    sent = [client.send(VERSIONS) for _ in range(100)]
    answered = [decode_response(18, 4, await client.frame())[0] for _ in sent]
    assert answered == sent


async def test_a_request_cut_into_single_bytes_is_still_one_request(served) -> None:
    client = await served.connect()
    for byte in frame_of(VERSIONS, 4, 7):
        client.writer.write(bytes([byte]))
        await client.writer.drain()
        await asyncio.sleep(0)
    assert decode_response(18, 4, await client.frame())[0] == 7


async def test_a_request_that_waits_holds_up_all_behind_it(served, a_batch) -> None:
    await served.topic("orders")
    client, other = await served.connect(), await served.connect()
    first, second = client.send(fetch(60_000), 12), client.send(VERSIONS)
    await other.call(VERSIONS)  # by now the broker has read what the first one sent
    assert not client.reader._buffer
    await other.call(produce(a_batch(b"hello")), 9)
    correlation_id, response = decode_response(1, 12, await client.frame())
    assert correlation_id == first
    assert response.responses[0].partitions[0].records
    assert decode_response(18, 4, await client.frame())[0] == second


async def test_a_produce_without_acknowledgement_is_written_and_not_answered(served, a_batch) -> None:
    await served.topic("orders")
    client = await served.connect()
    client.send(produce(a_batch(b"hello"), acks=0), 9)
    next_one = client.send(fetch(60_000), 12)  # waits until the record's offset is durably reserved
    correlation_id, response = decode_response(1, 12, await client.frame())
    assert correlation_id == next_one
    assert response.responses[0].partitions[0].high_watermark == 1


async def test_a_produce_without_acknowledgement_that_fails_closes_the_connection(served, a_batch) -> None:
    client = await served.connect()
    client.send(produce(a_batch(b"hello"), acks=0, topic="unknown"), 9)
    assert await client.is_closed_by_the_broker()


# What cannot be answered


@behaviour("validation.api-versions.unsupported-version")
async def test_an_unknown_version_of_api_versions_is_answered_in_the_oldest_form(served) -> None:
    client = await served.connect()
    client.writer.write(bytes.fromhex("0000000d 0012 0063 00000009 0001 78 0000"))
    correlation_id, response = decode_response(18, 0, await client.frame())
    rows = [(row.api_key, row.min_version, row.max_version) for row in response.api_keys]
    assert (correlation_id, response.error_code, rows) == (9, 35, [(18, 0, 4)])
    assert await client.call(VERSIONS)  # the client steps down on the same connection


@pytest.mark.parametrize(
    ("what", "data"),
    [
        ("an unknown API", bytes.fromhex("0000000a 7fff 0000 00000001 ffff")),
        ("an unknown version of Metadata", bytes.fromhex("0000000a 0003 7fff 00000001 ffff")),
        ("an API that is known and has no handler here", frame_of(HeartbeatRequest(
            group_id="g", generation_id=1, member_id="m"), 4, 1)),
        ("a negative length", b"\xff\xff\xff\xff"),
        ("a length of two gigabytes", b"\x7f\xff\xff\xff"),
        ("a length just above the limit", (100 * 1024 * 1024 + 1).to_bytes(4, "big")),
        ("a frame without a header", bytes(4)),
        ("a truncated request", bytes.fromhex("0000000c 0003 0001 00000001 ffff 0000")),
        ("an array that claims a billion entries", bytes.fromhex("0000000e 0003 0001 00000001 ffff 3b9aca00")),
        ("a client id that is no text", bytes.fromhex("0000000b 0012 0000 00000001 0001 ff")),
    ],
)  # fmt: skip
async def test_what_makes_no_sense_closes_its_connection_with_one_line(served, what: str, data: bytes) -> None:
    client = await served.connect()
    with capture_logs() as lines:
        client.writer.write(data)
        assert await client.is_closed_by_the_broker()
    assert [line["event"] for line in lines] == ["connection closed"], what
    assert lines[0]["reason"]
    assert await lives(served)


async def test_bytes_behind_a_request_are_passed_over(served) -> None:
    """librdkafka sends three too many when it asks for all topics, and Kafka does not mind."""
    client = await served.connect()
    client.writer.write(bytes.fromhex("00000018 0003 000d 00000003 0007 72646b61666b61 00 00000000 01 00 00"))
    _, response = decode_response(3, 13, await client.frame())
    assert [broker.node_id for broker in response.brokers] == [0]


async def test_requests_before_the_nonsense_are_answered_first(served) -> None:
    client = await served.connect()
    client.writer.write(frame_of(VERSIONS, 4, 1) + frame_of(VERSIONS, 4, 2) + b"\xff\xff\xff\xff")
    assert [decode_response(18, 4, await client.frame())[0] for _ in range(2)] == [1, 2]
    assert await client.is_closed_by_the_broker()


async def test_a_handler_that_fails_costs_one_connection(served) -> None:
    def fail(exchange) -> None:
        raise RuntimeError("a fault of ours")

    served.broker.serve({HeartbeatRequest.api_key: fail})
    client = await served.connect()
    with capture_logs() as lines:
        client.send(HeartbeatRequest(group_id="g", generation_id=1, member_id="m"))
        assert await client.is_closed_by_the_broker()
    assert [line["log_level"] for line in lines] == ["error", "warning"]
    assert await lives(served)


async def test_only_the_first_answer_to_a_request_counts(served) -> None:
    exchanges = []
    served.broker.serve({HeartbeatRequest.api_key: exchanges.append})
    client = await served.connect()
    client.send(HeartbeatRequest(group_id="g", generation_id=1, member_id="m"))
    await served.until(lambda: exchanges)
    answer = APIS[HeartbeatRequest.api_key].response(error_code=27)
    exchanges[0].reply(answer)
    exchanges[0].reply(answer)
    exchanges[0].hang_up("too late")
    assert (await client.receive(HeartbeatRequest.api_key, 4)).error_code == 27
    assert await client.call(VERSIONS)


# Any bytes


def any_request_bytes() -> st.SearchStrategy[bytes]:
    """A header that may be right before a body that is not."""
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


async def test_any_bytes_leave_the_broker_alive(served) -> None:
    """Whatever comes, the connection is answered or closed, and the next one is served."""
    await served.topic("orders")
    loop = asyncio.get_running_loop()
    host, port = served.broker.address

    def throw(data: bytes, cuts: list[int]) -> None:
        with socket.create_connection((host, port), PATIENCE_S) as thrower:
            places = sorted({0, len(data), *(cut for cut in cuts if cut < len(data))})
            for start, stop in pairwise(places):
                try:
                    thrower.sendall(data[start:stop])
                except ConnectionError:
                    break
            with suppress(OSError):  # the broker may have hung up already
                thrower.shutdown(socket.SHUT_WR)
            with suppress(ConnectionError):
                while thrower.recv(65536):
                    pass
        with socket.create_connection((host, port), PATIENCE_S) as newcomer:
            newcomer.sendall(frame_of(VERSIONS, 4, 5))
            assert newcomer.recv(8)[4:] == (5).to_bytes(4, "big")

    @settings(max_examples=150, suppress_health_check=list(HealthCheck))
    @given(any_request_bytes(), st.lists(st.integers(1, 60), max_size=3))
    def throw_anything(data: bytes, cuts: list[int]) -> None:
        throw(data, cuts)

    with capture_logs() as lines:
        await loop.run_in_executor(None, throw_anything)
    assert all(line["event"] == "connection closed" for line in lines), "a request was not refused but failed"
    await served.until(lambda: not served.broker._connections)


# Bounds


async def test_what_waits_behind_a_parked_request_is_bounded(served) -> None:
    await served.topic("orders")
    client = await served.connect()
    client.send(fetch(60_000), 12)
    await served.until(lambda: served.broker._connections and next(iter(served.broker._connections))._current)
    (connection,) = served.broker._connections
    flood = frame_of(VERSIONS, 4, 1) * 20_000
    writing = asyncio.create_task(write_all(client, flood * 20))
    await served.until(lambda: not connection._is_reading)
    waiting = connection._waiting_bytes + connection._reader.held_bytes
    assert waiting <= READ_AHEAD_BYTES + 256 * 1024  # one read of asyncio may come on top
    writing.cancel()


async def write_all(client, data: bytes) -> None:
    client.writer.write(data)
    await client.writer.drain()


async def test_a_client_that_never_reads_is_not_answered_further_and_then_closed(serve) -> None:
    async with serve(connections_max_idle_ms="300") as served:
        for number in range(60):
            await served.topic(f"topic-with-a-long-name-{number}", 100)
        everything = frame_of(MetadataRequest(topics=None), 13, 1) * 2000
        client = await served.connect()
        client.writer.transport.pause_reading()
        client.writer.write(everything)
        await served.until(lambda: served.broker._connections)
        (connection,) = served.broker._connections
        await served.until(lambda: not connection._can_write)
        buffered = connection._transport.get_write_buffer_size()
        await served.until(lambda: not served.broker._connections)
        assert buffered < 2 * 1024 * 1024
        assert await lives(served)


async def test_an_idle_connection_is_closed_and_one_that_waits_for_its_answer_is_not(serve) -> None:
    async with serve(connections_max_idle_ms="100") as served:
        await served.topic("orders")
        idle, waiting = await served.connect(), await served.connect()
        waiting.send(fetch(400), 12)
        assert await idle.is_closed_by_the_broker()
        assert (await waiting.receive(1, 12)).error_code == 0


async def test_a_client_that_sends_a_request_drop_by_drop_forever_is_closed(serve) -> None:
    """It is quiet for too long between two drops; memory holds no more than what came."""
    async with serve(connections_max_idle_ms="100") as served:
        client = await served.connect()
        client.writer.write((50_000_000).to_bytes(4, "big") + b"drop")
        await served.until(lambda: served.broker._connections)
        (connection,) = served.broker._connections
        assert await client.is_closed_by_the_broker()
        assert connection._reader.held_bytes == 8


async def test_whoever_leaves_while_waiting_leaves_nothing_behind(served) -> None:
    await served.topic("orders")
    client = await served.connect()
    client.send(fetch(2**31 - 1), 12)
    log = served.cluster.partition(served.cluster.topics.by_name["orders"], 0)
    await served.until(lambda: log._watchers)
    await client.close()
    await served.until(lambda: not log._watchers)


async def test_a_broker_that_stops_lets_go_of_clients_that_wait(serve) -> None:
    async with serve() as served:
        await served.topic("orders")
        client = await served.connect()
        client.send(fetch(60_000), 12)
        await client.writer.drain()
        await served.until(lambda: served.broker._connections)
        await served.broker.close()
        assert await client.is_closed_by_the_broker()


async def test_a_topic_that_was_asked_for_by_name_is_there_when_the_answer_comes(served) -> None:
    client = await served.connect()
    response = await client.call(MetadataRequest(topics=[MetadataRequestTopic(name="new")]))
    assert response.topics[0].error_code == 0
    assert [record.type async for record in served.store.read()] == ["topic-created"]
