"""The coordinator's `range`: each subscriber gets consecutive partitions, with the same numbers in all topics where
sizes allow it.
"""

from collections.abc import Iterator, Sequence
from itertools import pairwise

from regroup.assignors.server_side.interface import ServerAssignor, ServerGroup, TargetAssignments
from regroup.assignors.server_side.subscribers import Subscribers
from regroup.protocol.java_order import utf16_order


class ServerRangeAssignor(ServerAssignor):
    """Divides each topic into one range for each subscriber; the first ranges have one partition more if the number
    does not divide.

    Members get their ranges in order, static members first. The last assignment has no influence. Where all members
    count as equal subscribers, the subscription of the first one is that of all.
    """

    name = "range"

    def assign(self, group: ServerGroup) -> TargetAssignments:
        """Assign the ranges to the members. Raises `AssignorError` for a topic that does not exist."""
        order = sorted(group.members, key=lambda name: _sort_key(group, name))
        is_homogeneous = group.is_homogeneous()
        targets: TargetAssignments = {name: {} for name in group.members}
        for topic, indexes in _equal_subscribers(group, order) if is_homogeneous else _subscribers(group, order):
            ranges = _ranges(group.partitions_per_topic[topic], len(indexes))
            for index, numbers in zip(indexes, ranges, strict=False):
                targets[order[index]][topic] = set(numbers)
        return targets if is_homogeneous else {name: _in_order(group, name, targets[name]) for name in targets}


def _equal_subscribers(group: ServerGroup, order: list[str]) -> Iterator[tuple[str, Sequence[int]]]:
    """Yield each topic of the first member with the indexes of all members as its subscribers, for a group in which all
    subscriptions count as equal."""
    topics = dict.fromkeys(group.members[order[0]].topics) if order else ()
    for topic in topics:
        group.partition_count(topic, order[0])
    return ((topic, range(len(order))) for topic in topics)


def _subscribers(group: ServerGroup, order: list[str]) -> Iterator[tuple[str, Sequence[int]]]:
    subscribers = Subscribers(group, order)
    return ((topic, subscribers.of(topic)) for topic in subscribers.topics)


def _in_order(group: ServerGroup, name: str, target: dict[str, set[int]]) -> dict[str, set[int]]:
    """The target of the member `name`, with its topics in the order of the member's subscription."""
    if len(target) < 2:
        return target
    return {topic: target[topic] for topic in filter(target.__contains__, group.members[name].topics)}


def _sort_key(group: ServerGroup, name: str) -> tuple[bool, bytes]:
    instance_id = group.members[name].instance_id
    return instance_id is None, utf16_order(name if instance_id is None else instance_id)


def _ranges(count: int, subscribers: int) -> list[range]:
    """The ranges of partition numbers, from 0 to `count`, that this number of subscribers get. Empty ranges, which
    would be the last ones, are left out."""
    quota, longer = divmod(count, subscribers)
    ends = [quota * index + min(index, longer) for index in range(min(count, subscribers) + 1)]
    return [range(start, end) for start, end in pairwise(ends)]
