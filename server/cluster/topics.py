"""The cluster as a value: topics, producers, transactions; and the rules that Kafka has for topics."""

import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Mapping
from uuid import UUID

import msgspec
from msgspec.structs import replace

from regroup.protocol.java_order import java_string_hash
from regroup.server.cluster.events import (
    ClusterEvent,
    OffsetsReserved,
    PartitionsAdded,
    ProducerIdsReserved,
    TopicConfigured,
    TopicCreated,
    TopicDeleted,
)
from regroup.server.cluster.transactions import Transaction
from regroup.server.cluster.transactions import evolve as evolve_transactions

OFFSETS_TOPIC = "__consumer_offsets"
TRANSACTIONS_TOPIC = "__transaction_state"
INTERNAL_TOPICS = frozenset({OFFSETS_TOPIC, TRANSACTIONS_TOPIC})

SNAPSHOT_VERSION = 1
"""Of `Topics` as JSON."""

_LEGAL_NAME = re.compile(r"[a-zA-Z0-9._-]+")
_LONGEST_NAME = 249


class Topic(msgspec.Struct, frozen=True, kw_only=True):
    """A topic; `reserved[partition]` is the offset before which all may be in use."""

    name: str
    topic_id: str
    reserved: tuple[int, ...]
    configs: dict[str, str] = {}  # msgspec gives each topic its own copy

    @property
    def partitions(self) -> int:
        return len(self.reserved)

    @property
    def id_bytes(self) -> bytes:
        """The id as it travels."""
        return uuid_bytes(self.topic_id)

    @property
    def is_internal(self) -> bool:
        return self.name in INTERNAL_TOPICS


class Topics(msgspec.Struct, frozen=True, kw_only=True):
    """All topics by name, in the order in which they came to be, the producer ids that may be in use, and what is
    known of each transactional id."""

    by_name: dict[str, Topic] = {}  # msgspec gives each value its own copy
    producer_ids_before: int = 0
    transactions: dict[str, Transaction] = {}


def evolve(topics: Topics, event: ClusterEvent) -> Topics:
    """The cluster after this event. It cannot refuse: the event has happened."""
    match event:
        case TopicCreated(name=name):
            reserved = (0,) * event.partitions
            created = Topic(name=name, topic_id=event.topic_id, reserved=reserved, configs=event.configs)
            return _with(topics, created)
        case PartitionsAdded(name=name):
            topic = topics.by_name[name]
            more = (0,) * (event.partitions - topic.partitions)
            return _with(topics, replace(topic, reserved=topic.reserved + more))
        case TopicConfigured(name=name):
            return _with(topics, replace(topics.by_name[name], configs=event.configs))
        case TopicDeleted(name=name):
            return replace(topics, by_name={key: topic for key, topic in topics.by_name.items() if key != name})
        case OffsetsReserved(name=name, partition=partition):
            topic = topics.by_name[name]
            reserved = (*topic.reserved[:partition], event.before, *topic.reserved[partition + 1 :])
            return _with(topics, replace(topic, reserved=reserved))
        case ProducerIdsReserved():
            return replace(topics, producer_ids_before=event.before)
    return replace(topics, transactions=evolve_transactions(topics.transactions, event))


def _with(topics: Topics, topic: Topic) -> Topics:
    return replace(topics, by_name=topics.by_name | {topic.name: topic})


def snapshot_of(topics: Topics) -> bytes:
    """The topics as JSON, for `regroup.storage.records.Snapshot`."""
    return msgspec.json.encode(topics)


def from_snapshot(payload: bytes) -> Topics:
    """The topics that `snapshot_of` wrote."""
    return msgspec.json.decode(payload, type=Topics)


def name_is_illegal(name: str, present: Mapping[str, Topic]) -> str | None:
    """Why no topic may be made with this name, or None if one may (Kafka's rules)."""
    if not name:
        return "Topic name is invalid: the empty string is not allowed"
    if name in (".", ".."):
        return "Topic name is invalid: '.' or '..' is not allowed"
    if len(name) > _LONGEST_NAME:
        return f"Topic name is invalid: the length of '{name}' is longer than the max allowed length {_LONGEST_NAME}"
    if not _LEGAL_NAME.fullmatch(name):
        return (
            f"Topic name is invalid: '{name}' contains one or more characters other than "
            "ASCII alphanumerics, '.', '_' and '-'"
        )
    # Kafka names its metrics after topics and writes '.' and '_' alike there.
    twin = next((other for other in present if other != name and _metric_name(other) == _metric_name(name)), None)
    if twin is not None and name not in present:
        return f"Topic '{name}' collides with existing topic: {twin}"
    return None


def _metric_name(name: str) -> str:
    return name.replace(".", "_")


def uuid_text(uuid: UUID) -> str:
    """Kafka's way to write an id: base64 for addresses, without padding."""
    return urlsafe_b64encode(uuid.bytes).rstrip(b"=").decode()


def uuid_bytes(text: str) -> bytes:
    """The sixteen bytes behind Kafka's text form."""
    return urlsafe_b64decode(text + "==")


def partition_of_key(key: str, partitions: int) -> int:
    """The partition of an internal topic that holds this group or transactional id: Java's string hash, made positive
    Kafka's way."""
    code = java_string_hash(key)
    signed = code - 2**32 if code >= 2**31 else code
    return (0 if signed == -(2**31) else abs(signed)) % partitions
