"""The coordinator's `uniform` for different subscriptions: keep, assign the rest, balance topic by topic.

1. A member keeps what it has of the topics that it is subscribed to.
2. Topic by topic, those with the most partitions for each subscriber first, unassigned partitions go to the subscribers
   with the fewest partitions.
3. Topic by topic, in up to 16 iterations, partitions move from the subscribers with the most to those with the fewest,
   until no two differ by more than one. An iteration without a movement is the last.
"""

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterator
from itertools import filterfalse

from regroup.assignors.interface import AssignorError
from regroup.assignors.server_side.interface import ServerGroup, TargetAssignments, added_topics_first
from regroup.assignors.server_side.subscribers import Subscribers

_UNASSIGNED = -1
_MAX_ITERATIONS = 16
FEW = 8
"""A topic has few unassigned partitions if its subscribers are more than so many times as many."""


class UniformHeterogeneousBuilder:
    """Computes one assignment for a group with different subscriptions. Members are indexes in the given order;
    `owners[topic][number]` is such an index, or _UNASSIGNED."""

    def __init__(self, group: ServerGroup) -> None:
        self.group = group
        self.names = list(group.members)
        self.subscribers = Subscribers(group, self.names)
        self.owners = {topic: [_UNASSIGNED] * group.partitions_per_topic[topic] for topic in self.subscribers.topics}
        self.counts = [0] * len(self.names)
        self.targets: list[dict[str, set[int]]] = [{} for _ in self.names]
        self.kept: list[set[str]] = [set() for _ in self.names]
        """The topics of its last assignment of which each member has had a partition all the time."""
        self.levels: MembersByLevel | None = None
        """The members by their number of partitions; None if some have changed since."""

    def build(self) -> TargetAssignments:
        """Do the three steps that the module describes, and return the target assignments. Raises `AssignorError` if a
        member has a partition that does not exist."""
        self._keep()
        topics = sorted(self.subscribers.topics, key=self._topic_order)
        for topic in topics:
            self._assign_unassigned(topic)
        self._balance([topic for topic in topics if self.subscribers.count(topic) >= 2])
        return {
            name: added_topics_first(target, kept.__contains__)
            for name, target, kept in zip(self.names, self.targets, self.kept, strict=True)
        }

    def _topic_order(self, topic: str) -> tuple[float, int, tuple[int, int]]:
        subscribers = self.subscribers.count(topic)
        return -(len(self.owners[topic]) / subscribers), subscribers, self.group.topic_id_order(topic)

    def _keep(self) -> None:
        for index, (name, member) in enumerate(self.group.members.items()):
            subscribed = frozenset(member.topics) if member.current else frozenset()
            for topic in filter(subscribed.__contains__, member.current):
                for number in member.current[topic]:
                    if not 0 <= number < len(self.owners[topic]):
                        reason = f"member {name} has partition {number} of topic {topic}, which does not exist"
                        raise AssignorError(reason, member=name, topic=topic)
                    self._assign(index, topic, number)
            if member.current:
                self.kept[index].update(self.targets[index])

    def _assign(self, index: int, topic: str, number: int) -> None:
        self.targets[index].setdefault(topic, set()).add(number)
        self.counts[index] += 1
        self.owners[topic][number] = index

    def _take(self, index: int, topic: str, number: int) -> None:
        self.targets[index][topic].discard(number)
        self.counts[index] -= 1
        if not self.targets[index][topic]:
            del self.targets[index][topic]
            self.kept[index].discard(topic)

    def _assign_unassigned(self, topic: str) -> None:
        unassigned = [number for number, owner in enumerate(self.owners[topic]) if owner == _UNASSIGNED]
        if FEW * len(unassigned) < self.subscribers.count(topic):
            self._assign_few(topic, unassigned)
            return
        self.levels = None
        balancer = MemberAssignmentBalancer(self.subscribers.of(topic), self.counts)
        for number in unassigned:
            self._assign(balancer.next_least_loaded_member(), topic, number)

    def _assign_few(self, topic: str, unassigned: list[int]) -> None:
        """Assign unassigned partitions of a topic that has far more subscribers than such partitions: the least loaded
        subscribers are found among all members in order, without a look at all subscribers."""
        if self.levels is None:
            self.levels = MembersByLevel(self.counts)
        members = self.levels.in_order(self.subscribers.others(topic))
        following = next(members)
        level, turn = self.counts[following], 0
        chosen: dict[int, int] = {}
        order: list[int] = []
        for number in unassigned:
            if turn == len(order):
                if following >= 0 and self.counts[following] == level:
                    order.append(following)
                    chosen[following] = level
                    following = next(members, _UNASSIGNED)
                else:
                    level, turn = level + 1, 0
            self._assign(order[turn], topic, number)
            turn += 1
        for member, before in chosen.items():
            self.levels.move(member, before, self.counts[member])

    def _balance(self, topics: list[str]) -> None:
        last_moved: str | None = None
        lowest = min(self.counts)
        for _ in range(_MAX_ITERATIONS):
            for topic in topics:
                if topic == last_moved:
                    return
                has_moved = self._may_balance(topic, lowest) and self._balance_topic(topic)
                if has_moved:
                    lowest = min(self.counts)
                if has_moved or last_moved is None:
                    last_moved = topic

    def _may_balance(self, topic: str, lowest: int) -> bool:
        """Whether an owner of partitions of the topic has at least two partitions more than some subscriber. `lowest`
        is the smallest number of partitions that any member has, which saves a look at all subscribers of most
        topics."""
        highest = max(map(self.counts.__getitem__, self.owners[topic]), default=lowest)
        return highest - lowest > 1 and highest - min(map(self.counts.__getitem__, self.subscribers.of(topic))) > 1

    def _balance_topic(self, topic: str) -> bool:
        """Move partitions of one topic from the most to the least loaded subscribers; returns whether any moved."""
        balancer = MemberAssignmentBalancer(self.subscribers.of(topic), self.counts)
        owned: dict[int, list[int]] = {}
        for number, owner in enumerate(self.owners[topic]):
            owned.setdefault(owner, []).append(number)
        has_moved = False
        while not balancer.is_balanced():
            source = balancer.next_most_loaded_member()
            while source is not None and not owned.get(source):
                balancer.exclude_most_loaded_member()
                source = balancer.next_most_loaded_member()
            if source is None:
                break
            number = owned[source].pop()
            target = balancer.next_least_loaded_member()
            if balancer.is_balanced():
                break
            self._take(source, topic, number)
            self._assign(target, topic, number)
            has_moved = True
        return has_moved


