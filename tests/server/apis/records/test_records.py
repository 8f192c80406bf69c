"""Records over the wire: produced, refused, deleted, and found by their offsets and timestamps."""

import pytest
from crc32c import crc32c

from regroup.protocol.errors import ErrorCode as E
from regroup.protocol.internal_topics import OFFSETS_TOPIC
from regroup.protocol.messages.records import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from regroup.protocol.messages.topics import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from regroup.protocol.messages.transactions import InitProducerIdRequest
from regroup.server.cluster.events import BROKER_START
from tests.fetched_records import read_all_records
from tests.server.apis.records.record_requests import fetch, list_offset, produce


async def test_produced_records_are_fetched(client, make_batch) -> None:
    assert (await produce(client, make_batch(b"a", b"b"))).base_offset == 0
    assert (await produce(client, make_batch(b"c"))).base_offset == 2
    found = await fetch(client, 1)
    assert [(at, record.value) for at, record in read_all_records(found.records)] == [(0, b"a"), (1, b"b"), (2, b"c")]
    assert (found.high_watermark, found.last_stable_offset, found.log_start_offset) == (3, 3, 0)


@pytest.mark.parametrize(
    ("code", "given"),
    [
        (E.UNKNOWN_TOPIC_OR_PARTITION, {"partition": 2}),
        (E.UNKNOWN_TOPIC_OR_PARTITION, {"partition": -1}),
        (E.UNKNOWN_TOPIC_OR_PARTITION, {"topic": "unknown"}),
        (E.INVALID_TOPIC_EXCEPTION, {"topic": "__consumer_offsets"}),
        (E.INVALID_REQUIRED_ACKS, {"acks": 2}),
        (E.INVALID_RECORD, {"records": None}),
        (E.INVALID_RECORD, {"times": 2}),
        (E.CORRUPT_MESSAGE, {"records": b"no batch at all, only text"}),
        (E.MESSAGE_TOO_LARGE, {"value": bytes(2_000_000)}),
        (E.UNSUPPORTED_COMPRESSION_TYPE, {"version": 6, "compression": 4}),
        (E.INVALID_RECORD, {"version": 2}),
    ],
)
async def test_records_are_refused_with_kafkas_code(harness, client, make_batch, code: int, given: dict) -> None:
    await harness.create_topic("__consumer_offsets", 50)
    batch = bytearray(make_batch(given.pop("value", b"hello")))
    if compression := given.pop("compression", 0):
        batch = marked_as_compressed(batch, compression)
    records = given.pop("records", bytes(batch) * given.pop("times", 1))
    answer = await produce(client, records, **given)
    assert answer.error_code == code
    assert answer.base_offset == -1
    assert (await fetch(client, 0)).high_watermark == 0


def marked_as_compressed(batch: bytearray, compression: int) -> bytearray:
    """The same bytes, marked as compressed, with a matching checksum."""
    batch[22] |= compression
    batch[17:21] = crc32c(batch[21:]).to_bytes(4, "big")
    return batch


async def test_a_topic_may_allow_larger_batches_than_the_broker(start_broker, make_batch) -> None:
    async with start_broker(message_max_bytes="100") as harness:
        harness.state.create_topic("orders", 1, {"max.message.bytes": "10000"}, cause=BROKER_START)
        await harness.create_topic("small")
        client = await harness.connect()
        assert (await produce(client, make_batch(bytes(500)))).error_code == 0
        assert (await produce(client, make_batch(bytes(500)), topic="small")).error_code == E.MESSAGE_TOO_LARGE


async def test_offsets_are_listed_by_name_and_by_timestamp(client, make_batch) -> None:
    for at_ms in (1000, 3000, 2000):
        await produce(client, make_batch(b"hello", at_ms=at_ms))
    listed = {name: await list_offset(client, name) for name in (-1, -2, -3, -4, -5, 0, 1001, 3001)}
    named = {-1: (3, -1), -2: (0, -1), -3: (1, 3000), -4: (0, -1), -5: (-1, -1)}
    times = {0: (0, 1000), 1001: (1, 3000), 3001: (-1, -1)}
    assert {name: (each.offset, each.timestamp) for name, each in listed.items()} == named | times


@pytest.mark.parametrize(("timestamp", "version"), [(-3, 6), (-4, 7), (-5, 8), (-6, 10), (-7, 11)])
async def test_a_name_that_is_newer_than_the_version_is_refused(client, timestamp: int, version: int) -> None:
    assert (await list_offset(client, timestamp, version)).error_code == E.UNSUPPORTED_VERSION


async def test_list_offsets_v0_returns_several_offsets(client, make_batch) -> None:
    await produce(client, make_batch(b"hello"))
    wanted = ListOffsetsPartition(partition_index=0, timestamp=-1, max_num_offsets=5)
    request = ListOffsetsRequest(topics=[ListOffsetsTopic(name="orders", partitions=[wanted])])
    assert (await client.call(request, 0)).topics[0].partitions[0].old_style_offsets == [1, 0]


@pytest.mark.parametrize(("offset", "low_watermark", "code"), [(1, 1, 0), (-1, 2, 0), (3, -1, 1), (-2, -1, 1)])
async def test_records_before_an_offset_are_deleted(
    client, make_batch, offset: int, low_watermark: int, code: int
) -> None:
    await produce(client, make_batch(b"a", b"b"))
    partition = DeleteRecordsPartition(partition_index=0, offset=offset)
    request = DeleteRecordsRequest(topics=[DeleteRecordsTopic(name="orders", partitions=[partition])], timeout_ms=1)
    (deleted,) = (await client.call(request)).topics[0].partitions
    assert (deleted.low_watermark, deleted.error_code) == (low_watermark, code)
    assert (await list_offset(client, -2)).offset == max(low_watermark, 0)


async def test_records_of_an_internal_topic_cannot_be_deleted(client, harness) -> None:
    await harness.create_topic(OFFSETS_TOPIC)
    partitions = [DeleteRecordsPartition(partition_index=index, offset=-1) for index in (0, 1)]
    topics = [DeleteRecordsTopic(name=OFFSETS_TOPIC, partitions=partitions)]
    deleted = (await client.call(DeleteRecordsRequest(topics=topics, timeout_ms=1))).topics[0].partitions
    assert [each.error_code for each in deleted] == [E.INVALID_TOPIC_EXCEPTION, E.UNKNOWN_TOPIC_OR_PARTITION]


async def test_initializing_a_transactional_producer_again_fences_the_first(client) -> None:
    request = InitProducerIdRequest(transactional_id="t", transaction_timeout_ms=1000)
    first, second = await client.call(request), await client.call(request)
    assert first.producer_id == second.producer_id
    assert (first.producer_epoch, second.producer_epoch) == (0, 1)
    bumping = InitProducerIdRequest(
        transactional_id="t", transaction_timeout_ms=1000, producer_id=first.producer_id, producer_epoch=0
    )
    assert (await client.call(bumping)).error_code == E.PRODUCER_FENCED
