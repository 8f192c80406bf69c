"""The state of a group of the consumer protocol (KIP-848): immutable values, a part of `Group`.

    the members subscribe → group epoch → target assignment, at an assignment epoch → each member reconciles to it

The epochs only grow. A member owns what it is assigned and what it still has to revoke; no partition is given to a
member before its owner has given it up. The state of the group has a name that is derived and never stored.
"""

from collections.abc import Iterable, Iterator, Mapping
from enum import StrEnum
from typing import Final, TypeAlias

import msgspec

from regroup.coordinator.supported_protocol import SupportedProtocol

__all__ = [
    "TopicId",
    "Partitions",
    "PartitionEpochs",
    "ReconciliationState",
    "ConsumerGroupState",
    "ClassicMetadata",
    "ConsumerProfile",
    "ConsumerMember",
    "ResolvedRegex",
    "ConsumerGroup",
]

TopicId: TypeAlias = str
"""The id of a topic in Kafka's text form: 22 characters of URL-safe base64."""
Partitions: TypeAlias = dict[TopicId, tuple[int, ...]]
"""Partition indexes by topic id, in ascending order."""
PartitionEpochs: TypeAlias = dict[TopicId, dict[int, int]]
"""The assignment epoch of each partition: the epoch at which its owner got it (KIP-1251)."""

AWAY_EPOCH: Final = -2
"""The epoch of a static member that has left and is expected to return."""
FIRST_GROUP_EPOCH: Final = 1
"""The epoch of a group before the first subscription, since Kafka 4.3."""


class ReconciliationState(StrEnum):
    """How far a member has come in the reconciliation with its target (Kafka's `MemberState`)."""

    STABLE = "stable"
    """It has its whole share of the target of its epoch."""
    UNREVOKED_PARTITIONS = "unrevoked-partitions"
    """It was asked to give up partitions, and has not reported that it did."""
    UNRELEASED_PARTITIONS = "unreleased-partitions"
    """It waits for partitions that other members have not given up."""
    UNKNOWN = "unknown"
    """A state that only a newer broker has. A coordinator never writes it."""


class ConsumerGroupState(StrEnum):
    """The states of a consumer group, by the names that ConsumerGroupDescribe returns."""

    EMPTY = "Empty"
    """The group has no members; it may have committed offsets."""
    ASSIGNING = "Assigning"
    """The group has changed since the target was computed."""
    RECONCILING = "Reconciling"
    """Some member has not reached the target."""
    STABLE = "Stable"
    """Every member has reached the target."""


