"""Encodes and decodes the user data of sticky assignors, which a member sends to its leader in the Subscription.

sticky               v1: the previous partitions by topic, then the generation; v0: without the generation
cooperative-sticky   the generation (KIP-429)
"""

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import repeat
from typing import NamedTuple

from regroup.protocol.consumer.primitives import (
    ConsumerProtocolReader,
    ConsumerProtocolWriter,
    MalformedConsumerProtocol,
    TopicPartition,
    by_topic,
)
from regroup.protocol.consumer.subscription import NO_GENERATION
from regroup.protocol.java_order import java_hash_map_order

_MIN_SAMPLES_FOR_LAYOUT = 4
"""How many members' user data are read one by one before their layout is made, because making it takes as long as
reading several."""


@dataclass(frozen=True, slots=True)
class StickyUserData:
    """The user data of a member of a `sticky` group: its previous partitions, and the generation in which it got them,
    which is None in v0 (before Kafka 2.3)."""

    partitions: tuple[TopicPartition, ...]
    generation: int | None


def java_sticky_order(partitions: Sequence[TopicPartition]) -> tuple[TopicPartition, ...]:
    """The partitions by topic, with topics in the order in which Java's `sticky` writes them into its user data."""
    numbers = by_topic(partitions)
    # Java fills this map with `computeIfAbsent`, which checks the size before it adds the key.
    counted = len({each.topic for each in partitions[:-1]})
    topics = java_hash_map_order(numbers, counted)
    return tuple(TopicPartition(topic, number) for topic in topics for number in numbers[topic])


def encode_sticky_user_data(data: StickyUserData) -> bytes:
    """Encode the user data of `sticky`: the previous partitions, then the generation unless it is None. The bytes
    contain no version number."""
    writer = ConsumerProtocolWriter()
    writer.partitions(by_topic(data.partitions))
    if data.generation is not None:
        writer.int32(data.generation)
    return bytes(writer.buffer)


def decode_sticky_user_data(data: bytes) -> StickyUserData:
    """Decode the user data of `sticky`. Bytes that cannot be read give a member without a previous assignment."""
    reader = ConsumerProtocolReader(data, "user data of sticky")
    try:
        partitions = reader.partitions()
    except MalformedConsumerProtocol:
        return StickyUserData((), NO_GENERATION)
    try:
        return StickyUserData(partitions, reader.int32())
    except MalformedConsumerProtocol:
        return StickyUserData(partitions, None)


def encode_cooperative_sticky_user_data(generation: int) -> bytes:
    """Encode the user data of `cooperative-sticky`: the generation of the owned partitions. Subscriptions since v2 have
    a field for it."""
    writer = ConsumerProtocolWriter()
    writer.int32(generation)
    return bytes(writer.buffer)


def decode_cooperative_sticky_user_data(data: bytes) -> int:
    """Decode the user data of `cooperative-sticky` and return its generation; -1 if the bytes cannot be read."""
    return int.from_bytes(data[:4], "big", signed=True) if len(data) >= 4 else NO_GENERATION


class StickyUserDataReader:
    """Reads the user data of many members of one group, faster than `decode_sticky_user_data` and with the same
    results.

    In a large group many members have one partition each of the same topics, and then their bytes differ in the
    numbers only. After a few such members the numbers of the others are unpacked in one call.
    """

    def __init__(self) -> None:
        self._samples: dict[tuple[int, bytes], int] = {}
        self._layouts: dict[tuple[int, bytes], _Layout] = {}

    def read(self, data: bytes) -> StickyUserData:
        """Decode the user data of one member, with the same result as `decode_sticky_user_data`."""
        kind = len(data), data[: 10 + int.from_bytes(data[4:6])]  # up to the first partition number
        layout = self._layouts.get(kind)
        if layout is not None and (found := layout.read(data)) is not None:
            return found
        decoded = decode_sticky_user_data(data)
        self._samples[kind] = samples = self._samples.get(kind, 0) + 1
        if samples == _MIN_SAMPLES_FOR_LAYOUT and _Layout.suits(decoded):
            self._layouts[kind] = _Layout.of(decoded)
        return decoded


class _Layout(NamedTuple):
    """The layout of `sticky` user data with exactly one partition of each topic. `heads` are the bytes before each
    partition number."""

    topics: tuple[str, ...]
    heads: tuple[bytes, ...]
    shape: struct.Struct

    @classmethod
    def suits(cls, known: StickyUserData) -> bool:
        """Whether a layout can be made of the decoded user data `known`: they must have exactly one partition of each
        topic. Topic names with U+FFFD are excluded, because that may stand for bytes that were not UTF-8."""
        topics = {each.topic for each in known.partitions}
        return 0 < len(topics) == len(known.partitions) and not any("\ufffd" in topic for topic in topics)

    @classmethod
    def of(cls, known: StickyUserData) -> "_Layout":
        topics = tuple(each.topic for each in known.partitions)
        heads = [struct.pack(f">h{len(name)}si", len(name), name, 1) for name in (topic.encode() for topic in topics)]
        heads[0] = struct.pack(">i", len(topics)) + heads[0]
        generation = "" if known.generation is None else "i"
        return cls(topics, tuple(heads), struct.Struct(">" + "".join(f"{len(head)}si" for head in heads) + generation))

    def read(self, data: bytes) -> StickyUserData | None:
        """Decode user data of this layout, with the result of `decode_sticky_user_data`; None if the bytes have another
        layout."""
        fields = self.shape.unpack_from(data) if len(data) >= self.shape.size else ()
        count = len(self.topics)
        if fields[: 2 * count : 2] != self.heads:
            return None
        partitions = map(tuple.__new__, repeat(TopicPartition), zip(self.topics, fields[1::2], strict=False))
        return StickyUserData(tuple(partitions), fields[-1] if len(fields) > 2 * count else None)
