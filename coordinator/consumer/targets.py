"""The target assignment: which assignor computes it, when, and from what (`TargetAssignmentBuilder`)."""

from functools import lru_cache
from typing import Final

from regroup.assignors.interface import AssignorError
from regroup.assignors.server_side.interface import ServerAssignor, ServerGroup, ServerMember
from regroup.assignors.server_side.range import ServerRangeAssignor
from regroup.assignors.server_side.uniform import UniformAssignor
from regroup.coordinator.consumer.events import TargetAssigned
from regroup.coordinator.consumer.evolve_group import consumer_of
from regroup.coordinator.consumer_group import FIRST_GROUP_EPOCH, ConsumerGroup, ConsumerProfile, Partitions, TopicId
from regroup.coordinator.decision import DecisionBuilder
from regroup.coordinator.topics import TopicsImage
from regroup.protocol.java_order import hash_map_buckets, in_hash_map_order, java_hash_map_order
from regroup.protocol.topic_ids import topic_id_bytes

ASSIGNORS: Final[dict[str, ServerAssignor]] = {
    assignor.name: assignor for assignor in (UniformAssignor(), ServerRangeAssignor())
}
"""The assignors of a coordinator by name (`group.consumer.assignors`); the first is the default."""
MAX_TARGET_WORK: Final = 1_500_000
"""The most work that a target may be, as `target_work` counts it: about 0.2 seconds, in which other groups wait."""
DEFAULT_ASSIGNOR: Final = next(iter(ASSIGNORS))


def elected_assignor(consumer: ConsumerGroup, sole_vote: str | None = None) -> str:
    """The name of the assignor for which most members vote; the default if no member names one. A tie goes to
    `uniform`.

    `sole_vote` is the assignor for which only the sender of the present request votes, if there is such a one; then a
    tie goes to it: Kafka counts the sender's vote once more into a copy of its hash map, where it comes last. As long
    as there is the tie, each heartbeat of this member therefore bumps the group epoch. Apache Kafka 4.4.0 was seen to
    do so.
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
    """Whether the assignment interval since the last target has passed. No timer waits for its end: the first heartbeat
    afterwards computes the target (KIP-1263)."""
    interval_ms = decision.settings.group_consumer_assignment_interval_ms
    return not (consumer.assigned_at_ms and interval_ms) or decision.at_ms >= consumer.assigned_at_ms + interval_ms


def compute_targets(
    consumer: ConsumerGroup, topics: TopicsImage, assignor: ServerAssignor, *, homogeneous: bool
) -> dict[str, Partitions]:
    """Run the assignor; returns each member's share of the target. Members and topics are passed to it in the order of
    Kafka's hash maps, as far as that can be known.

    Raises AssignorError, also for a group whose target would take too long to compute.
    """
    refuse_beyond_limit(consumer, 0, sum(consumer.subscriptions.values()), homogeneous=homogeneous)
    subscribed: dict[tuple[tuple[str, ...], str], tuple[str, ...]] = {}
    existing = ExistingTopics(consumer, topics)
    members = {}
    for member_id in java_hash_map_order(consumer.members):
        member = consumer.members[member_id]
        key = member.profile.subscribed_topics, member.profile.subscribed_regex
        if key not in subscribed:
            subscribed[key] = existing.of(member.profile)
        members[member_id] = ServerMember(
            topics=subscribed[key],
            current=by_topic_name(consumer.targets.get(member_id, {}), topics),
            instance_id=member.instance_id,
        )
    partitions = sum(topics.by_name[name].partitions for name in existing.names)
    subscriptions = sum(len(each.topics) for each in members.values())
    refuse_beyond_limit(consumer, partitions, subscriptions, homogeneous=homogeneous)
    computed = assignor.assign(
        ServerGroup(
            partitions_per_topic={name: topics.by_name[name].partitions for name in existing.names},
            members=members,
            topic_ids={name: topic_id_bytes(topics.by_name[name].topic_id) for name in existing.names},
            homogeneous=homogeneous,
        )
    )
    return {
        member_id: {
            topics.by_name[name].topic_id: tuple(sorted(indexes)) for name, indexes in computed[member_id].items()
        }
        for member_id in consumer.members
    }


def refuse_beyond_limit(consumer: ConsumerGroup, partitions: int, subscriptions: int, *, homogeneous: bool) -> None:
    """Raise AssignorError if the group's target would take too long to compute, by the measure of `target_work`."""
    members = len(consumer.members)
    work = target_work(members, partitions, subscriptions, homogeneous=homogeneous)
    if work > MAX_TARGET_WORK:
        equal = "equal" if homogeneous else "unequal"
        raise AssignorError(
            f"{members:,} members, {partitions:,} partitions and {subscriptions:,} {equal} subscriptions are too many"
        )


