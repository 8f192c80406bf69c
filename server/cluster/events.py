"""Events of the cluster: topics, reserved offsets and producer ids, transactions; and their form in the store."""

from typing import Annotated, Final, TypeAlias

import msgspec

from regroup.coordinator.serialization import Cause, encode_cause
from regroup.storage.errors import StoreError
from regroup.storage.numbers import StoredNumber
from regroup.storage.records import NewRecord

# Causes of events that no client has requested.
BROKER_START: Final = Cause(internal="the start of the broker")
BROKER_STOP: Final = Cause(internal="the end of the broker")
RECORDS_PRODUCED: Final = Cause(internal="records that came in")
TRANSACTION_END: Final = Cause(internal="the end of a transaction")
TRANSACTION_TIMEOUT: Final = Cause(deadline="transaction")


LARGEST_PARTITION_COUNT: Final = 200_000
"""The most partitions of a topic. Loading an event allocates memory for each partition, so a damaged event must not
name any number."""
PartitionCount: TypeAlias = Annotated[int, msgspec.Meta(ge=1, le=LARGEST_PARTITION_COUNT)]


class ClusterEvent(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A stored fact about the whole cluster. As in events of groups, an unknown field is refused."""


class TopicCreated(ClusterEvent, frozen=True, kw_only=True):
    """A topic was created. Its id is in Kafka's text form: 22 characters for 16 bytes (KIP-516)."""

    name: str
    topic_id: str
    partitions: PartitionCount
    configs: dict[str, str] = {}  # msgspec gives each event its own copy


class PartitionsAdded(ClusterEvent, frozen=True, kw_only=True):
    """Partitions were added to a topic, which has `partitions` of them in all now."""

    name: str
    partitions: PartitionCount


class TopicConfigured(ClusterEvent, frozen=True, kw_only=True):
    """The settings that a topic has of its own were replaced by these. For all other settings the topic has the
    broker's values."""

    name: str
    configs: dict[str, str]


class GroupConfigured(ClusterEvent, frozen=True, kw_only=True):
    """The own settings of a group were replaced, whether there is such a group or not; all others are the broker's."""

    name: str
    configs: dict[str, str]


class TopicDeleted(ClusterEvent, frozen=True, kw_only=True):
    """The topic was deleted with all its records. A later topic with this name has another id."""

    name: str
    topic_id: str


class OffsetsReserved(ClusterEvent, frozen=True, kw_only=True):
    """A partition has reserved all offsets below `before` (exclusive) and may use them; after a restart it continues at
    `before`.

    Records are not stored. A partition reserves offsets in blocks before it uses them, so that after a crash no offset
    is used twice and no committed offset is past the end. A clean stop gives unused offsets back.
    """

    name: str
    partition: StoredNumber
    before: StoredNumber


class ProducerIdsReserved(ClusterEvent, frozen=True, kw_only=True):
    """The cluster has reserved all producer ids below `before` (exclusive) and may use them; after a restart new ids
    begin at `before`."""

    before: StoredNumber


class ProducerInitialized(ClusterEvent, frozen=True, kw_only=True):
    """A transactional producer got its id and epoch; a producer with an older epoch is fenced."""

    transactional_id: str
    producer_id: int
    epoch: int
    timeout_ms: int
    """How long each of the producer's transactions may last, in milliseconds."""
    previous_producer: tuple[int, int] = (-1, -1)
    """Producer id and epoch that the InitProducerId request named as the producer's present ones (KIP-360); -1 for
    none."""


class PartitionsAddedToTransaction(ClusterEvent, frozen=True, kw_only=True):
    """A producer is about to write to these partitions. The first ones begin its transaction."""

    transactional_id: str
    partitions: dict[str, tuple[int, ...]]
    """Partition indexes by topic; offsets of a group count as a partition of `__consumer_offsets`."""
    at_ms: int


class TransactionPrepared(ClusterEvent, frozen=True, kw_only=True):
    """The outcome of a transaction, commit or abort, is final. From now on its markers are written, also after a
    restart."""

    transactional_id: str
    committed: bool
    epoch: int
    """The epoch of the markers, and of the producer from now on."""
    fences_producer: bool = False
    """Whether the producer is fenced: its epoch was raised without its request, so it does not get the new one."""
    next_producer_id: int = -1
    """The producer's id afterwards, with epoch 0, because its epochs are exhausted; -1 if it keeps its id."""
    reason: str = ""


class TransactionCompleted(ClusterEvent, frozen=True, kw_only=True):
    """Every partition and every group of the transaction has its marker."""

    transactional_id: str


CLUSTER_EVENT_TYPES: Final[dict[str, type[ClusterEvent]]] = {
    "topic-created": TopicCreated,
    "partitions-added": PartitionsAdded,
    "topic-configured": TopicConfigured,
    "topic-deleted": TopicDeleted,
    "group-configured": GroupConfigured,
    "offsets-reserved": OffsetsReserved,
    "producer-ids-reserved": ProducerIdsReserved,
    "producer-initialized": ProducerInitialized,
    "partitions-added-to-transaction": PartitionsAddedToTransaction,
    "transaction-prepared": TransactionPrepared,
    "transaction-completed": TransactionCompleted,
}
CLUSTER_EVENT_VERSION: Final = 2
"""The version of the payload of every event."""
_TYPE_NAMES: Final = {event_type: name for name, event_type in CLUSTER_EVENT_TYPES.items()}


class UnknownClusterEvent(StoreError):
    """The store contains a cluster event of a type or version that this version of regroup cannot decode."""


def encode_cluster_event(
    event: ClusterEvent, *, event_number: int, coordinator_epoch: int, at_ms: int, cause: Cause
) -> NewRecord:
    """The record that stores an event; `event_number` counts cluster events from 1. The record's group is None."""
    return NewRecord(
        None,
        event_number,
        coordinator_epoch,
        at_ms,
        _TYPE_NAMES[type(event)],
        CLUSTER_EVENT_VERSION,
        msgspec.json.encode(event),
        encode_cause(cause),
    )


def decode_cluster_event(record: NewRecord) -> ClusterEvent:
    """Decode the cluster event that a stored record contains. Raises UnknownClusterEvent."""
    event_type = CLUSTER_EVENT_TYPES.get(record.type)
    if event_type is None or record.version != CLUSTER_EVENT_VERSION:
        raise UnknownClusterEvent(
            f"unknown cluster event: {record.type}/{record.version}; read this store with the version of regroup that "
            "wrote it, or a newer one"
        )
    return msgspec.json.decode(record.payload, type=event_type)
