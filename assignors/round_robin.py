"""The assignor `roundrobin`: all partitions of all topics are assigned to the members in turn."""

from bisect import bisect_left
from collections.abc import Mapping
from itertools import groupby

from regroup.assignors.interface import (
    Assignments,
    Assignor,
    AssignorMember,
    ClusterMetadata,
    known_topics,
    static_members_first,
    subscribers_by_topic,
)
from regroup.protocol.java_order import utf16_order


class RoundRobinAssignor(Assignor):
    """Assigns partitions in the order of topic name and number to the members in a cycle, in which static members come
    first.

    A member that is not subscribed to the partition's topic is skipped. So for topics with the same subscribers the
    cycle has only these, and each of them gets every n-th partition, beginning where the cycle stands.
    """

    name = "roundrobin"

    def assign(self, cluster: ClusterMetadata, members: Mapping[str, AssignorMember]) -> Assignments:
        """Assign every partition to the next member of the cycle that subscribes to its topic. The cycle continues from
        one topic to the next."""
        order = static_members_first(members)
        assignments: Assignments = {member: [] for member in members}
        assigned = [assignments[name] for name in order]
        subscribers = subscribers_by_topic(order, members)
        next_index = 0
        topics = sorted(known_topics(cluster, subscribers), key=utf16_order)
        for indexes, same_subscribers in groupby(topics, subscribers.__getitem__):
            partitions = [each for topic in same_subscribers for each in cluster.partitions(topic)]
            start = bisect_left(indexes, next_index)
            cycle = indexes[start:] + indexes[:start]
            for offset, index in enumerate(cycle[: len(partitions)]):
                assigned[index] += partitions[offset :: len(cycle)]
            next_index = cycle[(len(partitions) - 1) % len(cycle)] + 1
        return assignments
