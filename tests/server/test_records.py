"""Records over the wire: produce, fetch, list offsets, and what a restart leaves of them."""

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
from regroup.protocol.record_batch import TRANSACTIONAL, read_all
from regroup.server.cluster.causes import START
from regroup.server.cluster.state import load
from regroup.server.log.record_validation import check_records
from regroup.storage.errors import StoreIsFull
from regroup.storage.memory import MemoryStore
from regroup.storage.records import NewRecord


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


async def place(client, timestamp: int, version: int = 9, **more):
    wanted = ListOffsetsPartition(partition_index=0, timestamp=timestamp)
    request = ListOffsetsRequest(topics=[ListOffsetsTopic(name="orders", partitions=[wanted])], **more)
    return (await client.call(request, version)).topics[0].partitions[0]


@pytest.fixture
async def client(served):
    await served.topic("orders", 2)
    return await served.connect()


async def test_what_was_produced_is_fetched(client, a_batch) -> None:
    assert (await produce(client, a_batch(b"a", b"b"))).base_offset == 0
    assert (await produce(client, a_batch(b"c"))).base_offset == 2
    found = await fetch(client, 1)
    assert [(at, record.value) for at, record in read_all(found.records)] == [(0, b"a"), (1, b"b"), (2, b"c")]
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
async def test_records_are_refused_with_kafkas_code(served, client, a_batch, code: int, given: dict) -> None:
    await served.topic("__consumer_offsets", 50)
    batch = bytearray(a_batch(given.pop("value", b"hello")))
    if compression := given.pop("compression", 0):
        batch = recompressed(batch, compression)
    records = given.pop("records", bytes(batch) * given.pop("times", 1))
    answer = await produce(client, records, **given)
    assert answer.error_code == code
    assert answer.base_offset == -1
    assert (await fetch(client, 0)).high_watermark == 0


def recompressed(batch: bytearray, compression: int) -> bytearray:
    """The same bytes, said to be compressed, with a checksum to match."""
    batch[22] |= compression
    batch[17:21] = crc32c(batch[21:]).to_bytes(4, "big")
    return batch


async def test_a_topic_may_take_larger_batches_than_the_broker_by_its_own_setting(serve, a_batch) -> None:
    async with serve(message_max_bytes="100") as served:
        served.cluster.create_topic("orders", 1, {"max.message.bytes": "10000"}, cause=START)
        await served.topic("small")
        client = await served.connect()
        assert (await produce(client, a_batch(bytes(500)))).error_code == 0
        assert (await produce(client, a_batch(bytes(500)), topic="small")).error_code == E.MESSAGE_TOO_LARGE


# Fetching


async def test_a_fetch_waits_until_there_is_enough(served, client, a_batch) -> None:
    size = len(a_batch(b"hello"))
    reader = await served.connect()
    reader.send(fetching(0, max_wait_ms=60_000, min_bytes=2 * size), 12)
    await produce(client, a_batch(b"hello"))
    assert not reader.reader._buffer
    await produce(client, a_batch(b"again"))
    response = await reader.receive(1, 12)
    assert len(response.responses[0].partitions[0].records) == 2 * size


async def test_a_fetch_that_waited_long_enough_is_answered_with_what_there_is(client) -> None:
    started = asyncio.get_running_loop().time()
    response = await client.call(fetching(0, max_wait_ms=100), 12)
    assert response.responses[0].partitions[0].records == b""
    assert asyncio.get_running_loop().time() - started >= 0.09


async def test_a_fetch_that_waits_learns_that_its_topic_is_gone(served, client) -> None:
    client.send(fetching(0, max_wait_ms=60_000), 12)
    topic = served.cluster.topics.by_name["orders"]
    log = served.cluster.partition(topic, 0)
    await served.until(lambda: log._watchers)
    other = await served.connect()
    await other.call(DeleteTopicsRequest(topic_names=["orders"], timeout_ms=1), 5)
    response = await client.receive(1, 12)
    assert response.responses[0].partitions[0].error_code == E.UNKNOWN_TOPIC_OR_PARTITION


