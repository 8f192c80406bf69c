"""Sticky assignment where all members subscribe to the same topics (KAFKA-9987): no search, only quotas.

With p partitions and n members each is to have p // n (the quota), and p % n of them one more.

1. Every member keeps what it had, up to its quota; as long as there are places above the quota, members that had
   that many keep one more. Where racks matter, a partition that is far away is not kept.
2. Where racks matter, free partitions go round among the members below quota that are near, the partitions with the
   fewest members near them first.
3. What is still free goes round among the members below quota, in the order of their names, until each has its
   quota; the remainder goes one each to members at quota.

Going round is not done partition by partition: until the next member reaches its quota, everybody gets every n-th of
a block, which is a slice. So the work is one pass over the partitions and not members times partitions.
"""

from collections.abc import Sequence
from itertools import chain

from regroup.assignors.interface import Assignments, AssignorError, Cluster
from regroup.assignors.sticky.previous_ownership import Claims, Racks, lost_partition, still_free
from regroup.protocol.consumer.subscription import TopicPartition
from regroup.protocol.java_order import utf16_order


class EqualDeal:
    """One deal; `topics` are sorted by name. Afterwards `assignments` and `changed_hands` are filled."""

    def __init__(self, cluster: Cluster, topics: Sequence[str], claims: Claims, racks: Racks) -> None:
        self.cluster = cluster
        self.topics = topics
        self.claims = claims
        self.racks = racks
        total = sum(cluster.partitions_per_topic[topic] for topic in topics)
        self.quota, self.places_above = divmod(total, len(claims.owned))
        self.above = 0
        self.below: list[str] = []
        self.at_quota: list[str] = []
        self.released: dict[TopicPartition, str] = {}
        self.assignments: Assignments = {}
        self.changed_hands: dict[TopicPartition, str] = {}

    def deal(self) -> None:
        """Do the three steps; raises `AssignorError` where Kafka's quotas do not work out."""
        self._keep()
        something_moves = self.released or self.claims.contested
        kept = {name: len(mine) for name, mine in self.assignments.items()} if something_moves else {}
        free = still_free([*chain.from_iterable(self.assignments.values())], self.topics, self.cluster)
        self.below.sort(key=utf16_order)
        self.at_quota.sort(key=utf16_order)
        if self.racks.of_member:
            free = self._go_round_in_racks(self.racks.loneliest_first(free))
        self._go_round(free)
        if self.below:
            raise self._does_not_work_out(f"member {self.below[0]} stays below the quota of {self.quota} partitions")
        self._note_what_changed_hands(kept)

    @property
    def most(self) -> int:
        """The largest number of partitions that a member may have."""
        return self.quota + (self.places_above > 0)

    def _keep(self) -> None:
        """Let every member keep what it may, lowest numbers first."""
        place = {topic: index for index, topic in enumerate(self.topics)}
        width = len(place)
        for name, owned in self.claims.owned.items():
            near = self._near(name, owned) if self.racks.of_member else owned
            if self.claims.contested:
                near = [each for each in near if each not in self.claims.contested]
            keeps = self._how_many_it_keeps(name, len(near))
            self.assignments[name] = mine = sorted(near, key=lambda each: each[1] * width + place[each[0]])
            if keeps < len(mine):
                self.released.update(dict.fromkeys(mine[keeps:], name))
                del mine[keeps:]

    def _near(self, name: str, owned: list[TopicPartition]) -> list[TopicPartition]:
        far = [each for each in owned if self.racks.mismatch(name, each)]
        self.released.update(dict.fromkeys(far, name))
        return [each for each in owned if not self.racks.mismatch(name, each)]

    def _how_many_it_keeps(self, name: str, had: int) -> int:
        if had < self.quota:
            self.below.append(name)
            return had
        if had >= self.most and self.above < self.places_above:
            self.above += 1
            if self.above == self.places_above:
                self.at_quota.clear()
            return self.most
        if self.above < self.places_above:
            self.at_quota.append(name)
        return self.quota

    def _go_round_in_racks(self, free: list[TopicPartition]) -> list[TopicPartition]:
        """Give away what has a taker nearby; the rest is returned."""
        rest: list[TopicPartition] = []
        turn = 0
        for partition in free:
            seat = self._near_seat(partition, self.below, turn)
            if seat is not None:
                turn = self._seat_below_takes(seat, partition)
            elif (seat := self._near_seat(partition, self.at_quota, 0)) is not None:
                self._seat_at_quota_takes(seat, partition)
            else:
                rest.append(partition)
        return rest

    def _near_seat(self, partition: TopicPartition, seats: list[str], first: int) -> int | None:
        near = self.racks.of_replicas[partition]
        for step in range(len(seats)):
            seat = (first + step) % len(seats)
            if self.racks.of_member.get(seats[seat]) in near:
                return seat
        return None

    def _seat_below_takes(self, seat: int, partition: TopicPartition) -> int:
        """The seat whose turn is next."""
        name = self.below[seat]
        self.assignments[name].append(partition)
        if (has := len(self.assignments[name])) >= self.quota:
            del self.below[seat]
            if has < self.most and self.above < self.places_above:
                self.at_quota.append(name)
        else:
            seat += 1
        return seat % len(self.below) if self.below else 0

    def _seat_at_quota_takes(self, seat: int, partition: TopicPartition) -> None:
        name = self.at_quota[seat]
        self.assignments[name].append(partition)
        if len(self.assignments[name]) == self.most:
            del self.at_quota[seat]
            self.above += 1
            if self.above == self.places_above:
                self.at_quota.clear()

    def _go_round(self, free: list[TopicPartition]) -> None:
        start = 0
        while self.below and start < len(free):
            rounds = min(self.quota - len(self.assignments[name]) for name in self.below)
            end = start + rounds * len(self.below)
            for seat, name in enumerate(self.below, start):
                self.assignments[name] += free[seat : end : len(self.below)]
            start = end
            self.at_quota += [name for name in self.below if len(self.assignments[name]) == self.quota]
            self.below = [name for name in self.below if len(self.assignments[name]) < self.quota]
        remainder = free[start:]
        for name, partition in zip(self.at_quota, remainder, strict=False):
            self.assignments[name].append(partition)
        if len(remainder) > len(self.at_quota):
            topic, number = remainder[len(self.at_quota)]
            raise self._does_not_work_out(f"partition {number} of topic {topic} finds no member below its quota", topic)

    def _note_what_changed_hands(self, kept: dict[str, int]) -> None:
        for name, count in kept.items():
            for partition in self.assignments[name][count:]:
                if self.released.get(partition, name) != name or partition in self.claims.contested:
                    self.changed_hands[partition] = name

    def _does_not_work_out(self, what: str, topic: str | None = None) -> AssignorError:
        lost = lost_partition(self.claims.owned, self.cluster)
        if lost is None:
            return AssignorError(
                f"the quotas do not work out: {what}", member=next(iter(self.below), None), topic=topic
            )
        name, (topic, number) = lost
        count = self.cluster.partitions_per_topic[topic]
        why = f"member {name} still claims partition {number} of topic {topic}, which has only {count}"
        return AssignorError(f"the quotas do not work out: {what}, because {why}", member=name, topic=topic)
