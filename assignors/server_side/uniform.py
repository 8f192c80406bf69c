"""The coordinator's default assignor `uniform`: as balanced as possible, and then with as few movements as possible.

Where all subscriptions are equal it assigns by quotas (below), otherwise see `uniform_heterogeneous`.
"""

from collections import deque
from collections.abc import Iterable, Mapping, Sequence

from regroup.assignors.interface import AssignorError
from regroup.assignors.server_side.interface import (
    ServerAssignor,
    ServerGroup,
    ServerMember,
    TargetAssignments,
    added_topics_first,
)
from regroup.assignors.server_side.uniform_heterogeneous import UniformHeterogeneousBuilder


class UniformAssignor(ServerAssignor):
    """The assignor `uniform`: assigns by quotas where all subscriptions are equal, otherwise by a search."""

    name = "uniform"

    def assign(self, group: ServerGroup) -> TargetAssignments:
        """Compute the target assignments. Raises `AssignorError` for a topic that does not exist."""
        if not any(member.topics for member in group.members.values()):
            return {name: {} for name in group.members}
        return _assign_by_quotas(group) if group.is_homogeneous() else UniformHeterogeneousBuilder(group).build()


def _assign_by_quotas(group: ServerGroup) -> TargetAssignments:
    """Assign p partitions to n members: p // n + 1 partitions to p % n of them, p // n to the others.

    A member keeps what it has up to its quota. Unassigned partitions, and then revoked ones, are given to the members
    below their quota. The first members have the larger quotas. A member that has nothing to keep for its larger quota
    leaves it to a later one that has, as long as there are more members than larger quotas (Kafka 4.4).
    """
    first, topics = next((name, member.topics) for name, member in group.members.items())
    sizes = {topic: group.partition_count(topic, first) for topic in topics}
    free = _FreePartitions(sizes, group.members.values())
    quota, larger_quotas = divmod(sum(sizes.values()), len(group.members))
    targets: TargetAssignments = {}
    capacity: dict[str, int] = {}
    for index, (name, member) in enumerate(group.members.items()):
        is_larger = larger_quotas > 0
        targets[name], capacity[name] = _keep(member, quota + is_larger, free)
        if capacity[name] and is_larger and len(group.members) - index > larger_quotas:
            capacity[name] -= 1
        else:
            larger_quotas -= is_larger
    for name, target in targets.items():
        if capacity[name]:
            kept = frozenset(target)
            free.give(target, capacity[name])
            targets[name] = added_topics_first(target, kept.__contains__)
    if left := free.first():
        topic, number = left
        raise AssignorError(f"partition {number} of topic {topic} is left, and all quotas are full", topic=topic)
    return targets


def _keep(member: ServerMember, quota: int, free: "_FreePartitions") -> tuple[dict[str, set[int]], int]:
    """The partitions that a member keeps, up to its quota, and how many more it may get. Its other partitions are added
    to `free`."""
    kept: dict[str, set[int]] = {}
    for topic, numbers in member.current.items():
        if topic in free.sizes:
            if quota:
                kept[topic] = set(numbers[:quota])
            free.add(topic, numbers[quota:])
            quota -= min(quota, len(numbers))
    return kept, quota


class _FreePartitions:
    """The partitions that no member has, in the order in which they are given to members: runs of one topic each,
    because a topic may have hundreds of thousands."""

    def __init__(self, sizes: Mapping[str, int], members: Iterable[ServerMember]) -> None:
        self.sizes = sizes
        assigned: dict[str, set[int]] = {topic: set() for topic in sizes}
        for member in members:
            for topic, numbers in member.current.items():
                if topic in assigned:
                    assigned[topic].update(numbers)
        self._runs: deque[tuple[str, Sequence[int]]] = deque()
        self._given = 0
        """How many of the first run are given."""
        for topic, size in sizes.items():
            numbers = range(size)
            self.add(topic, [each for each in numbers if each not in assigned[topic]] if assigned[topic] else numbers)

    def add(self, topic: str, numbers: Sequence[int]) -> None:
        """Append these partitions of a topic to the end of the order."""
        if numbers:
            self._runs.append((topic, numbers))

    def give(self, target: dict[str, set[int]], count: int) -> None:
        """Move the next `count` partitions, or all if there are fewer, to the target of a member."""
        while count and self._runs:
            topic, numbers = self._runs[0]
            given = numbers[self._given : self._given + count]
            target.setdefault(topic, set()).update(given)
            count -= len(given)
            self._given += len(given)
            if self._given == len(numbers):
                self._runs.popleft()
                self._given = 0

    def first(self) -> tuple[str, int] | None:
        """The partition that is given next, as topic and number; None if there is none."""
        return (self._runs[0][0], self._runs[0][1][self._given]) if self._runs else None
