"""The other end of the demonstration: a real Kafka client in a process of its own, so that it can be killed.

python -m regroup.cli.demo.client consume 127.0.0.1:9092 anna
python -m regroup.cli.demo.client produce 127.0.0.1:9092
"""

import sys
import time

from confluent_kafka import Consumer, Producer

from regroup.cli.demo.names import GROUP, SESSION_TIMEOUT_MS, TOPIC


def consume(address: str, name: str) -> None:
    """Read orders and say every half second how far, for ever."""
    consumer = Consumer(
        {
            "bootstrap.servers": address,
            "group.id": GROUP,
            "client.id": name,
            "auto.offset.reset": "earliest",
            "session.timeout.ms": SESSION_TIMEOUT_MS,
            "heartbeat.interval.ms": 300,
            "auto.commit.interval.ms": 500,
            "reconnect.backoff.max.ms": 500,
        }
    )
    consumer.subscribe([TOPIC])
    while True:
        consumer.poll(0.2)


def produce(address: str) -> None:
    """Write forty orders a second, for ever."""
    producer = Producer({"bootstrap.servers": address, "linger.ms": 0, "reconnect.backoff.max.ms": 500})
    number = 0
    while True:
        producer.produce(TOPIC, key=str(number), value=f"order {number}")
        producer.poll(0)
        number += 1
        time.sleep(0.025)


if __name__ == "__main__":
    if sys.argv[1] == "consume":
        consume(sys.argv[2], sys.argv[3])
    else:
        produce(sys.argv[2])
