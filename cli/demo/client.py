"""A Kafka client of the demo, in a process of its own, so that it can be killed.

python -m regroup.cli.demo.client produce 127.0.0.1:9092 orders
python -m regroup.cli.demo.client consume 127.0.0.1:9092 orders shop anna 3000
"""

import sys
import time

from confluent_kafka import Consumer, Producer


def produce(address: str, topic: str) -> None:
    """Write forty records a second until the process is killed."""
    producer = Producer({"bootstrap.servers": address, "linger.ms": 0, "reconnect.backoff.max.ms": 500})
    number = 0
    while True:
        producer.produce(topic, key=str(number), value=f"order {number}")
        producer.poll(0)
        number += 1
        time.sleep(0.025)


def consume(address: str, topic: str, group_id: str, client_id: str, session_timeout_ms: str) -> None:
    """Read records, and commit twice a second, until the process is killed."""
    consumer = Consumer(
        {
            "bootstrap.servers": address,
            "group.id": group_id,
            "client.id": client_id,
            "auto.offset.reset": "earliest",
            "session.timeout.ms": int(session_timeout_ms),
            "heartbeat.interval.ms": 300,
            "auto.commit.interval.ms": 500,
            "reconnect.backoff.max.ms": 500,
        }
    )
    consumer.subscribe([topic])
    while True:
        consumer.poll(0.2)


if __name__ == "__main__":
    if sys.argv[1] == "produce":
        produce(*sys.argv[2:])
    else:
        consume(*sys.argv[2:])
