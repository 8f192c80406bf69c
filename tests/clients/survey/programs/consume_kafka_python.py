"""A consumer of kafka-python: `python -m tests.clients.survey.programs.consume_kafka_python`."""

import time
import warnings
from collections.abc import Iterable

from tests.clients.survey.programs.reporting import Positions, report, report_error, report_settings, take_order

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # kafka-python reads its definitions in an outdated way
    import kafka
    import kafka.errors

POLL_MS = 2_000
"""With kafka-python 3.0.12 a poll that ends during a join may drop the assignment; records end a poll at once."""
PAUSE_AFTER_ERROR_S = 0.1


def numbers(partitions: Iterable[kafka.TopicPartition]) -> list[int]:
    return sorted(each.partition for each in partitions)


class Listener(kafka.ConsumerRebalanceListener):
    def on_partitions_assigned(self, assigned: Iterable[kafka.TopicPartition]) -> None:
        report("assigned", partitions=numbers(assigned))

    def on_partitions_revoked(self, revoked: Iterable[kafka.TopicPartition]) -> None:
        report("revoked", partitions=numbers(revoked))

    def on_partitions_lost(self, lost: Iterable[kafka.TopicPartition]) -> None:
        report("lost", partitions=numbers(lost))


def main() -> None:
    order = take_order("kafka-python", kafka.__version__)
    settings = {
        "bootstrap_servers": order.servers.split(","),
        "group_id": order.group,
        "client_id": order.client_id,
        **({"group_instance_id": order.instance_id} if order.instance_id else {}),
        "session_timeout_ms": order.session_timeout_ms,
        "heartbeat_interval_ms": order.heartbeat_interval_ms,
        "max_poll_interval_ms": order.rebalance_timeout_ms,
        "request_timeout_ms": order.request_timeout_ms,
        "auto_offset_reset": "earliest",
        "enable_auto_commit": False,
    }
    report_settings(settings, hidden=("bootstrap_servers", "group_id", "client_id", "group_instance_id"))
    consumer = kafka.KafkaConsumer(**settings)
    consumer.subscribe([order.topic], listener=Listener())
    positions = Positions(order.commit_interval_ms)
    while True:
        try:
            records = consumer.poll(timeout_ms=POLL_MS)
        except kafka.errors.KafkaError as error:
            report_error("poll", error)
            time.sleep(PAUSE_AFTER_ERROR_S)
            continue
        for each in [record for batch in records.values() for record in batch]:
            positions.read(each.partition, each.offset)
        if positions.take_commit():
            try:
                consumer.commit()
                report("committed")
            except kafka.errors.KafkaError as error:
                report_error("commit", error)


if __name__ == "__main__":
    main()
