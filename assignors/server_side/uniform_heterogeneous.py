"""The coordinator's `uniform` where subscriptions differ: keep, give out, then even out topic by topic.

1. A member keeps what it has of the topics that it is still subscribed to.
2. Topic by topic, those with the most partitions for each subscriber first, free partitions go to the subscribers
   with the fewest partitions.
3. Topic by topic, and up to 16 times round, partitions go from the subscribers with the most to those with the
   fewest, until no two differ by more than one. A whole round without a move ends it.
"""

from regroup.assignors.interface import AssignorError
from regroup.assignors.server_side.interface import ServerGroup, Targets

NOBODY = -1
MOST_ROUNDS = 16


class UnequalDeal:
    """One deal; members are numbered as they come, and `owners[topic][number]` is such a number or `NOBODY`."""

    def __init__(self, group: ServerGroup) -> None:
        self.group = group
        self.names = list(group.members)
        self.subscribers: dict[str, list[int]] = {}
        for index, (name, member) in enumerate(group.members.items()):
            for topic in dict.fromkeys(member.topics):
                group.size(topic, name)
                self.subscribers.setdefault(topic, []).append(index)
        self.owners = {topic: [NOBODY] * group.partitions_per_topic[topic] for topic in self.subscribers}
        self.counts = [0] * len(self.names)
        self.targets: list[dict[str, set[int]]] = [{} for _ in self.names]

    def deal(self) -> Targets:
        """Do the three steps; raises `AssignorError` if a member has a partition that does not exist."""
        self._keep()
        topics = sorted(self.subscribers, key=self._order)
        for topic in topics:
            self._give_out(topic)
        self._even_out([topic for topic in topics if len(self.subscribers[topic]) >= 2])
        return {
            name: {topic: numbers for topic, numbers in target.items() if numbers}
            for name, target in zip(self.names, self.targets, strict=True)
        }

    def _order(self, topic: str) -> tuple[float, int, tuple[int, int]]:
        subscribers = len(self.subscribers[topic])
        return -(len(self.owners[topic]) / subscribers), subscribers, self.group.id_order(topic)

    def _keep(self) -> None:
        for index, (name, member) in enumerate(self.group.members.items()):
            subscribed = frozenset(member.topics)
            for topic, number in member.current:
                if topic in subscribed:
                    if not 0 <= number < len(self.owners[topic]):
                        reason = f"member {name} has partition {number} of topic {topic}, which does not exist"
                        raise AssignorError(reason, member=name, topic=topic)
                    self._take(index, topic, number)

    def _take(self, index: int, topic: str, number: int) -> None:
        self.targets[index].setdefault(topic, set()).add(number)
        self.counts[index] += 1
        self.owners[topic][number] = index

    def _give_out(self, topic: str) -> None:
        free = [number for number, owner in enumerate(self.owners[topic]) if owner == NOBODY]
        ladder = Ladder(self.subscribers[topic], self.counts)
        for number in free:
            self._take(ladder.next_least_loaded(), topic, number)

    def _even_out(self, topics: list[str]) -> None:
        last_moved: str | None = None
        for _ in range(MOST_ROUNDS):
            for topic in topics:
                if topic == last_moved:
                    return
                if self._even_out_topic(topic) or last_moved is None:
                    last_moved = topic

    def _even_out_topic(self, topic: str) -> bool:
        """Move partitions of one topic; says whether any was."""
        ladder = Ladder(self.subscribers[topic], self.counts)
        if ladder.difference <= 1:
            return False
        owned: dict[int, list[int]] = {}
        for number, owner in enumerate(self.owners[topic]):
            owned.setdefault(owner, []).append(number)
        moved = False
        while not ladder.is_level():
            giver = ladder.next_most_loaded()
            while giver is not None and not owned.get(giver):
                ladder.leave_out_the_last()
                giver = ladder.next_most_loaded()
            if giver is None:
                break
            number = owned[giver].pop()
            taker = ladder.next_least_loaded()
            if ladder.is_level():
                break
            self.targets[giver][topic].discard(number)
            self.counts[giver] -= 1
            self._take(taker, topic, number)
            moved = True
        return moved


class Ladder:
    """The subscribers of a topic, lowest count first. The lowest fill up in turn, and the highest give away in turn.

    `[0, low_end)` are the members at the lowest level; when each of them has taken one, the level rises and those
    that stood there already join them. `[high_start, high_end)` are those at the highest level, and it sinks likewise;
    members with nothing to give are left out beyond `high_end`. `counts` is shared with the caller, who changes it.
    """

    def __init__(self, members: list[int], counts: list[int]) -> None:
        self.counts = counts
        self.order = sorted(members, key=lambda index: (counts[index], index))
        lowest, highest = counts[self.order[0]], counts[self.order[-1]]
        self.difference = highest - lowest
        self.low_level, self.low_end, self.low_next = lowest - 1, 0, 0
        self.high_level, self.high_start, self.high_end = highest + 1, len(self.order), len(self.order)
        self.high_next = len(self.order) - 1

    def is_level(self) -> bool:
        """Whether the highest and the lowest level differ by no more than one."""
        return self.high_level - self.low_level <= 1

    def next_least_loaded(self) -> int:
        """Who is to take the next partition."""
        if self.low_next >= self.low_end:
            self.low_level += 1
            while self.low_end < len(self.order) and self.counts[self.order[self.low_end]] == self.low_level:
                self.low_end += 1
            self.low_next = 0
        self.low_next += 1
        return self.order[self.low_next - 1]

    def next_most_loaded(self) -> int | None:
        """Who is to give the next partition; None if nobody is left."""
        if self.high_next < self.high_start:
            if self.high_end <= self.high_start and self.high_start > 0:  # all were left out: go on below them
                self.high_level = self.counts[self.order[self.high_start - 1]]
            else:
                self.high_level -= 1
            while self.high_start > 0 and self.counts[self.order[self.high_start - 1]] == self.high_level:
                self.high_start -= 1
            self.high_next = self.high_end - 1
        if self.high_next < 0:
            return None
        self.high_next -= 1
        return self.order[self.high_next + 1]

    def leave_out_the_last(self) -> None:
        """The member that `next_most_loaded` just named has nothing to give."""
        place, last = self.high_next + 1, self.high_end - 1
        self.order[place], self.order[last] = self.order[last], self.order[place]
        self.high_end = last
