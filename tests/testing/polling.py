"""Consumers of client libraries that poll in a thread, as a service does."""

import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import confluent_kafka

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # kafka-python reads its definitions in an outdated way
    import kafka

SESSION_TIMEOUT_MS = 10_000
"""Much longer than any test: a session that ends before was ended by the test."""
HEARTBEAT_INTERVAL_MS = 100


def confluent_consumer(
    servers: str, client_id: str, group: str = "billing", callbacks: dict[str, Any] | None = None, **settings: Any
) -> Any:
    """A consumer of `orders`. Settings have underscores in place of dots; `callbacks` are those of `subscribe`."""
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": servers,
            "client.id": client_id,
            "group.id": group,
            "session.timeout.ms": SESSION_TIMEOUT_MS,
            "heartbeat.interval.ms": HEARTBEAT_INTERVAL_MS,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "reconnect.backoff.max.ms": 200,
            "log_level": 0,
            **{name if name.endswith("_cb") else name.replace("_", "."): value for name, value in settings.items()},
        }
    )
    consumer.subscribe(["orders"], **(callbacks or {}))
    return consumer


def first_record(consumer: Any) -> Any:
    """The next record that a confluent consumer gets."""
    return next(each for each in iter(lambda: consumer.poll(0.1), "end") if each and not each.error())


def kafka_python_consumer(servers: str, client_id: str, group: str = "billing", **settings: Any) -> Any:
    consumer = kafka.KafkaConsumer(
        "orders",
        bootstrap_servers=servers.split(","),
        client_id=client_id,
        group_id=group,
        session_timeout_ms=SESSION_TIMEOUT_MS,
        heartbeat_interval_ms=HEARTBEAT_INTERVAL_MS,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        reconnect_backoff_max_ms=200,
        **settings,
    )
    consumer.partitions_for_topic("orders")  # without the metadata it would join, get nothing, and join again
    return consumer


CONSUMERS: dict[str, tuple[Callable[..., Any], float]] = {
    "confluent-kafka": (confluent_consumer, 0.05),
    "kafka-python": (kafka_python_consumer, 100),
}
"""How to make a consumer of each library, and how long one poll waits, in the library's own unit."""


@contextmanager
def polling(library: str, servers: str, client_id: str, group: str = "billing", **settings: Any) -> Iterator[Any]:
    """A consumer that polls in a thread until the end of the block, and is closed then."""
    make, timeout = CONSUMERS[library]
    consumer, stop = make(servers, client_id, group, **settings), threading.Event()

    def poll() -> None:
        while not stop.is_set():
            try:
                consumer.poll(timeout)
            except kafka.errors.KafkaError:  # a lost connection; the next poll goes on
                continue

    thread = threading.Thread(target=poll, name=client_id)
    thread.start()
    try:
        yield consumer
    finally:
        stop.set()
        thread.join()
        consumer.close()
