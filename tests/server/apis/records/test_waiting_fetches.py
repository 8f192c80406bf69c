"""Fetches that wait: they look only at partitions that grow, and read all of theirs once."""

from collections.abc import Callable, Iterator

import pytest

from regroup.protocol.errors import ErrorCode as E
from regroup.protocol.messages.records import (
    FetchPartition,
    FetchRequest,
    FetchTopic,
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from regroup.protocol.messages.topics import DeleteTopicsRequest
from regroup.server.log.partition_log import PartitionLog
from tests.server.wire_client import wait_until

PARTITIONS = 3_000
FETCH_VERSION = 12


@pytest.fixture
async def client(harness):
    await harness.create_topic("many", PARTITIONS)
    return await harness.connect()


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], int]]:
    """How often a partition was read since the last call."""
    count, read = 0, PartitionLog.read

    def counted(self: PartitionLog, *args: object, **more: object) -> object:
        nonlocal count
        count += 1
        return read(self, *args, **more)  # type: ignore[arg-type]

    def since_the_last_call() -> int:
        nonlocal count
        result, count = count, 0
        return result

    monkeypatch.setattr(PartitionLog, "read", counted)
    return since_the_last_call


def fetching(partitions: range, min_bytes: int, max_wait_ms: int = 60_000) -> FetchRequest:
    wanted = [FetchPartition(partition=each, fetch_offset=0, partition_max_bytes=2**20) for each in partitions]
    topics = [FetchTopic(topic="many", partitions=wanted)]
    return FetchRequest(max_wait_ms=max_wait_ms, min_bytes=min_bytes, topics=topics)


async def waiting_fetch(harness, request: FetchRequest):
    """A client whose fetch is held: the broker has read all partitions twice, the second time to listen to them."""
    reader = await harness.connect()
    reader.send(request, FETCH_VERSION)
    last = harness.state.partition_log(harness.state.topics["many"], request.topics[0].partitions[-1].partition)
    await wait_until(lambda: last._listeners)
    return reader


async def produce(client, partition: int, records: bytes) -> None:
    data = [TopicProduceData(name="many", partition_data=[PartitionProduceData(index=partition, records=records)])]
    response = await client.call(ProduceRequest(acks=-1, timeout_ms=100, topic_data=data), 9)
    assert response.responses[0].partition_responses[0].error_code == E.NONE


async def test_a_record_in_a_partition_that_is_not_awaited_costs_no_read(harness, client, make_batch, reads) -> None:
    await waiting_fetch(harness, fetching(range(PARTITIONS - 1), min_bytes=2**31 - 1))
    reads()
    await produce(client, PARTITIONS - 1, make_batch(b"hello"))
    assert reads() == 0


async def test_a_record_in_an_awaited_partition_costs_no_read_of_the_others(harness, client, make_batch, reads) -> None:
    await waiting_fetch(harness, fetching(range(PARTITIONS), min_bytes=2**31 - 1))
    reads()
    for number in range(5):
        await produce(client, number % 2, make_batch(b"hello"))
    assert reads() <= 10, "the first record of a partition reserves offsets, which counts as growth, too"


async def test_bytes_of_several_partitions_count_together(harness, client, make_batch, reads) -> None:
    size = len(make_batch(b"hello"))
    reader = await waiting_fetch(harness, fetching(range(PARTITIONS), min_bytes=3 * size))
    for partition in (0, PARTITIONS - 1, 0):
        await produce(client, partition, make_batch(b"hello"))
    (topic,) = (await reader.receive(1, FETCH_VERSION)).responses
    sizes = {each.partition_index: len(each.records) for each in topic.partitions if each.records}
    assert sizes == {0: 2 * size, PARTITIONS - 1: size}


async def test_a_record_that_comes_while_the_partitions_are_read_is_not_missed(harness, client, make_batch) -> None:
    """The partitions are read in several turns of the loop: the first one grows after its turn."""
    reader = await harness.connect()
    reader.send(fetching(range(PARTITIONS), min_bytes=1), FETCH_VERSION)
    await produce(client, 0, make_batch(b"hello"))
    (topic,) = (await reader.receive(1, FETCH_VERSION)).responses
    assert topic.partitions[0].records.endswith(b"hello\x00")


async def test_a_fetch_that_waits_ends_with_an_error_when_its_topic_is_deleted(harness, client) -> None:
    reader = await waiting_fetch(harness, fetching(range(PARTITIONS), min_bytes=1))
    await client.call(DeleteTopicsRequest(topic_names=["many"], timeout_ms=1_000), 1)
    (topic,) = (await reader.receive(1, FETCH_VERSION)).responses
    assert {each.error_code for each in topic.partitions} == {E.UNKNOWN_TOPIC_OR_PARTITION}


async def test_a_fetch_whose_client_has_left_listens_no_more(harness, client) -> None:
    reader = await waiting_fetch(harness, fetching(range(PARTITIONS), min_bytes=1))
    await reader.close()
    logs = [harness.state.partition_log(harness.state.topics["many"], each) for each in range(PARTITIONS)]
    await wait_until(lambda: not any(log._listeners for log in logs))
