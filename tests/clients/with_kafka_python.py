"""kafka-python, as its users use it."""

import warnings
from collections.abc import Sequence
from typing import ClassVar

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # kafka-python reads its definitions in an outdated way
    import kafka
    from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
    from kafka.coordinator.assignors.range import RangePartitionAssignor
    from kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
    from kafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor
    from kafka.errors import KafkaConnectionError, KafkaError

from tests.clients.libraries import (
    AssignmentListener,
    ConsumedRecord,
    ConsumerOptions,
    Partitions,
    consumed_records,
    partition_names,
    python_client_settings,
)

LONG_POLL_S = 2.0
"""The poll timeout of kafka-python 3.0.12, where a poll that ends during a join may drop the assignment or rejoin."""


class LibraryConsumer:
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


def produce(address: str, rows: Sequence[tuple[str, int, str]]) -> None:
    producer = kafka.KafkaProducer(bootstrap_servers=address, acks="all", compression_type="gzip")
    sent = [producer.send(topic, value.encode(), partition=partition) for topic, partition, value in rows]
    for each in sent:
        each.get(timeout=20)
    producer.close()
