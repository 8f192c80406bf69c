"""A service with confluent-kafka: one consumer is dead, the answer to a commit is lost, the coordinator moves.

Needs regroup, confluent-kafka and pytest: pytest test_confluent_kafka.py
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import confluent_kafka
import pytest

from regroup.testing import Emulator

ALL = {("orders", partition) for partition in range(6)}


@contextmanager
def service(kafka: Emulator, client_id: str) -> Iterator[list[str]]:
    """The service that is tested: it handles each order and commits it. Yields the orders that it has handled."""
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": kafka.bootstrap_servers,
            "group.id": "billing",
            "client.id": client_id,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "fetch.wait.max.ms": 50,  # otherwise its next request to this broker may wait half a second
            "heartbeat.interval.ms": 100,  # a consumer learns of a rebalance by its next heartbeat
        }
    )
    consumer.subscribe(["orders"])
    handled: list[str] = []
    stop = threading.Event()

    def run() -> None:
        while not stop.is_set():
            message = consumer.poll(0.1)
            if message is not None and message.error() is None:
                handled.append(message.value().decode())
                consumer.commit(message, asynchronous=False)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield handled
    finally:
        stop.set()
        thread.join()
        consumer.close()


@pytest.mark.kafka(topics={"orders": 6})
def test_a_dead_consumer_is_replaced(kafka: Emulator) -> None:
    with service(kafka, "first"), service(kafka, "second"):
        kafka.group("billing").wait_until_stable(members=2)
        kafka.crash_client("second")
        group = kafka.group("billing").wait_until_stable(members=1)
        assert group.partitions_of("first") == ALL
        kafka.revive_client("second")  # so that it can close


@pytest.mark.kafka(topics={"orders": 1})
def test_no_order_is_handled_twice_after_a_lost_commit(kafka: Emulator) -> None:
    lost = kafka.fault(on="OffsetCommit", group="billing", close="after", times=1)
    with service(kafka, "first") as handled:
        kafka.produce("orders", "one pear")
        lost.wait_hits(1)
        kafka.produce("orders", "two plums")
        kafka.group("billing").wait_until(lambda group: group.committed.get(("orders", 0)) == 2)
    assert handled == ["one pear", "two plums"]


@pytest.mark.kafka(topics={"orders": 1}, brokers=2)
def test_a_service_follows_its_coordinator(kafka: Emulator) -> None:
    with service(kafka, "first") as handled:
        kafka.group("billing").wait_until_stable(members=1)
        kafka.produce("orders", "one pear")
        before = kafka.group("billing").wait_until(lambda group: group.committed.get(("orders", 0)) == 1)
        kafka.move_coordinator("billing")
        kafka.produce("orders", "two plums")
        after = kafka.group("billing").wait_until(lambda group: group.committed.get(("orders", 0)) == 2)
    assert handled == ["one pear", "two plums"]
    assert after.generation == before.generation, "without a rebalance"
