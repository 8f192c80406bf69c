"""Three client libraries behind the calls that a test needs. A library is imported when it is first used."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from importlib import import_module
from typing import Any, NamedTuple, Protocol

POLL_S = 0.1
METADATA_AGE_MS = 500
"""The time after which a consumer learns of a new topic or partition."""

Partitions = Iterable[tuple[str, int]]


class ConsumedRecord(NamedTuple):
    """A record that a consumer has polled."""

    topic: str
    partition: int
    offset: int
    value: str


class ConsumerOptions(NamedTuple):
    """The settings of a consumer."""

    address: str
    group: str
    topics: Sequence[str] = ()
    pattern: str = ""
    assignor: str = "range"
    instance_id: str | None = None
    session_timeout_ms: int = 5_000
    """A much shorter one would remove live members on a busy machine."""
    heartbeat_interval_ms: int = 200
    uses_consumer_protocol: bool = False
    """KIP-848: the broker assigns, and its settings have the timeouts."""


AssignmentListener = Callable[[str, Partitions], None]
"""Called with `assigned`, `revoked` or `lost`, and the partitions."""


class Consumer(Protocol):
    """What the three consumers have in common."""

    def poll(self) -> list[ConsumedRecord]:
        """Return records as soon as there are some, or none after a while."""
        ...

    def commit(self) -> str:
        """Commit the positions after the last poll and wait for the response; returns the error as text, or none."""
        ...

    def close(self) -> None: ...


def python_client_settings(options: ConsumerOptions, assignors: Mapping[str, type]) -> dict[str, Any]:
    """The settings of kafka-python and aiokafka, which have the same names."""
    return {
        "bootstrap_servers": options.address,
        "group_id": options.group,
        "group_instance_id": options.instance_id,
        "session_timeout_ms": options.session_timeout_ms,
        "heartbeat_interval_ms": options.heartbeat_interval_ms,
        "partition_assignment_strategy": (assignors[options.assignor],),
        "auto_offset_reset": "earliest",
        "enable_auto_commit": False,
        "metadata_max_age_ms": METADATA_AGE_MS,
    }


def partition_names(partitions: Iterable[Any]) -> list[tuple[str, int]]:
    return sorted((each.topic, each.partition) for each in partitions)


def consumed_records(polled: dict[Any, list[Any]]) -> list[ConsumedRecord]:
    """The records of kafka-python and aiokafka, which return them by partition."""
    return [
        ConsumedRecord(each.topic, each.partition, each.offset, each.value.decode())
        for rows in polled.values()
        for each in rows
    ]


LIBRARIES = ("confluent-kafka", "kafka-python", "aiokafka")


def of_library(library: str, name: str, *arguments: Any) -> Any:
    """Call what has this name in the module for a library."""
    return getattr(import_module(f"tests.clients.with_{library.replace('-', '_')}"), name)(*arguments)


CONSUMERS: dict[str, Callable[[ConsumerOptions, AssignmentListener], Consumer]] = {
    library: partial(of_library, library, "LibraryConsumer") for library in LIBRARIES
}
PRODUCERS: dict[str, Callable[[str, Sequence[tuple[str, int, str]]], None]] = {
    library: partial(of_library, library, "produce") for library in LIBRARIES
}
"""Functions that write rows of topic, partition and value, and return when all of them are acknowledged."""
