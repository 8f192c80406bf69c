"""The last step of the general sticky assignment: partitions move, one by one, to members with fewer partitions."""

from regroup.assignors.interface import AssignorError
from regroup.assignors.sticky.working_state import CurrentAssignment, LeastLoadedHeap
from regroup.protocol.consumer.subscription import TopicPartition
from regroup.protocol.java_order import java_partition_hash

ConsumerPair = tuple[int, int]
"""A movement of a partition between two members, by their ranks: from, to."""
_MIN_BUCKETS = 16


class JavaPartitionSet:
    """Partitions in a simulated Java HashSet. Which one is first in its iteration depends on the largest size that it
    ever had.

    The number of buckets doubles when the set is more than three quarters full, and never shrinks.
    """

    def __init__(self) -> None:
        self.hashes: dict[TopicPartition, int] = {}
        self.buckets = _MIN_BUCKETS

    def add(self, partition: TopicPartition) -> None:
        code = java_partition_hash(partition)
        self.hashes[partition] = code ^ code >> 16
        if len(self.hashes) * 4 > self.buckets * 3:
            self.buckets *= 2

    def first(self) -> TopicPartition:
        """The first partition in the set's iteration: in the lowest bucket that is not empty, the one that was added
        first."""
        return min(self.hashes, key=lambda each: self.hashes[each] & (self.buckets - 1))


class PartitionMovements:
    """The movements of one rebalance. They are recorded to prevent that two members exchange partitions of the same
    topic."""

    def __init__(self) -> None:
        self.pair_of: dict[TopicPartition, ConsumerPair] = {}
        self.partitions_of: dict[tuple[str, ConsumerPair], JavaPartitionSet] = {}

    def record(self, partition: TopicPartition, source: int, target: int) -> None:
        """Record the movement of a partition. If the partition moved before, both movements become one, or none if it
        returns to its first owner."""
        earlier = self.pair_of.pop(partition, None)
        if earlier is not None:
            same_pair = self.partitions_of[partition.topic, earlier]
            del same_pair.hashes[partition]
            if not same_pair.hashes:
                del self.partitions_of[partition.topic, earlier]
            source = earlier[0]
            if source == target:
                return
        self.pair_of[partition] = (source, target)
        self.partitions_of.setdefault((partition.topic, (source, target)), JavaPartitionSet()).add(partition)

    def actual_partition_to_move(self, partition: TopicPartition, source: int, target: int) -> TopicPartition:
        """The partition to move instead of this one: another one of its topic that moved in the opposite direction
        before, or else this one."""
        if partition in self.pair_of:
            source = self.pair_of[partition][0]
        opposite = self.partitions_of.get((partition.topic, (target, source)))
        return partition if opposite is None else opposite.first()


