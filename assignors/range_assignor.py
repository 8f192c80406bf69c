"""The assignor `range`: each subscriber of a topic gets consecutive partitions; KIP-881 adds racks."""

from collections.abc import Mapping, Sequence
from itertools import islice

from regroup.assignors.interface import (
    Assignments,
    Assignor,
    AssignorMember,
    ClusterMetadata,
    known_topics,
    racks_matter,
    static_members_first,
    subscribers_by_topic,
)
from regroup.protocol.consumer.subscription import TopicPartition
from regroup.protocol.java_order import java_hash_map_order, utf16_order


class RangeAssignor(Assignor):
    """Assigns n // m of n partitions to each of m subscribers, and one more to each of the first n % m.

    Where racks matter, partitions with a replica in a member's rack are assigned first, within the same quotas. Topics
    with the same subscribers and the same number of partitions are assigned together: each partition number goes to the
    same member in all of them. The rest is assigned as if there were no racks.
    """

    name = "range"

    def assign(self, cluster: ClusterMetadata, members: Mapping[str, AssignorMember]) -> Assignments:
        """Assign consecutive partitions of each topic to its subscribers. Topics are in the order of a Java hash map,
        or sorted if racks matter."""
        order = static_members_first(members)
        subscribers = subscribers_by_topic(order, members)
        topics = known_topics(cluster, java_hash_map_order(subscribers))
        if len(topics) < len(subscribers):  # a smaller map may have fewer buckets
            topics = java_hash_map_order(topics)
        assignments: Assignments = {member: [] for member in members}
        assigned = [assignments[name] for name in order]
        if cluster.racks and any(member.rack_id for member in members.values()):
            racks = [members[name].rack_id for name in order]
            _assign_with_racks([TopicState(topic, cluster, subscribers[topic], racks) for topic in topics], assigned)
        else:
            _assign_without_racks(cluster, topics, subscribers, assigned)
        return assignments


def _assign_without_racks(
    cluster: ClusterMetadata,
    topics: Sequence[str],
    subscribers: Mapping[str, list[int]],
    assigned: list[list[TopicPartition]],
) -> None:
    """Assign ranges of each topic to its subscribers. The ranges of a topic are used again for the next one if it has
    the same subscribers and size."""
    indexes: list[int] = []
    count = 0
    ranges: list[tuple[int, int, int]] = []
    for topic in topics:
        partitions = cluster.partitions(topic)
        if len(subscribers[topic]) == 1:
            assigned[subscribers[topic][0]] += partitions
            continue
        if len(partitions) != count or subscribers[topic] != indexes:
            indexes, count = subscribers[topic], len(partitions)
            ranges = _ranges(indexes, count)
        for index, start, end in ranges:
            assigned[index] += partitions[start:end]


def _ranges(subscribers: list[int], count: int) -> list[tuple[int, int, int]]:
    """The ranges of `count` partitions for these subscribers, without empty ones: member index, start, end
    (exclusive)."""
    quota, larger_quotas = divmod(count, len(subscribers))
    ranges = []
    start = 0
    for position, index in enumerate(subscribers[:count]):
        end = start + quota + (position < larger_quotas)
        ranges.append((index, start, end))
        start = end
    return ranges


class TopicState:
    """One topic during an assignment with racks: its quotas, and which partitions are assigned or unassigned."""

    def __init__(
        self, topic: str, cluster: ClusterMetadata, subscribers: list[int], racks: Sequence[str | None]
    ) -> None:
        self.subscribers = subscribers
        self.unassigned = dict(enumerate(cluster.partitions(topic)))
        self.assigned: dict[int, list[TopicPartition]] = {index: [] for index in subscribers}
        self.quota, self.larger_quotas = divmod(len(self.unassigned), len(subscribers))
        self.rack_of = {index: rack for index in subscribers if (rack := racks[index])}
        self.replica_racks = cluster.replica_racks(topic) if self.rack_of else []
        self.racks_matter = racks_matter(self.rack_of.values(), self.replica_racks)

    def capacity(self, index: int) -> int:
        """How many partitions of the topic the member `index` may still get. The quota is one larger while the topic
        has larger quotas left."""
        return max(0, self.quota + (self.larger_quotas > 0) - len(self.assigned[index]))

    def assign(self, index: int, numbers: list[int]) -> None:
        """Assign the partitions with these numbers to the member `index`. If the member then exceeds the smaller quota,
        one of the larger quotas is used up."""
        self.assigned[index] += [self.unassigned.pop(number) for number in numbers]
        self.larger_quotas -= bool(numbers) and len(self.assigned[index]) > self.quota

    def is_rack_match(self, index: int, number: int) -> bool:
        """Whether the partition `number` has a replica in the rack of the member `index`; True for a member without a
        rack."""
        rack = self.rack_of.get(index)
        return rack is None or rack in self.replica_racks[number]

    def assign_rack_matches(self) -> None:
        """Assign partitions to members in whose rack they have a replica, in the order of subscribers."""
        for index in self.subscribers:
            matches = [number for number in self.unassigned if self.is_rack_match(index, number)]
            self.assign(index, matches[: self.capacity(index)])

    def assign_rest(self) -> None:
        """Assign the unassigned partitions in consecutive ranges, in the order of subscribers."""
        for index in self.subscribers:
            self.assign(index, list(islice(self.unassigned, self.capacity(index))))


def _assign_with_racks(topics: list[TopicState], assigned: list[list[TopicPartition]]) -> None:
    any_racks_matter = any(topic.racks_matter for topic in topics)
    if any_racks_matter:
        co_partitioned: dict[tuple[tuple[int, ...], int], list[TopicState]] = {}
        for topic in topics:
            co_partitioned.setdefault((tuple(topic.subscribers), len(topic.replica_racks)), []).append(topic)
        for group in co_partitioned.values():
            if len(group) > 1:
                _assign_co_partitioned(group)
            elif group[0].racks_matter:
                group[0].assign_rack_matches()
    for topic in topics:
        topic.assign_rest()
        for index, partitions in topic.assigned.items():
            assigned[index] += partitions
    if any_racks_matter:
        for partitions in assigned:
            partitions.sort(key=lambda each: (utf16_order(each.topic), each.partition))


def _assign_co_partitioned(topics: list[TopicState]) -> None:
    """Assign partition n of all topics together, for each n, to the first member whose rack has a replica of every one
    of them."""
    candidates = list(topics[0].subscribers)
    for number in range(len(topics[0].replica_racks)):
        for index in candidates:
            if all(topic.capacity(index) > 0 and topic.is_rack_match(index, number) for topic in topics):
                for topic in topics:
                    topic.assign(index, [number])
                if not any(topic.capacity(index) for topic in topics):
                    candidates.remove(index)
                break
