"""What members tell each other through the coordinator: Subscription and Assignment, versions 0 to 3.

The coordinator carries these bytes and (nearly) never looks inside. They are older than Kafka's flexible
encodings: a 2-byte version, then strings with an int16 length, arrays and bytes with an int32 length, -1 for null.

    Subscription   topics, user data | v1 owned partitions (KIP-429) | v2 generation (KIP-792) | v3 rack (KIP-881)
    Assignment     partitions, user data, the same in every version

A version above 3 is read as 3, and bytes after the known fields are left alone, so that newer members can talk to
older ones. Names are compared as Java compares strings, by UTF-16 code unit.
"""

import struct
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import repeat
from typing import NamedTuple, TypeVar

HIGHEST_VERSION = 3
NO_GENERATION = -1

Item = TypeVar("Item")


class MalformedConsumerProtocol(ValueError):
    """The bytes are no Subscription, Assignment or user data, or the value does not fit into them."""


class TopicPartition(NamedTuple):
    """One partition of a topic, by the topic's name."""

    topic: str
    partition: int


def topic_partitions(topic: str, numbers: Iterable[int]) -> list[TopicPartition]:
    """One `TopicPartition` for each number; groups have millions, and this is three times as quick as one by one."""
    return list(map(tuple.__new__, repeat(TopicPartition), zip(repeat(topic), numbers, strict=False)))


@dataclass(frozen=True, slots=True)
class Subscription:
    """What a member asks for in JoinGroup.

    `user_data` belongs to the assignor. `owned_partitions` are those that the member still holds (v1, KIP-429),
    `generation_id` is the generation in which it got them, -1 for none (v2, KIP-792), `rack_id` is its
    `client.rack` (v3, KIP-881). Fields that are newer than `version` are not written.
    """

    version: int
    topics: tuple[str, ...]
    user_data: bytes | None = None
    owned_partitions: tuple[TopicPartition, ...] = ()
    generation_id: int = NO_GENERATION
    rack_id: str | None = None


@dataclass(frozen=True, slots=True)
class Assignment:
    """What a member gets in SyncGroup; `version` follows that of its subscription."""

    version: int
    partitions: tuple[TopicPartition, ...]
    user_data: bytes | None = None


@dataclass(frozen=True, slots=True)
class StickyUserData:
    """What a member of a `sticky` group had before; `generation` is None in the format of Kafka before 2.3."""

    partitions: tuple[TopicPartition, ...]
    generation: int | None


def utf16_order(text: str) -> bytes:
    """The sort key with which Python orders strings as Java does; it differs from `text` beyond U+D7FF."""
    return text.encode("utf-16-be", "surrogatepass")


def java_string_hash(text: str) -> int:
    """`String.hashCode()` as an unsigned number of 32 bits."""
    units = utf16_order(text)
    result = 0
    for high, low in zip(units[::2], units[1::2], strict=True):
        result = (31 * result + (high << 8 | low)) & 0xFFFFFFFF
    return result


def java_hash_map_order(keys: Iterable[str], counted: int | None = None) -> list[str]:
    """The distinct `keys` in the order in which a `java.util.HashMap` that got them in this order walks them.

    Two places of Kafka's client show this order: a leader walks its members so, and `sticky` writes its topics so.
    `counted` is how many keys the map held when it last looked whether to grow: all of them where it was filled with
    `put`, which is what None means. Within a bucket the order is that of insertion.
    """
    distinct = list(dict.fromkeys(keys))
    capacity = 16
    while (len(distinct) if counted is None else counted) * 4 > capacity * 3:
        capacity *= 2
    bucket = {key: (code ^ code >> 16) & (capacity - 1) for key in distinct for code in [java_string_hash(key)]}
    return sorted(distinct, key=bucket.__getitem__)


