"""What a broker has after a restart, a crash, or a store that had no room."""

from collections.abc import Sequence

import pytest
from structlog.testing import capture_logs

from regroup.protocol.errors import ErrorCode as E
from regroup.protocol.messages.cluster import MetadataRequest, MetadataRequestTopic
from regroup.protocol.messages.records import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from regroup.protocol.messages.topics import CreatePartitionsRequest, CreatePartitionsTopic
from regroup.protocol.messages.transactions import InitProducerIdRequest
from regroup.server.cluster.loading import load_cluster_state
from regroup.storage.errors import StoreFull
from regroup.storage.memory import MemoryStore
from regroup.storage.records import NewRecord
from tests.fetched_records import read_all_records
from tests.server.apis.records.record_requests import fetch, list_offset, produce, produce_request


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
        assert {topic.name: topic.partitions for topic in harness.state.topics.values()} == {"before": 2, "after": 3}
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
