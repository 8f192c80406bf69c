"""Kafka's partitioners: which partition of a topic a producer sends a record to.

    partitioner = create_partitioner(PartitionerSettings(partitioner_class="BuiltInPartitioner"), draw=7)
    partitioner.partition(ProducedRecord(key=b"anna", size_bytes=100), PartitionLoad.idle(6))

A record that names its partition goes there. Otherwise the class decides; the names are those of Kafka's classes:

    BuiltInPartitioner             Kafka 3.3 and later, if `partitioner.class` is not set: murmur2 of the key; without
                                   a key one partition for `batch.size` bytes, then another, less often one with many
                                   batches to send (KIP-794)
    DefaultPartitioner             Kafka 2.4 to 3.2: murmur2 of the key; without a key one partition until its batch is
                                   full, then another (KIP-480)
    DefaultPartitioner-before-2.4  murmur2 of the key; without a key the partitions in turn, from a random start
    RoundRobinPartitioner          the partitions in turn, from the first; keys are ignored
    UniformStickyPartitioner       as DefaultPartitioner does without a key; keys are ignored

Random choices take whole numbers of at least 0, each modulo the number of choices.
"""

from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, replace
from itertools import accumulate, chain
from random import Random
from typing import Final, Self

__all__ = [
    "PartitionerSettings",
    "ProducedRecord",
    "PartitionLoad",
    "Partitioner",
    "PARTITIONER_CLASSES",
    "create_partitioner",
]

_MULTIPLIER: Final = 0x5BD1E995
_SEED: Final = 0x9747B28C
_BITS_32: Final = 0xFFFFFFFF
_WITHOUT_SIGN: Final = 0x7FFFFFFF


def murmur2(data: bytes) -> int:
    """Kafka's hash of a key, a signed number of 32 bits."""
    whole = len(data) - len(data) % 4
    state = _SEED ^ len(data)
    for start in range(0, whole, 4):
        word = int.from_bytes(data[start : start + 4], "little") * _MULTIPLIER & _BITS_32
        word = (word ^ word >> 24) * _MULTIPLIER & _BITS_32
        state = state * _MULTIPLIER & _BITS_32 ^ word
    if whole < len(data):
        state = (state ^ int.from_bytes(data[whole:], "little")) * _MULTIPLIER & _BITS_32
    state = (state ^ state >> 13) * _MULTIPLIER & _BITS_32
    state ^= state >> 15
    return state - (1 << 32) if state > _WITHOUT_SIGN else state


def partition_for_key(key: bytes, partition_count: int) -> int:
    """The partition of a key, among all `partition_count` with or without a leader.

    An empty key is a key like any other.
    """
    return (murmur2(key) & _WITHOUT_SIGN) % partition_count


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionerSettings:
    """The settings by which a producer chooses partitions, by Kafka's names.

    Raises ValueError for values with which no partitioner can work.
    """

    partitioner_class: str = "DefaultPartitioner-before-2.4"
    partitioner_ignore_keys: bool = False
    """Whether records with a key are treated as if they had none. It applies to BuiltInPartitioner only."""
    partitioner_adaptive_partitioning_enable: bool = True
    """Whether partitions with shorter queues are drawn more often. It applies to BuiltInPartitioner only."""
    partitioner_availability_timeout_ms: int = 0
    """Milliseconds without a response of a leader, after which its partitions are not drawn; 0 for no limit.

    It applies to BuiltInPartitioner only.
    """
    batch_size: int = 16_384
    """How many bytes a full batch has."""

    def __post_init__(self) -> None:
        if self.partitioner_class not in PARTITIONER_CLASSES:
            known = ", ".join(PARTITIONER_CLASSES)
            raise ValueError(f"unknown partitioner.class {self.partitioner_class!r}; use one of: {known}")
        if self.batch_size < 1:
            raise ValueError(f"batch.size must be at least 1, not {self.batch_size}")
        if self.partitioner_availability_timeout_ms < 0:
            timeout_ms = self.partitioner_availability_timeout_ms
            raise ValueError(f"partitioner.availability.timeout.ms must be at least 0, not {timeout_ms}")

    @classmethod
    def from_properties(cls, properties: Mapping[str, str]) -> Self:
        """Settings from Kafka's producer properties, such as `partitioner.class` and `batch.size`.

        Raises ValueError for another property, and for a value of the wrong kind.
        """
        known = {field.name.replace("_", "."): field for field in fields(cls)}
        values: dict[str, str | bool | int] = {}
        for name, text in properties.items():
            if name not in known:
                raise ValueError(f"unknown producer property {name!r}; use one of: {', '.join(known)}")
            values[known[name].name] = _parse_partitioner_setting(name, text, type(known[name].default))
        return cls(**values)  # type: ignore[arg-type]  # of the type that the default has


