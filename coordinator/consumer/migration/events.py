"""Events of groups that change their protocol while they have members, and of members of the classic protocol in them.

Kafka writes the records of such a change in one batch; here one event has all that the batch has.
"""

from typing import TypeAlias

import msgspec

from regroup.coordinator.consumer_group import ConsumerProfile, Partitions
from regroup.coordinator.events import Event
from regroup.coordinator.group import Member, MemberId

__all__ = [
    "GroupUpgraded",
    "UpgradeRefused",
    "GroupDowngraded",
    "ClassicMemberJoined",
    "ClassicMemberSynced",
    "RejoinRequested",
    "AnyMigrationEvent",
]


class GroupUpgraded(Event, frozen=True, kw_only=True):
    """A classic group with members became one of the consumer protocol. Its members stay in it, at first with the
    classic protocol.

    The generation becomes the group epoch, the epoch of the target, and that of every member. What each member was last
    assigned becomes its assignment and its share of the target. Committed offsets stay.
    """

    group_epoch: int
    metadata_hash: int = 0
    hashed_topics: tuple[str, ...] = ()
    profiles: dict[MemberId, ConsumerProfile]
    targets: dict[MemberId, Partitions] = msgspec.field(default_factory=dict)
    """What the members were assigned; a member without partitions is left out."""


class UpgradeRefused(Event, frozen=True, kw_only=True):
    """A classic group was not made one of the consumer protocol after all, but its held JoinGroups and SyncGroups had
    already been refused: their members must send them again."""


class GroupDowngraded(Event, frozen=True, kw_only=True):
    """A group whose last member of the consumer protocol is gone became a classic one, in state Stable.

    The group epoch is the generation, and each member is assigned its share of the target. Committed offsets stay.
    """

    generation_id: int
    protocol_name: str
    leader_id: MemberId
    subscribed_topics: tuple[str, ...] | None
    members: tuple[Member, ...]


class ClassicMemberJoined(Event, frozen=True, kw_only=True):
    """The JoinGroup of a member of the classic protocol was answered in a group of the consumer protocol."""

    member_id: MemberId
    sync_deadline_ms: int
    """When the member is removed unless it sends SyncGroup."""


class ClassicMemberSynced(Event, frozen=True, kw_only=True):
    """A member of the classic protocol fetched its assignment in a group of the consumer protocol, for the first time
    since its JoinGroup."""

    member_id: MemberId


class RejoinRequested(Event, frozen=True, kw_only=True):
    """A member of the classic protocol was answered with REBALANCE_IN_PROGRESS, so that it sends JoinGroup."""

    member_id: MemberId
    join_deadline_ms: int
    """When the member is removed unless it does."""


AnyMigrationEvent: TypeAlias = (
    GroupUpgraded | UpgradeRefused | GroupDowngraded | ClassicMemberJoined | ClassicMemberSynced | RejoinRequested
)
"""Any event of a group that changes its protocol, or has members of both protocols."""
