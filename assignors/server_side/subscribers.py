"""The subscribers of each topic, for groups in which members times topics are millions."""

from bisect import bisect_left
from collections.abc import Sequence

from regroup.assignors.server_side.interface import ServerGroup


def subscribers_by_topic(group: ServerGroup, order: Sequence[str]) -> dict[str, list[int]]:
    """The subscribers of each topic: their indexes in `order`, which has all members, ascending.

    Most members of a group have equal subscriptions, or all topics but a few, so for members with more than half of the
    topics those are noted that they leave out. Raises `AssignorError` for a topic that does not exist.
    """
    by_subscription: dict[tuple[str, ...], list[int]] = {}
    for index, name in enumerate(order):
        by_subscription.setdefault(group.members[name].topics, []).append(index)
    every_topic = set[str]().union(*by_subscription)
    if not every_topic <= group.partitions_per_topic.keys():
        for topics, indexes in by_subscription.items():
            for topic in topics:
                group.partition_count(topic, order[indexes[0]])
    to_most: list[int] = []
    leave_out: dict[str, list[int]] = {}
    to_few: dict[str, list[int]] = {topic: [] for topic in every_topic}
    for topics, indexes in by_subscription.items():
        if 2 * len(topics) > len(every_topic):
            to_most += indexes
            for topic in every_topic.difference(topics):
                leave_out.setdefault(topic, []).extend(indexes)
        else:
            for topic in dict.fromkeys(topics):
                to_few[topic] += indexes
    to_most.sort()
    return {topic: sorted(without(to_most, leave_out.get(topic, ())) + each) for topic, each in to_few.items()}


def without(indexes: list[int], left_out: Sequence[int]) -> list[int]:
    """Ascending indexes without some of them."""
    if len(left_out) > len(indexes) // 32:
        excluded = frozenset(left_out)
        return [each for each in indexes if each not in excluded]
    left = indexes.copy()
    for each in left_out:
        del left[bisect_left(left, each)]
    return left
