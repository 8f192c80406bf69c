"""Encodes and decodes Subscription and Assignment of the consumer protocol, versions 0 to 3.

Members send them to each other through the coordinator, which hardly ever reads them. They are older than Kafka's
flexible versions: an int16 version, then strings with an int16 length, arrays and bytes with an int32 length, -1 for
null.

    Subscription   topics, user data | v1 owned partitions (KIP-429) | v2 generation (KIP-792) | v3 rack (KIP-881)
    Assignment     partitions, user data, the same in every version

A version above 3 is read as 3, and bytes after the known fields are ignored, so that newer members can share a group
with older ones. Names are sorted as Java sorts strings, by UTF-16 code unit.
"""

from dataclasses import dataclass
from functools import lru_cache

from regroup.protocol.consumer.primitives import (
    ConsumerProtocolReader,
    ConsumerProtocolWriter,
    MalformedConsumerProtocol,
    TopicPartition,
    by_topic,
    topic_partitions,
)
from regroup.protocol.java_order import utf16_order

__all__ = [
    "HIGHEST_VERSION",
    "NO_GENERATION",
    "Assignment",
    "MalformedConsumerProtocol",
    "Subscription",
    "TopicPartition",
    "assigned_partitions",
    "decode_assignment",
    "decode_subscribed_topics",
    "decode_subscription",
    "encode_assignment",
    "encode_subscription",
    "topic_partitions",
]

HIGHEST_VERSION = 3
"""The newest version of Subscription and Assignment; members with a newer one are read as this one."""
NO_GENERATION = -1
"""The generation id of a member that owns nothing."""


@dataclass(frozen=True, slots=True)
class Subscription:
    """The subscription of a member, as sent in JoinGroup. Fields that are newer than `version` are not written.

    `user_data` are bytes of the assignor. `owned_partitions` are those that the member still owns (v1, KIP-429),
    `generation_id` is the generation in which it got them, -1 for none (v2, KIP-792), and `rack_id` its `client.rack`
    (v3, KIP-881).
    """

    version: int
    topics: tuple[str, ...]
    user_data: bytes | None = None
    owned_partitions: tuple[TopicPartition, ...] = ()
    generation_id: int = NO_GENERATION
    rack_id: str | None = None


@dataclass(frozen=True, slots=True)
class Assignment:
    """The partitions that a member is assigned, as it receives them in the SyncGroup response. `version` is the version
    in which the assignment is encoded, that of the member's subscription."""

    version: int
    partitions: tuple[TopicPartition, ...]
    user_data: bytes | None = None


def encode_subscription(subscription: Subscription) -> bytes:
    """Encode a Subscription; topics and owned partitions are sorted as in Java. Raises MalformedConsumerProtocol."""
    writer = ConsumerProtocolWriter()
    version = _readable_version(subscription.version, "subscription")
    writer.int16(version)
    writer.array(sorted(subscription.topics, key=utf16_order), writer.string)
    writer.nullable_bytes(subscription.user_data)
    if version >= 1:
        owned = sorted(subscription.owned_partitions, key=lambda each: (utf16_order(each.topic), each.partition))
        writer.partitions(by_topic(owned))
    if version >= 2:
        writer.int32(subscription.generation_id)
    if version >= 3:
        writer.nullable_string(subscription.rack_id)
    return bytes(writer.buffer)


def decode_subscription(data: bytes) -> Subscription:
    """Decode a Subscription. An empty rack becomes None, a negative generation -1. Raises MalformedConsumerProtocol."""
    reader = ConsumerProtocolReader(data, "subscription")
    version = _readable_version(reader.int16(), "subscription")
    topics = tuple(reader.array(reader.string))
    user_data = reader.nullable_bytes()
    owned = reader.partitions() if version >= 1 else ()
    generation = max(reader.int32(), NO_GENERATION) if version >= 2 else NO_GENERATION
    rack = (reader.nullable_string() or None) if version >= 3 else None
    return Subscription(version, topics, user_data, owned, generation, rack)


def decode_subscribed_topics(data: bytes) -> tuple[str, ...]:
    """Decode only the topics of a Subscription, as Kafka's classic coordinator does: it reads the fields of v0,
    whatever version the bytes have.

    The bytes after the fields of v0 may be malformed.
    """
    reader = ConsumerProtocolReader(data, "subscription")
    reader.int16()
    topics = tuple(reader.array(reader.string))
    reader.nullable_bytes()
    return topics


def encode_assignment(assignment: Assignment) -> bytes:
    """Encode an Assignment; topics are in the order of their first partition. Raises MalformedConsumerProtocol."""
    writer = ConsumerProtocolWriter()
    writer.int16(_readable_version(assignment.version, "assignment"))
    writer.partitions(by_topic(assignment.partitions))
    writer.nullable_bytes(assignment.user_data)
    return bytes(writer.buffer)


def decode_assignment(data: bytes) -> Assignment:
    """Decode an Assignment. Raises MalformedConsumerProtocol."""
    reader = ConsumerProtocolReader(data, "assignment")
    version = _readable_version(reader.int16(), "assignment")
    return Assignment(version, reader.partitions(), reader.nullable_bytes())


@lru_cache(maxsize=4096)
def assigned_partitions(assignment: bytes) -> tuple[TopicPartition, ...]:
    """The partitions in an encoded assignment; empty if the bytes are empty or not of the consumer protocol."""
    try:
        return decode_assignment(assignment).partitions if assignment else ()
    except MalformedConsumerProtocol:
        return ()


def _readable_version(version: int, what: str) -> int:
    if version < 0:
        raise MalformedConsumerProtocol(f"{what}: version {version} does not exist, versions start at 0")
    return min(version, HIGHEST_VERSION)
