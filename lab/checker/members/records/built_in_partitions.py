"""Which partition Kafka's built-in partitioner (KIP-794) has to choose, computed from what its producer sends and gets.

partitions = BuiltInPartitions(settings, draw=7, now_ms=now_ms)
partitions.on_leaders({0: 1, 1: 2})       # from a Metadata response: the node of each partition's leader
partitions.begin(2)                       # the producer has records to send again, to a topic with two partitions
partitions.possible()                     # where the next record whose partition no key decides may be
partitions.add(1, 64)                     # it is in partition 1, and has 64 bytes
partitions.on_sent(1)                     # a batch leaves for the partition
partitions.on_answered(1)                 # its response comes, or its request has failed

The first random number of a producer decides all others, so what is drawn is known.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain, combinations
from random import Random
from typing import Final

from regroup.members.partitioners import PartitionerSettings

ROUNDING_MS: Final = 1
"""Whether a batch without a response is older than `partitioner.availability.timeout.ms`, the run's clock does not show
if its age differs from that by no more than this."""


@dataclass(frozen=True, slots=True)
class _Load:
    """The partitions of a topic when a producer chooses some: how many batches of each have no response, and which have
    a leader that has not answered for too long, for certain or perhaps."""

    queue_lengths: tuple[int, ...]
    slow: tuple[frozenset[int], ...]
    """What may be the set of the slow partitions: one set if the clock leaves no doubt."""


class BuiltInPartitions:
    """The producer of one topic. `draw` is its first random number, `now_ms` the time of the run."""

    def __init__(self, settings: PartitionerSettings, draw: int, now_ms: Callable[[], int]) -> None:
        self._batch_size = settings.batch_size
        self._is_adaptive = settings.partitioner_adaptive_partitioning_enable
        self._timeout_ms = settings.partitioner_availability_timeout_ms
        self._now_ms = now_ms
        self._numbers = _numbers_from(draw)
        self._leaders: dict[int, int] = {}
        self._sent_ms: dict[int, list[int]] = {}
        """By partition, when its batches without a response were sent, the oldest first."""
        self._load = _Load((), ())
        self._possible: frozenset[int] = frozenset()
        """Where the producer stays; empty before its first record."""
        self._is_followed = True
        """Whether it is known which of its numbers is the next."""
        self._stayed_bytes = 0
        self._batch_bytes: dict[int, int] = {}
        """By partition, the bytes in the batch that was begun last."""

    # What the producer sends and gets

    def on_leaders(self, leaders: Mapping[int, int]) -> None:
        """Take over the leaders of partitions, each as the id of its node."""
        self._leaders.update(leaders)

    def on_sent(self, partition: int) -> None:
        """Note that a batch for this partition leaves."""
        self._sent_ms.setdefault(partition, []).append(self._now_ms())

    def on_answered(self, partition: int) -> None:
        """Note that the oldest batch of this partition has got its response, or that its request has failed."""
        del self._sent_ms[partition][0]

    def begin(self, partition_count: int) -> None:
        """Begin with the records that the producer sends at this instant: its former batches are closed."""
        self._batch_bytes.clear()
        lengths = tuple(len(self._sent_ms.get(each, ())) for each in range(partition_count))
        self._load = _Load(lengths, tuple(self._slow_partitions(partition_count)))

    def _slow_partitions(self, partition_count: int) -> Iterator[frozenset[int]]:
        certain, doubtful = set(), set()
        for partition, sent_ms in self._sent_ms.items() if self._timeout_ms else ():
            late_ms = self._now_ms() - sent_ms[0] - self._timeout_ms if sent_ms else -self._timeout_ms
            if late_ms > ROUNDING_MS:
                certain.add(self._leaders.get(partition))
            elif late_ms >= -ROUNDING_MS:
                doubtful.add(self._leaders.get(partition))
        doubtful -= certain
        for count in range(len(doubtful) + 1):
            for some in combinations(doubtful, count):
                leaders = certain.union(some)
                yield frozenset(each for each in range(partition_count) if self._leaders.get(each) in leaders)

    # Its records

    def possible(self) -> frozenset[int]:
        """The partitions in which the next record may be whose partition no key decides: as a rule one.

        All of them once it is not known how many numbers were drawn: the topic has become smaller, and one of two
        partitions where the producer may stay is gone.
        """
        existing = {each for each in self._possible if each < len(self._load.queue_lengths)}
        self._is_followed &= existing in (set(), self._possible)
        if not self._is_followed:
            return frozenset(range(len(self._load.queue_lengths)))
        if not existing:
            self._possible = self._draw()
        return self._possible

    def add(self, partition: int, size_bytes: int) -> None:
        """Note where the next record whose partition no key decides is, and draw the next partition if it is time."""
        self.add_with_key(partition, size_bytes)
        self._possible = frozenset({partition})
        self._stayed_bytes += size_bytes
        is_full = self._batch_bytes[partition] >= self._batch_size
        if self._stayed_bytes >= self._batch_size * (1 if is_full else 2):
            self._possible, self._stayed_bytes = self._draw(), 0

    def add_with_key(self, partition: int, size_bytes: int) -> None:
        """Note that a record is in the partition of its key: it counts for the batch of that partition alone."""
        together = self._batch_bytes.get(partition, 0) + size_bytes
        self._batch_bytes[partition] = together if together <= self._batch_size else size_bytes

    def _draw(self) -> frozenset[int]:
        number = next(self._numbers)
        return frozenset(self._drawn(number, slow) for slow in self._load.slow)

    def _drawn(self, number: int, slow: frozenset[int]) -> int:
        """The partition that a random number selects: one with a shorter queue more often, and none that is slow."""
        lengths = self._load.queue_lengths
        usable = [each for each in range(len(lengths)) if each not in slow]
        is_even = not slow and len(set(lengths)) == 1
        if not self._is_adaptive or not usable or len(lengths) < 2 or is_even:
            return number % len(lengths)
        longest = max(lengths[each] for each in usable)
        # A partition stands in the list once, and once more for each batch that it has less than the longest queue.
        weighted = [each for each in usable for _ in range(longest + 1 - lengths[each])]
        return weighted[number % len(weighted)]


def _numbers_from(draw: int) -> Iterator[int]:
    generator = Random(draw)
    return chain([draw], iter(lambda: generator.getrandbits(31), None))
