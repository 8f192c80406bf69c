"""Long responses: encoded in turns, sent in pieces, and refused beyond the limit."""

import asyncio

import pytest
from structlog.testing import capture_logs

from regroup.protocol.codec.codec import codec, encode_in_turns
from regroup.protocol.exceptions import TooLong
from regroup.protocol.frames import decode_response
from regroup.protocol.messages.cluster import ApiVersionsRequest, MetadataRequest
from regroup.protocol.messages.describe import DescribedGroup, DescribedGroupMember, DescribeGroupsResponse
from regroup.protocol.messages.topics import CreatableTopic, CreateTopicsRequest
from regroup.server.net.responses.response_buffer import ResponseBuffer, UnreadBytes
from tests.server.wire_client import wait_until

VERSIONS = ApiVersionsRequest(client_software_name="test", client_software_version="1")
ALL_TOPICS = MetadataRequest(topics=None)


def described_groups(count: int, metadata: bytes = b"") -> DescribeGroupsResponse:
    member = DescribedGroupMember(
        member_id="m", client_id="c", client_host="h", member_metadata=metadata, member_assignment=b""
    )
    group = DescribedGroup(
        group_id="g", group_state="Stable", protocol_type="consumer", protocol_data="range", members=[member]
    )
    return DescribeGroupsResponse(groups=[group] * count)


@pytest.mark.parametrize("version", [0, 4, 5])
def test_a_message_encoded_in_turns_has_the_same_bytes(version: int) -> None:
    message, whole, out = described_groups(300), bytearray(), bytearray()
    codec(DescribeGroupsResponse, version).encode(message, whole)
    pauses = sum(1 for _ in encode_in_turns(message, version, out, 1000, 2**30))
    assert out == whole
    assert len(whole) // 1100 < pauses <= len(whole) // 1000


def test_a_message_that_becomes_too_long_is_given_up_an_element_later() -> None:
    out = bytearray()
    with pytest.raises(TooLong, match="more than 50000 bytes"):
        for _ in encode_in_turns(described_groups(10_000, bytes(20_000)), 4, out, 2**30, 50_000):
            pass
    assert 50_000 < len(out) < 80_000


def test_a_message_without_arrays_may_be_too_long_as_well() -> None:
    with pytest.raises(TooLong):
        list(encode_in_turns(described_groups(1, bytes(1000)), 4, bytearray(), 2**30, 1000))


async def test_a_response_beyond_the_limit_closes_its_connection_with_one_line(harness) -> None:
    harness.broker.max_response_bytes = 10_000
    await harness.create_topic("wide", 1_000)
    client, other = await harness.connect(), await harness.connect()
    with capture_logs() as lines:
        client.send(ALL_TOPICS)
        client.send(VERSIONS)
        assert await client.is_closed_by_the_broker()
    (line,) = lines
    assert "--max-response-bytes" in line["reason"]
    assert (await other.call(VERSIONS)).api_keys


async def test_a_long_response_arrives_whole_and_in_order_when_the_client_reads_at_last(harness) -> None:
    await harness.create_topic("wide", 10_000)
    client = await harness.connect()
    for _ in range(20):
        client.send(ALL_TOPICS)
        client.send(VERSIONS)
    (connection,) = harness.broker._connections
    await wait_until(lambda: not connection._can_write)
    assert connection._transport.get_write_buffer_size() < 1_000_000
    first = await client.frame()
    assert len(decode_response(3, ALL_TOPICS.versions.last, first)[1].topics[0].partitions) == 10_000
    assert (await client.receive(18, 4)).api_keys
    for _ in range(19):
        assert (await client.frame())[4:] == first[4:], "all but the correlation id"
        assert (await client.receive(18, 4)).api_keys


async def test_a_connection_is_closed_behind_the_responses_that_are_ready(harness) -> None:
    await harness.create_topic("wide", 10_000)
    client = await harness.connect()
    for _ in range(5):
        client.send(ALL_TOPICS)
    client.writer.write(b"\xff\xff\xff\xff")  # no length
    for _ in range(5):
        assert (await client.receive(3, ALL_TOPICS.versions.last)).topics
    assert await client.is_closed_by_the_broker()


async def test_work_for_a_client_that_has_disconnected_ends(harness) -> None:
    client, other = await harness.connect(), await harness.connect()
    topics = [CreatableTopic(name=f"t{number}", num_partitions=1, replication_factor=1) for number in range(5_000)]
    client.send(CreateTopicsRequest(topics=topics))
    await wait_until(lambda: harness.state.topics)
    client.writer.transport.abort()
    await wait_until(lambda: len(harness.broker._connections) == 1)
    created = len(harness.state.topics)
    await other.call(VERSIONS)
    await asyncio.sleep(0)
    assert len(harness.state.topics) == created < 5_000


def test_short_responses_are_written_together_and_long_ones_in_pieces() -> None:
    buffer = ResponseBuffer(UnreadBytes(2**20))
    for response in (b"a", b"b", bytearray(1_000_000), b"c"):
        buffer.add(response)
    pieces = []
    while buffer:
        pieces.append(bytes(buffer.next_piece(whole=False)))
    assert b"".join(pieces) == b"ab" + bytes(1_000_000) + b"c"
    assert max(map(len, pieces)) <= 256 * 1024


def test_a_transport_of_messages_gets_whole_responses() -> None:
    buffer = ResponseBuffer(UnreadBytes(2**20))
    buffer.add(b"a")
    buffer.add(bytearray(1_000_000))
    pieces = []
    while buffer:
        pieces.append(len(buffer.next_piece(whole=True)))
    assert pieces == [1, 1_000_000]


async def test_clients_that_read_nothing_fill_no_more_than_the_limit_and_others_are_served(harness) -> None:
    """Each of them asks once for a response of 3 MB, of which its socket takes a part."""
    await harness.create_topic("wide", 100_000)
    harness.broker.unread.max_bytes = 2_000_000
    silent = [await harness.connect() for _ in range(8)]
    with capture_logs() as lines:
        for client in silent:
            client.reader._transport.pause_reading()  # type: ignore[attr-defined]
            client.send(ALL_TOPICS)
        await wait_until(lambda: any("have not read" in str(line) for line in lines))
        other = await harness.connect()
        assert (await other.call(VERSIONS)).api_keys
    assert harness.broker.unread.total_bytes < 6_000_000
    for client in silent:
        client.writer.transport.abort()
    await wait_until(lambda: len(harness.broker._connections) == 1)
    assert harness.broker.unread.total_bytes == 0
