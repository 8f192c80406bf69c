"""The state of the general sticky assignment: members by rank, their present partitions, the least loaded member."""

from collections.abc import Iterable, Mapping, Sequence
from heapq import heapify, heappush, heapreplace

from regroup.assignors.interface import AssignorMember, ClusterMetadata
from regroup.protocol.consumer.subscription import TopicPartition
from regroup.protocol.java_order import utf16_order


class StickyMembers:
    """The members and the topics to which they subscribe. A member's rank is its index when members are sorted by name.

    `given_order` lists the ranks in the order of the assignor's input. Topics with the same subscribers share one tuple
    of ranks, so that `is` compares them.
    """

    def __init__(self, cluster: ClusterMetadata, members: Mapping[str, AssignorMember], topics: Sequence[str]) -> None:
        self.cluster = cluster
        self.names = sorted(members, key=utf16_order)
        self.rank_of = {name: rank for rank, name in enumerate(self.names)}
        self.given_order = [self.rank_of[name] for name in members]
        known = frozenset(topics)
        of_subscription = {
            topics: tuple(topic for topic in topics if topic in known)
            for topics in {member.topics: None for member in members.values()}
        }
        self.topics_of = [of_subscription[members[name].topics] for name in self.names]
        subscribers: dict[str, list[int]] = {topic: [] for topic in topics}
        for name in members:
            for topic in of_subscription[members[name].topics]:
                subscribers[topic].append(self.rank_of[name])
        shared: dict[tuple[int, ...], tuple[int, ...]] = {}
        self.subscribers = {topic: shared.setdefault(key := tuple(ranks), key) for topic, ranks in subscribers.items()}
        sizes = {
            topics: sum(cluster.partitions_per_topic[topic] for topic in topics) for topics in of_subscription.values()
        }
        self.capacity = [sizes[topics] for topics in self.topics_of]
        """How many partitions the topics of each member have in all, by rank: the member cannot get more."""

    def topics_by_subscribers(self) -> list[str]:
        """Topics with few subscribers first, then by name: their partitions have the fewest possible owners."""
        return sorted(self.subscribers, key=lambda topic: (len(self.subscribers[topic]), utf16_order(topic)))


class CurrentAssignment:
    """The present partitions of each member by rank, in order; their number (`counts`); and the `owner` of each
    partition.

    `is_consistent` is false if a member claims a number that its topic no longer has. Kafka lets the member keep it,
    and then assigns some partitions twice.
    """

    def __init__(self, members: StickyMembers, assigned: list[list[TopicPartition]]) -> None:
        self.members = members
        self.assigned = assigned
        self.counts = [len(partitions) for partitions in assigned]
        self.owner = {each: rank for rank in members.given_order for each in assigned[rank]}
        sizes = members.cluster.partitions_per_topic
        self.is_consistent = all(0 <= number < sizes[topic] for topic, number in self.owner)

    def assign(self, partition: TopicPartition, rank: int) -> None:
        """Assign a partition that has no owner to the member with this rank."""
        self.assigned[rank].append(partition)
        self.counts[rank] += 1
        self.owner[partition] = rank

    def reassign(self, partition: TopicPartition, target: int) -> None:
        """Move a partition from its owner to the end of the list of the member with the rank `target`."""
        source = self.owner[partition]
        self.assigned[source].remove(partition)
        self.counts[source] -= 1
        self.assign(partition, target)


class LeastLoadedHeap:
    """A heap of members, ordered by number of partitions and then by rank.

    `counts[rank]` belongs to the caller, who changes it. An entry of the heap may be lower than the count: it is
    corrected when it comes to the top. An entry must not be higher, so the caller reports each decrease.
    """

    def __init__(self, ranks: Iterable[int], counts: list[int]) -> None:
        self.counts = counts
        self.size = len(counts)
        self.ranks = frozenset(ranks)
        self.heap = [counts[rank] * self.size + rank for rank in self.ranks]
        heapify(self.heap)

    def least_loaded(self) -> int:
        """The rank of the member with the fewest partitions; of several, the lowest rank."""
        while True:
            count, rank = divmod(self.heap[0], self.size)
            if count == self.counts[rank]:
                return rank
            heapreplace(self.heap, self.counts[rank] * self.size + rank)

    def decreased(self, rank: int) -> None:
        """Report that the member with this rank has fewer partitions than before."""
        if rank in self.ranks:
            heappush(self.heap, self.counts[rank] * self.size + rank)
