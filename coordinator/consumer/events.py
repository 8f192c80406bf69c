"""Events of groups of the consumer protocol (KIP-848): Kafka writes nearly one record for each of them.

The events MemberLeft and MemberRemoved, and those about offsets, occur in groups of both kinds and are in
`coordinator/events.py`.
"""

from typing import TypeAlias

import msgspec

from regroup.coordinator.consumer_group import (
    ConsumerProfile,
    PartitionEpochs,
    Partitions,
    ReconciliationState,
    ResolvedRegex,
)
from regroup.coordinator.events import Event

__all__ = [
    "ConsumerGroupCreated",
    "ConsumerGroupEnded",
    "MemberSubscribed",
    "GroupEpochBumped",
    "TargetAssigned",
    "MemberReconciled",
    "StaticMemberAway",
    "StaticConsumerReplaced",
    "RegexesResolved",
    "AnyConsumerEvent",
]


class ConsumerGroupCreated(Event, frozen=True, kw_only=True):
    """The group was created as one of the consumer protocol, or an Empty classic group became one.

    Committed offsets stay.
    """


class ConsumerGroupEnded(Event, frozen=True, kw_only=True):
    """An Empty group of the consumer protocol became an Empty classic group. Committed offsets stay."""


class MemberSubscribed(Event, frozen=True, kw_only=True):
    """A member joined, or its description changed (`ConsumerGroupMemberMetadata`)."""

    member_id: str
    profile: ConsumerProfile


class GroupEpochBumped(Event, frozen=True, kw_only=True):
    """Subscriptions, members or topics changed: the target is out of date (`ConsumerGroupMetadata`)."""

    group_epoch: int
    metadata_hash: int = 0
    hashed_topics: tuple[str, ...] = ()


class TargetAssigned(Event, frozen=True, kw_only=True):
    """An assignor computed the target assignment of a group epoch, or the last member left
    (`ConsumerGroupTargetAssignment`)."""

    assignment_epoch: int
    assigned_at_ms: int
    """When the target was computed, in epoch milliseconds; 0 if the next target need not wait for the assignment
    interval."""
    assignor: str = ""
    targets: dict[str, Partitions] = msgspec.field(default_factory=dict)
    """The new shares of those members whose share of the target has changed, by member id."""


class MemberReconciled(Event, frozen=True, kw_only=True):
    """A member made a step towards its target (`ConsumerGroupCurrentMemberAssignment`)."""

    member_id: str
    state: ReconciliationState
    epoch: int
    previous_epoch: int
    assigned: PartitionEpochs
    pending_revocation: PartitionEpochs = msgspec.field(default_factory=dict)
    revocation_deadline_ms: int | None = None
    """When the member is removed unless it has given up the partitions pending revocation, in epoch milliseconds; None
    if there are none."""


class StaticMemberAway(Event, frozen=True, kw_only=True):
    """A static member left temporarily, with epoch -2. It keeps its assigned partitions; those that were pending
    revocation may be assigned to other members."""

    member_id: str


class StaticConsumerReplaced(Event, frozen=True, kw_only=True):
    """A new process took the place of a static member, perhaps under another member id. The old id is fenced."""

    instance_id: str
    member_id: str
    replaced_member_id: str


class RegexesResolved(Event, frozen=True, kw_only=True):
    """The topics that match the group's patterns were searched (`ConsumerGroupRegularExpression`)."""

    resolved: dict[str, ResolvedRegex]


AnyConsumerEvent: TypeAlias = (
    ConsumerGroupCreated
    | ConsumerGroupEnded
    | MemberSubscribed
    | GroupEpochBumped
    | TargetAssigned
    | MemberReconciled
    | StaticMemberAway
    | StaticConsumerReplaced
    | RegexesResolved
)
"""Any event that only a group of the consumer protocol has."""
