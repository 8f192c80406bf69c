"""The state of the cluster as a value (topics, producer ids, transactions), the fold of cluster events to it, and
Kafka's rules for topic names.
"""

import re
from collections.abc import Collection, Mapping
from typing import Final
from uuid import UUID

import msgspec
from msgspec.structs import replace

from regroup.coordinator.layered_mapping import as_builtin
from regroup.coordinator.serialization import UNREADABLE_ERRORS, damaged
from regroup.protocol.internal_topics import INTERNAL_TOPICS
from regroup.protocol.java_order import java_string_hash
from regroup.protocol.topic_ids import topic_id_bytes, topic_id_text
from regroup.server.cluster.events import (
    ClusterEvent,
    GroupConfigured,
    OffsetsReserved,
    PartitionsAdded,
    ProducerIdsReserved,
    TopicConfigured,
    TopicCreated,
    TopicDeleted,
)
from regroup.server.cluster.transactions import Transaction, evolve_transactions
from regroup.storage.numbers import StoredNumber
from regroup.storage.records import Snapshot

SNAPSHOT_VERSION = 2
"""The version of the JSON form of `ClusterImage`. A snapshot with another version is ignored."""

_LEGAL_NAME = re.compile(r"[a-zA-Z0-9._-]+")
_MAX_NAME_LENGTH = 249


class Topic(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A topic. `reserved_before` has for each partition the offset below which all offsets may be in use
    (exclusive)."""

    name: str
    topic_id: str
    reserved_before: tuple[StoredNumber, ...]
    configs: dict[str, str] = {}  # msgspec gives each topic its own copy

    @property
    def partitions(self) -> int:
        return len(self.reserved_before)

    @property
    def id_bytes(self) -> bytes:
        """The topic id as 16 bytes, as messages carry it."""
        return topic_id_bytes(self.topic_id)

    @property
    def is_internal(self) -> bool:
        return self.name in INTERNAL_TOPICS


class ClusterImage(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """The topics by name, in the order of their creation, and the transactions by transactional id.

    Producer ids below `producer_ids_before` may be in use. `group_configs` are the settings of groups by name.
    """

    topics: dict[str, Topic] = {}  # msgspec gives each value its own copy
    producer_ids_before: StoredNumber = 0
    transactions: Mapping[str, Transaction] = {}
    group_configs: dict[str, dict[str, str]] = {}


TOPIC_CHANGES: Final = (TopicCreated, PartitionsAdded, TopicConfigured, OffsetsReserved)
TOPIC_EVENTS: Final = (*TOPIC_CHANGES, TopicDeleted)


def evolve_cluster(image: ClusterImage, *events: ClusterEvent) -> ClusterImage:
    """Return the state of the cluster after these events. They are not checked, because they have happened.

    Events of topics copy the dict of topics once for all events of a call, so one call with many of them costs less
    than many calls.
    """
    topics = dict(image.topics) if any(isinstance(event, TOPIC_EVENTS) for event in events) else image.topics
    producer_ids_before, transactions = image.producer_ids_before, image.transactions
    group_configs = image.group_configs
    for event in events:
        if isinstance(event, TopicDeleted):
            topics.pop(event.name, None)
        elif isinstance(event, GroupConfigured):
            others = {name: configs for name, configs in group_configs.items() if name != event.name}
            group_configs = others | ({event.name: event.configs} if event.configs else {})
        elif isinstance(event, ProducerIdsReserved):
            producer_ids_before = event.before
        elif isinstance(event, TOPIC_CHANGES):
            topics[event.name] = _evolve_topic(topics.get(event.name), event)
        else:
            transactions = evolve_transactions(transactions, event)
    return ClusterImage(
        topics=topics,
        producer_ids_before=producer_ids_before,
        transactions=transactions,
        group_configs=group_configs,
    )


def _evolve_topic(
    topic: Topic | None, event: TopicCreated | PartitionsAdded | TopicConfigured | OffsetsReserved
) -> Topic:
    if isinstance(event, TopicCreated):
        unreserved = (0,) * event.partitions
        return Topic(name=event.name, topic_id=event.topic_id, reserved_before=unreserved, configs=event.configs)
    if topic is None:
        raise KeyError(event.name)
    match event:
        case PartitionsAdded():
            unreserved = (0,) * (event.partitions - topic.partitions)
            return replace(topic, reserved_before=topic.reserved_before + unreserved)
        case TopicConfigured():
            return replace(topic, configs=event.configs)
        case OffsetsReserved(partition=partition):
            before = topic.reserved_before
            return replace(topic, reserved_before=(*before[:partition], event.before, *before[partition + 1 :]))


def encode_cluster_snapshot(
    image: ClusterImage, *, event_number: int, position: int, coordinator_epoch: int
) -> Snapshot:
    """A snapshot of the cluster's state after its `event_number`-th event. With it, a load need not fold the events
    before."""
    payload = msgspec.json.encode(image, enc_hook=as_builtin)
    return Snapshot(None, event_number, position, coordinator_epoch, SNAPSHOT_VERSION, payload)


def decode_cluster_snapshot(snapshot: Snapshot) -> ClusterImage:
    """Decode the state of the cluster that a snapshot contains. Raises StoreDamaged."""
    try:
        return msgspec.json.decode(snapshot.payload, type=ClusterImage)
    except UNREADABLE_ERRORS as error:
        raise damaged(f"The snapshot of the topics at position {snapshot.position}", error) from error


def topic_name_error(name: str, existing: Collection[str]) -> str | None:
    """Why no topic may have this name, by Kafka's rules and in Kafka's words; None for a valid name. `existing` are
    names of existing topics, from which it must differ in metrics."""
    if not name:
        return "Topic name is invalid: the empty string is not allowed"
    if name in (".", ".."):
        return "Topic name is invalid: '.' or '..' is not allowed"
    if len(name) > _MAX_NAME_LENGTH:
        return f"Topic name is invalid: the length of '{name}' is longer than the max allowed length {_MAX_NAME_LENGTH}"
    if not _LEGAL_NAME.fullmatch(name):
        return (
            f"Topic name is invalid: '{name}' contains one or more characters other than "
            "ASCII alphanumerics, '.', '_' and '-'"
        )
    metric_name = metric_name_of(name)
    twin = next((other for other in existing if other != name and metric_name_of(other) == metric_name), None)
    if twin is not None and name not in existing:
        return f"Topic '{name}' collides with existing topic: {twin}"
    return None


def metric_name_of(topic: str) -> str:
    """The topic's name in Kafka's metrics, where '.' becomes '_'. Two topics must not have the same."""
    return topic.replace(".", "_")


def uuid_text(uuid: UUID) -> str:
    """A UUID as Kafka writes it: 22 characters of URL-safe base64."""
    return topic_id_text(uuid.bytes)


def partition_of_key(key: str, partitions: int) -> int:
    """The partition of an internal topic for a group id or transactional id: the absolute value of Java's string hash,
    modulo `partitions`. The hash -2³¹, which has no absolute value, gives 0."""
    code = java_string_hash(key)
    signed = code - 2**32 if code >= 2**31 else code
    return (0 if signed == -(2**31) else abs(signed)) % partitions
