"""Unmodified client libraries produce, fetch and administer. Consumers assign partitions manually, without a group."""

import asyncio
import warnings
from functools import partial

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka import TopicPartition as AioPartition
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.admin import NewPartitions as AioNewPartitions
from aiokafka.admin import NewTopic as AioNewTopic
from confluent_kafka import Consumer, Producer
from confluent_kafka import TopicPartition as ConfluentPartition
from confluent_kafka.admin import AdminClient, ConfigResource, NewPartitions, NewTopic

from regroup.protocol.record_batch import TRANSACTIONAL
from regroup.storage.memory import MemoryStore
from tests.server.validated_records import validated
from tests.server.wire_client import TIMEOUT_S

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # kafka-python reads its schemas in an old way
    from kafka import KafkaConsumer, KafkaProducer
    from kafka import TopicPartition as PythonPartition
    from kafka.admin import KafkaAdminClient
    from kafka.admin import NewPartitions as PythonNewPartitions
    from kafka.admin import NewTopic as PythonNewTopic

VALUES = [b"value-%d" % number for number in range(50)]
CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]


def confluent_write(address: str, topic: str, codec: str = "none", **more: object) -> None:
    producer = Producer({"bootstrap.servers": address, "compression.type": codec, "linger.ms": 5} | more)
    for value in VALUES:
        producer.produce(topic, value, partition=0)
    assert producer.flush(TIMEOUT_S) == 0


def confluent_read(address: str, topic: str, count: int, offset: int = 0) -> list[tuple[int, bytes]]:
    consumer = Consumer({"bootstrap.servers": address, "group.id": "unused", "enable.auto.commit": False})
    consumer.assign([ConfluentPartition(topic, 0, offset)])
    messages = consumer.consume(count, timeout=TIMEOUT_S)
    consumer.close()
    assert all(message.error() is None for message in messages)
    return [(message.offset(), message.value()) for message in messages]


def python_write(address: str, topic: str, codec: str) -> None:
    with KafkaProducer(bootstrap_servers=address, compression_type=None if codec == "none" else codec) as producer:
        sent = [producer.send(topic, value, partition=0) for value in VALUES]
        assert [each.get(TIMEOUT_S).offset for each in sent] == list(range(len(VALUES)))


def python_read(address: str, topic: str, count: int, **more: object) -> list[tuple[int, bytes]]:
    consumer = KafkaConsumer(
        bootstrap_servers=address, auto_offset_reset="earliest", consumer_timeout_ms=TIMEOUT_S * 1000, **more
    )
    consumer.assign([PythonPartition(topic, 0)])
    found = [(message.offset, message.value) for _, message in zip(range(count), consumer, strict=False)]
    consumer.close()
    return found


async def aio_write(address: str, topic: str, codec: str, **more: object) -> None:
    kind = None if codec == "none" else codec
    async with AIOKafkaProducer(bootstrap_servers=address, compression_type=kind, **more) as producer:
        sent = [await producer.send(topic, value, partition=0) for value in VALUES]
        await asyncio.gather(*sent)


async def aio_read(address: str, topic: str, count: int, **more: object) -> list[tuple[int, bytes]]:
    async with AIOKafkaConsumer(bootstrap_servers=address, auto_offset_reset="earliest", **more) as consumer:
        consumer.assign([AioPartition(topic, 0)])
        messages = [await asyncio.wait_for(consumer.getone(), TIMEOUT_S) for _ in range(count)]
        return [(message.offset, message.value) for message in messages]


WRITTEN = list(enumerate(VALUES))


@pytest.mark.quick("[gzip]", "[zstd]")
@pytest.mark.parametrize("codec", CODECS)
async def test_records_of_confluent_kafka_are_read_by_every_library(harness, codec: str) -> None:
    await harness.create_topic("orders")
    await asyncio.to_thread(confluent_write, harness.address, "orders", codec, **{"enable.idempotence": True})
    assert await asyncio.to_thread(confluent_read, harness.address, "orders", len(VALUES)) == WRITTEN
    if codec in ("none", "gzip"):  # the others need libraries that are not among this project's
        assert await asyncio.to_thread(python_read, harness.address, "orders", len(VALUES)) == WRITTEN
        assert await aio_read(harness.address, "orders", len(VALUES)) == WRITTEN


@pytest.mark.parametrize("codec", ["none", "gzip"])
async def test_records_of_kafka_python_are_read(harness, codec: str) -> None:
    await harness.create_topic("orders")
    await asyncio.to_thread(python_write, harness.address, "orders", codec)
    assert await asyncio.to_thread(confluent_read, harness.address, "orders", len(VALUES)) == WRITTEN