class AssignmentBalancer:
    """Balances an assignment: moves partitions of topics with several subscribers between the members that could gain
    or lose one.

    Kafka checks before every single partition whether the assignment is balanced, which looks at all partitions. Here
    the check is made only before a movement, and the movement itself mostly proves that the assignment is not balanced.
    """

    def __init__(self, current: CurrentAssignment, previous_owner: dict[TopicPartition, int], tolerance: int) -> None:
        self.current = current
        self.members = current.members
        self.counts = current.counts
        self.previous_owner = previous_owner
        self.tolerance = tolerance
        self.movements = PartitionMovements()
        self.shared_topics = {topic for topic, ranks in self.members.subscribers.items() if len(ranks) >= 2}
        self.fixed = frozenset(rank for rank in self.members.given_order if self._is_fixed(rank))
        """Ranks of the members that take no part: they have all partitions of their topics, and no other member
        subscribes to any of these."""
        self.participants = [rank for rank in self.members.given_order if rank not in self.fixed]
        self._subscribers: tuple[int, ...] | None = None
        self._heap = LeastLoadedHeap((), self.counts)
        """The heap of those among `_subscribers` that take part."""
        self._is_balanced: bool | None = None
        """Whether the assignment is balanced; None if that is not known since the last movement."""

    def _is_fixed(self, rank: int) -> bool:
        assigned = self.current.assigned[rank]
        return len(assigned) >= self.members.capacity[rank] and not any(
            each[0] in self.shared_topics for each in assigned
        )

    def perform_reassignments(self, partitions: list[TopicPartition]) -> bool:
        """Consider all partitions in turn, repeatedly until none of them moves; returns whether any moved."""
        if not self.previous_owner and self.current.is_consistent and self._max_difference() <= 1:
            return False
        reassignable = [each for each in partitions if each[0] in self.shared_topics]
        has_moved = False
        while self._reassign_once(reassignable):
            has_moved = True
        return has_moved

    def _reassign_once(self, partitions: list[TopicPartition]) -> bool:
        has_moved = False
        for partition in partitions:
            target = self._better_owner(partition)
            if target is not None:
                if self._check_balanced(partition, target):
                    break
                self._move(partition, target)
                has_moved = True
        return has_moved

    def balance_score(self, assigned: list[list[TopicPartition]]) -> int:
        """The sum, over every two participants, of the difference between their numbers of partitions; 0 means
        perfectly balanced."""
        counts = sorted(len(assigned[rank]) for rank in self.participants)
        return sum((2 * index - len(counts) + 1) * count for index, count in enumerate(counts))

    def _better_owner(self, partition: TopicPartition) -> int | None:
        """The rank of a better owner: the previous owner, or the least loaded subscriber; None if there is no better
        one."""
        counts, owner = self.counts, self.current.owner[partition]
        previous = self.previous_owner.get(partition)
        if previous is not None:
            if previous in self.fixed or owner in self.fixed:
                self._fail_unless_balanced(partition, previous)
                return None
            if counts[owner] > counts[previous] + 1:
                return previous
        if self.fixed and not self.current.is_consistent:
            return self._better_owner_step_by_step(partition, owner)
        least = self._heap_for(partition[0]).least_loaded()
        return least if counts[owner] > counts[least] + 1 else None

    def _better_owner_step_by_step(self, partition: TopicPartition, owner: int) -> int | None:
        """A better owner as in `_better_owner`, if a member holds partitions that no longer exist. Kafka may throw an
        exception then, at members that the balancing left out."""
        for other in self.members.subscribers[partition.topic]:
            if owner in self.fixed or other in self.fixed:
                self._fail_unless_balanced(partition, other)
                return None
            if self.counts[owner] > self.counts[other] + 1:
                return self._heap_for(partition.topic).least_loaded()
        return None

    def _fail_unless_balanced(self, partition: TopicPartition, other: int) -> None:
        if not self._check_balanced(partition, None):
            name = self.members.names[other]
            raise AssignorError(
                f"balancing partition {partition.partition} of topic {partition.topic} fails: member {name} takes no "
                "part in it; Kafka's class fails here with a NullPointerException",
                member=name,
                topic=partition.topic,
            )

    def _heap_for(self, topic: str) -> LeastLoadedHeap:
        subscribers = self.members.subscribers[topic]
        if subscribers is not self._subscribers:
            self._subscribers = subscribers
            self._heap = LeastLoadedHeap((rank for rank in subscribers if rank not in self.fixed), self.counts)
        return self._heap

    def _move(self, partition: TopicPartition, target: int) -> None:
        partition = self.movements.actual_partition_to_move(partition, self.current.owner[partition], target)
        source = self.current.owner[partition]
        self.movements.record(partition, source, target)
        self.current.reassign(partition, target)
        self._heap.decreased(source)
        self._is_balanced = None

    def _max_difference(self) -> int:
        counts = [self.counts[rank] for rank in self.participants]
        return max(counts) - min(counts) if counts else 0

    def _check_balanced(self, partition: TopicPartition, target: int | None) -> bool:
        if self._is_balanced is None:
            proves_imbalance = self.current.is_consistent and target is not None and self._would_gain(partition, target)
            self._is_balanced = not proves_imbalance and self._no_participant_would_gain()
        return self._is_balanced

    def _would_gain(self, partition: TopicPartition, target: int) -> bool:
        heap = self._heap_for(partition.topic)
        owner_count = self.counts[self.current.owner[partition]]
        return any(
            rank in heap.ranks
            and self.counts[rank] != self.members.capacity[rank]
            and self.counts[rank] + self.tolerance < owner_count
            for rank in (target, heap.least_loaded())
        )

    def _no_participant_would_gain(self) -> bool:
        """Whether no participant could get a partition from a participant with more partitions. This looks at all
        partitions."""
        if self._max_difference() <= 1:
            return True
        owner = {each: rank for rank in self.participants for each in self.current.assigned[rank]}
        most: dict[str, int] = {}
        for (topic, _), rank in owner.items():
            most[topic] = max(most.get(topic, 0), self.counts[rank])
        for rank in sorted(self.participants, key=lambda rank: (self.counts[rank], rank)):
            if self.counts[rank] == self.members.capacity[rank]:
                continue
            for topic in self.members.topics_of[rank]:
                could_gain = most.get(topic, 0) > self.counts[rank] + self.tolerance or not self.current.is_consistent
                if could_gain and self._would_gain_from(rank, topic, owner):
                    return False
        return True

    def _would_gain_from(self, rank: int, topic: str, owner: dict[TopicPartition, int]) -> bool:
        own = set(self.current.assigned[rank])
        for partition in self.members.cluster.partitions(topic):
            if partition not in own:
                if partition not in owner:
                    name = self.members.names[rank]
                    raise AssignorError(
                        f"partition {partition.partition} of topic {topic} has no owner to compare with member {name}; "
                        "Kafka's class fails here with a NullPointerException",
                        member=name,
                        topic=topic,
                    )
                if self.counts[rank] + self.tolerance < self.counts[owner[partition]]:
                    return True
        return False