class MembersByLevel:
    """The members by how many partitions they have, for topics with far fewer partitions than subscribers."""

    def __init__(self, counts: list[int]) -> None:
        self._levels: dict[int, list[int]] = {}
        for member, count in enumerate(counts):
            self._levels.setdefault(count, []).append(member)

    def in_order(self, others: set[int]) -> Iterator[int]:
        """The members except `others`, those with the fewest partitions first, and among equals by index."""
        for level in sorted(self._levels):
            yield from filterfalse(others.__contains__, self._levels[level])

    def move(self, member: int, before: int, after: int) -> None:
        """Note that the number of partitions of the member has changed from `before` to `after`."""
        present = self._levels[before]
        del present[bisect_left(present, member)]
        insort(self._levels.setdefault(after, []), member)


class MemberAssignmentBalancer:
    """Orders the subscribers of a topic by their number of partitions, for movements from the most to the least loaded
    member.

    `order[:low_end]` are the least loaded members, at the low level; when each of them has got a partition the level
    rises, and members that were at the new level already join them. `order[high_start:high_end]` are the most loaded
    members, whose level sinks likewise; excluded members are after `high_end`. Of equally loaded members the first in
    `members` comes first. `counts` belongs to the caller, who changes it.
    """

    def __init__(self, members: list[int], counts: list[int]) -> None:
        self.counts = counts
        self.order = sorted(members, key=counts.__getitem__)
        lowest, highest = counts[self.order[0]], counts[self.order[-1]]
        self.low_level, self.low_end, self.low_next = lowest - 1, 0, 0
        self.high_level, self.high_start, self.high_end = highest + 1, len(self.order), len(self.order)
        self.high_next = len(self.order) - 1

    def is_balanced(self) -> bool:
        """Whether the most and the least loaded members differ by at most one partition."""
        return self.high_level - self.low_level <= 1

    def next_least_loaded_member(self) -> int:
        """The member that gets the next partition."""
        if self.low_next >= self.low_end:
            self.low_level += 1
            self.low_end = self._end_of_low_level()
            self.low_next = 0
        self.low_next += 1
        return self.order[self.low_next - 1]

    def next_most_loaded_member(self) -> int | None:
        """The member that gives up the next partition; None if all members are excluded."""
        if self.high_next < self.high_start:
            if self.high_end <= self.high_start and self.high_start > 0:  # all were excluded: continue below them
                self.high_level = self.counts[self.order[self.high_start - 1]]
            else:
                self.high_level -= 1
            self.high_start = self._start_of_high_level()
            self.high_next = self.high_end - 1
        if self.high_next < 0:
            return None
        self.high_next -= 1
        return self.order[self.high_next + 1]

    def exclude_most_loaded_member(self) -> None:
        """Exclude the member that `next_most_loaded_member` returned last, because it has no partition of the topic to
        give up."""
        position, last = self.high_next + 1, self.high_end - 1
        self.order[position], self.order[last] = self.order[last], self.order[position]
        self.high_end = last

    def _end_of_low_level(self) -> int:
        """The index in `order` after the last member at the low level.

        Members between the two ends of `order` have not been moved, so they are still ordered; they may be thousands.
        """
        end = bisect_right(
            self.order, self.low_level, self.low_end, max(self.low_end, self.high_start), key=self.counts.__getitem__
        )
        while self.high_start <= end < len(self.order) and self.counts[self.order[end]] == self.low_level:
            end += 1
        return end

    def _start_of_high_level(self) -> int:
        """The index in `order` of the first member at the high level.

        Members between the two ends of `order` have not been moved, so they are still ordered; they may be thousands.
        """
        start = bisect_left(
            self.order,
            self.high_level,
            min(self.low_end, self.high_start),
            self.high_start,
            key=self.counts.__getitem__,
        )
        while 0 < start <= self.low_end and self.counts[self.order[start - 1]] == self.high_level:
            start -= 1
        return start
