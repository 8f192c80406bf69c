"""What an assignor is: a name, what it needs to know, and who gets which partition.

Everything that is handed in has a defined order, and nothing else decides: members are dealt with in the order of the
mapping (a Java leader walks a HashMap, see `leader_order`), strings compare by UTF-16 code unit as in Java.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum

from regroup.protocol.consumer.subscription import NO_GENERATION, Assignment, TopicPartition, topic_partitions
from regroup.protocol.java_order import java_hash_map_order

Assignments = dict[str, list[TopicPartition]]


class RebalanceProtocol(Enum):
    """What a member does with its partitions when a rebalance begins (KIP-429)."""

    EAGER = "eager"
    """It gives all of them up."""
    COOPERATIVE = "cooperative"
    """It keeps them, and gives up only what the new assignment takes away."""


class AssignorError(Exception):
    """An assignor could not deal out the partitions; `member` and `topic` name whom and what it failed on, if known."""

    def __init__(self, reason: str, *, member: str | None = None, topic: str | None = None) -> None:
        super().__init__(reason)
        self.member = member
        self.topic = topic


@dataclass(frozen=True, slots=True)
class Cluster:
    """The leader's metadata: how many partitions each topic has, and in which racks their replicas are.

    `racks[topic][partition]` lists the rack of each replica, None for a broker that names none. A leader deals again
    and again with the same metadata, so partitions are named once and not for every rebalance.
    """

    partitions_per_topic: Mapping[str, int]
    racks: Mapping[str, Sequence[Sequence[str | None]]] = field(default_factory=dict)
    _named: dict[str, tuple[TopicPartition, ...]] = field(default_factory=dict, init=False, repr=False, compare=False)

    def partitions(self, topic: str) -> tuple[TopicPartition, ...]:
        """All partitions of a topic, in order."""
        named = self._named.get(topic)
        if named is None:
            named = self._named[topic] = tuple(topic_partitions(topic, range(self.partitions_per_topic[topic])))
        return named

    def replica_racks(self, topic: str) -> list[frozenset[str]]:
        """For each partition of the topic the racks in which a replica is."""
        known = [frozenset(rack for rack in replicas if rack is not None) for replicas in self.racks.get(topic, ())]
        count = self.partitions_per_topic[topic]
        return (known + [frozenset()] * (count - len(known)))[:count]


@dataclass(frozen=True, slots=True)
class Member:
    """A member as its leader sees it: the decoded Subscription, each topic once, and the `group.instance.id`."""

    topics: tuple[str, ...]
    user_data: bytes | None = None
    owned_partitions: tuple[TopicPartition, ...] = ()
    generation_id: int = NO_GENERATION
    rack_id: str | None = None
    group_instance_id: str | None = None


@dataclass(frozen=True, slots=True)
class LastAssignment:
    """What a member remembers of its last assignment, to tell the next leader."""

    partitions: tuple[TopicPartition, ...]
    generation: int


class Assignor(ABC):
    """Deals the partitions out when its member leads the group. Subclass it to make one of your own."""

    name: str
    supported_protocols: tuple[RebalanceProtocol, ...] = (RebalanceProtocol.EAGER,)

    @abstractmethod
    def assign(self, cluster: Cluster, members: Mapping[str, Member]) -> Assignments:
        """The partitions of every member, in the order in which they are sent; raises `AssignorError`."""

    def subscription_user_data(self, topics: Sequence[str], last: LastAssignment | None) -> bytes | None:
        """What to put beside the topics into the Subscription; `last` is None for a member that never had anything."""
        return None

    def on_assignment(self, assignment: Assignment, generation: int) -> LastAssignment:
        """What the member is to remember of an assignment, until the next `subscription_user_data`."""
        return LastAssignment(assignment.partitions, generation)


def leader_order(member_ids: Iterable[str]) -> list[str]:
    """Member ids, given as JoinGroup lists them, in the order in which a Java leader walks them."""
    return java_hash_map_order(member_ids)


def subscribed_topics(members: Mapping[str, Member]) -> list[str]:
    """The topics of all subscriptions, as they are first met."""
    subscriptions = dict.fromkeys(member.topics for member in members.values())
    return list(dict.fromkeys(topic for subscription in subscriptions for topic in subscription))


def known_topics(cluster: Cluster, topics: Iterable[str]) -> list[str]:
    """Those of `topics` that have partitions. Kafka skips the others without a word."""
    return [topic for topic in topics if cluster.partitions_per_topic.get(topic, 0) > 0]


def racks_matter(member_racks: Iterable[str], replica_racks: Sequence[frozenset[str]]) -> bool:
    """Whether looking at racks can help (KIP-881): members and replicas share one, and some partition is not in all."""
    everywhere = frozenset().union(*replica_racks)
    return not everywhere.isdisjoint(member_racks) and any(racks != everywhere for racks in replica_racks)
