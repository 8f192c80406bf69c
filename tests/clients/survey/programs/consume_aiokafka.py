"""A consumer of aiokafka: `python -m tests.clients.survey.programs.consume_aiokafka`."""

import asyncio
import logging
from collections.abc import Iterable

import aiokafka
import aiokafka.errors

from tests.clients.survey.programs.reporting import (
    Order,
    Positions,
    report,
    report_error,
    report_settings,
    take_order,
)

POLL_MS = 100
PAUSE_AFTER_ERROR_S = 0.1


def numbers(partitions: Iterable[aiokafka.TopicPartition]) -> list[int]:
    return sorted(each.partition for each in partitions)


class Listener(aiokafka.ConsumerRebalanceListener):
    def on_partitions_assigned(self, assigned: Iterable[aiokafka.TopicPartition]) -> None:
        report("assigned", partitions=numbers(assigned))

    def on_partitions_revoked(self, revoked: Iterable[aiokafka.TopicPartition]) -> None:
        report("revoked", partitions=numbers(revoked))


async def consume(order: Order) -> None:
    settings = {
        "bootstrap_servers": order.servers,
        "group_id": order.group,
        "client_id": order.client_id,
        **({"group_instance_id": order.instance_id} if order.instance_id else {}),
        "session_timeout_ms": order.session_timeout_ms,
        "heartbeat_interval_ms": order.heartbeat_interval_ms,
        "rebalance_timeout_ms": order.rebalance_timeout_ms,
        "max_poll_interval_ms": order.rebalance_timeout_ms,
        "request_timeout_ms": order.request_timeout_ms,
        "auto_offset_reset": "earliest",
        "enable_auto_commit": False,
    }
    report_settings(settings, hidden=("bootstrap_servers", "group_id", "client_id", "group_instance_id"))
    consumer = aiokafka.AIOKafkaConsumer(**settings)
    consumer.subscribe([order.topic], listener=Listener())
    while True:
        try:
            await consumer.start()
            break
        except aiokafka.errors.KafkaError as error:
            report_error("start", error)
            await asyncio.sleep(PAUSE_AFTER_ERROR_S)
    positions = Positions(order.commit_interval_ms)
    while True:
        try:
            records = await consumer.getmany(timeout_ms=POLL_MS)
        except aiokafka.errors.KafkaError as error:
            report_error("poll", error)
            await asyncio.sleep(PAUSE_AFTER_ERROR_S)
            continue
        for each in [record for batch in records.values() for record in batch]:
            positions.read(each.partition, each.offset)
        if positions.take_commit():
            try:
                await consumer.commit()
                report("committed")
            except aiokafka.errors.KafkaError as error:
                report_error("commit", error)


if __name__ == "__main__":
    logging.disable()
    asyncio.run(consume(take_order("aiokafka", aiokafka.__version__)))
