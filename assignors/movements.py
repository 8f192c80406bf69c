"""Which partitions a rebalance has moved from whom to whom, so that none goes forth while its neighbour comes back."""

from regroup.protocol.consumer_protocol import TopicPartition

Way = tuple[int, int]


class Movements:
    """The moves of one rebalance: for each moved partition where it started and where it is now, members as ranks."""

    def __init__(self) -> None:
        self.way_of: dict[TopicPartition, Way] = {}
        self.partitions_on: dict[tuple[str, Way], set[TopicPartition]] = {}

    def record(self, partition: TopicPartition, source: int, target: int) -> None:
        """Note a move; one that continues an earlier move lengthens it, and one that goes back undoes it."""
        earlier = self.way_of.pop(partition, None)
        if earlier is not None:
            self._leave(partition, earlier)
            source = earlier[0]
            if source == target:
                return
        self.way_of[partition] = (source, target)
        self.partitions_on.setdefault((partition.topic, (source, target)), set()).add(partition)

    def _leave(self, partition: TopicPartition, way: Way) -> None:
        companions = self.partitions_on[partition.topic, way]
        companions.remove(partition)
        if not companions:
            del self.partitions_on[partition.topic, way]

    def better_choice(self, partition: TopicPartition, source: int, target: int) -> TopicPartition:
        """The partition to move instead: one of the same topic that came the opposite way, so that it goes home.

        Of several the one with the lowest number; Java takes whichever its HashSet shows first.
        """
        if partition in self.way_of:
            source = self.way_of[partition][0]
        came_the_other_way = self.partitions_on.get((partition.topic, (target, source)))
        return min(came_the_other_way) if came_the_other_way else partition
