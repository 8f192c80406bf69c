"""The interface of a server-side assignor (KIP-848), which the coordinator runs with the last assignment as input."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import filterfalse

from regroup.assignors.interface import AssignorError
from regroup.protocol.consumer.subscription import TopicPartition
from regroup.protocol.java_order import utf16_order

TargetAssignments = dict[str, dict[str, set[int]]]
"""For each member id, the partition numbers of each topic."""


@dataclass(frozen=True, slots=True)
class ServerMember:
    """A member as input of a server-side assignor. `current` is its last target assignment: partition numbers by topic,
    in stored order."""

    topics: tuple[str, ...]
    current: Mapping[str, Sequence[int]] = field(default_factory=dict)
    instance_id: str | None = None


@dataclass(frozen=True, slots=True)
class ServerGroup:
    """The members and topics of a group, as the input of a server-side assignor.

    The order of members counts, and that of the first member's topics where all subscriptions are equal (Kafka iterates
    hash maps there). `topic_ids` decide between topics where subscriptions differ; each has 16 bytes.
    """

    partitions_per_topic: Mapping[str, int]
    members: Mapping[str, ServerMember]
    topic_ids: Mapping[str, bytes] = field(default_factory=dict)
    homogeneous: bool | None = None
    """Whether all subscriptions are equal, if the coordinator has recorded it; None if the assignor must compare
    them."""

    def partition_count(self, topic: str, member: str) -> int:
        """The number of partitions of a topic. Raises `AssignorError`, which names the topic and the given member as
        its subscriber, for a topic that does not exist."""
        if topic not in self.partitions_per_topic:
            reason = f"member {member} is subscribed to topic {topic}, which does not exist"
            raise AssignorError(reason, member=member, topic=topic)
        return self.partitions_per_topic[topic]

    def topic_id_order(self, topic: str) -> tuple[int, int]:
        """The sort key of the topic's id: its two halves as signed integers, as Java compares UUIDs."""
        topic_id = self.topic_ids.get(topic, b"")
        return int.from_bytes(topic_id[:8], signed=True), int.from_bytes(topic_id[8:], signed=True)

    def is_homogeneous(self) -> bool:
        """Whether all members are subscribed to the same topics."""
        if self.homogeneous is None:
            return len({frozenset(member.topics) for member in self.members.values()}) <= 1
        return self.homogeneous


class ServerAssignor(ABC):
    """Base class of server-side assignors: computes the target assignment of a group."""

    name: str

    @abstractmethod
    def assign(self, group: ServerGroup) -> TargetAssignments:
        """Compute the new target assignment of every member, by member id. Raises `AssignorError` if there can be
        none.

        The topics of a member whose ids fall into one bucket of Kafka's hash map have the order that they have there.
        """


def added_topics_first(target: dict[str, set[int]], is_kept: Callable[[str], bool]) -> dict[str, set[int]]:
    """The target with the topics in front that a member has newly got, the last one first, before those that it kept.

    Kafka's `uniform` adds a topic by `HashMap.computeIfAbsent`, which puts it at the beginning of its bucket.
    """
    if len(target) < 2:
        return target
    added = list(filterfalse(is_kept, target))
    return {topic: target[topic] for topic in (*reversed(added), *filter(is_kept, target))}


def sorted_targets(targets: TargetAssignments) -> dict[str, list[TopicPartition]]:
    """Target assignments as lists, sorted by topic and partition number."""
    return {
        name: [
            TopicPartition(topic, number)
            for topic in sorted(target, key=utf16_order)
            for number in sorted(target[topic])
        ]
        for name, target in targets.items()
    }
