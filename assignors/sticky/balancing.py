"""The last step of the general sticky deal: partitions move, one by one, to members that have fewer."""

from regroup.assignors.interface import AssignorError
from regroup.assignors.min_heap import LeastLoaded
from regroup.assignors.sticky.movements import Movements
from regroup.assignors.sticky.working_state import Holdings
from regroup.protocol.consumer.subscription import TopicPartition


class EveningOut:
    """Moves partitions of topics that several members share, and looks only at members that could gain or lose any.

    Kafka asks before every single partition whether all is balanced, which takes a look at everything. Here that is
    asked only where a partition is about to move, and even then the move itself mostly is the proof that it is not.
    """

    def __init__(self, holdings: Holdings, former: dict[TopicPartition, int], slack: int) -> None:
        self.holdings = holdings
        self.group = holdings.group
        self.counts = holdings.counts
        self.former = former
        self.slack = slack
        self.movements = Movements()
        self.shared = {topic for topic, ranks in self.group.subscribers.items() if len(ranks) >= 2}
        self.fixed = frozenset(rank for rank in self.group.walk if self._has_all_and_shares_nothing(rank))
        self.taking_part = [rank for rank in self.group.walk if rank not in self.fixed]
        self._circle: tuple[int, ...] | None = None
        self._queue = LeastLoaded((), self.counts)
        self._balanced: bool | None = None

    def _has_all_and_shares_nothing(self, rank: int) -> bool:
        held = self.holdings.held[rank]
        return len(held) >= self.group.capacity[rank] and not any(each[0] in self.shared for each in held)

    def run(self, partitions: list[TopicPartition]) -> bool:
        """Go through the partitions again and again until nothing moves any more; says whether anything did."""
        if not self.former and self.holdings.sound and self._spread() <= 1:
            return False
        candidates = [each for each in partitions if each[0] in self.shared]
        moved = False
        while self._go_through(candidates):
            moved = True
        return moved

    def _go_through(self, partitions: list[TopicPartition]) -> bool:
        moved = False
        for partition in partitions:
            target = self._better_owner(partition)
            if target is not None:
                if self._is_balanced(partition, target):
                    break
                self._move(partition, target)
                moved = True
        return moved

    def unevenness(self, held: list[list[TopicPartition]]) -> int:
        """The sum of the differences between every two members that take part; 0 is perfectly even."""
        counts = sorted(len(held[rank]) for rank in self.taking_part)
        return sum((2 * index - len(counts) + 1) * count for index, count in enumerate(counts))

    def _better_owner(self, partition: TopicPartition) -> int | None:
        """Who should have the partition: its former owner, else the subscriber with the fewest; None if it is well."""
        counts, owner = self.counts, self.holdings.owner[partition]
        former = self.former.get(partition)
        if former is not None:
            if former in self.fixed or owner in self.fixed:
                self._fail_unless_balanced(partition, former)
                return None
            if counts[owner] > counts[former] + 1:
                return former
        if self.fixed and not self.holdings.sound:
            return self._better_owner_step_by_step(partition, owner)
        least = self._queue_for(partition[0]).least()
        return least if counts[owner] > counts[least] + 1 else None

    def _better_owner_step_by_step(self, partition: TopicPartition, owner: int) -> int | None:
        """The same where somebody holds numbers that no longer exist: Kafka may trip over members it left out."""
        for other in self.group.subscribers[partition.topic]:
            if owner in self.fixed or other in self.fixed:
                self._fail_unless_balanced(partition, other)
                return None
            if self.counts[owner] > self.counts[other] + 1:
                return self._queue_for(partition.topic).least()
        return None

    def _fail_unless_balanced(self, partition: TopicPartition, other: int) -> None:
        if not self._is_balanced(partition, None):
            name = self.group.names[other]
            raise AssignorError(
                f"partition {partition.partition} of topic {partition.topic} is to be weighed against member {name}, "
                "which takes no part in evening out; Kafka's class fails here with a NullPointerException",
                member=name,
                topic=partition.topic,
            )

    def _queue_for(self, topic: str) -> LeastLoaded:
        circle = self.group.subscribers[topic]
        if circle is not self._circle:
            self._circle = circle
            self._queue = LeastLoaded((rank for rank in circle if rank not in self.fixed), self.counts)
        return self._queue

    def _move(self, partition: TopicPartition, target: int) -> None:
        partition = self.movements.better_choice(partition, self.holdings.owner[partition], target)
        source = self.holdings.owner[partition]
        self.movements.record(partition, source, target)
        self.holdings.move(partition, target)
        self._queue.fell(source)
        self._balanced = None

    def _spread(self) -> int:
        counts = [self.counts[rank] for rank in self.taking_part]
        return max(counts) - min(counts) if counts else 0

    def _is_balanced(self, partition: TopicPartition, target: int | None) -> bool:
        if self._balanced is None:
            proved_uneven = self.holdings.sound and target is not None and self._would_gain(partition, target)
            self._balanced = not proved_uneven and self._nobody_would_gain()
        return self._balanced

    def _would_gain(self, partition: TopicPartition, target: int) -> bool:
        queue = self._queue_for(partition.topic)
        owner_has = self.counts[self.holdings.owner[partition]]
        return any(
            rank in queue.ranks
            and self.counts[rank] != self.group.capacity[rank]
            and self.counts[rank] + self.slack < owner_has
            for rank in (target, queue.least())
        )

    def _nobody_would_gain(self) -> bool:
        """Whether no member that lacks something could take it from one that has more; a look at everything."""
        if self._spread() <= 1:
            return True
        owner = {each: rank for rank in self.taking_part for each in self.holdings.held[rank]}
        most: dict[str, int] = {}
        for (topic, _), rank in owner.items():
            most[topic] = max(most.get(topic, 0), self.counts[rank])
        for rank in sorted(self.taking_part, key=lambda rank: (self.counts[rank], rank)):
            if self.counts[rank] == self.group.capacity[rank]:
                continue
            for topic in self.group.topics_of[rank]:
                worth_a_look = most.get(topic, 0) > self.counts[rank] + self.slack or not self.holdings.sound
                if worth_a_look and self._would_gain_from(rank, topic, owner):
                    return False
        return True

    def _would_gain_from(self, rank: int, topic: str, owner: dict[TopicPartition, int]) -> bool:
        own = set(self.holdings.held[rank])
        for partition in self.group.cluster.partitions(topic):
            if partition not in own:
                if partition not in owner:
                    raise AssignorError(
                        f"partition {partition.partition} of topic {topic} has no owner to weigh member "
                        f"{self.group.names[rank]} against; Kafka's class fails here with a NullPointerException",
                        member=self.group.names[rank],
                        topic=topic,
                    )
                if self.counts[rank] + self.slack < self.counts[owner[partition]]:
                    return True
        return False
