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
"""The most partitions of a topic. Loading an event allocates memory for each, so a damaged number must not be any."""
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
    """The topic has more partitions than before: `partitions` of them."""

    name: str
    partitions: PartitionCount


class TopicConfigured(ClusterEvent, frozen=True, kw_only=True):
    """The topic's own settings were replaced; all others are the broker's."""

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
    """Offsets below `before` may be in use; after a restart the partition continues there.

    Records are not stored. A partition reserves offsets in blocks before it uses them, so that after a crash no offset
    is used twice and no committed offset is past the end. A clean stop gives unused offsets back.
    """

    name: str
    partition: StoredNumber
    before: StoredNumber


class ProducerIdsReserved(ClusterEvent, frozen=True, kw_only=True):
    """Producer ids below `before` may be in use; after a restart new ids begin there."""

    before: StoredNumber


class ProducerInitialized(ClusterEvent, frozen=True, kw_only=True):
    """A transactional producer got its id and epoch; a producer with an older epoch is fenced."""

    transactional_id: str
    producer_id: int
    epoch: int
    timeout_ms: int
    """How long each of its transactions may last."""
    previous_producer: tuple[int, int] = (-1, -1)
    """Producer id and epoch that the request named as its own (KIP-360); -1 for none."""


class PartitionsAddedToTransaction(ClusterEvent, frozen=True, kw_only=True):
    """A producer is about to write to these partitions. The first ones begin its transaction."""

    transactional_id: str
    partitions: dict[str, tuple[int, ...]]
    """Partition indexes by topic; offsets of a group count as a partition of `__consumer_offsets`."""
    at_ms: int


class TransactionPrepared(ClusterEvent, frozen=True, kw_only=True):
    """The outcome of the transaction is final. From now on its markers are written, also after a restart."""

    transactional_id: str
    committed: bool
    epoch: int
    """The epoch of the markers, and of the producer from now on."""
    fences_producer: bool = False
    """The epoch was raised without a request of the producer, which does not learn it."""
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
"""Version of every event payload."""
_TYPE_NAMES: Final = {event_type: name for name, event_type in CLUSTER_EVENT_TYPES.items()}


class UnknownClusterEvent(StoreError):
    """The store holds a cluster event of a type or version that this regroup does not know."""


def encode_cluster_event(
    event: ClusterEvent, *, event_number: int, coordinator_epoch: int, at_ms: int, cause: Cause
) -> NewRecord:
    """The record of an event, the `event_number`-th of the cluster. Cluster events belong to no group."""
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
    """The event that a record holds. Raises UnknownClusterEvent."""
    event_type = CLUSTER_EVENT_TYPES.get(record.type)
    if event_type is None or record.version != CLUSTER_EVENT_VERSION:
        raise UnknownClusterEvent(
            f"unknown cluster event: {record.type}/{record.version}; read this store with the version of regroup that "
            "wrote it, or a newer one"
        )
    return msgspec.json.decode(record.payload, type=event_type)