def encode_subscription(subscription: Subscription) -> bytes:
    """The bytes of a Subscription, topics sorted, owned partitions sorted by topic and number, as Java writes them."""
    writer = _Writer()
    version = _known(subscription.version, "subscription")
    writer.int16(version)
    writer.array(sorted(subscription.topics, key=utf16_order), writer.string)
    writer.nullable_bytes(subscription.user_data)
    if version >= 1:
        owned = sorted(subscription.owned_partitions, key=lambda each: (utf16_order(each.topic), each.partition))
        writer.partitions(_by_topic(owned))
    if version >= 2:
        writer.int32(subscription.generation_id)
    if version >= 3:
        writer.nullable_string(subscription.rack_id)
    return bytes(writer.buffer)


def decode_subscription(data: bytes) -> Subscription:
    """Read a Subscription; raises `MalformedConsumerProtocol`. An empty rack is no rack, a negative generation none."""
    reader = _Reader(data, "subscription")
    version = _known(reader.int16(), "subscription")
    topics = tuple(reader.array(reader.string))
    user_data = reader.nullable_bytes()
    owned = reader.partitions() if version >= 1 else ()
    generation = max(reader.int32(), NO_GENERATION) if version >= 2 else NO_GENERATION
    rack = (reader.nullable_string() or None) if version >= 3 else None
    return Subscription(version, topics, user_data, owned, generation, rack)


def decode_subscribed_topics(data: bytes) -> tuple[str, ...]:
    """The topics alone, as the classic coordinator reads them: whatever follows the v0 part may be broken."""
    reader = _Reader(data, "subscription")
    _known(reader.int16(), "subscription")
    topics = tuple(reader.array(reader.string))
    reader.nullable_bytes()
    return topics


def encode_assignment(assignment: Assignment) -> bytes:
    """The bytes of an Assignment; partitions are gathered by topic, topics in the order of their first partition."""
    writer = _Writer()
    writer.int16(_known(assignment.version, "assignment"))
    writer.partitions(_by_topic(assignment.partitions))
    writer.nullable_bytes(assignment.user_data)
    return bytes(writer.buffer)


def decode_assignment(data: bytes) -> Assignment:
    """Read an Assignment; raises `MalformedConsumerProtocol`."""
    reader = _Reader(data, "assignment")
    version = _known(reader.int16(), "assignment")
    return Assignment(version, reader.partitions(), reader.nullable_bytes())


def in_sticky_order(partitions: Sequence[TopicPartition]) -> tuple[TopicPartition, ...]:
    """`partitions` by topic, topics in the order in which Java's `sticky` puts them into its user data."""
    groups = _by_topic(partitions)
    # Java fills this map with `computeIfAbsent`, which looks at the size before it adds the key.
    counted = len({each.topic for each in partitions[:-1]})
    order = java_hash_map_order(groups, counted)
    return tuple(TopicPartition(topic, number) for topic in order for number in groups[topic])


def encode_sticky_user_data(data: StickyUserData) -> bytes:
    """The user data of `sticky`: previous partitions, then the generation unless it is None. It has no version."""
    writer = _Writer()
    writer.partitions(_by_topic(data.partitions))
    if data.generation is not None:
        writer.int32(data.generation)
    return bytes(writer.buffer)


def decode_sticky_user_data(data: bytes) -> StickyUserData:
    """Read what `encode_sticky_user_data` wrote; bytes that cannot be read mean a member that had nothing."""
    reader = _Reader(data, "user data of sticky")
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
    writer = _Writer()
    writer.int32(generation)
    return bytes(writer.buffer)


def decode_cooperative_sticky_user_data(data: bytes) -> int:
    """The generation, or -1 if the bytes cannot be read."""
    try:
        return _Reader(data, "user data of cooperative-sticky").int32()
    except MalformedConsumerProtocol:
        return NO_GENERATION


def _known(version: int, what: str) -> int:
    if version < 0:
        raise MalformedConsumerProtocol(f"{what}: version {version} does not exist, versions start at 0")
    return min(version, HIGHEST_VERSION)


def _by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    groups: dict[str, list[int]] = {}
    for topic, partition in partitions:
        groups.setdefault(topic, []).append(partition)
    return groups


