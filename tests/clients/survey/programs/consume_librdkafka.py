"""A consumer of confluent-kafka: `python -m tests.clients.survey.programs.consume_librdkafka`."""

import confluent_kafka

from tests.clients.survey.programs.reporting import Positions, report, report_error, report_settings, take_order

POLL_S = 0.1


def numbers(partitions: list[confluent_kafka.TopicPartition]) -> list[int]:
    return sorted(each.partition for each in partitions)


def commit(consumer: confluent_kafka.Consumer) -> None:
    for each in consumer.commit(asynchronous=False) or ():
        if each.error is not None:
            raise confluent_kafka.KafkaException(each.error)


def error_name(error: confluent_kafka.KafkaException) -> str:
    return str(error.args[0].name()) if error.args else "KafkaException"


def main() -> None:
    order = take_order(
        "librdkafka", f"{confluent_kafka.libversion()[0]} (confluent-kafka {confluent_kafka.__version__})"
    )
    settings = {
        "bootstrap.servers": order.servers,
        "group.id": order.group,
        "client.id": order.client_id,
        **({"group.instance.id": order.instance_id} if order.instance_id else {}),
        "session.timeout.ms": order.session_timeout_ms,
        "heartbeat.interval.ms": order.heartbeat_interval_ms,
        "max.poll.interval.ms": order.rebalance_timeout_ms,
        "socket.timeout.ms": order.request_timeout_ms,
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
        "error_cb": lambda error: report("noted", error=error.name(), message=error.str()[:200]),
    }
    report_settings(settings, hidden=("bootstrap.servers", "group.id", "client.id", "group.instance.id"))
    consumer = confluent_kafka.Consumer(settings)
    consumer.subscribe(
        [order.topic],
        on_assign=lambda _, partitions: report("assigned", partitions=numbers(partitions)),
        on_revoke=lambda _, partitions: report("revoked", partitions=numbers(partitions)),
        on_lost=lambda _, partitions: report("lost", partitions=numbers(partitions)),
    )
    positions = Positions(order.commit_interval_ms)
    while True:
        try:
            message = consumer.poll(POLL_S)
        except confluent_kafka.KafkaException as error:
            report("raised", where="poll", error=error_name(error), message=str(error)[:200])
            continue
        if message is not None and message.error() is not None:
            failure = message.error()
            report("raised", where="poll", error=failure.name(), message=failure.str()[:200], fatal=failure.fatal())
        elif message is not None:
            positions.read(message.partition(), message.offset())
        if positions.take_commit():
            try:
                commit(consumer)
                report("committed")
            except confluent_kafka.KafkaException as error:
                report("raised", where="commit", error=error_name(error), message=str(error)[:200])
            except RuntimeError as error:
                report_error("commit", error)


if __name__ == "__main__":
    main()