@pytest.mark.parametrize("offset", [-1, 2, 10**12])
async def test_an_offset_outside_the_log_is_out_of_range(client, a_batch, offset: int) -> None:
    await produce(client, a_batch(b"hello"))
    response = await client.call(fetching(offset, max_wait_ms=60_000), 12)  # an error does not wait
    assert response.responses[0].partitions[0].error_code == E.OFFSET_OUT_OF_RANGE


async def test_a_fetch_gives_no_more_than_was_asked_for(client, a_batch) -> None:
    size = len(a_batch(b"hello"))
    for partition in (0, 1):
        for _ in range(3):
            await produce(client, a_batch(b"hello"), partition=partition)

    async def sizes(**more) -> list[int]:
        response = await client.call(fetching(0, partitions=2, **more), 12)
        return [len(each.records) // size for each in response.responses[0].partitions]

    assert await sizes() == [3, 3]
    assert await sizes(partition_max_bytes=2 * size) == [2, 2]
    assert await sizes(max_bytes=4 * size) == [3, 1]
    assert await sizes(max_bytes=1) == [1, 0]


async def test_a_fetch_session_that_was_never_begun_is_not_found(client) -> None:
    response = await client.call(fetching(0, session_id=5, session_epoch=1), 12)
    assert (response.error_code, response.session_id) == (E.FETCH_SESSION_ID_NOT_FOUND, 0)


@pytest.mark.parametrize(("epoch", "code"), [(-1, 0), (0, 0), (1, E.UNKNOWN_LEADER_EPOCH)])
async def test_a_fetch_says_which_leader_it_knows(client, epoch: int, code: int) -> None:
    assert (await fetch(client, 0, epoch=epoch)).error_code == code


async def test_a_fetch_by_an_unknown_id_is_answered_with_its_own_code(client) -> None:
    wanted = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1)
    topics = [FetchTopic(topic_id=bytes(15) + b"\xff", partitions=[wanted])]
    response = await client.call(FetchRequest(max_wait_ms=0, min_bytes=1, topics=topics))
    assert response.responses[0].partitions[0].error_code == E.UNKNOWN_TOPIC_ID


async def test_a_fetch_too_old_for_the_records_says_so(client, a_batch) -> None:
    await produce(client, a_batch(b"hello"))
    response = await client.call(fetching(0), 3)
    assert response.responses[0].partitions[0].error_code == E.UNSUPPORTED_VERSION


async def test_readers_of_committed_records_do_not_see_an_open_transaction(served, client, a_batch) -> None:
    await produce(client, a_batch(b"plain"))
    header = {"producer_id": 1, "producer_epoch": 0, "base_sequence": 0, "attributes": TRANSACTIONAL}
    batch = check_records(a_batch(b"open", **header), produce_version=9, max_bytes=1000)
    served.cluster.append(served.cluster.topics.by_name["orders"], 0, batch)
    assert len(list(read_all((await fetch(client, 0)).records))) == 2
    committed = await fetch(client, 0, isolation_level=1)
    assert [record.value for _, record in read_all(committed.records)] == [b"plain"]
    assert (committed.last_stable_offset, committed.high_watermark) == (1, 2)
    assert (await place(client, -1, isolation_level=1)).offset == 1
    served.cluster.partition(served.cluster.topics.by_name["orders"], 0).append_marker(1, 0, committed=False, at_ms=1)
    ended = await fetch(client, 0, isolation_level=1)
    assert [(each.producer_id, each.first_offset) for each in ended.aborted_transactions] == [(1, 1)]


# Where logs begin and end