def _parse_partitioner_setting(name: str, text: str, kind: type) -> str | bool | int:
    if kind is str:
        return text.removeprefix("org.apache.kafka.clients.producer.").removeprefix("internals.")
    if kind is bool and text.lower() in ("true", "false"):
        return text.lower() == "true"
    if kind is int and text.isascii() and text.isdigit():
        return int(text)
    wanted = "true or false" if kind is bool else "a whole number"
    raise ValueError(f"invalid value for {name}: {text!r}; write {wanted}")


@dataclass(frozen=True, slots=True)
class ProducedRecord:
    """A record as a partitioner gets it: its key or None, its size in a batch, and the partition that the application
    has chosen for it or None."""

    key: bytes | None = None
    size_bytes: int = 0
    partition: int | None = None


@dataclass(frozen=True, slots=True)
class PartitionLoad:
    """What a producer has measured of a topic's partitions. `available` are those with a leader, in order.

    `queue_lengths` counts, for each available partition, the batches whose receipt the broker has not confirmed yet.
    `slow` are those whose leader has accepted nothing for longer than `partitioner.availability.timeout.ms`.
    """

    partition_count: int
    available: tuple[int, ...]
    queue_lengths: tuple[int, ...]
    slow: frozenset[int] = frozenset()

    @classmethod
    def idle(cls, partition_count: int) -> Self:
        """The load of a topic whose partitions all have a leader and nothing to send."""
        return cls(partition_count, tuple(range(partition_count)), (0,) * partition_count)


def choose_available(load: PartitionLoad, draw: int) -> int:
    """The partition that the number `draw` selects among those with a leader; among all if none has one."""
    return load.available[draw % len(load.available)] if load.available else draw % load.partition_count


class _OpenBatches:
    """The number of bytes in the last batch of each partition, to which further records may be added."""

    def __init__(self, batch_size: int) -> None:
        self._batch_size = batch_size
        self._bytes: dict[int, int] = {}

    def has_room(self, partition: int, size_bytes: int) -> bool:
        """Whether the record fits into the open batch of the partition; False if the partition has no open batch."""
        return partition in self._bytes and self._bytes[partition] + size_bytes <= self._batch_size

    def append(self, partition: int, size_bytes: int) -> None:
        """Add a record to the open batch of a partition, or to a new one if it does not fit."""
        before = self._bytes[partition] if self.has_room(partition, size_bytes) else 0
        self._bytes[partition] = before + size_bytes

    def is_full(self, partition: int) -> bool:
        return self._bytes.get(partition, 0) >= self._batch_size

    def clear(self) -> None:
        self._bytes.clear()


class Partitioner(ABC):
    """Chooses the partition of each record that one producer sends to one topic. `draws` are its random numbers."""

    ignores_keys = False

    def __init__(self, settings: PartitionerSettings, draws: Iterator[int]) -> None:
        self._batches = _OpenBatches(settings.batch_size)
        self._draws = draws

    @abstractmethod
    def partition(self, record: ProducedRecord, load: PartitionLoad) -> int:
        """Choose the partition of the next record. Raises ValueError if the record names a partition that the topic
        does not have."""

    def close_batches(self) -> None:
        """Close all open batches, because they were sent. The next record of each partition starts a new one."""
        self._batches.clear()

    def _fixed_partition(self, record: ProducedRecord, load: PartitionLoad) -> int | None:
        """The partition that the record names, or else the one of its key; None if it has neither."""
        if record.partition is not None:
            if not 0 <= record.partition < load.partition_count:
                highest = load.partition_count - 1
                raise ValueError(f"invalid partition: {record.partition}; the topic has partitions 0 to {highest}")
            return record.partition
        if record.key is None or self.ignores_keys:
            return None
        return partition_for_key(record.key, load.partition_count)


class DefaultPartitionerBefore24(Partitioner):
    """Kafka's DefaultPartitioner before 2.4; `position` is the number of the next record without a key."""

    def __init__(self, settings: PartitionerSettings, draws: Iterator[int]) -> None:
        super().__init__(settings, draws)
        self.position = next(draws)

    def partition(self, record: ProducedRecord, load: PartitionLoad) -> int:
        """Choose the partition of the next record. The counter of records without a key wraps around at 32 bits, and
        its sign is ignored."""
        fixed = self._fixed_partition(record, load)
        if fixed is not None:
            return fixed
        chosen = choose_available(load, self.position & _WITHOUT_SIGN)
        self.position = (self.position + 1) & _BITS_32
        return chosen


class RoundRobinPartitioner(DefaultPartitionerBefore24):
    """Kafka's RoundRobinPartitioner.

    It does not have the fault of Kafka before 4.0, which skipped a partition at each new batch (KAFKA-9965).
    """

    ignores_keys = True

    def __init__(self, settings: PartitionerSettings, draws: Iterator[int]) -> None:
        super().__init__(settings, iter((0,)))


