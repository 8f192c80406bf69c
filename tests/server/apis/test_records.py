"""Records over the wire: produce, fetch, list offsets, and restarts."""

import asyncio
from collections.abc import Sequence

import pytest
from crc32c import crc32c
from structlog.testing import capture_logs

from regroup.protocol.errors import ErrorCode as E
from regroup.protocol.messages.cluster import MetadataRequest, MetadataRequestTopic
from regroup.protocol.messages.records import (
    FetchPartition,
    FetchRequest,
    FetchTopic,
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
    PartitionData,
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    TopicProduceData,
)
from regroup.protocol.messages.topics import (
    CreatePartitionsRequest,
    CreatePartitionsTopic,
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
    DeleteTopicsRequest,
)
from regroup.protocol.messages.transactions import InitProducerIdRequest
from regroup.protocol.record_batch import TRANSACTIONAL
from regroup.server.cluster.events import BROKER_START
from regroup.server.cluster.state import load_cluster_state
from regroup.storage.errors import StoreFull
from regroup.storage.memory import MemoryStore
from regroup.storage.records import NewRecord
from tests.fetched_records import read_all_records
from tests.server.validated_records import validated
from tests.server.wire_client import wait_until


async def produce(
    client, records: bytes | None, *, partition: int = 0, version: int = 9, **more
) -> PartitionProduceResponse:
    request = produce_request(records, partition=partition, **more)
    return (await client.call(request, version)).responses[0].partition_responses[0]


def produce_request(
    records: bytes | None, *, partition: int = 0, topic: str = "orders", acks: int = -1
) -> ProduceRequest:
    data = PartitionProduceData(index=partition, records=records)
    topic_data = [TopicProduceData(name=topic, partition_data=[data])]
    return ProduceRequest(acks=acks, timeout_ms=100, topic_data=topic_data)


def fetching(offset: int, *, partitions: int = 1, **more) -> FetchRequest:
    limit, epoch = more.pop("partition_max_bytes", 2**20), more.pop("epoch", -1)
    wanted = [
        FetchPartition(partition=index, fetch_offset=offset, partition_max_bytes=limit, current_leader_epoch=epoch)
        for index in range(partitions)
    ]
    topics = [FetchTopic(topic="orders", partitions=wanted)]
    return FetchRequest(**({"max_wait_ms": 0, "min_bytes": 1, "topics": topics} | more))


async def fetch(client, offset: int, **more) -> PartitionData:
    return (await client.call(fetching(offset, **more), 12)).responses[0].partitions[0]


async def list_offset(client, timestamp: int, version: int = 9, **more):
    wanted = ListOffsetsPartition(partition_index=0, timestamp=timestamp)
    request = ListOffsetsRequest(topics=[ListOffsetsTopic(name="orders", partitions=[wanted])], **more)
    return (await client.call(request, version)).topics[0].partitions[0]


@pytest.fixture
async def client(harness):
    await harness.create_topic("orders", 2)
    return await harness.connect()


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


# Fetching


async def test_a_fetch_waits_until_there_are_min_bytes(harness, client, make_batch) -> None:
    size = len(make_batch(b"hello"))
    reader = await harness.connect()
    reader.send(fetching(0, max_wait_ms=60_000, min_bytes=2 * size), 12)
    await produce(client, make_batch(b"hello"))
    assert not reader.reader._buffer
    await produce(client, make_batch(b"again"))
    response = await reader.receive(1, 12)
    assert len(response.responses[0].partitions[0].records) == 2 * size


async def test_a_fetch_gets_its_response_after_max_wait(client) -> None:
    started = asyncio.get_running_loop().time()
    response = await client.call(fetching(0, max_wait_ms=100), 12)
    assert response.responses[0].partitions[0].records == b""
    assert asyncio.get_running_loop().time() - started >= 0.09


async def test_a_held_fetch_gets_an_error_when_its_topic_is_deleted(harness, client) -> None:
    client.send(fetching(0, max_wait_ms=60_000), 12)
    topic = harness.state.topics["orders"]
    log = harness.state.partition_log(topic, 0)
    await wait_until(lambda: log._listeners)
    other = await harness.connect()
    await other.call(DeleteTopicsRequest(topic_names=["orders"], timeout_ms=1), 5)
    response = await client.receive(1, 12)
    assert response.responses[0].partitions[0].error_code == E.UNKNOWN_TOPIC_OR_PARTITION


@pytest.mark.parametrize("offset", [-1, 2, 10**12])
async def test_an_offset_outside_the_log_is_out_of_range(client, make_batch, offset: int) -> None:
    await produce(client, make_batch(b"hello"))
    response = await client.call(fetching(offset, max_wait_ms=60_000), 12)  # an error is not held
    assert response.responses[0].partitions[0].error_code == E.OFFSET_OUT_OF_RANGE


