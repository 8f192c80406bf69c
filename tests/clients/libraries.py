"""Three client libraries behind the calls that a test needs, each used as its users do."""

import asyncio
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple, Protocol

import aiokafka
import confluent_kafka
from aiokafka.coordinator.assignors.range import RangePartitionAssignor as AioRange
from aiokafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor as AioRoundRobin
from aiokafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor as AioSticky
from aiokafka.errors import KafkaError as AiokafkaError

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # kafka-python reads its definitions in an outdated way
    import kafka
    from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
    from kafka.coordinator.assignors.range import RangePartitionAssignor
    from kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
    from kafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor
    from kafka.errors import KafkaConnectionError, KafkaError

POLL_S = 0.1
LONG_POLL_S = 2.0
"""The poll timeout of kafka-python 3.0.12, where a poll that ends during a join may drop the assignment or rejoin."""
METADATA_AGE_MS = 500
"""The time after which a consumer learns of a new topic or partition."""

Partitions = Iterable[tuple[str, int]]


class ConsumedRecord(NamedTuple):
    """A record that a consumer has polled."""

    topic: str
    partition: int
    offset: int
    value: str


class ConsumerOptions(NamedTuple):
    """The settings of a consumer."""

    address: str
    group: str
    topics: Sequence[str] = ()
    pattern: str = ""
    assignor: str = "range"
    instance_id: str | None = None
    session_timeout_ms: int = 5_000
    """A much shorter one would remove live members on a busy machine."""
    heartbeat_interval_ms: int = 200


AssignmentListener = Callable[[str, Partitions], None]
"""Called with `assigned`, `revoked` or `lost`, and the partitions."""


class Consumer(Protocol):
    """What the three consumers have in common."""

    def poll(self) -> list[ConsumedRecord]:
        """Return records as soon as there are some, or none after a while."""
        ...

    def commit(self) -> str:
        """Commit the positions after the last poll and wait for the response; returns the error as text, or none."""
        ...

    def close(self) -> None: ...


class ConfluentConsumer:
    """librdkafka, which the clients for Python, Go, .NET and others are built on."""

    def __init__(self, options: ConsumerOptions, listener: AssignmentListener) -> None:
        self._consumer = confluent_kafka.Consumer(
            {
                "bootstrap.servers": options.address,
                "group.id": options.group,
                "session.timeout.ms": options.session_timeout_ms,
                "heartbeat.interval.ms": options.heartbeat_interval_ms,
                "partition.assignment.strategy": options.assignor,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "topic.metadata.refresh.interval.ms": METADATA_AGE_MS,
                "reconnect.backoff.max.ms": 500,
                **({"group.instance.id": options.instance_id} if options.instance_id else {}),
            }
        )
        self._consumer.subscribe(
            [f"^{options.pattern}"] if options.pattern else list(options.topics),
            on_assign=lambda _, partitions: listener("assigned", partition_names(partitions)),
            on_revoke=lambda _, partitions: listener("revoked", partition_names(partitions)),
            on_lost=lambda _, partitions: listener("lost", partition_names(partitions)),
        )

    def poll(self) -> list[ConsumedRecord]:
        first = self._consumer.poll(POLL_S)
        messages = [first, *self._consumer.consume(500, 0)] if first else []
        return [
            ConsumedRecord(message.topic(), message.partition(), message.offset(), message.value().decode())
            for message in messages
            if not message.error()  # librdkafka reports lost connections as messages
        ]

    def commit(self) -> str:
        try:
            self._consumer.commit(asynchronous=False)
        except confluent_kafka.KafkaException as error:
            return str(error)
        return ""

    def close(self) -> None:
        self._consumer.close()


class KafkaPythonConsumer:
    """kafka-python: written in Python, with heartbeats from a thread."""

    ASSIGNORS: ClassVar = {
        "range": RangePartitionAssignor,
        "roundrobin": RoundRobinPartitionAssignor,
        "sticky": StickyPartitionAssignor,
        "cooperative-sticky": CooperativeStickyAssignor,
    }

    def __init__(self, options: ConsumerOptions, listener: AssignmentListener) -> None:
        class Listener(kafka.ConsumerRebalanceListener):
            def on_partitions_assigned(self, assigned: Partitions) -> None:
                listener("assigned", partition_names(assigned))

            def on_partitions_revoked(self, revoked: Partitions) -> None:
                listener("revoked", partition_names(revoked))

            def on_partitions_lost(self, lost: Partitions) -> None:
                listener("lost", partition_names(lost))

        self._consumer = kafka.KafkaConsumer(
            **python_client_settings(options, self.ASSIGNORS),
            reconnect_backoff_max_ms=500,
        )
        self._consumer.subscribe(options.topics or (), pattern=options.pattern or None, listener=Listener())

    def poll(self) -> list[ConsumedRecord]:
        try:
            return consumed_records(self._consumer.poll(timeout_ms=LONG_POLL_S * 1000))
        except KafkaConnectionError:  # while it looks for a coordinator; the next poll goes on looking
            return []

    def commit(self) -> str:
        try:
            self._consumer.commit()
        except KafkaError as error:
            return repr(error)
        return ""

    def close(self) -> None:
        self._consumer.close()