class _Writer:
    def __init__(self) -> None:
        self.buffer = bytearray()

    def int16(self, value: int) -> None:
        self._pack(">h", value)

    def int32(self, value: int) -> None:
        self._pack(">i", value)

    def string(self, text: str) -> None:
        encoded = text.encode("utf-8", "replace")
        if len(encoded) > 0x7FFF:
            raise MalformedConsumerProtocol(f"a name of {len(encoded)} bytes is too long, 32767 are possible")
        self.int16(len(encoded))
        self.buffer += encoded

    def nullable_string(self, text: str | None) -> None:
        self.int16(-1) if text is None else self.string(text)

    def nullable_bytes(self, data: bytes | None) -> None:
        self.int32(-1 if data is None else len(data))
        self.buffer += data or b""

    def array(self, items: list[Item], write: Callable[[Item], None]) -> None:
        self.int32(len(items))
        for item in items:
            write(item)

    def partitions(self, groups: dict[str, list[int]]) -> None:
        self.int32(len(groups))
        for topic, numbers in groups.items():
            self.string(topic)
            self.int32(len(numbers))
            self._pack(f">{len(numbers)}i", *numbers)

    def _pack(self, layout: str, *values: int) -> None:
        try:
            self.buffer += struct.pack(layout, *values)
        except struct.error as error:
            raise MalformedConsumerProtocol(f"a number does not fit: {error}") from error


_INT16, _INT32, _TWO_INT32 = struct.Struct(">h"), struct.Struct(">i"), struct.Struct(">ii")
_new_tuple = tuple.__new__  # TopicPartition(…) itself takes three times as long


class _Reader:
    """Reads from the front; no length is believed that the bytes left over could not hold."""

    def __init__(self, data: bytes, what: str) -> None:
        self.data = data
        self.what = what
        self.position = 0

    def int16(self) -> int:
        return self._number(_INT16)

    def int32(self) -> int:
        return self._number(_INT32)

    def string(self) -> str:
        # Java puts U+FFFD for bytes that are not UTF-8, so a group with such a member lives on there as well.
        return self._take(self.int16()).decode("utf-8", "replace")

    def nullable_string(self) -> str | None:
        length = self.int16()
        return None if length < 0 else self._take(length).decode("utf-8", "replace")

    def nullable_bytes(self) -> bytes | None:
        length = self.int32()
        return None if length < 0 else bytes(self._take(length))

    def array(self, read: Callable[[], Item]) -> list[Item]:
        return [read() for _ in range(self._count())]

    def partitions(self) -> tuple[TopicPartition, ...]:
        count = self._count()
        found = self._single_partitions(count)
        for _ in range(count - len(found)):
            topic = self.string()
            numbers = self._count()
            found += topic_partitions(topic, struct.unpack(f">{numbers}i", self._take(4 * numbers)))
        return tuple(found)

    def _single_partitions(self, count: int) -> list[TopicPartition]:
        """Topics with one partition each, as far as they go: what the members of a large group have by the million."""
        found: list[TopicPartition] = []
        data, position = self.data, self.position
        with suppress(struct.error):  # the end of the bytes: the slow road says what is missing
            for _ in range(count):
                end = position + 2 + _INT16.unpack_from(data, position)[0]
                numbers, number = _TWO_INT32.unpack_from(data, end)
                if numbers != 1 or end < position + 2:
                    break
                topic = data[position + 2 : end].decode("utf-8", "replace")
                found.append(_new_tuple(TopicPartition, (topic, number)))
                self.position = position = end + 8
        return found

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
            raise self._short(layout.size, start) from None
        return number

    def _take(self, length: int) -> bytes:
        start = self.position
        self.position = end = start + length
        if length < 0 or end > len(self.data):
            raise self._short(length, start)
        return self.data[start:end]

    def _short(self, length: int, start: int) -> MalformedConsumerProtocol:
        left = len(self.data) - start
        return MalformedConsumerProtocol(f"{self.what}: {length} bytes expected at byte {start}, {left} are left")
