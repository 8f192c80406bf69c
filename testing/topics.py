"""Changes topics, appends records and reads them in the brokers themselves, without a client library."""

from collections.abc import Iterator, Mapping

import msgspec

from regroup.coordinator.serialization import Cause
from regroup.protocol.record_batch import (
    BatchRecord,
    read_batch_header,
    read_records,
    split_batches,
    write_batch,
)
from regroup.server.cluster.events import PartitionsAdded, TopicDeleted
from regroup.server.cluster.image import Topic
from regroup.server.cluster.state import ClusterState
from regroup.server.log.partition_log import PartitionLog
from regroup.server.log.record_validation import validate_batch
from regroup.testing.errors import ActRefused, UnknownTopic
from regroup.testing.groups.views import PartitionName
from regroup.testing.options import check_partitions

_PRODUCE_VERSION = 9


class TopicRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A record in a partition: offset, key, value, headers and timestamp."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()

    @property
    def text(self) -> str:
        """The value as UTF-8; empty for a record without a value."""
        return (self.value or b"").decode()


def find_topic(state: ClusterState, name: str) -> Topic:
    """The topic with this name. Raises UnknownTopic."""
    topic = state.topics.get(name)
    if topic is None:
        raise UnknownTopic(f"unknown topic {name!r}; topics: {', '.join(state.topics) or 'none'}")
    return topic


def find_partition(state: ClusterState, name: str, index: int) -> tuple[Topic, PartitionLog]:
    """The topic and the log of one of its partitions. Raises UnknownTopic."""
    topic = find_topic(state, name)
    if not 0 <= index < topic.partitions:
        raise UnknownTopic(f"topic {name!r} has partitions 0 to {topic.partitions - 1}, not {index}")
    return topic, state.partition_log(topic, index)


def create_topic(state: ClusterState, name: str, partitions: int) -> None:
    """Create a topic. Raises ActRefused, or InvalidSetting for an impossible number of partitions."""
    check_partitions(partitions)
    if name in state.topics:
        raise ActRefused(f"topic {name!r} exists already")
    if error := state.topic_name_error(name):
        raise ActRefused(error)
    state.create_topic(name, partitions, cause=Cause(test="create-topic"))


def add_partitions(state: ClusterState, name: str, partitions: int) -> None:
    """Give the topic this number of partitions. Raises UnknownTopic, or ActRefused if it has as many already."""
    topic = find_topic(state, name)
    check_partitions(partitions)
    if partitions <= topic.partitions:
        raise ActRefused(f"topic {name!r} has {topic.partitions} partitions already, and {partitions} are no more")
    state.record_event(PartitionsAdded(name=name, partitions=partitions), Cause(test="add-partitions"))


def delete_topic(state: ClusterState, name: str) -> None:
    """Delete the topic, and the offsets that groups have committed in it. Raises UnknownTopic."""
    topic = find_topic(state, name)
    state.record_event(TopicDeleted(name=name, topic_id=topic.topic_id), Cause(test="delete-topic"))


def append_record(
    state: ClusterState,
    partition: PartitionName,
    key: bytes | None,
    value: bytes | None,
    headers: Mapping[str, bytes],
) -> TopicRecord:
    """Append one record; consumers can read it once its offset is durable. Raises UnknownTopic."""
    topic, _ = find_partition(state, *partition)
    record = BatchRecord(key=key, value=value, headers=tuple(headers.items()))
    at_ms = state.now_ms()
    batches = list(split_batches(write_batch([record], base_timestamp_ms=at_ms)))
    batch = validate_batch(batches, _PRODUCE_VERSION, state.settings.socket_request_max_bytes)
    offset = state.append_batches(topic, partition[1], [batch])
    return TopicRecord(
        topic=topic.name,
        partition=partition[1],
        offset=offset,
        timestamp_ms=at_ms,
        key=key,
        value=value,
        headers=record.headers,
    )


def topic_records(
    state: ClusterState, name: str, partition: int | None = None, *, start: int = 0
) -> Iterator[TopicRecord]:
    """The records that consumers can read, from offset `start` (inclusive) on, by partition and offset. Markers of
    transactions are left out.

    Raises UnknownTopic, and ValueError for compressed records.
    """
    topic = find_topic(state, name)
    for index in range(topic.partitions) if partition is None else [partition]:
        yield from _read_partition(state, name, index, start)


def _read_partition(state: ClusterState, name: str, index: int, start: int) -> Iterator[TopicRecord]:
    _, log = find_partition(state, name, index)
    first = max(log.log_start_offset, start)
    if first >= log.high_watermark:
        return
    for data in log.read(first, before=log.high_watermark, max_bytes=2**62, at_least_one=True):
        for batch in split_batches(data):
            yield from (record for record in _records_of(name, index, batch.data) if record.offset >= start)


def _records_of(name: str, index: int, data: bytes) -> Iterator[TopicRecord]:
    header = read_batch_header(data)
    if header.is_control:
        return
    if header.compression:
        raise ValueError(f"the records of {name!r} are compressed: set the producer's compression to none to read them")
    for record in read_records(data):
        yield TopicRecord(
            topic=name,
            partition=index,
            offset=header.base_offset + record.offset_delta,
            timestamp_ms=header.base_timestamp_ms + record.timestamp_delta_ms,
            key=record.key,
            value=record.value,
            headers=record.headers,
        )


def as_bytes(value: bytes | str | None) -> bytes | None:
    """The value of a record as bytes: text is encoded in UTF-8, bytes and None are returned as they are."""
    return value.encode() if isinstance(value, str) else value
