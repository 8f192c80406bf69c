"""Three client libraries behind the few calls that a test needs, each used the way its users do."""

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
"""For kafka-python 3.0.12: a poll that ends amid a join may drop the assignment or join once more, so let few end."""
METADATA_AGE_MS = 500
"""How soon a new topic or partition is noticed."""

Partitions = Iterable[tuple[str, int]]


class Seen(NamedTuple):
    """A record that a consumer was given."""

    topic: str
    partition: int
    offset: int
    value: str


class Wish(NamedTuple):
    """How a consumer is to be set up."""

    address: str
    group: str
    topics: Sequence[str] = ()
    pattern: str = ""
    assignor: str = "range"
    instance_id: str | None = None
    session_timeout_ms: int = 5_000
    """Much shorter, and a busy machine would have members expelled that are alive."""
    heartbeat_interval_ms: int = 200


Tell = Callable[[str, Partitions], None]
"""Called with `assigned`, `revoked` or `lost`, and the partitions."""


class Consumer(Protocol):
    """What the three have in common."""

    def poll(self) -> list[Seen]:
        """Records, as soon as there are some; nothing after a while."""
        ...

    def commit(self) -> str:
        """Commit where the last poll ended, and wait for the answer. In words why not, if it is refused."""
        ...

    def close(self) -> None: ...


class ConfluentConsumer:
    """librdkafka, as the client of Python, Go, .NET and others."""

    def __init__(self, wish: Wish, tell: Tell) -> None:
        self._consumer = confluent_kafka.Consumer(
            {
                "bootstrap.servers": wish.address,
                "group.id": wish.group,
                "session.timeout.ms": wish.session_timeout_ms,
                "heartbeat.interval.ms": wish.heartbeat_interval_ms,
                "partition.assignment.strategy": wish.assignor,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "topic.metadata.refresh.interval.ms": METADATA_AGE_MS,
                "reconnect.backoff.max.ms": 500,
                **({"group.instance.id": wish.instance_id} if wish.instance_id else {}),
            }
        )
        self._consumer.subscribe(
            [f"^{wish.pattern}"] if wish.pattern else list(wish.topics),
            on_assign=lambda _, partitions: tell("assigned", named(partitions)),
            on_revoke=lambda _, partitions: tell("revoked", named(partitions)),
            on_lost=lambda _, partitions: tell("lost", named(partitions)),
        )

    def poll(self) -> list[Seen]:
        first = self._consumer.poll(POLL_S)
        messages = [first, *self._consumer.consume(500, 0)] if first else []
        return [
            Seen(message.topic(), message.partition(), message.offset(), message.value().decode())
            for message in messages
            if not message.error()  # librdkafka tells of lost connections in between
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
    """kafka-python: everything in Python, heartbeats from a thread."""

    ASSIGNORS: ClassVar = {
        "range": RangePartitionAssignor,
        "roundrobin": RoundRobinPartitionAssignor,
        "sticky": StickyPartitionAssignor,
        "cooperative-sticky": CooperativeStickyAssignor,
    }

    def __init__(self, wish: Wish, tell: Tell) -> None:
        class Listener(kafka.ConsumerRebalanceListener):
            def on_partitions_assigned(self, assigned: Partitions) -> None:
                tell("assigned", named(assigned))

            def on_partitions_revoked(self, revoked: Partitions) -> None:
                tell("revoked", named(revoked))

            def on_partitions_lost(self, lost: Partitions) -> None:
                tell("lost", named(lost))

        self._consumer = kafka.KafkaConsumer(
            **settings_in_python(wish, self.ASSIGNORS),
            reconnect_backoff_max_ms=500,
        )
        self._consumer.subscribe(wish.topics or (), pattern=wish.pattern or None, listener=Listener())

    def poll(self) -> list[Seen]:
        try:
            return all_seen(self._consumer.poll(timeout_ms=LONG_POLL_S * 1000))
        except KafkaConnectionError:  # of its own search for a coordinator; the next poll searches on
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
    """aiokafka: asyncio from end to end; here its loop runs while a call lasts."""

    ASSIGNORS: ClassVar = {"range": AioRange, "roundrobin": AioRoundRobin, "sticky": AioSticky}

    def __init__(self, wish: Wish, tell: Tell) -> None:
        class Listener(aiokafka.ConsumerRebalanceListener):
            def on_partitions_assigned(self, assigned: Partitions) -> None:
                tell("assigned", named(assigned))

            def on_partitions_revoked(self, revoked: Partitions) -> None:
                tell("revoked", named(revoked))

        self._runner = asyncio.Runner()
        self._consumer = self._runner.run(self._begin(wish, Listener()))

    async def _begin(self, wish: Wish, listener: object) -> Any:
        consumer = aiokafka.AIOKafkaConsumer(**settings_in_python(wish, self.ASSIGNORS))
        consumer.subscribe(wish.topics, pattern=wish.pattern or None, listener=listener)
        await consumer.start()
        return consumer

    def poll(self) -> list[Seen]:
        return all_seen(self._runner.run(self._consumer.getmany(timeout_ms=int(POLL_S * 1000))))

    def commit(self) -> str:
        try:
            self._runner.run(self._consumer.commit())
        except AiokafkaError as error:
            return repr(error)
        return ""

    def close(self) -> None:
        self._runner.run(self._consumer.stop())
        self._runner.close()


def settings_in_python(wish: Wish, assignors: Mapping[str, type]) -> dict[str, Any]:
    """kafka-python and aiokafka, which began as one project, still agree on these words."""
    return {
        "bootstrap_servers": wish.address,
        "group_id": wish.group,
        "group_instance_id": wish.instance_id,
        "session_timeout_ms": wish.session_timeout_ms,
        "heartbeat_interval_ms": wish.heartbeat_interval_ms,
        "partition_assignment_strategy": (assignors[wish.assignor],),
        "auto_offset_reset": "earliest",
        "enable_auto_commit": False,
        "metadata_max_age_ms": METADATA_AGE_MS,
    }


def named(partitions: Iterable[Any]) -> list[tuple[str, int]]:
    return sorted((each.topic, each.partition) for each in partitions)


def all_seen(polled: dict[Any, list[Any]]) -> list[Seen]:
    """kafka-python and aiokafka give records by partition."""
    return [
        Seen(each.topic, each.partition, each.offset, each.value.decode()) for rows in polled.values() for each in rows
    ]


CONSUMERS: dict[str, Callable[[Wish, Tell], Consumer]] = {
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
"""Each writes rows of topic, partition and value, and returns when all of them are acknowledged."""