async def test_a_fetch_returns_no_more_than_its_limits(client, make_batch) -> None:
    size = len(make_batch(b"hello"))
    for partition in (0, 1):
        for _ in range(3):
            await produce(client, make_batch(b"hello"), partition=partition)

    async def sizes(**more) -> list[int]:
        response = await client.call(fetching(0, partitions=2, **more), 12)
        return [len(each.records) // size for each in response.responses[0].partitions]

    assert await sizes() == [3, 3]
    assert await sizes(partition_max_bytes=2 * size) == [2, 2]
    assert await sizes(max_bytes=4 * size) == [3, 1]
    assert await sizes(max_bytes=1) == [1, 0]


async def test_an_unknown_fetch_session_is_not_found(client) -> None:
    response = await client.call(fetching(0, session_id=5, session_epoch=1), 12)
    assert (response.error_code, response.session_id) == (E.FETCH_SESSION_ID_NOT_FOUND, 0)


@pytest.mark.parametrize(("epoch", "code"), [(-1, 0), (0, 0), (1, E.UNKNOWN_LEADER_EPOCH)])
async def test_a_fetch_with_another_leader_epoch_is_refused(client, epoch: int, code: int) -> None:
    assert (await fetch(client, 0, epoch=epoch)).error_code == code


async def test_a_fetch_by_an_unknown_topic_id_gets_its_own_code(client) -> None:
    wanted = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1)
    topics = [FetchTopic(topic_id=bytes(15) + b"\xff", partitions=[wanted])]
    response = await client.call(FetchRequest(max_wait_ms=0, min_bytes=1, topics=topics))
    assert response.responses[0].partitions[0].error_code == E.UNKNOWN_TOPIC_ID


async def test_a_fetch_version_before_record_batches_is_refused(client, make_batch) -> None:
    await produce(client, make_batch(b"hello"))
    response = await client.call(fetching(0), 3)
    assert response.responses[0].partitions[0].error_code == E.UNSUPPORTED_VERSION


async def test_read_committed_does_not_return_an_open_transaction(harness, client, make_batch) -> None:
    await produce(client, make_batch(b"plain"))
    header = {"producer_id": 1, "producer_epoch": 0, "base_sequence": 0, "attributes": TRANSACTIONAL}
    batch = validated(make_batch(b"open", **header), produce_version=9, max_bytes=1000)
    harness.state.append_batches(harness.state.topics["orders"], 0, batch)
    assert len(list(read_all_records((await fetch(client, 0)).records))) == 2
    committed = await fetch(client, 0, isolation_level=1)
    assert [record.value for _, record in read_all_records(committed.records)] == [b"plain"]
    assert (committed.last_stable_offset, committed.high_watermark) == (1, 2)
    assert (await list_offset(client, -1, isolation_level=1)).offset == 1
    harness.state.partition_log(harness.state.topics["orders"], 0).append_marker(1, 0, committed=False, at_ms=1)
    ended = await fetch(client, 0, isolation_level=1)
    assert [(each.producer_id, each.first_offset) for each in ended.aborted_transactions] == [(1, 1)]


# Offsets


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


# Producers


async def test_producer_ids_are_unique_also_after_a_crash(start_broker) -> None:
    store, seen = MemoryStore(), []
    for _ in range(2):
        async with start_broker(store, crash=True) as harness:
            client = await harness.connect()
            for _ in range(3):
                response = await client.call(InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1))
                assert (response.error_code, response.producer_epoch) == (0, 0)
                seen.append(response.producer_id)
    assert len(set(seen)) == 6


async def test_initializing_a_transactional_producer_again_fences_the_first(client) -> None:
    request = InitProducerIdRequest(transactional_id="t", transaction_timeout_ms=1000)
    first, second = await client.call(request), await client.call(request)
    assert first.producer_id == second.producer_id
    assert (first.producer_epoch, second.producer_epoch) == (0, 1)
    bumping = InitProducerIdRequest(
        transactional_id="t", transaction_timeout_ms=1000, producer_id=first.producer_id, producer_epoch=0
    )
    assert (await client.call(bumping)).error_code == E.PRODUCER_FENCED


# Restarts


