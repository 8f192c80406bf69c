"""The subscribers of topics, for groups in which members times topics are millions."""

from bisect import bisect_left
from collections.abc import Sequence

from regroup.assignors.server_side.interface import ServerGroup


class Subscribers:
    """The subscribers of each topic, as indexes in `order`, which has all members.

    Most members of a group subscribe to all topics, or to all but a few. So for a member with more than half of the
    topics only those are stored to which it does not subscribe. Raises `AssignorError` for a topic that does not exist.
    """

    def __init__(self, group: ServerGroup, order: Sequence[str]) -> None:
        by_identity: dict[int, tuple[tuple[str, ...], list[int]]] = {}  # a hash of so many names would take longer
        for index, name in enumerate(order):
            topics = group.members[name].topics
            by_identity.setdefault(id(topics), (topics, []))[1].append(index)
        by_subscription = by_identity.values()
        every_topic = set[str]().union(*(topics for topics, _ in by_subscription))
        if not every_topic <= group.partitions_per_topic.keys():
            for topics, indexes in by_subscription:
                for topic in topics:
                    group.partition_count(topic, order[indexes[0]])
        self._to_most: list[int] = []
        """The members with more than half of all topics."""
        self._leave_out: dict[str, list[int]] = {}
        """Those of them that do not have a topic."""
        self._to_few: dict[str, list[int]] = {topic: [] for topic in every_topic}
        """The other members that have a topic."""
        for topics, indexes in by_subscription:
            if 2 * len(topics) > len(every_topic):
                self._to_most += indexes
                for topic in every_topic.difference(topics):
                    self._leave_out.setdefault(topic, []).extend(indexes)
            else:
                for topic in dict.fromkeys(topics):
                    self._to_few[topic] += indexes
        self._to_most.sort()
        self._not_to_most = set(range(len(order))).difference(self._to_most)
        self.topics = tuple(every_topic)

    def count(self, topic: str) -> int:
        """How many members subscribe to the topic."""
        return len(self._to_most) - len(self._leave_out.get(topic, ())) + len(self._to_few[topic])

    def of(self, topic: str) -> list[int]:
        """The members that subscribe to the topic, as ascending indexes."""
        found, to_few = without(self._to_most, self._leave_out.get(topic, ())), self._to_few[topic]
        return sorted(found + to_few) if to_few else found

    def others(self, topic: str) -> set[int]:
        """The members that do not subscribe to the topic, as indexes."""
        return self._not_to_most.difference(self._to_few[topic]).union(self._leave_out.get(topic, ()))


def without(indexes: list[int], left_out: Sequence[int]) -> list[int]:
    """A copy of the ascending indexes without those in `left_out`, all of which must be among them."""
    if len(left_out) > len(indexes) // 32:
        excluded = frozenset(left_out)
        return [each for each in indexes if each not in excluded]
    left = indexes.copy()
    for each in left_out:
        del left[bisect_left(left, each)]
    return left