def target_work(members: int, partitions: int, subscriptions: int, *, homogeneous: bool) -> int:
    """How long a target takes to compute, in units of about 0.12 microseconds
    (`benchmarks/pure/consumer_group_targets.py`).

    `subscriptions` is the sum of the members' numbers of topics; it counts only where members subscribe to different
    topics.
    """
    work = 80 * members + partitions
    return work if homogeneous else work + 9 * partitions + subscriptions // 2


class ExistingTopics:
    """The topics to which members subscribe and which exist, in the order in which Kafka iterates a set of their ids.

    A thousand members may name a thousand topics each, all different; so a member with many topics gets them in the
    order that was computed once for all topics.
    """

    def __init__(self, consumer: ConsumerGroup, topics: TopicsImage) -> None:
        self._consumer = consumer
        self._topics = topics
        self.names = frozenset(name for name in consumer.subscribed_topics if name in topics.by_name)
        """All topics to which members subscribe."""
        self._orders: dict[tuple[int, int], list[str]] = {}
        """All of them in the order that they have in a map with so many buckets, filled from one of names with so
        many."""

    def of(self, profile: ConsumerProfile) -> tuple[str, ...]:
        """The names of the existing topics to which a member with this description subscribes, in Kafka's order."""
        names = self._consumer.topics_of(profile)
        found = self.names.intersection(names)
        if names is profile.subscribed_topics and 8 * len(found) > len(self.names):
            return tuple(filter(found.__contains__, self._order(len(found), len(profile.subscribed_topics))))
        return self._in_order(self._topics.ids_of(names_in_order(self._consumer, profile)))

    def _order(self, size: int, subscribed: int) -> list[str]:
        """All topic names in the order of a hash map of `size` ids, filled from a hash map of `subscribed` names."""
        buckets = hash_map_buckets(size), hash_map_buckets(subscribed)
        if buckets not in self._orders:
            ids = self._topics.ids_of(java_hash_map_order(sorted(self.names), subscribed))
            self._orders[buckets] = [*self._in_order(ids, size)]
        return self._orders[buckets]

    def _in_order(self, topic_ids: list[TopicId], size: int | None = None) -> tuple[str, ...]:
        by_id = self._topics.by_id
        return tuple([by_id[topic_id].name for topic_id in in_hash_map_order(topic_ids, java_uuid_hash, size)])


def names_in_order(consumer: ConsumerGroup, profile: ConsumerProfile) -> list[str]:
    """The topics to which a member with this description subscribes, in the order in which Kafka iterates its sets of
    names: of the names and of the pattern's topics, first the set with more of them."""
    named = java_hash_map_order(profile.subscribed_topics)
    resolved = consumer.resolved_regexes.get(profile.subscribed_regex)
    matched = java_hash_map_order(resolved.topics) if resolved else []
    larger, smaller = (named, matched) if len(named) > len(matched) else (matched, named)
    return [*dict.fromkeys((*larger, *smaller))]


def by_topic_name(target: Partitions, topics: TopicsImage) -> dict[str, tuple[int, ...]]:
    """A share of the target with topic names in place of ids, in Kafka's order. Topics that no longer exist are left
    out."""
    return {
        topics.by_id[topic_id].name: target[topic_id]
        for topic_id in in_hash_map_order(target, java_uuid_hash)
        if topic_id in topics.by_id
    }


def is_homogeneous(consumer: ConsumerGroup) -> bool:
    """Whether all members name the same topics, or all have the same pattern and no names."""
    size = len(consumer.members)
    if not consumer.regex_subscriptions:
        return all(count == size for count in consumer.subscriptions.values())
    return not consumer.subscriptions and list(consumer.regex_subscriptions.values()) == [size]


@lru_cache(maxsize=8192)
def java_uuid_hash(topic_id: TopicId) -> int:
    """`Uuid.hashCode()` of Kafka, as an unsigned 32-bit integer."""
    data = topic_id_bytes(topic_id)
    mixed = int.from_bytes(data[:8]) ^ int.from_bytes(data[8:])
    return (mixed >> 32 ^ mixed) & 0xFFFFFFFF
