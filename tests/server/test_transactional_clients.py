"""Unmodified transactional producers: records and offsets are committed together."""

import asyncio
import warnings
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka import TopicPartition as AioPartition
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from regroup.server.broker_cluster import BrokerCluster, ClusterOptions
from regroup.storage.sqlite.threaded import open_store
from tests.server.cluster_harness import NO_DELAY
from tests.server.wire_client import TIMEOUT_S

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # kafka-python reads its schemas in an old way
    from kafka import KafkaConsumer, KafkaProducer
    from kafka import TopicPartition as PythonPartition
    from kafka.structs import OffsetAndMetadata

COUNT = 20


async def started(tmp_path: Path, port: int = 0) -> BrokerCluster:
    options = ClusterOptions(settings=NO_DELAY, port=port)
    return await BrokerCluster.start(partial(open_store, tmp_path / "groups.db"), options)


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[BrokerCluster]:
    async with await started(tmp_path) as running:
        for topic in ("orders", "bills"):
            await running.ensure_topic(topic, 2)
        yield running


def address_of(cluster: BrokerCluster) -> str:
    return "{}:{}".format(*cluster.address)


def confluent_producer(address: str, name: str = "billing") -> Producer:
    producer = Producer({"bootstrap.servers": address, "transactional.id": name, "linger.ms": 1})
    producer.init_transactions(TIMEOUT_S)
    return producer


def confluent_fill(address: str) -> None:
    producer = Producer({"bootstrap.servers": address})
    for number in range(COUNT):
        producer.produce("orders", b"%d" % number, partition=0)
    assert producer.flush(TIMEOUT_S) == 0


def confluent_read(address: str, topic: str, group: str, count: int) -> list[bytes]:
    """The values of partition 0 for read_committed."""
    consumer = Consumer(
        {
            "bootstrap.servers": address,
            "group.id": group,
            "isolation.level": "read_committed",
            "auto.offset.reset": "earliest",
        }
    )
    consumer.assign([TopicPartition(topic, 0, 0)])
    messages = consumer.consume(count, timeout=TIMEOUT_S)
    consumer.close()
    return [message.value() for message in messages]


def confluent_committed_offset(address: str, group: str) -> int:
    consumer = Consumer({"bootstrap.servers": address, "group.id": group})
    (found,) = consumer.committed([TopicPartition("orders", 0)], timeout=TIMEOUT_S)
    consumer.close()
    return int(found.offset)


def confluent_bills(address: str) -> None:
    """Consume, produce and commit in transactions; every second one is aborted and repeated."""
    consumer = Consumer(
        {
            "bootstrap.servers": address,
            "group.id": "billing",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
        }
    )
    consumer.subscribe(["orders"])
    producer = confluent_producer(address)
    done = 0
    while done < COUNT:
        messages = [each for each in consumer.consume(5, timeout=0.2) if each.error() is None]
        if not messages:
            continue
        for committed in (False, True):
            producer.begin_transaction()
            for each in messages:
                producer.produce("bills", each.value(), partition=0)
            position = consumer.position(consumer.assignment())
            producer.send_offsets_to_transaction(position, consumer.consumer_group_metadata(), TIMEOUT_S)
            producer.commit_transaction(TIMEOUT_S) if committed else producer.abort_transaction(TIMEOUT_S)
        done += len(messages)
    consumer.close()


async def test_confluent_kafka_bills_each_order_once(cluster: BrokerCluster) -> None:
    address = address_of(cluster)
    await asyncio.to_thread(confluent_fill, address)
    await asyncio.to_thread(confluent_bills, address)
    bills = await asyncio.to_thread(confluent_read, address, "bills", "auditor", COUNT)
    assert bills == [b"%d" % number for number in range(COUNT)]
    assert await asyncio.to_thread(confluent_committed_offset, address, "billing") == COUNT


async def test_a_second_confluent_producer_fences_the_first(cluster: BrokerCluster) -> None:
    def fence() -> None:
        address = address_of(cluster)
        first = confluent_producer(address)
        first.begin_transaction()
        first.produce("bills", b"lost", partition=0)
        assert first.flush(TIMEOUT_S) == 0
        second = confluent_producer(address)
        with pytest.raises(KafkaException, match="fenced"):
            first.commit_transaction(TIMEOUT_S)
        second.begin_transaction()
        second.produce("bills", b"kept", partition=0)
        second.commit_transaction(TIMEOUT_S)
        assert confluent_read(address, "bills", "auditor", 1) == [b"kept"]

    await asyncio.to_thread(fence)


async def test_a_confluent_producer_carries_its_transaction_over_a_restart(tmp_path: Path) -> None:
    """The history is all that the second cluster has; the offsets of the open transaction are in it."""

    def begin(address: str) -> Producer:
        producer = confluent_producer(address)
        producer.begin_transaction()
        consumer = Consumer({"bootstrap.servers": address, "group.id": "billing"})
        offsets = [TopicPartition("orders", 0, 7)]
        producer.send_offsets_to_transaction(offsets, consumer.consumer_group_metadata(), TIMEOUT_S)
        consumer.close()
        return producer

    async with await started(tmp_path) as first:
        await first.ensure_topic("orders", 1)
        producer = await asyncio.to_thread(begin, address_of(first))
    async with await started(tmp_path, port=first.address[1]) as second:
        await asyncio.to_thread(producer.commit_transaction, TIMEOUT_S)
        assert await asyncio.to_thread(confluent_committed_offset, address_of(second), "billing") == 7


async def test_aiokafka_commits_and_aborts(cluster: BrokerCluster) -> None:
    address = address_of(cluster)
    partition = AioPartition("orders", 0)
    async with AIOKafkaProducer(bootstrap_servers=address, transactional_id="billing") as producer:
        for number in range(4):
            await producer.begin_transaction()
            await producer.send_and_wait("bills", b"%d" % number, partition=0)
            await producer.send_offsets_to_transaction({partition: number + 1}, "billing")
            await (producer.abort_transaction() if number % 2 else producer.commit_transaction())
    async with AIOKafkaConsumer(
        bootstrap_servers=address, isolation_level="read_committed", auto_offset_reset="earliest"
    ) as consumer:
        consumer.assign([AioPartition("bills", 0)])
        bills = [(await asyncio.wait_for(consumer.getone(), TIMEOUT_S)).value for _ in range(2)]
    assert bills == [b"0", b"2"]
    assert await asyncio.to_thread(confluent_committed_offset, address, "billing") == 3


async def test_kafka_python_commits_and_aborts(cluster: BrokerCluster) -> None:
    def bill() -> list[bytes]:
        address = address_of(cluster)
        with KafkaProducer(bootstrap_servers=address, transactional_id="billing") as producer:
            producer.init_transactions()
            for number in range(4):
                producer.begin_transaction()
                producer.send("bills", b"%d" % number, partition=0).get(TIMEOUT_S)
                offsets = {PythonPartition("orders", 0): OffsetAndMetadata(number + 1, "", -1)}
                producer.send_offsets_to_transaction(offsets, "billing")
                producer.abort_transaction() if number % 2 else producer.commit_transaction()
        consumer = KafkaConsumer(
            bootstrap_servers=address,
            isolation_level="read_committed",
            auto_offset_reset="earliest",
            consumer_timeout_ms=TIMEOUT_S * 1000,
        )
        consumer.assign([PythonPartition("bills", 0)])
        bills = [message.value for _, message in zip(range(2), consumer, strict=False)]
        consumer.close()
        return bills

    assert await asyncio.to_thread(bill) == [b"0", b"2"]
    assert await asyncio.to_thread(confluent_committed_offset, address_of(cluster), "billing") == 3