class DefaultPartitioner(Partitioner):
    """Kafka's DefaultPartitioner from 2.4 to 3.2 (KIP-480): records without a key follow the sticky partition."""

    def __init__(self, settings: PartitionerSettings, draws: Iterator[int]) -> None:
        super().__init__(settings, draws)
        self.sticky_partition: int | None = None

    def partition(self, record: ProducedRecord, load: PartitionLoad) -> int:
        """Choose the partition of the next record.

        Before a new batch begins in the sticky partition, another sticky partition is drawn.
        """
        chosen = self._choose(record, load)
        if not self._batches.has_room(chosen, record.size_bytes):
            # Kafka announces the new batch to the partitioner and asks again, for records with a key as well.
            if self.sticky_partition in (None, chosen):
                self._draw_sticky_partition(load)
            chosen = self._choose(record, load)
        self._batches.append(chosen, record.size_bytes)
        return chosen

    def _choose(self, record: ProducedRecord, load: PartitionLoad) -> int:
        fixed = self._fixed_partition(record, load)
        if fixed is not None:
            return fixed
        if self.sticky_partition is None or self.sticky_partition >= load.partition_count:
            return self._draw_sticky_partition(load)
        return self.sticky_partition

    def _draw_sticky_partition(self, load: PartitionLoad) -> int:
        """Draw another partition than the present one, if there is one. Kafka draws until it differs."""
        others = tuple(each for each in load.available if each != self.sticky_partition)
        self.sticky_partition = choose_available(replace(load, available=others or load.available), next(self._draws))
        return self.sticky_partition


class UniformStickyPartitioner(DefaultPartitioner):
    """Kafka's UniformStickyPartitioner (KIP-480): every record follows the sticky partition."""

    ignores_keys = True


class BuiltInPartitioner(Partitioner):
    """Kafka's BuiltInPartitioner since 3.3 (KIP-794): it counts bytes, so that a fast broker does not get ever more.

    Another partition, which may be the same, is drawn after `batch.size` bytes without a key once the last batch is
    full, and after twice as many in any case.
    """

    def __init__(self, settings: PartitionerSettings, draws: Iterator[int]) -> None:
        super().__init__(settings, draws)
        self.ignores_keys = settings.partitioner_ignore_keys
        self._is_adaptive = settings.partitioner_adaptive_partitioning_enable
        self._batch_size = settings.batch_size
        self.sticky_partition: int | None = None
        self._sent_bytes = 0

    def partition(self, record: ProducedRecord, load: PartitionLoad) -> int:
        """Choose the partition of the next record.

        Records with a key fill batches, but do not count for the change of the sticky partition.
        """
        fixed = self._fixed_partition(record, load)
        if fixed is not None:
            self._batches.append(fixed, record.size_bytes)
            return fixed
        if self.sticky_partition is None or self.sticky_partition >= load.partition_count:
            self.sticky_partition = self._draw(load)
        chosen = self.sticky_partition
        self._batches.append(chosen, record.size_bytes)
        self._sent_bytes += record.size_bytes
        is_enough = self._sent_bytes >= self._batch_size and self._batches.is_full(chosen)
        if is_enough or self._sent_bytes >= self._batch_size * 2:
            self.sticky_partition = self._draw(load)
            self._sent_bytes = 0
        return chosen

    def _draw(self, load: PartitionLoad) -> int:
        draw = next(self._draws)
        weighted = adaptive_weights(load) if self._is_adaptive else None
        if weighted is None:
            return choose_available(load, draw)
        partitions, sums = weighted
        return partitions[bisect_right(sums, draw % sums[-1])]


def adaptive_weights(load: PartitionLoad) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
    """The partitions to draw from, and the running sums of their weights: a shorter queue gives more weight.

    None if there is nothing to adapt to: fewer than two partitions, or queues of one length and none of them slow.
    """
    queues = zip(load.available, load.queue_lengths, strict=True)
    usable = [(partition, length) for partition, length in queues if partition not in load.slow]
    are_alike = len({length for _, length in usable}) <= 1 and len(usable) == len(load.available)
    if not usable or len(load.available) < 2 or are_alike:
        return None
    longest = max(length for _, length in usable)
    return tuple(each for each, _ in usable), tuple(accumulate(longest + 1 - length for _, length in usable))


PARTITIONER_CLASSES: Final[Mapping[str, type[Partitioner]]] = {
    "BuiltInPartitioner": BuiltInPartitioner,
    "DefaultPartitioner": DefaultPartitioner,
    "DefaultPartitioner-before-2.4": DefaultPartitionerBefore24,
    "RoundRobinPartitioner": RoundRobinPartitioner,
    "UniformStickyPartitioner": UniformStickyPartitioner,
}
"""The class of each partitioner, by its name in `partitioner.class`."""


def create_partitioner(settings: PartitionerSettings, draw: int) -> Partitioner:
    """The partitioner for one topic. Its first random number is `draw`; a generator seeded by it gives the others."""
    generator = Random(draw)
    draws = chain([draw], iter(lambda: generator.getrandbits(31), None))
    return PARTITIONER_CLASSES[settings.partitioner_class](settings, draws)