class AiokafkaConsumer:
    """aiokafka: built on asyncio; here its loop runs only during a call."""

    ASSIGNORS: ClassVar = {"range": AioRange, "roundrobin": AioRoundRobin, "sticky": AioSticky}

    def __init__(self, options: ConsumerOptions, listener: AssignmentListener) -> None:
        class Listener(aiokafka.ConsumerRebalanceListener):
            def on_partitions_assigned(self, assigned: Partitions) -> None:
                listener("assigned", partition_names(assigned))

            def on_partitions_revoked(self, revoked: Partitions) -> None:
                listener("revoked", partition_names(revoked))

        self._runner = asyncio.Runner()
        self._consumer = self._runner.run(self._begin(options, Listener()))

    async def _begin(self, options: ConsumerOptions, listener: object) -> Any:
        consumer = aiokafka.AIOKafkaConsumer(**python_client_settings(options, self.ASSIGNORS))
        consumer.subscribe(options.topics, pattern=options.pattern or None, listener=listener)
        await consumer.start()
        return consumer

    def poll(self) -> list[ConsumedRecord]:
        return consumed_records(self._runner.run(self._consumer.getmany(timeout_ms=int(POLL_S * 1000))))

    def commit(self) -> str:
        try:
            self._runner.run(self._consumer.commit())
        except AiokafkaError as error:
            return repr(error)
        return ""

    def close(self) -> None:
        self._runner.run(self._consumer.stop())
        self._runner.close()


def python_client_settings(options: ConsumerOptions, assignors: Mapping[str, type]) -> dict[str, Any]:
    """The settings of kafka-python and aiokafka, which have the same names."""
    return {
        "bootstrap_servers": options.address,
        "group_id": options.group,
        "group_instance_id": options.instance_id,
        "session_timeout_ms": options.session_timeout_ms,
        "heartbeat_interval_ms": options.heartbeat_interval_ms,
        "partition_assignment_strategy": (assignors[options.assignor],),
        "auto_offset_reset": "earliest",
        "enable_auto_commit": False,
        "metadata_max_age_ms": METADATA_AGE_MS,
    }


def partition_names(partitions: Iterable[Any]) -> list[tuple[str, int]]:
    return sorted((each.topic, each.partition) for each in partitions)


def consumed_records(polled: dict[Any, list[Any]]) -> list[ConsumedRecord]:
    """The records of kafka-python and aiokafka, which return them by partition."""
    return [
        ConsumedRecord(each.topic, each.partition, each.offset, each.value.decode())
        for rows in polled.values()
        for each in rows
    ]


CONSUMERS: dict[str, Callable[[ConsumerOptions, AssignmentListener], Consumer]] = {
    "confluent-kafka": ConfluentConsumer,
    "kafka-python": KafkaPythonConsumer,
    "aiokafka": AiokafkaConsumer,
}


def produce_with_confluent(address: str, rows: Sequence[tuple[str, int, str]]) -> None:
    producer = confluent_kafka.Producer({"bootstrap.servers": address, "acks": "all", "linger.ms": 5})
    failures: list[object] = []
    for topic, partition, value in rows:
        producer.produce(
            topic, value.encode(), partition=partition, on_delivery=lambda error, _: failures.append(error)
        )
    producer.flush(20)
    assert failures == [None] * len(rows)


def produce_with_kafka_python(address: str, rows: Sequence[tuple[str, int, str]]) -> None:
    producer = kafka.KafkaProducer(bootstrap_servers=address, acks="all", compression_type="gzip")
    sent = [producer.send(topic, value.encode(), partition=partition) for topic, partition, value in rows]
    for each in sent:
        each.get(timeout=20)
    producer.close()


def produce_with_aiokafka(address: str, rows: Sequence[tuple[str, int, str]]) -> None:
    async def produce() -> None:
        async with aiokafka.AIOKafkaProducer(
            bootstrap_servers=address, acks="all", enable_idempotence=True, compression_type="lz4"
        ) as producer:
            sent = [await producer.send(topic, value.encode(), partition=partition) for topic, partition, value in rows]
            await asyncio.gather(*sent)

    asyncio.run(produce())


PRODUCERS: dict[str, Callable[[str, Sequence[tuple[str, int, str]]], None]] = {
    "confluent-kafka": produce_with_confluent,
    "kafka-python": produce_with_kafka_python,
    "aiokafka": produce_with_aiokafka,
}
"""Functions that write rows of topic, partition and value, and return when all of them are acknowledged."""
