"""`roundrobin`: all partitions of all topics in one row, dealt out in turn."""

from bisect import bisect_left
from collections.abc import Mapping

from regroup.assignors.interface import (
    Assignments,
    Assignor,
    Cluster,
    Member,
    known_topics,
    subscribed_topics,
)
from regroup.assignors.seating import seats_by_topic, static_members_first
from regroup.protocol.java_order import utf16_order


class RoundRobinAssignor(Assignor):
    """Topics by name, partitions by number, members in a circle (static ones first).

    A member that is not subscribed to the partition's topic is passed over. So within a topic the circle consists
    of its subscribers alone, and each of them takes every n-th partition from where the circle stands: a slice.
    """

    name = "roundrobin"

    def assign(self, cluster: Cluster, members: Mapping[str, Member]) -> Assignments:
        """Deal out every partition; the circle does not start again with a new topic."""
        circle = static_members_first(members)
        assignments: Assignments = {member: [] for member in members}
        seats = seats_by_topic(circle, members)
        stands_at = 0
        for topic in sorted(known_topics(cluster, subscribed_topics(members)), key=utf16_order):
            subscribed = seats[topic]
            start = bisect_left(subscribed, stands_at) % len(subscribed)
            turn = subscribed[start:] + subscribed[:start]
            partitions = cluster.partitions(topic)
            for offset, seat in enumerate(turn[: len(partitions)]):
                assignments[circle[seat]] += partitions[offset :: len(turn)]
            stands_at = turn[(len(partitions) - 1) % len(turn)] + 1
        return assignments
