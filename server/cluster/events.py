"""What can happen to topics and to producers, and how it is written down."""

from typing import ClassVar

import msgspec

from regroup.storage.errors import StoreError
from regroup.storage.records import NewRecord


class ClusterEvent(msgspec.Struct, frozen=True, kw_only=True):
    """Something that happened to the whole cluster. `written_as` and `version` name its form in the store."""

    written_as: ClassVar[str]
    version: ClassVar[int] = 1


class TopicCreated(ClusterEvent, frozen=True, kw_only=True):
    """A topic came to be. Its id is Kafka's text form: 22 letters that stand for 16 bytes (KIP-516)."""

    written_as: ClassVar[str] = "topic-created"
    name: str
    topic_id: str
    partitions: int
    configs: dict[str, str] = {}  # msgspec gives each event its own copy


class PartitionsAdded(ClusterEvent, frozen=True, kw_only=True):
    """The topic has `partitions` of them now, more than before."""

    written_as: ClassVar[str] = "partitions-added"
    name: str
    partitions: int


class TopicConfigured(ClusterEvent, frozen=True, kw_only=True):
    """The settings that differ from the broker's are these, all of them."""

    written_as: ClassVar[str] = "topic-configured"
    name: str
    configs: dict[str, str]


class TopicDeleted(ClusterEvent, frozen=True, kw_only=True):
    """The topic is gone with all its records; a later one of the same name has another id."""

    written_as: ClassVar[str] = "topic-deleted"
    name: str
    topic_id: str


class OffsetsReserved(ClusterEvent, frozen=True, kw_only=True):
    """Offsets before `before` may be in use; after a restart the partition goes on from there.

    Records are not stored. So that no offset is given twice, and none that a group committed lies past the end, a
    partition reserves offsets in blocks before it uses them. A clean stop gives back what was not used.
    """

    written_as: ClassVar[str] = "offsets-reserved"
    name: str
    partition: int
    before: int


class ProducerIdsReserved(ClusterEvent, frozen=True, kw_only=True):
    """Producer ids before `before` may be in use; after a restart new ones begin there."""

    written_as: ClassVar[str] = "producer-ids-reserved"
    before: int


class ProducerBegan(ClusterEvent, frozen=True, kw_only=True):
    """A transactional producer began, or began again: whoever has the same id with an older epoch is fenced."""

    written_as: ClassVar[str] = "producer-began"
    transactional_id: str
    producer_id: int
    epoch: int
    timeout_ms: int
    """How long one of its transactions may last."""
    replaces: tuple[int, int] = (-1, -1)
    """Id and epoch that the producer itself said it had until now (KIP-360)."""


class TransactionGrew(ClusterEvent, frozen=True, kw_only=True):
    """A producer is about to write to these partitions. The first ones begin its transaction."""

    written_as: ClassVar[str] = "transaction-grew"
    transactional_id: str
    partitions: dict[str, tuple[int, ...]]
    """By topic; offsets of a group count as a partition of `__consumer_offsets`."""
    at_ms: int


class TransactionPrepared(ClusterEvent, frozen=True, kw_only=True):
    """It is settled whether the transaction counts. What has to be told of it is told from now on, restart or not."""

    written_as: ClassVar[str] = "transaction-prepared"
    transactional_id: str
    committed: bool
    epoch: int
    """Of the markers, and of the producer from now on."""
    fences: bool = False
    """The epoch was raised against the producer's will, and is not told to it."""
    next_producer_id: int = -1
    """The id that the producer has afterwards, with epoch 0, because its epochs are used up."""
    reason: str = ""


class TransactionCompleted(ClusterEvent, frozen=True, kw_only=True):
    """Every partition and every group of the transaction has been told."""

    written_as: ClassVar[str] = "transaction-completed"
    transactional_id: str


_KINDS: dict[tuple[str, int], type[ClusterEvent]] = {
    (kind.written_as, kind.version): kind
    for kind in (
        TopicCreated,
        PartitionsAdded,
        TopicConfigured,
        TopicDeleted,
        OffsetsReserved,
        ProducerIdsReserved,
        ProducerBegan,
        TransactionGrew,
        TransactionPrepared,
        TransactionCompleted,
    )
}


class UnknownClusterEvent(StoreError):
    """The store holds a cluster record that this version cannot read: use the newer version that wrote it."""


def write_event(event: ClusterEvent, *, number: int, reign: int, at_ms: int, cause: bytes | None) -> NewRecord:
    """The record that keeps this event. Topics belong to the whole cluster, so the record names no group."""
    payload = msgspec.json.encode(event)
    return NewRecord(None, number, reign, at_ms, event.written_as, event.version, payload, cause)


def read_event(record: NewRecord) -> ClusterEvent:
    """The event that a record keeps. UnknownClusterEvent."""
    kind = _KINDS.get((record.type, record.version))
    if kind is None:
        raise UnknownClusterEvent(
            f"{record.type}/{record.version} is not known here; a newer version may have written it"
        )
    return msgspec.json.decode(record.payload, type=kind)