async def test_offsets_are_listed_by_word_and_by_time(client, a_batch) -> None:
    for at_ms in (1000, 3000, 2000):
        await produce(client, a_batch(b"hello", at_ms=at_ms))
    listed = {word: await place(client, word) for word in (-1, -2, -3, -4, -5, 0, 1001, 3001)}
    words = {-1: (3, -1), -2: (0, -1), -3: (1, 3000), -4: (0, -1), -5: (-1, -1)}
    times = {0: (0, 1000), 1001: (1, 3000), 3001: (-1, -1)}
    assert {word: (each.offset, each.timestamp) for word, each in listed.items()} == words | times


@pytest.mark.parametrize(("timestamp", "version"), [(-3, 6), (-4, 7), (-5, 8), (-6, 10), (-7, 11)])
async def test_a_word_that_is_younger_than_the_version_is_refused(client, timestamp: int, version: int) -> None:
    assert (await place(client, timestamp, version)).error_code == E.UNSUPPORTED_VERSION


async def test_the_oldest_way_to_list_offsets_gives_several(client, a_batch) -> None:
    await produce(client, a_batch(b"hello"))
    wanted = ListOffsetsPartition(partition_index=0, timestamp=-1, max_num_offsets=5)
    request = ListOffsetsRequest(topics=[ListOffsetsTopic(name="orders", partitions=[wanted])])
    assert (await client.call(request, 0)).topics[0].partitions[0].old_style_offsets == [1, 0]


@pytest.mark.parametrize(("offset", "low_watermark", "code"), [(1, 1, 0), (-1, 2, 0), (3, -1, 1), (-2, -1, 1)])
async def test_old_records_can_be_deleted(client, a_batch, offset: int, low_watermark: int, code: int) -> None:
    await produce(client, a_batch(b"a", b"b"))
    partition = DeleteRecordsPartition(partition_index=0, offset=offset)
    request = DeleteRecordsRequest(topics=[DeleteRecordsTopic(name="orders", partitions=[partition])], timeout_ms=1)
    (deleted,) = (await client.call(request)).topics[0].partitions
    assert (deleted.low_watermark, deleted.error_code) == (low_watermark, code)
    assert (await place(client, -2)).offset == max(low_watermark, 0)


# Producers


async def test_no_two_producers_get_the_same_id_not_even_after_a_crash(serve) -> None:
    store, seen = MemoryStore(), []
    for _ in range(2):
        async with serve(store, crash=True) as served:
            client = await served.connect()
            for _ in range(3):
                response = await client.call(InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1))
                assert (response.error_code, response.producer_epoch) == (0, 0)
                seen.append(response.producer_id)
    assert len(set(seen)) == 6


async def test_a_transactional_producer_that_comes_again_fences_its_earlier_self(client) -> None:
    request = InitProducerIdRequest(transactional_id="t", transaction_timeout_ms=1000)
    first, second = await client.call(request), await client.call(request)
    assert first.producer_id == second.producer_id
    assert (first.producer_epoch, second.producer_epoch) == (0, 1)
    bumping = InitProducerIdRequest(
        transactional_id="t", transaction_timeout_ms=1000, producer_id=first.producer_id, producer_epoch=0
    )
    assert (await client.call(bumping)).error_code == E.PRODUCER_FENCED


# A restart


@pytest.mark.parametrize("crash", [True, False])
async def test_after_a_restart_no_offset_is_given_twice_and_old_ones_stay_in_range(serve, a_batch, crash) -> None:
    store = MemoryStore()
    async with serve(store, crash=crash) as served:
        await served.topic("orders")
        topic_id = served.cluster.topics.by_name["orders"].topic_id
        client = await served.connect()
        for _ in range(3):
            await produce(client, a_batch(b"lost"))
    async with serve(store) as served:
        assert served.cluster.topics.by_name["orders"].topic_id == topic_id
        client = await served.connect()
        end = (await place(client, -1)).offset
        assert end == 3 if not crash else end > 3
        assert (await fetch(client, 2)).error_code == 0
        assert list(read_all((await fetch(client, 0)).records)) == []
        assert (await produce(client, a_batch(b"kept"))).base_offset == end
        kept = await fetch(client, end)
        assert [(at, record.value) for at, record in read_all(kept.records)] == [(end, b"kept")]


