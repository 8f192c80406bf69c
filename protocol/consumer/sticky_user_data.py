"""What members of a sticky group tell their leader in the user data of their Subscription.

sticky               v1: the previous partitions by topic, then the generation; v0: without the generation
cooperative-sticky   the generation alone (KIP-429)
"""

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import repeat
from typing import NamedTuple

from regroup.protocol.consumer.primitives import MalformedConsumerProtocol, Reader, TopicPartition, Writer, by_topic
from regroup.protocol.consumer.subscription import NO_GENERATION
from regroup.protocol.java_order import java_hash_map_order

WORTH_A_LAYOUT = 4
"""To learn how members' bytes look costs as much as to read those of several."""


@dataclass(frozen=True, slots=True)
class StickyUserData:
    """What a member of a `sticky` group had before; `generation` is None in the format of Kafka before 2.3."""

    partitions: tuple[TopicPartition, ...]
    generation: int | None


def in_sticky_order(partitions: Sequence[TopicPartition]) -> tuple[TopicPartition, ...]:
    """`partitions` by topic, topics in the order in which Java's `sticky` puts them into its user data."""
    groups = by_topic(partitions)
    # Java fills this map with `computeIfAbsent`, which looks at the size before it adds the key.
    counted = len({each.topic for each in partitions[:-1]})
    order = java_hash_map_order(groups, counted)
    return tuple(TopicPartition(topic, number) for topic in order for number in groups[topic])


def encode_sticky_user_data(data: StickyUserData) -> bytes:
    """The user data of `sticky`: previous partitions, then the generation unless it is None. It has no version."""
    writer = Writer()
    writer.partitions(by_topic(data.partitions))
    if data.generation is not None:
        writer.int32(data.generation)
    return bytes(writer.buffer)


def decode_sticky_user_data(data: bytes) -> StickyUserData:
    """Read what `encode_sticky_user_data` wrote; bytes that cannot be read mean a member that had nothing."""
    reader = Reader(data, "user data of sticky")
    try:
        partitions = reader.partitions()
    except MalformedConsumerProtocol:
        return StickyUserData((), NO_GENERATION)
    try:
        return StickyUserData(partitions, reader.int32())
    except MalformedConsumerProtocol:
        return StickyUserData(partitions, None)


def encode_cooperative_sticky_user_data(generation: int) -> bytes:
    """The user data of `cooperative-sticky`: the generation of the owned partitions, for members before v2."""
    writer = Writer()
    writer.int32(generation)
    return bytes(writer.buffer)


def decode_cooperative_sticky_user_data(data: bytes) -> int:
    """The generation, or -1 if the bytes cannot be read."""
    return int.from_bytes(data[:4], "big", signed=True) if len(data) >= 4 else NO_GENERATION


class StickyUserDataReader:
    """Reads the user data of many members of one group, with the same answers as `decode_sticky_user_data`.

    In a large group many members have one partition each of the same topics, and then their bytes differ in nothing
    but the numbers. Once that is seen, all numbers are taken out in one go.
    """

    def __init__(self) -> None:
        self._seen: dict[tuple[int, bytes], int] = {}
        self._layouts: dict[tuple[int, bytes], _Layout] = {}

    def read(self, data: bytes) -> StickyUserData:
        """What the member had; bytes that cannot be read mean a member that had nothing."""
        kind = len(data), data[: 10 + int.from_bytes(data[4:6])]  # up to the first number
        layout = self._layouts.get(kind)
        if layout is not None and (quick := layout.read(data)) is not None:
            return quick
        decoded = decode_sticky_user_data(data)
        self._seen[kind] = seen = self._seen.get(kind, 0) + 1
        if seen == WORTH_A_LAYOUT and _Layout.suits(decoded):
            self._layouts[kind] = _Layout.of(decoded)
        return decoded


class _Layout(NamedTuple):
    """Where the numbers are in user data with one partition of each of these topics; `heads` is all between them."""

    topics: tuple[str, ...]
    heads: tuple[bytes, ...]
    shape: struct.Struct

    @classmethod
    def suits(cls, known: StickyUserData) -> bool:
        """Whether it has one partition of each topic; U+FFFD may stand for bytes that were not UTF-8."""
        topics = {each.topic for each in known.partitions}
        return 0 < len(topics) == len(known.partitions) and not any("\ufffd" in topic for topic in topics)

    @classmethod
    def of(cls, known: StickyUserData) -> "_Layout":
        topics = tuple(each.topic for each in known.partitions)
        heads = [_head(topic) for topic in topics]
        heads[:1] = [struct.pack(">i", len(topics)) + head for head in heads[:1]]
        generation = "" if known.generation is None else "i"
        return cls(topics, tuple(heads), struct.Struct(">" + "".join(f"{len(head)}si" for head in heads) + generation))

    def read(self, data: bytes) -> StickyUserData | None:
        """The same as the slow way; None if the bytes are of another kind."""
        fields = self.shape.unpack_from(data) if len(data) >= self.shape.size else ()
        count = len(self.topics)
        if fields[: 2 * count : 2] != self.heads:
            return None
        partitions = map(tuple.__new__, repeat(TopicPartition), zip(self.topics, fields[1::2], strict=False))
        return StickyUserData(tuple(partitions), fields[-1] if len(fields) > 2 * count else None)


def _head(topic: str) -> bytes:
    writer = Writer()
    writer.string(topic)
    writer.int32(1)
    return bytes(writer.buffer)
