"""What the general sticky deal works on: members by number, and what each of them holds at the moment."""

from collections.abc import Mapping, Sequence

from regroup.assignors.interface import Cluster, Member
from regroup.protocol.consumer.subscription import TopicPartition
from regroup.protocol.java_order import utf16_order


class Group:
    """Members and what each of them may have, numbered by name: `names[rank]` may have `topics_of[rank]`.

    `walk` lists the ranks in the order in which the members were given; topics with the same subscribers share one
    and the same tuple of them, so that `is` tells whether they differ.
    """

    def __init__(self, cluster: Cluster, members: Mapping[str, Member], topics: Sequence[str]) -> None:
        self.cluster = cluster
        self.names = sorted(members, key=utf16_order)
        self.rank_of = {name: rank for rank, name in enumerate(self.names)}
        self.walk = [self.rank_of[name] for name in members]
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
        sizes = {topics: self._capacity(topics) for topics in of_subscription.values()}
        self.capacity = [sizes[topics] for topics in self.topics_of]

    def _capacity(self, topics: tuple[str, ...]) -> int:
        return sum(self.cluster.partitions_per_topic[topic] for topic in topics)

    def topics_in_order(self) -> list[str]:
        """Topics with few subscribers first, then by name: what is hard to place is placed first."""
        return sorted(self.subscribers, key=lambda topic: (len(self.subscribers[topic]), utf16_order(topic)))


class Holdings:
    """Who holds what: `held[rank]` in order, `counts[rank]`, and the `owner` of each partition.

    It is `sound` unless a member claims a number that its topic no longer has; Kafka lets that member keep it, and
    gives partitions out twice on the way.
    """

    def __init__(self, group: Group, held: list[list[TopicPartition]]) -> None:
        self.group = group
        self.held = held
        self.counts = [len(partitions) for partitions in held]
        self.owner = {each: rank for rank in group.walk for each in held[rank]}
        sizes = group.cluster.partitions_per_topic
        self.sound = all(0 <= number < sizes[topic] for topic, number in self.owner)

    def give(self, partition: TopicPartition, rank: int) -> None:
        """Give out a partition that was free."""
        self.held[rank].append(partition)
        self.counts[rank] += 1
        self.owner[partition] = rank

    def move(self, partition: TopicPartition, target: int) -> None:
        """Take a partition from its owner, and put it last among the target's."""
        source = self.owner[partition]
        self.held[source].remove(partition)
        self.counts[source] -= 1
        self.give(partition, target)
