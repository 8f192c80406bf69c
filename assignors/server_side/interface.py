"""What a server-side assignor is (KIP-848): the coordinator deals out, and knows the assignment that was before."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field

from regroup.assignors.interface import AssignorError
from regroup.protocol.consumer.subscription import TopicPartition
from regroup.protocol.java_order import utf16_order

Targets = dict[str, dict[str, set[int]]]
"""For each member the partition numbers of each topic."""


@dataclass(frozen=True, slots=True)
class ServerMember:
    """A member as the coordinator sees it; `current` is its target assignment until now, in the order it is kept."""

    topics: tuple[str, ...]
    current: tuple[TopicPartition, ...] = ()
    instance_id: str | None = None


@dataclass(frozen=True, slots=True)
class ServerGroup:
    """What is to be dealt out among whom.

    Order counts: that of the members, and that of the first member's topics where all subscribe alike (Kafka walks
    hash maps there). `topic_ids` break ties between topics where subscriptions differ; each has 16 bytes.
    `homogeneous` is what the coordinator has noted about the subscriptions; None lets them be compared.
    """

    partitions_per_topic: Mapping[str, int]
    members: Mapping[str, ServerMember]
    topic_ids: Mapping[str, bytes] = field(default_factory=dict)
    homogeneous: bool | None = None

    def size(self, topic: str, member: str) -> int:
        """How many partitions the topic has; raises `AssignorError` for a topic that does not exist."""
        try:
            return self.partitions_per_topic[topic]
        except KeyError:
            reason = f"member {member} is subscribed to topic {topic}, which does not exist"
            raise AssignorError(reason, member=member, topic=topic) from None

    def id_order(self, topic: str) -> tuple[int, int]:
        """The sort key of the topic's id: two signed halves, as Java compares its Uuids."""
        topic_id = self.topic_ids.get(topic, b"")
        return int.from_bytes(topic_id[:8], signed=True), int.from_bytes(topic_id[8:], signed=True)

    def all_subscribe_alike(self) -> bool:
        """Whether Kafka calls this group homogeneous."""
        if self.homogeneous is not None:
            return self.homogeneous
        return len({frozenset(member.topics) for member in self.members.values()}) <= 1


class ServerAssignor(ABC):
    """Deals out the partitions of a group that uses the newer protocol."""

    name: str

    @abstractmethod
    def assign(self, group: ServerGroup) -> Targets:
        """The new target of every member; raises `AssignorError`."""


def in_order(targets: Targets) -> dict[str, list[TopicPartition]]:
    """Targets as lists, sorted by topic and number."""
    return {
        name: [
            TopicPartition(topic, number)
            for topic in sorted(target, key=utf16_order)
            for number in sorted(target[topic])
        ]
        for name, target in targets.items()
    }
