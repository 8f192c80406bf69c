"""What can happen to topics, and how it is written down."""

from typing import ClassVar

import msgspec

from regroup.storage.records import NewRecord


class TopicEvent(msgspec.Struct, frozen=True, kw_only=True):
    """Something that happened to the cluster's topics. `written_as` and `version` name its form in the store."""

    written_as: ClassVar[str]
    version: ClassVar[int] = 1


class TopicCreated(TopicEvent, frozen=True, kw_only=True):
    """A topic came to be. Its id is Kafka's text form: 22 letters that stand for 16 bytes (KIP-516)."""

    written_as: ClassVar[str] = "topic-created"
    name: str
    topic_id: str
    partitions: int
    configs: dict[str, str] = {}  # msgspec gives each event its own copy


class PartitionsAdded(TopicEvent, frozen=True, kw_only=True):
    """The topic has `partitions` of them now, more than before."""

    written_as: ClassVar[str] = "partitions-added"
    name: str
    partitions: int


class TopicConfigured(TopicEvent, frozen=True, kw_only=True):
    """The settings that differ from the broker's are these, all of them."""

    written_as: ClassVar[str] = "topic-configured"
    name: str
    configs: dict[str, str]


class TopicDeleted(TopicEvent, frozen=True, kw_only=True):
    """The topic is gone with all its records; a later one of the same name has another id."""

    written_as: ClassVar[str] = "topic-deleted"
    name: str
    topic_id: str


class OffsetsReserved(TopicEvent, frozen=True, kw_only=True):
    """Offsets before `before` may be in use; after a restart the partition goes on from there.

    Records are not stored. So that no offset is given twice, and none that a group committed lies past the end, a
    partition reserves offsets in blocks before it uses them. A clean stop gives back what was not used.
    """

    written_as: ClassVar[str] = "offsets-reserved"
    name: str
    partition: int
    before: int


class ProducerIdsReserved(TopicEvent, frozen=True, kw_only=True):
    """Producer ids before `before` may be in use; after a restart new ones begin there."""

    written_as: ClassVar[str] = "producer-ids-reserved"
    before: int


_KINDS: dict[tuple[str, int], type[TopicEvent]] = {
    (kind.written_as, kind.version): kind
    for kind in (TopicCreated, PartitionsAdded, TopicConfigured, TopicDeleted, OffsetsReserved, ProducerIdsReserved)
}


class UnknownTopicEvent(Exception):
    """The store holds a cluster record that this version cannot read: use the newer version that wrote it."""


def write_event(event: TopicEvent, *, number: int, reign: int, at_ms: int, cause: bytes | None) -> NewRecord:
    """The record that keeps this event. Topics belong to the whole cluster, so the record names no group."""
    payload = msgspec.json.encode(event)
    return NewRecord(None, number, reign, at_ms, event.written_as, event.version, payload, cause)


def read_event(record: NewRecord) -> TopicEvent:
    """The event that a record keeps. UnknownTopicEvent."""
    kind = _KINDS.get((record.type, record.version))
    if kind is None:
        raise UnknownTopicEvent(
            f"{record.type}/{record.version} is not known here; a newer version may have written it"
        )
    return msgspec.json.decode(record.payload, type=kind)
