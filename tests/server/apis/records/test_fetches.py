"""Fetches over the wire: what they return, and how long they wait."""

import asyncio

import pytest

from regroup.protocol.errors import ErrorCode as E
from regroup.protocol.messages.records import FetchPartition, FetchRequest, FetchTopic
from regroup.protocol.messages.topics import DeleteTopicsRequest
from regroup.protocol.record_batch import TRANSACTIONAL
from tests.fetched_records import read_all_records
from tests.server.apis.records.record_requests import fetch, fetching, list_offset, produce
from tests.server.validated_records import validated
from tests.server.wire_client import wait_until


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
