"""`roundrobin`: all partitions of all topics in one row, dealt out in turn."""

from bisect import bisect_left
from collections.abc import Mapping
from itertools import groupby

from regroup.assignors.interface import (
    Assignments,
    Assignor,
    Cluster,
    Member,
    known_topics,
)
from regroup.assignors.member_order import seats_by_topic, static_members_first
from regroup.protocol.java_order import utf16_order


class RoundRobinAssignor(Assignor):
    """Topics by name, partitions by number, members in a circle (static ones first).

    A member that is not subscribed to the partition's topic is passed over. So for topics with the same subscribers
    the circle consists of these alone, and each of them takes every n-th partition from where the circle stands.
    """

    name = "roundrobin"

    def assign(self, cluster: Cluster, members: Mapping[str, Member]) -> Assignments:
        """Deal out every partition; the circle does not start again with a new topic."""
        circle = static_members_first(members)
        assignments: Assignments = {member: [] for member in members}
        held = [assignments[name] for name in circle]
        seats = seats_by_topic(circle, members)
        stands_at = 0
        topics = sorted(known_topics(cluster, seats), key=utf16_order)
        for subscribed, alike in groupby(topics, seats.__getitem__):
            partitions = [each for topic in alike for each in cluster.partitions(topic)]
            start = bisect_left(subscribed, stands_at)
            turn = subscribed[start:] + subscribed[:start]
            for place, seat in enumerate(turn[: len(partitions)]):
                held[seat] += partitions[place :: len(turn)]
            stands_at = turn[(len(partitions) - 1) % len(turn)] + 1
        return assignments
