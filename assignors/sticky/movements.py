"""Which partitions a rebalance has moved from whom to whom, so that none goes forth while its neighbour comes back."""

from regroup.protocol.consumer.subscription import TopicPartition
from regroup.protocol.java_order import java_partition_hash

Way = tuple[int, int]
SMALLEST_HASH_SET = 16


class Companions:
    """Partitions that went the same way, and which of them Java's HashSet shows first.

    That depends on how large the set ever was: it doubles beyond three quarters of its buckets and never shrinks.
    """

    def __init__(self) -> None:
        self.partitions: dict[TopicPartition, int] = {}
        self.buckets = SMALLEST_HASH_SET

    def add(self, partition: TopicPartition) -> None:
        """Note another one."""
        code = java_partition_hash(partition)
        self.partitions[partition] = code ^ code >> 16
        if len(self.partitions) * 4 > self.buckets * 3:
            self.buckets *= 2

    def first(self) -> TopicPartition:
        """The one in the first bucket; in a bucket the oldest."""
        return min(self.partitions, key=lambda each: self.partitions[each] & (self.buckets - 1))


class Movements:
    """The moves of one rebalance: for each moved partition where it started and where it is now, members as ranks."""

    def __init__(self) -> None:
        self.way_of: dict[TopicPartition, Way] = {}
        self.companions_on: dict[tuple[str, Way], Companions] = {}

    def record(self, partition: TopicPartition, source: int, target: int) -> None:
        """Note a move; one that continues an earlier move lengthens it, and one that goes back undoes it."""
        earlier = self.way_of.pop(partition, None)
        if earlier is not None:
            self._leave(partition, earlier)
            source = earlier[0]
            if source == target:
                return
        self.way_of[partition] = (source, target)
        self.companions_on.setdefault((partition.topic, (source, target)), Companions()).add(partition)

    def _leave(self, partition: TopicPartition, way: Way) -> None:
        companions = self.companions_on[partition.topic, way]
        del companions.partitions[partition]
        if not companions.partitions:
            del self.companions_on[partition.topic, way]

    def better_choice(self, partition: TopicPartition, source: int, target: int) -> TopicPartition:
        """The partition to move instead: one of the same topic that came the opposite way, so that it goes home."""
        if partition in self.way_of:
            source = self.way_of[partition][0]
        came_the_other_way = self.companions_on.get((partition.topic, (target, source)))
        return partition if came_the_other_way is None else came_the_other_way.first()
