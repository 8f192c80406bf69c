"""The interface of an assignor of the classic protocol (name, input, result), and the orders and rack checks that all
assignors share.

All input has a defined order, and nothing else influences the result: members are processed in the order of the mapping
(a Java leader iterates a HashMap, see `leader_order`), and strings are sorted by UTF-16 code unit, as in Java.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum

from regroup.protocol.consumer.subscription import NO_GENERATION, Assignment, TopicPartition, topic_partitions
from regroup.protocol.java_order import java_hash_map_order, utf16_order

__all__ = [
    "Assignments",
    "RebalanceProtocol",
    "AssignorError",
    "ClusterMetadata",
    "AssignorMember",
    "LastAssignment",
    "Assignor",
    "leader_order",
]

Assignments = dict[str, list[TopicPartition]]
"""The partitions of each member, by member id."""


class RebalanceProtocol(Enum):
    """What a member does with its partitions when a rebalance begins (KIP-429)."""

    EAGER = "eager"
    """The member revokes all of its partitions."""
    COOPERATIVE = "cooperative"
    """The member keeps its partitions, and revokes only those that the new assignment takes away."""


class AssignorError(Exception):
    """An assignor failed; `member` and `topic` name the member and the topic that caused it, if they are known."""

    def __init__(self, reason: str, *, member: str | None = None, topic: str | None = None) -> None:
        super().__init__(reason)
        self.member = member
        self.topic = topic


@dataclass(frozen=True, slots=True)
class ClusterMetadata:
    """The leader's metadata: the number of partitions of each topic, and the racks of their replicas.

    `racks[topic][partition]` lists the rack of each replica, None for a broker without a rack. Leaders use the same
    metadata in many rebalances, so `partitions` creates the partitions of a topic only once.
    """

    partitions_per_topic: Mapping[str, int]
    racks: Mapping[str, Sequence[Sequence[str | None]]] = field(default_factory=dict)
    _created: dict[str, tuple[TopicPartition, ...]] = field(default_factory=dict, init=False, repr=False, compare=False)

    def partitions(self, topic: str) -> tuple[TopicPartition, ...]:
        """All partitions of a topic, in order."""
        created = self._created.get(topic)
        if created is None:
            created = self._created[topic] = tuple(topic_partitions(topic, range(self.partitions_per_topic[topic])))
        return created

    def replica_racks(self, topic: str) -> list[frozenset[str]]:
        """For each partition of the topic, in order, the set of racks in which it has a replica."""
        known = [frozenset(rack for rack in replicas if rack is not None) for replicas in self.racks.get(topic, ())]
        count = self.partitions_per_topic[topic]
        return (known + [frozenset()] * (count - len(known)))[:count]


@dataclass(frozen=True, slots=True)
class AssignorMember:
    """A member as the leader sees it: its decoded Subscription, each topic once, and its `group.instance.id`."""

    topics: tuple[str, ...]
    user_data: bytes | None = None
    owned_partitions: tuple[TopicPartition, ...] = ()
    generation_id: int = NO_GENERATION
    rack_id: str | None = None
    group_instance_id: str | None = None


@dataclass(frozen=True, slots=True)
class LastAssignment:
    """A member's last assignment, which it keeps for the user data of its next Subscription."""

    partitions: tuple[TopicPartition, ...]
    generation: int


class Assignor(ABC):
    """Base class of assignors: computes the assignment of a group when its member is the leader. Subclass it to write
    your own."""

    name: str
    supported_protocols: tuple[RebalanceProtocol, ...] = (RebalanceProtocol.EAGER,)

    @abstractmethod
    def assign(self, cluster: ClusterMetadata, members: Mapping[str, AssignorMember]) -> Assignments:
        """Assign partitions to members; returns the partitions of every member, in the order in which they are sent.
        Raises `AssignorError`."""

    def subscription_user_data(self, topics: Sequence[str], last: LastAssignment | None) -> bytes | None:
        """The user data of a member's Subscription; None for no user data. `last` is the last assignment, None for a
        member that never had one."""
        return None

    def on_assignment(self, assignment: Assignment, generation: int) -> LastAssignment:
        """Called when the member gets an assignment: returns what the member keeps of it, which is passed as `last` to
        the next `subscription_user_data`."""
        return LastAssignment(assignment.partitions, generation)


def leader_order(member_ids: Iterable[str]) -> list[str]:
    """The order in which a Java leader iterates its members. `member_ids` are given in the order of the JoinGroup
    response."""
    return java_hash_map_order(member_ids)


def static_members_first(members: Mapping[str, AssignorMember]) -> list[str]:
    """The member ids, static members first: sorted by `group.instance.id`, then the others sorted by member id."""
    by_id = sorted(members, key=utf16_order)
    # In the given order, which decides between two members with the same instance id.
    static = {name: each for name, member in members.items() if (each := member.group_instance_id) is not None}
    if not static:
        return by_id
    by_instance = sorted(static, key=lambda name: utf16_order(static[name]))
    return by_instance + [name for name in by_id if name not in static]


def subscribers_by_topic(order: Sequence[str], members: Mapping[str, AssignorMember]) -> dict[str, list[int]]:
    """The subscribers of each topic, as indexes into `order`. Topics are in the order of their first appearance."""
    subscriptions = {member.topics: None for member in members.values()}
    if len(subscriptions) == 1:
        all_members = list(range(len(order)))
        return {topic: all_members for topics in subscriptions for topic in topics}
    subscribers: dict[str, list[int]] = {topic: [] for topics in subscriptions for topic in topics}
    for index, name in enumerate(order):
        for topic in members[name].topics:
            subscribers[topic].append(index)
    return subscribers


def subscribed_topics(members: Mapping[str, AssignorMember]) -> list[str]:
    """The topics of all subscriptions, in the order of their first appearance."""
    subscriptions = dict.fromkeys(member.topics for member in members.values())
    return list(dict.fromkeys(topic for subscription in subscriptions for topic in subscription))


def known_topics(cluster: ClusterMetadata, topics: Iterable[str]) -> list[str]:
    """Those of `topics` that have partitions. Kafka ignores topics that the leader's metadata do not contain."""
    return [topic for topic in topics if cluster.partitions_per_topic.get(topic, 0) > 0]


def racks_matter(member_racks: Iterable[str], replica_racks: Sequence[frozenset[str]]) -> bool:
    """Whether racks influence the assignment (KIP-881).

    They do if members and replicas have a common rack and not all partitions have replicas in the same racks.
    """
    all_racks = frozenset().union(*replica_racks)
    return not all_racks.isdisjoint(member_racks) and any(racks != all_racks for racks in replica_racks)