@pytest.mark.parametrize("crash", [True, False])
async def test_after_a_restart_no_offset_is_used_twice_and_old_ones_stay_in_range(
    start_broker, make_batch, crash
) -> None:
    store = MemoryStore()
    async with start_broker(store, crash=crash) as harness:
        await harness.create_topic("orders")
        topic_id = harness.state.topics["orders"].topic_id
        client = await harness.connect()
        for _ in range(3):
            await produce(client, make_batch(b"lost"))
    async with start_broker(store) as harness:
        assert harness.state.topics["orders"].topic_id == topic_id
        client = await harness.connect()
        end = (await list_offset(client, -1)).offset
        assert end == 3 if not crash else end > 3
        assert (await fetch(client, 2)).error_code == 0
        assert list(read_all_records((await fetch(client, 0)).records)) == []
        assert (await produce(client, make_batch(b"stored"))).base_offset == end
        stored = await fetch(client, end)
        assert [(at, record.value) for at, record in read_all_records(stored.records)] == [(end, b"stored")]


async def test_after_a_restart_the_end_of_the_older_leader_epoch_is_known(start_broker, make_batch) -> None:
    store = MemoryStore()
    async with start_broker(store) as harness:
        await harness.create_topic("orders")
        await produce(await harness.connect(), make_batch(b"lost"))
    async with start_broker(store) as harness:
        client = await harness.connect()
        wanted = OffsetForLeaderPartition(partition=0, current_leader_epoch=1, leader_epoch=0)
        topics = [OffsetForLeaderTopic(topic="orders", partitions=[wanted])]
        (result,) = (await client.call(OffsetForLeaderEpochRequest(replica_id=-1, topics=topics))).topics[0].partitions
        assert (result.error_code, result.leader_epoch, result.end_offset) == (0, 0, 1)
        assert (await fetch(client, 0, epoch=0)).error_code == E.FENCED_LEADER_EPOCH


async def test_the_cluster_keeps_its_id(start_broker) -> None:
    store, ids = MemoryStore(), []
    for _ in range(2):
        async with start_broker(store) as harness:
            ids.append(harness.state.cluster_id)
    assert ids[0] == ids[1]
    assert ids[0].startswith("regroup-")
    assert len(ids[0].removeprefix("regroup-")) == 22


async def test_topics_are_loaded_from_a_snapshot_and_the_events_after_it(start_broker) -> None:
    store = MemoryStore()
    async with start_broker(store) as harness:
        await harness.create_topic("before", 2)
        snapshot = harness.state.take_snapshot()
        await store.save_snapshots(store.last_position, [snapshot])
        await store.trim(store.last_position + 1)
        await harness.create_topic("after", 3)
    async with start_broker(store) as harness:
        assert {topic.name: topic.partitions for topic in harness.state.topics.values()} == {
            "before": 2,
            "after": 3,
        }
        await harness.create_topic("later")


async def test_an_event_has_its_request_as_cause(harness, client) -> None:
    request = CreatePartitionsRequest(topics=[CreatePartitionsTopic(name="orders", count=3)], timeout_ms=1)
    await client.call(request)
    *_, record = [record async for record in harness.store.read()]
    assert record.cause == (b'{"api":"CreatePartitions","connection":"0-1@1","correlation_id":1,"client_id":"test"}')


class FillingStore(MemoryStore):
    """Has no room while `is_full`."""

    is_full = False

    async def append(self, records: Sequence[NewRecord]) -> int:
        if self.is_full:
            raise StoreFull("no room")
        return await super().append(records)


async def test_events_that_did_not_become_durable_are_dropped_and_got_no_response(start_broker, make_batch) -> None:
    store = FillingStore()
    async with start_broker(store) as harness:
        await harness.create_topic("orders")
        store.is_full = True
        writer, creator = await harness.connect(), await harness.connect()
        writer.send(produce_request(make_batch(b"lost")), 9)
        creator.send(MetadataRequest(topics=[MetadataRequestTopic(name="phantom")]))
        assert await writer.is_closed_by_the_broker()
        assert await creator.is_closed_by_the_broker()
        with capture_logs() as lines:
            later = await harness.connect()
            later.send(MetadataRequest(topics=[MetadataRequestTopic(name="later")]))
            assert await later.is_closed_by_the_broker()
        assert [line["log_level"] for line in lines] == ["warning"]
        store.is_full = False
        harness.journal.reopen(store)
        harness.state.reload(
            await load_cluster_state(store, harness.state.new_uuid), await store.next_coordinator_epoch()
        )
        client = await harness.connect()
        assert list(harness.state.topics) == ["orders"]
        assert (await fetch(client, 0)).high_watermark == 0
        assert (await produce(client, make_batch(b"stored"))).base_offset == 0
        stored = await fetch(client, 0)
        assert [record.value for _, record in read_all_records(stored.records)] == [b"stored"]