async def test_after_a_restart_a_reader_learns_where_the_older_leader_ended(serve, a_batch) -> None:
    store = MemoryStore()
    async with serve(store) as served:
        await served.topic("orders")
        await produce(await served.connect(), a_batch(b"lost"))
    async with serve(store) as served:
        client = await served.connect()
        wanted = OffsetForLeaderPartition(partition=0, current_leader_epoch=1, leader_epoch=0)
        topics = [OffsetForLeaderTopic(topic="orders", partitions=[wanted])]
        (result,) = (await client.call(OffsetForLeaderEpochRequest(replica_id=-1, topics=topics))).topics[0].partitions
        assert (result.error_code, result.leader_epoch, result.end_offset) == (0, 0, 1)
        assert (await fetch(client, 0, epoch=0)).error_code == E.FENCED_LEADER_EPOCH


async def test_the_cluster_keeps_its_id(serve) -> None:
    store, ids = MemoryStore(), []
    for _ in range(2):
        async with serve(store) as served:
            ids.append(served.cluster.cluster_id)
    assert ids[0] == ids[1]
    assert len(ids[0]) == 22


async def test_topics_come_back_from_a_snapshot_and_what_followed(serve) -> None:
    store = MemoryStore()
    async with serve(store) as served:
        await served.topic("before", 2)
        snapshot = served.cluster.take_snapshot()
        await store.save_snapshots(store.last_position, [snapshot])
        await store.trim(store.last_position + 1)
        await served.topic("after", 3)
    async with serve(store) as served:
        assert {topic.name: topic.partitions for topic in served.cluster.topics.by_name.values()} == {
            "before": 2,
            "after": 3,
        }
        await served.topic("later")


async def test_an_event_says_who_asked_for_it(served, client) -> None:
    request = CreatePartitionsRequest(topics=[CreatePartitionsTopic(name="orders", count=3)], timeout_ms=1)
    await client.call(request)
    *_, record = [record async for record in served.store.read()]
    assert record.cause == (b'{"api":"CreatePartitions","connection":"0-1","correlation_id":1,"client_id":"test"}')


class FillingStore(MemoryStore):
    """Runs out of room when told to."""

    is_full = False

    async def append(self, records: Sequence[NewRecord]) -> int:
        if self.is_full:
            raise StoreIsFull("no room")
        return await super().append(records)


async def test_what_never_reached_the_disk_has_not_happened_and_was_never_answered_for(serve, a_batch) -> None:
    store = FillingStore()
    async with serve(store) as served:
        await served.topic("orders")
        store.is_full = True
        writer, creator = await served.connect(), await served.connect()
        writer.send(produce_request(a_batch(b"lost")), 9)
        creator.send(MetadataRequest(topics=[MetadataRequestTopic(name="phantom")]))
        assert await writer.is_closed_by_the_broker()
        assert await creator.is_closed_by_the_broker()
        with capture_logs() as lines:
            later = await served.connect()
            later.send(MetadataRequest(topics=[MetadataRequestTopic(name="later")]))
            assert await later.is_closed_by_the_broker()
        assert [line["log_level"] for line in lines] == ["warning"]
        store.is_full = False
        served.journal.reopen(store)
        served.cluster.reload(await load(store, served.cluster.new_uuid), await store.next_reign())
        client = await served.connect()
        assert list(served.cluster.topics.by_name) == ["orders"]
        assert (await fetch(client, 0)).high_watermark == 0
        assert (await produce(client, a_batch(b"kept"))).base_offset == 0
        kept = await fetch(client, 0)
        assert [record.value for _, record in read_all(kept.records)] == [b"kept"]
