"""Reads and writes the basic types of the consumer protocol: lengths of fixed width, -1 for null, no
flexible versions.
"""

import struct
from collections.abc import Callable, Iterable
from contextlib import suppress
from itertools import repeat
from typing import NamedTuple, TypeVar

_Item = TypeVar("_Item")


class MalformedConsumerProtocol(ValueError):
    """Raised for bytes that are not a valid Subscription, Assignment or user data, and for a value that these formats
    cannot contain."""


class TopicPartition(NamedTuple):
    """One partition of a topic, by the topic's name; as text `orders-0`, as Kafka writes it."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


def topic_partitions(topic: str, numbers: Iterable[int]) -> list[TopicPartition]:
    """A TopicPartition for each partition number. Groups have millions of them, and this is three times as fast as the
    constructor."""
    return list(map(tuple.__new__, repeat(TopicPartition), zip(repeat(topic), numbers, strict=False)))


def by_topic(partitions: Iterable[tuple[str, int]]) -> dict[str, list[int]]:
    """The partition numbers by topic; topics are in the order of their first partition."""
    numbers: dict[str, list[int]] = {}
    for topic, partition in partitions:
        numbers.setdefault(topic, []).append(partition)
    return numbers


class ConsumerProtocolWriter:
    """Appends encoded values to its `buffer`. Raises MalformedConsumerProtocol for a value that is too large for its
    type."""

    def __init__(self) -> None:
        self.buffer = bytearray()

    def int16(self, value: int) -> None:
        self._pack(">h", value)

    def int32(self, value: int) -> None:
        self._pack(">i", value)

    def string(self, text: str) -> None:
        encoded = text.encode("utf-8", "replace")
        if len(encoded) > 0x7FFF:
            raise MalformedConsumerProtocol(f"a string of {len(encoded)} bytes is too long, 32767 are possible")
        self.int16(len(encoded))
        self.buffer += encoded

    def nullable_string(self, text: str | None) -> None:
        self.int16(-1) if text is None else self.string(text)

    def nullable_bytes(self, data: bytes | None) -> None:
        self.int32(-1 if data is None else len(data))
        self.buffer += data or b""

    def array(self, items: list[_Item], write: Callable[[_Item], None]) -> None:
        self.int32(len(items))
        for item in items:
            write(item)

    def partitions(self, partitions: dict[str, list[int]]) -> None:
        self.int32(len(partitions))
        for topic, numbers in partitions.items():
            self.string(topic)
            self.int32(len(numbers))
            self._pack(f">{len(numbers)}i", *numbers)

    def _pack(self, layout: str, *values: int) -> None:
        try:
            self.buffer += struct.pack(layout, *values)
        except struct.error as error:
            raise MalformedConsumerProtocol(f"a number does not fit: {error}") from error


_INT16, _INT32, _TWO_INT32 = struct.Struct(">h"), struct.Struct(">i"), struct.Struct(">ii")
_new_tuple = tuple.__new__  # three times as fast as TopicPartition(…)


class ConsumerProtocolReader:
    """Reads values one after the other from `data`; `what` says in error messages what the bytes are.

    Every length is compared with the number of bytes left. Raises `MalformedConsumerProtocol`.
    """

    def __init__(self, data: bytes, what: str) -> None:
        self.data = data
        self.what = what
        self.position = 0

    def int16(self) -> int:
        return self._number(_INT16)

    def int32(self) -> int:
        return self._number(_INT32)

    def string(self) -> str:
        # Java decodes bytes that are not UTF-8 to U+FFFD, so one such member does not break its group.
        return self._take(self.int16()).decode("utf-8", "replace")

    def nullable_string(self) -> str | None:
        length = self.int16()
        return None if length < 0 else self._take(length).decode("utf-8", "replace")

    def nullable_bytes(self) -> bytes | None:
        length = self.int32()
        return None if length < 0 else bytes(self._take(length))

    def array(self, read: Callable[[], _Item]) -> list[_Item]:
        return [read() for _ in range(self._count())]

    def partitions(self) -> tuple[TopicPartition, ...]:
        """Read topics with their partition numbers. A fast loop reads up to the first fault; a slower one then raises
        an error that describes it."""
        count = self._count()
        found: list[TopicPartition] = []
        for _ in range(count - self._read_whole_topics(count, found)):
            topic = self.string()
            numbers = self._count()
            found += topic_partitions(topic, struct.unpack(f">{numbers}i", self._take(4 * numbers)))
        return tuple(found)

    def _read_whole_topics(self, count: int, found: list[TopicPartition]) -> int:
        """Append the partitions of up to `count` topics to `found`; returns how many topics were read before the first
        fault."""
        data, position, topics = self.data, self.position, 0
        with suppress(struct.error):
            for topics in range(count):
                end = position + 2 + _INT16.unpack_from(data, position)[0]
                numbers, number = _TWO_INT32.unpack_from(data, end)
                if end < position + 2:
                    return topics
                topic = data[position + 2 : end].decode("utf-8", "replace")
                if numbers == 1:
                    found.append(_new_tuple(TopicPartition, (topic, number)))
                else:
                    found += topic_partitions(topic, struct.unpack_from(f">{numbers}i", data, end + 4))
                self.position = position = end + 4 + 4 * numbers
            return count
        return topics

    def _count(self) -> int:
        count = self.int32()
        left = len(self.data) - self.position
        if not 0 <= count <= left:
            raise MalformedConsumerProtocol(
                f"{self.what}: an array of {count} at byte {self.position}, {left} are left"
            )
        return count

    def _number(self, layout: struct.Struct) -> int:
        start = self.position
        self.position = start + layout.size
        try:
            number: int = layout.unpack_from(self.data, start)[0]
        except struct.error:
            raise self._too_short(layout.size, start) from None
        return number

    def _take(self, length: int) -> bytes:
        start = self.position
        self.position = end = start + length
        if length < 0 or end > len(self.data):
            raise self._too_short(length, start)
        return self.data[start:end]

    def _too_short(self, length: int, start: int) -> MalformedConsumerProtocol:
        left = len(self.data) - start
        return MalformedConsumerProtocol(f"{self.what}: {length} bytes expected at byte {start}, {left} are left")
