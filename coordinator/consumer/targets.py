"""The target assignment: which assignor computes it, when, and from what (`TargetAssignmentBuilder`)."""

from collections.abc import Iterable
from functools import lru_cache
from typing import Final

from regroup.assignors.server_side.interface import ServerAssignor, ServerGroup, ServerMember
from regroup.assignors.server_side.range import ServerRangeAssignor
from regroup.assignors.server_side.uniform import UniformAssignor
from regroup.coordinator.consumer.events import TargetAssigned
from regroup.coordinator.consumer.evolve_group import consumer_of
from regroup.coordinator.consumer_group import FIRST_GROUP_EPOCH, ConsumerGroup, ConsumerMember, Partitions, TopicId
from regroup.coordinator.decision import DecisionBuilder
from regroup.coordinator.topics import TopicsImage
from regroup.protocol.consumer.subscription import TopicPartition
from regroup.protocol.java_order import in_hash_map_order, java_hash_map_order
from regroup.protocol.topic_ids import topic_id_bytes

ASSIGNORS: Final[dict[str, ServerAssignor]] = {
    assignor.name: assignor for assignor in (UniformAssignor(), ServerRangeAssignor())
}
"""The assignors of a coordinator by name (`group.consumer.assignors`); the first is the default."""
DEFAULT_ASSIGNOR: Final = next(iter(ASSIGNORS))


def elected_assignor(consumer: ConsumerGroup, sole_vote: str | None = None) -> str:
    """The assignor with the most votes; members that name none have none.

    A tie goes to `uniform`. But in a request of the only member that votes for `sole_vote` it goes to this one: Kafka
    counts the member's vote once more into a copy of its hash map, where it comes last. As long as there is the tie,
    each heartbeat of this member therefore bumps the group epoch. Apache Kafka 4.4.0 was seen to do so.
    """
    votes = consumer.assignor_votes
    if not votes:
        return DEFAULT_ASSIGNOR
    most = max(votes.values())
    elected = [name for name, count in votes.items() if count == most]
    preferred = [name for name in (sole_vote, *ASSIGNORS) if name in elected]
    return (preferred or elected)[0]


def update_target(decision: DecisionBuilder, topics: TopicsImage, assignor: str, *, homogeneous: bool) -> None:
    """Compute a new target if the group has changed since the last one, and if the assignment interval is over.

    The target of the first group epoch, which has no partitions, begins no interval: Apache Kafka 4.4.0 was seen to
    compute the next one at once.
    `homogeneous` says whether all members count as equal subscribers. Raises AssignorError.
    """
    consumer = consumer_of(decision.group)
    if consumer.group_epoch <= consumer.assignment_epoch or not interval_is_over(decision, consumer):
        return
    targets = compute_targets(consumer, topics, ASSIGNORS[assignor], homogeneous=homogeneous)
    decision.apply(
        TargetAssigned,
        assignment_epoch=consumer.group_epoch,
        assigned_at_ms=decision.at_ms if consumer.group_epoch > FIRST_GROUP_EPOCH else 0,
        assignor=assignor,
        targets={
            member_id: target for member_id, target in targets.items() if consumer.targets.get(member_id) != target
        },
        reason=f"group epoch {consumer.group_epoch}",
    )


def interval_is_over(decision: DecisionBuilder, consumer: ConsumerGroup) -> bool:
    """No timer waits for it: the first heartbeat afterwards computes the target (KIP-1263)."""
    interval_ms = decision.settings.group_consumer_assignment_interval_ms
    return not (consumer.assigned_at_ms and interval_ms) or decision.at_ms >= consumer.assigned_at_ms + interval_ms


def compute_targets(
    consumer: ConsumerGroup, topics: TopicsImage, assignor: ServerAssignor, *, homogeneous: bool
) -> dict[str, Partitions]:
    """The share of every member. Members and topics have the order of Kafka's hash maps, as far as it can be known."""
    subscribed: dict[tuple[tuple[str, ...], str], tuple[str, ...]] = {}
    members = {}
    for member_id in java_hash_map_order(consumer.members):
        member = consumer.members[member_id]
        key = member.profile.subscribed_topics, member.profile.subscribed_regex
        if key not in subscribed:
            subscribed[key] = existing_topics(consumer, member, topics)
        members[member_id] = ServerMember(
            topics=subscribed[key],
            current=named_partitions(consumer.targets.get(member_id, {}), topics),
            instance_id=member.instance_id,
        )
    names = dict.fromkeys(name for each in subscribed.values() for name in each)
    computed = assignor.assign(
        ServerGroup(
            partitions_per_topic={name: topics.by_name[name].partitions for name in names},
            members=members,
            topic_ids={name: topic_id_bytes(topics.by_name[name].topic_id) for name in names},
            homogeneous=homogeneous,
        )
    )
    return {
        member_id: {
            topics.by_name[name].topic_id: tuple(sorted(indexes)) for name, indexes in computed[member_id].items()
        }
        for member_id in consumer.members
    }


def existing_topics(consumer: ConsumerGroup, member: ConsumerMember, topics: TopicsImage) -> tuple[str, ...]:
    """The topics to which a member subscribes, in the order in which Kafka has a set of their ids."""
    topic_ids = in_uuid_order(topics.ids_of(consumer.topics_of(member.profile)))
    return tuple(topics.by_id[topic_id].name for topic_id in topic_ids)


def named_partitions(target: Partitions, topics: TopicsImage) -> tuple[TopicPartition, ...]:
    """A former share, without topics that exist no more."""
    return tuple(
        TopicPartition(topics.by_id[topic_id].name, index)
        for topic_id in in_uuid_order(target)
        if topic_id in topics.by_id
        for index in target[topic_id]
    )


def is_homogeneous(consumer: ConsumerGroup) -> bool:
    """Whether all members name the same topics, or all have the same pattern and no names."""
    size = len(consumer.members)
    if not consumer.regex_subscriptions:
        return all(count == size for count in consumer.subscriptions.values())
    return not consumer.subscriptions and list(consumer.regex_subscriptions.values()) == [size]


def in_uuid_order(topic_ids: Iterable[TopicId]) -> list[TopicId]:
    """Topic ids in the order of a Java hash map."""
    return in_hash_map_order(topic_ids, java_uuid_hash)


@lru_cache(maxsize=8192)
def java_uuid_hash(topic_id: TopicId) -> int:
    """`Uuid.hashCode()` of Kafka, as an unsigned 32-bit integer."""
    data = topic_id_bytes(topic_id)
    mixed = int.from_bytes(data[:8]) ^ int.from_bytes(data[8:])
    return (mixed >> 32 ^ mixed) & 0xFFFFFFFF