@pytest.mark.parametrize(("codec", "idempotent"), [("none", False), ("gzip", True)])
async def test_records_of_aiokafka_are_read(harness, codec: str, idempotent: bool) -> None:
    await harness.create_topic("orders")
    await aio_write(harness.address, "orders", codec, enable_idempotence=idempotent)
    assert await asyncio.to_thread(confluent_read, harness.address, "orders", len(VALUES)) == WRITTEN


async def test_every_library_skips_the_offsets_that_a_crash_has_lost(start_broker) -> None:
    store = MemoryStore()
    async with start_broker(store, crash=True) as harness:
        await harness.create_topic("orders")
        await asyncio.to_thread(confluent_write, harness.address, "orders")
    async with start_broker(store) as harness:
        end = harness.state.partition_log(harness.state.topics["orders"], 0).log_end_offset
        await asyncio.to_thread(confluent_write, harness.address, "orders")
        expected = [(end + number, value) for number, value in WRITTEN]
        assert await asyncio.to_thread(confluent_read, harness.address, "orders", len(VALUES)) == expected
        assert await asyncio.to_thread(confluent_read, harness.address, "orders", len(VALUES), 20) == expected
        assert await asyncio.to_thread(python_read, harness.address, "orders", len(VALUES)) == expected
        assert await aio_read(harness.address, "orders", len(VALUES)) == expected


async def test_read_committed_skips_an_aborted_transaction_in_every_library(harness, make_batch) -> None:
    """The control batch and the list of aborted transactions are what each library expects."""
    await harness.create_topic("orders")
    topic = harness.state.topics["orders"]
    for number, committed in enumerate([True, False, True]):
        header = {"producer_id": 7, "producer_epoch": 0, "base_sequence": number, "attributes": TRANSACTIONAL}
        batch = validated(make_batch(b"%d" % number, **header), produce_version=9, max_bytes=1000)
        harness.state.append_batches(topic, 0, batch)
        harness.state.partition_log(topic, 0).append_marker(7, 0, committed=committed, at_ms=1)
    expected = [(0, b"0"), (4, b"2")]
    assert await asyncio.to_thread(confluent_read, harness.address, "orders", 2) == expected
    python = partial(python_read, harness.address, "orders", 2, isolation_level="read_committed")
    assert await asyncio.to_thread(python) == expected
    assert await aio_read(harness.address, "orders", 2, isolation_level="read_committed") == expected


async def test_confluent_kafka_administers(harness) -> None:
    def administer() -> None:
        admin = AdminClient({"bootstrap.servers": harness.address})
        done(admin.create_topics([NewTopic("orders", 2, 1, config={"retention.ms": "5"})]))
        done(admin.create_partitions([NewPartitions("orders", 5)]))
        assert len(admin.list_topics(timeout=TIMEOUT_S).topics["orders"].partitions) == 5
        resource = ConfigResource(ConfigResource.Type.TOPIC, "orders")
        (configs,) = done(admin.describe_configs([resource]))
        assert configs["retention.ms"].value == "5"
        assert done([admin.describe_cluster()])[0].cluster_id == harness.state.cluster_id
        done(admin.delete_topics(["orders"]))
        assert admin.list_topics(timeout=TIMEOUT_S).topics == {}

    def done(futures) -> list:
        return [each.result(TIMEOUT_S) for each in (futures.values() if isinstance(futures, dict) else futures)]

    await asyncio.to_thread(administer)


async def test_kafka_python_administers(harness) -> None:
    def administer() -> None:
        admin = KafkaAdminClient(bootstrap_servers=harness.address)
        admin.create_topics([PythonNewTopic("orders", 2, 1)])
        admin.create_partitions({"orders": PythonNewPartitions(5)})
        (described,) = admin.describe_topics(["orders"])
        assert len(described["partitions"]) == 5
        admin.delete_topics(["orders"])
        assert admin.list_topics() == []
        admin.close()

    await asyncio.to_thread(administer)


async def test_aiokafka_administers(harness) -> None:
    admin = AIOKafkaAdminClient(bootstrap_servers=harness.address)
    await admin.start()
    await admin.create_topics([AioNewTopic("orders", 2, 1)])
    await admin.create_partitions({"orders": AioNewPartitions(5)})
    (described,) = await admin.describe_topics(["orders"])
    assert len(described["partitions"]) == 5
    await admin.delete_topics(["orders"])
    assert await admin.list_topics() == []
    await admin.close()
