"""Endpoints for topics and their records, for tests without a client library."""

from collections.abc import Iterable, Iterator
from itertools import chain, islice
from typing import Annotated, Final

import msgspec
from msgspec import Meta

from regroup.control.endpoints.endpoint import ControlEndpoint, ControlledEmulator, Done, ListInput, act, look
from regroup.control.endpoints.fields import PartitionIndex, RowLimit, TopicName
from regroup.control.errors import Status
from regroup.testing.topics import TopicRecord, topic_records

MAX_RECORDS_BYTES: Final = 16 * 1024 * 1024
"""After so many bytes of keys, values and headers a list of records ends. Each may be in the answer twice, as text and
in base64."""


class TopicAnswer(msgspec.Struct, frozen=True):
    """A topic, as the answers of endpoints describe it."""

    topic: str
    partitions: int


class TopicInput(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Names a topic."""

    topic: TopicName


class PartitionsInput(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A topic, and the number of partitions that it is to have."""

    topic: TopicName
    partitions: Annotated[int, Meta(ge=1, le=10_000, description="How many partitions the topic has then.")] = 1


class RecordHeader(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One header of a record."""

    name: str
    value_base64: bytes | None


class RecordInput(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A record. Key and value are text, or bytes in base64; without either they are null."""

    topic: TopicName
    partition: PartitionIndex = 0
    value: str | None = None
    value_base64: bytes | None = None
    key: str | None = None
    key_base64: bytes | None = None
    headers: tuple[RecordHeader, ...] = ()

    def __post_init__(self) -> None:
        if self.value is not None and self.value_base64 is not None:
            raise ValueError("give value or value_base64, not both")
        if self.key is not None and self.key_base64 is not None:
            raise ValueError("give key or key_base64, not both")
        if any(each.value_base64 is None for each in self.headers):
            raise ValueError("a header needs a value_base64")


class RecordsInput(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The topic whose records are listed, and which of its records."""

    topic: TopicName
    partition: Annotated[int, Meta(ge=0, description="Without it, of all partitions.")] | None = None
    offset: Annotated[int, Meta(ge=0, description="Only from this offset on.")] = 0
    limit: RowLimit = 1000


class RecordAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """A record in a partition. `key` and `value` are null if the bytes are not UTF-8."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    key: str | None
    key_base64: bytes | None
    value: str | None
    value_base64: bytes | None
    headers: tuple[RecordHeader, ...]


def text_of(value: bytes | None) -> str | None:
    """The bytes decoded as UTF-8; None for None and for bytes that are not UTF-8."""
    try:
        return None if value is None else value.decode()
    except UnicodeDecodeError:
        return None


def record_answer(record: TopicRecord) -> RecordAnswer:
    return RecordAnswer(
        topic=record.topic,
        partition=record.partition,
        offset=record.offset,
        timestamp_ms=record.timestamp_ms,
        key=text_of(record.key),
        key_base64=record.key,
        value=text_of(record.value),
        value_base64=record.value,
        headers=tuple(RecordHeader(name, value) for name, value in record.headers),
    )


async def topics(controlled: ControlledEmulator, wanted: ListInput) -> tuple[TopicAnswer, ...]:
    """List the topics; those of Kafka itself are left out."""
    return tuple(TopicAnswer(*each) for each in islice((await controlled.emulator.topics()).items(), wanted.limit))


async def records(controlled: ControlledEmulator, wanted: RecordsInput) -> tuple[RecordAnswer, ...]:
    """List the records that consumers can read, by partition and offset. The list ends earlier than at `limit` when its
    records exceed 16 MiB."""
    found = topic_records(controlled.emulator.cluster.state, wanted.topic, wanted.partition, start=wanted.offset)
    return tuple(map(record_answer, _up_to_max_bytes(islice(found, wanted.limit))))


def _up_to_max_bytes(found: Iterable[TopicRecord]) -> Iterator[TopicRecord]:
    """The records up to the first with which all together exceed MAX_RECORDS_BYTES."""
    total_bytes = 0
    for record in found:
        yield record
        texts = (record.key, record.value, *chain.from_iterable(record.headers))
        total_bytes += sum(len(each) for each in texts if each)
        if total_bytes > MAX_RECORDS_BYTES:
            return


async def create_topic(controlled: ControlledEmulator, wanted: PartitionsInput) -> TopicAnswer:
    """Create a topic."""
    await controlled.emulator.create_topic(wanted.topic, wanted.partitions)
    return TopicAnswer(wanted.topic, wanted.partitions)


async def add_partitions(controlled: ControlledEmulator, wanted: PartitionsInput) -> TopicAnswer:
    """Let a topic have more partitions."""
    await controlled.emulator.add_partitions(wanted.topic, wanted.partitions)
    return TopicAnswer(wanted.topic, wanted.partitions)


async def delete_topic(controlled: ControlledEmulator, wanted: TopicInput) -> Done:
    """Delete a topic, and the offsets that groups have committed in it."""
    await controlled.emulator.delete_topic(wanted.topic)
    return Done()


async def produce(controlled: ControlledEmulator, wanted: RecordInput) -> RecordAnswer:
    """Append a record to a partition."""
    record = await controlled.emulator.produce(
        wanted.topic,
        wanted.value if wanted.value_base64 is None else wanted.value_base64,
        key=wanted.key if wanted.key_base64 is None else wanted.key_base64,
        partition=wanted.partition,
        headers={each.name: each.value_base64 or b"" for each in wanted.headers},
    )
    return record_answer(record)


_GONE, _NO = Status.NOT_FOUND, Status.REFUSED
ENDPOINTS: tuple[ControlEndpoint, ...] = (
    look("/topics", topics),
    look("/topic/records", records, _GONE, topic="orders", limit=10),
    act("/topic/create", create_topic, _NO, topic="payments", partitions=6),
    act("/topic/add-partitions", add_partitions, _GONE, _NO, topic="orders", partitions=9),
    act("/topic/delete", delete_topic, _GONE, topic="payments"),
    act("/topic/produce", produce, _GONE, topic="orders", value="one pear", key="pears"),
)
