"""Which partition a producer sends a record to.

    the record names one           that one
    it has a key                   murmur2 of the key's bytes, modulo all partitions
    neither, before Kafka 2.4      one after the other, from a random start
    neither, Kafka 2.4 to 3.2      one partition for a batch, then another (KIP-480)
    neither, since Kafka 3.3       one partition for `batch.size` bytes, then another; slow ones less often (KIP-794)

Chance comes in as a whole number of at least 0, from any random source: each draw takes it modulo what it needs.
"""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import accumulate

MULTIPLIER = 0x5BD1E995
SEED = 0x9747B28C
BITS_32 = 0xFFFFFFFF
WITHOUT_SIGN = 0x7FFFFFFF


def murmur2(data: bytes) -> int:
    """Kafka's hash of a key, a signed number of 32 bits."""
    whole = len(data) - len(data) % 4
    state = SEED ^ len(data)
    for start in range(0, whole, 4):
        word = int.from_bytes(data[start : start + 4], "little") * MULTIPLIER & BITS_32
        word = (word ^ word >> 24) * MULTIPLIER & BITS_32
        state = state * MULTIPLIER & BITS_32 ^ word
    if whole < len(data):
        state = (state ^ int.from_bytes(data[whole:], "little")) * MULTIPLIER & BITS_32
    state = (state ^ state >> 13) * MULTIPLIER & BITS_32
    state ^= state >> 15
    return state - (1 << 32) if state > WITHOUT_SIGN else state


def partition_for_key(key: bytes, partition_count: int) -> int:
    """The partition of a key, out of all `partition_count`, reachable or not. An empty key is a key."""
    return (murmur2(key) & WITHOUT_SIGN) % partition_count


def partition_of_record(partition: int | None, key: bytes | None, partition_count: int) -> int | None:
    """What the record itself decides: the partition that it names, else that of its key, else None: it does not care.

    Raises `ValueError` for a partition that the topic does not have.
    """
    if partition is not None:
        if not 0 <= partition < partition_count:
            raise ValueError(f"partition {partition} does not exist, the topic has 0 to {partition_count - 1}")
        return partition
    return None if key is None else partition_for_key(key, partition_count)


def one_of(partition_count: int, available: Sequence[int], draw: int) -> int:
    """The drawn one of the partitions that have a leader; of all, if none has."""
    return available[draw % len(available)] if available else draw % partition_count


@dataclass(frozen=True, slots=True)
class RoundRobin:
    """Records without a key before Kafka 2.4; `position` is first drawn. Kafka's RoundRobinPartitioner starts at 0."""

    position: int = 0

    def next(self, partition_count: int, available: Sequence[int] = ()) -> tuple[int, "RoundRobin"]:
        """The partition of the next record, and the counter after it. The counter wraps around at 32 bits."""
        after = RoundRobin((self.position + 1) & BITS_32)
        return one_of(partition_count, available, self.position & WITHOUT_SIGN), after


@dataclass(frozen=True, slots=True)
class StickyBatches:
    """Records without a key from Kafka 2.4 to 3.2: all go to one partition until a batch is full (KIP-480)."""

    partition: int

    @classmethod
    def start(cls, partition_count: int, available: Sequence[int], draw: int) -> "StickyBatches":
        """Draw the first partition."""
        return cls(one_of(partition_count, available, draw))

    def new_batch(self, partition_count: int, available: Sequence[int], draw: int) -> "StickyBatches":
        """Draw another partition than the present one, if there is another. Kafka draws again until it differs."""
        if not available:
            return StickyBatches(draw % partition_count)
        others = [partition for partition in available if partition != self.partition]
        return StickyBatches(one_of(partition_count, others or available, draw))


@dataclass(frozen=True, slots=True)
class Load:
    """What the producer knows of a topic's partitions with a leader; ordered by partition.

    `queues` are the numbers of batches that wait for each of them. `slow` are those whose broker has accepted nothing
    for longer than `partitioner.availability.timeout.ms`, if that is not 0.
    """

    partitions: tuple[int, ...]
    queues: tuple[int, ...]
    slow: frozenset[int] = frozenset()


def adaptive_sums(load: Load) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
    """The partitions to draw from and the running sums of their weights: the shorter the queue, the more often.

    None if there is nothing to adapt to: fewer than two partitions, or queues all alike and none of them slow.
    """
    usable = [(each, queue) for each, queue in zip(load.partitions, load.queues, strict=True) if each not in load.slow]
    all_alike = len({queue for _, queue in usable}) <= 1 and len(usable) == len(load.partitions)
    if len(usable) < 1 or len(load.partitions) < 2 or all_alike:
        return None
    longest = max(queue for _, queue in usable)
    return tuple(each for each, _ in usable), tuple(accumulate(longest + 1 - queue for _, queue in usable))


@dataclass(frozen=True, slots=True)
class UniformSticky:
    """Records without a key since Kafka 3.3 (KIP-794): by bytes, so that a quick broker does not get more and more.

    `sticky_bytes` is `batch.size`, at least 1; `sent_bytes` went to `partition` since it was drawn.
    """

    sticky_bytes: int
    partition: int
    sent_bytes: int = 0

    def __post_init__(self) -> None:
        if self.sticky_bytes < 1:
            raise ValueError(f"sticky_bytes is {self.sticky_bytes}, it must be at least 1")

    @classmethod
    def start(
        cls, sticky_bytes: int, partition_count: int, draw: int, load: Load, *, adaptive: bool = True
    ) -> "UniformSticky":
        """Draw the first partition."""
        return cls(sticky_bytes, _drawn(partition_count, draw, load, adaptive))

    def sent(
        self,
        size_bytes: int,
        partition_count: int,
        draw: int,
        load: Load,
        *,
        batch_is_ready: bool = True,
        adaptive: bool = True,
    ) -> "UniformSticky":
        """After a record of `size_bytes` went to `partition`. The draw may give the same partition again.

        Another one is drawn once `sticky_bytes` were sent and the batch is ready, at twice as many in any case.
        """
        sent = self.sent_bytes + size_bytes
        if sent >= self.sticky_bytes * 2 or (sent >= self.sticky_bytes and batch_is_ready):
            return UniformSticky(self.sticky_bytes, _drawn(partition_count, draw, load, adaptive))
        return replace(self, sent_bytes=sent)


def _drawn(partition_count: int, draw: int, load: Load, adaptive: bool) -> int:
    weighted = adaptive_sums(load) if adaptive else None
    if weighted is None:
        return one_of(partition_count, load.partitions, draw)
    partitions, sums = weighted
    return partitions[bisect_right(sums, draw % sums[-1])]
