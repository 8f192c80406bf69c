"""librdkafka through confluent-kafka, as its users use it."""

from collections.abc import Sequence

import confluent_kafka

from tests.clients.libraries import (
    METADATA_AGE_MS,
    POLL_S,
    AssignmentListener,
    ConsumedRecord,
    ConsumerOptions,
    partition_names,
)


class LibraryConsumer:
    """librdkafka, which the clients for Python, Go, .NET and others are built on."""

    def __init__(self, options: ConsumerOptions, listener: AssignmentListener) -> None:
        self._consumer = confluent_kafka.Consumer(
            {
                "bootstrap.servers": options.address,
                "group.id": options.group,
                **protocol_settings(options),
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


def protocol_settings(options: ConsumerOptions) -> dict[str, str | int]:
    if options.uses_consumer_protocol:
        return {"group.protocol": "consumer", "group.remote.assignor": options.assignor}
    return {
        "session.timeout.ms": options.session_timeout_ms,
        "heartbeat.interval.ms": options.heartbeat_interval_ms,
        "partition.assignment.strategy": options.assignor,
    }


def produce(address: str, rows: Sequence[tuple[str, int, str]]) -> None:
    producer = confluent_kafka.Producer({"bootstrap.servers": address, "acks": "all", "linger.ms": 5})
    failures: list[object] = []
    for topic, partition, value in rows:
        producer.produce(
            topic, value.encode(), partition=partition, on_delivery=lambda error, _: failures.append(error)
        )
    producer.flush(20)
    assert failures == [None] * len(rows)