class ClassicMetadata(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """What a member of the classic protocol adds to its description by JoinGroup (`ClassicMemberMetadata`)."""

    session_timeout_ms: int
    supported_protocols: tuple[SupportedProtocol, ...]
    """Ordered by the member's preference. The first one is named in responses, and none of them ever assigns."""


class ConsumerProfile(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """What a member has said about itself in its heartbeats or JoinGroups: ids, client, timeouts, subscription and vote
    for an assignor."""

    instance_id: str | None = None
    """Set for a static member."""
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    rebalance_timeout_ms: int = -1
    """How long it may take to give up partitions."""
    session_timeout_ms: int = 0
    subscribed_topics: tuple[str, ...] = ()
    """The topics that it names, sorted; they need not exist."""
    subscribed_regex: str = ""
    """The pattern of topics to which it subscribes too; empty for none."""
    server_assignor: str | None = None
    """The assignor for which it votes."""
    classic: ClassicMetadata | None = None
    """Set for a member of the classic protocol: it sends JoinGroup, SyncGroup and Heartbeat."""


class ConsumerMember(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """One member of a consumer group, as the coordinator knows it."""

    member_id: str
    profile: ConsumerProfile
    epoch: int = 0
    """The assignment epoch that it has reached; 0 before its first one, -2 while a static member is away."""
    previous_epoch: int = 0
    """The epoch before the last step: a member that has lost a response may still name it."""
    state: ReconciliationState = ReconciliationState.STABLE
    assigned: PartitionEpochs = {}
    pending_revocation: PartitionEpochs = {}
    """Partitions that it was asked to give up, and may still own."""
    revocation_deadline_ms: int | None = None
    """When it is removed unless it has given them up. A member of the classic protocol has `join_deadline_ms`."""
    join_deadline_ms: int | None = None
    """When a member of the classic protocol is removed unless it sends JoinGroup, after REBALANCE_IN_PROGRESS."""
    sync_deadline_ms: int | None = None
    """When a member of the classic protocol is removed unless it sends SyncGroup: its JoinGroup was answered."""

    @property
    def is_classic(self) -> bool:
        """Whether the member uses the classic protocol; the generation in its requests is then its member epoch."""
        return self.profile.classic is not None

    @property
    def instance_id(self) -> str | None:
        return self.profile.instance_id

    @property
    def is_away(self) -> bool:
        """Whether this is a static member that has left temporarily, with epoch -2."""
        return self.epoch == AWAY_EPOCH

    def has_reached(self, assignment_epoch: int) -> bool:
        """Whether the member has its whole share of the target of this assignment epoch."""
        return self.state is ReconciliationState.STABLE and self.epoch == assignment_epoch

    def held(self) -> Iterator[tuple[TopicId, int]]:
        """The partitions that no other member may get: those assigned and those pending revocation."""
        for partitions in (self.assigned, self.pending_revocation):
            yield from every_partition(partitions)

    def assignment_epoch_of(self, topic_id: TopicId, partition: int) -> int | None:
        """The epoch at which the member was assigned a partition that it may still own; None for any other
        partition."""
        assigned = self.assigned.get(topic_id, {}).get(partition)
        return self.pending_revocation.get(topic_id, {}).get(partition) if assigned is None else assigned


class ResolvedRegex(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """The topics that a pattern matched when it was last resolved."""

    topics: tuple[str, ...]
    resolved_at_ms: int
    topics_version: int = 0
    """The version of the cluster's topics that was searched."""


class ConsumerGroup(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """The part of a group's state that only groups of the consumer protocol have."""

    group_epoch: int = FIRST_GROUP_EPOCH
    """The version of the subscriptions and their topics."""
    bumped_at_ms: int = 0
    """When the group epoch was last bumped; 0 before the first time."""
    metadata_hash: int = 0
    """A digest of the topics of `hashed_topics`; 0 for none."""
    hashed_topics: tuple[str, ...] = ()
    """The subscribed topics from which the digest was computed."""
    assignment_epoch: int = 0
    """The group epoch for which the target was computed; 0 before the first one."""
    assigned_at_ms: int = 0
    """When the target was computed; 0 lets the next one follow at once (KIP-1263)."""
    targets: Mapping[str, Partitions] = {}
    """The share of each member in the target."""
    members: Mapping[str, ConsumerMember] = {}
    static_members: Mapping[str, str] = {}
    """The member id of each instance id."""
    resolved_regexes: dict[str, ResolvedRegex] = {}
    holders: dict[TopicId, dict[int, str]] = {}
    """The member that holds each partition: assigned, or pending revocation."""
    behind_target: int = 0
    """How many members have not reached the target."""
    subscriptions: dict[str, int] = {}
    """How many members name each topic."""
    regex_subscriptions: dict[str, int] = {}
    """How many members have each pattern."""
    assignor_votes: dict[str, int] = {}
    """How many members name each assignor."""
    subscribed_topics: tuple[str, ...] = ()
    """All topics to which members subscribe, by name or by a resolved pattern; sorted."""

    @property
    def state(self) -> ConsumerGroupState:
        """The state of the group, by the name that Kafka shows. It is computed from the epochs and not stored."""
        if not self.members:
            return ConsumerGroupState.EMPTY
        if self.group_epoch > self.assignment_epoch:
            return ConsumerGroupState.ASSIGNING
        return ConsumerGroupState.RECONCILING if self.behind_target else ConsumerGroupState.STABLE

    def count_behind_target(self) -> int:
        """The number of members that have not reached the target, counted from all members, to set or check the field
        `behind_target`."""
        return sum(not member.has_reached(self.assignment_epoch) for member in self.members.values())

    def topics_of(self, profile: ConsumerProfile) -> Iterable[str]:
        """The topics to which a member with this description subscribes; a pattern whose topics are not known yet adds
        none."""
        resolved = self.resolved_regexes.get(profile.subscribed_regex)
        if resolved is None or not resolved.topics:
            return profile.subscribed_topics
        return dict.fromkeys((*profile.subscribed_topics, *resolved.topics))

    def is_held_by_another(self, topic_id: TopicId, partition: int, member_id: str) -> bool:
        """Whether the partition is assigned to another member than this one, or still pending revocation with one."""
        return self.holders.get(topic_id, {}).get(partition, member_id) != member_id


def every_partition(partitions: Mapping[TopicId, Iterable[int]]) -> Iterator[tuple[TopicId, int]]:
    """Each partition as topic id and index."""
    return ((topic_id, index) for topic_id, indexes in partitions.items() for index in indexes)
