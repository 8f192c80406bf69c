"""The events of one group: facts in the past tense, as immutable values.

An event carries results (the leader, the protocol, the deadline), so `evolve` needs no vote, no settings and no clock,
and an old store folds to the same groups for ever. `reason` says in words why the event happened.
"""

from typing import Final, TypeAlias

import msgspec

from regroup.coordinator.group import InstanceId, MemberId, MemberProfile, OffsetsByPartition

__all__ = [
    "Event",
    "GroupCreated",
    "PendingMemberAdded",
    "PendingMemberRemoved",
    "MemberJoined",
    "MemberRejoined",
    "StaticMemberReplaced",
    "LeaderElected",
    "RebalanceStarted",
    "JoinPhaseExtended",
    "GenerationStarted",
    "GroupEmptied",
    "MemberSynced",
    "AssignmentWritten",
    "AssignmentCommitted",
    "MemberLeft",
    "MemberRemoved",
    "GroupMetadataWritten",
    "OffsetsCommitted",
    "OffsetsWritten",
    "AppendCommitted",
    "AppendFailed",
    "AppendTimedOut",
    "TransactionalOffsetsWritten",
    "TransactionEnded",
    "OffsetsDeleted",
    "GroupDeleted",
    "CoordinatorLoaded",
    "AnyEvent",
]


class Event(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False, forbid_unknown_fields=True):
    """A fact about one group at one time. `at_ms` is epoch milliseconds; `DecisionBuilder.apply` sets it."""

    at_ms: int = 0
    reason: str = ""


class GroupCreated(Event, frozen=True, kw_only=True):
    """The group was created, by its first JoinGroup or by a commit without a member.

    Kafka writes an empty GroupMetadata record only if JoinGroup created it; otherwise it is a simple group.
    """

    by_join: bool
    commit_deadline_ms: int | None = None
    """Until when the emulated Kafka log must commit the record, in epoch milliseconds; None if it has committed it at
    once."""


class PendingMemberAdded(Event, frozen=True, kw_only=True):
    """A member joined without an id, got one, and was asked to join again with it (KIP-394)."""

    member_id: MemberId
    client_id: str
    session_timeout_ms: int


class PendingMemberRemoved(Event, frozen=True, kw_only=True):
    """A pending member id expired, left, or was rejected because the group is full."""

    member_id: MemberId


class MemberJoined(Event, frozen=True, kw_only=True):
    """A new member was added; its JoinGroup response is held until the join phase ends."""

    member_id: MemberId
    protocol_type: str
    profile: MemberProfile


class MemberRejoined(Event, frozen=True, kw_only=True):
    """A member sent JoinGroup again; its response is held until the join phase ends."""

    member_id: MemberId
    profile: MemberProfile


class StaticMemberReplaced(Event, frozen=True, kw_only=True):
    """A new process took over a static member under a new member id (KIP-345). The old id is fenced."""

    instance_id: InstanceId
    member_id: MemberId
    replaced_member_id: MemberId
    profile: MemberProfile
    awaits_join: bool
    """Whether its JoinGroup response is held, because a rebalance is in progress or follows."""
    commit_deadline_ms: int | None = None
    """Until when the emulated Kafka log must commit the record, in epoch milliseconds; None if it has committed it at
    once."""


class LeaderElected(Event, frozen=True, kw_only=True):
    """The group has another leader, whose assignor will compute the next assignment."""

    leader_id: MemberId


class RebalanceStarted(Event, frozen=True, kw_only=True):
    """The join phase started: every member is expected to send JoinGroup."""

    deadline_ms: int
    is_initial: bool = False
    delay_ms: int = 0
    remaining_ms: int = 0


class JoinPhaseExtended(Event, frozen=True, kw_only=True):
    """The join phase was extended: members joined during the initial delay, or only absent static members remain."""

    deadline_ms: int
    delay_ms: int = 0
    remaining_ms: int = 0


class GenerationStarted(Event, frozen=True, kw_only=True):
    """The join phase ended: the sync phase of a new generation started, and every member must send SyncGroup."""

    generation_id: int
    protocol_name: str
    leader_id: MemberId
    subscribed_topics: tuple[str, ...] | None
    sync_deadline_ms: int


class GenerationRaised(Event, frozen=True, kw_only=True):
    """A test raised the generation of a Stable group without a rebalance. Kafka never does this."""

    generation_id: int


class GroupEmptied(Event, frozen=True, kw_only=True):
    """The join phase ended without members. As in Kafka, this is a new generation too."""

    generation_id: int


class MemberSynced(Event, frozen=True, kw_only=True):
    """A member of the generation sent SyncGroup."""

    member_id: MemberId
    awaits_assignment: bool
    """Whether its response is held until the leader's assignment is committed."""


class AssignmentWritten(Event, frozen=True, kw_only=True):
    """The leader sent the assignment of every member, and the coordinator wrote it to its log."""

    assignments: dict[MemberId, bytes]
    commit_deadline_ms: int | None = None
    """Until when the emulated Kafka log must commit the record, in epoch milliseconds; None if it has committed it at
    once."""


class AssignmentCommitted(Event, frozen=True, kw_only=True):
    """The log committed the assignment: the group is Stable, and held SyncGroup responses are sent."""


class MemberLeft(Event, frozen=True, kw_only=True):
    """A member left, or an administrator removed it, with LeaveGroup."""

    member_id: MemberId


class MemberRemoved(Event, frozen=True, kw_only=True):
    """The coordinator removed a member: a timeout expired, or the group exceeds `group.max.size`."""

    member_id: MemberId
    last_seen_ms: int | None = None
    timeout_ms: int | None = None
    """The timeout that expired, in milliseconds, counted from `last_seen_ms`; None if none did."""


class GroupMetadataWritten(Event, frozen=True, kw_only=True):
    """The group's present metadata were written to the coordinator's log, so that a failover restores them."""


class OffsetsCommitted(Event, frozen=True, kw_only=True):
    """Offsets were committed, by a member or, while the group is Empty, by any client."""

    offsets: OffsetsByPartition
    member_id: MemberId = ""


class OffsetsWritten(Event, frozen=True, kw_only=True):
    """The emulated Kafka log wrote a commit and has not committed it: OffsetFetch does not return it yet."""

    offsets: OffsetsByPartition
    member_id: MemberId = ""
    commit_deadline_ms: int


class AppendCommitted(Event, frozen=True, kw_only=True):
    """The emulated Kafka log committed the record of event `append_number`."""

    append_number: int


class AppendFailed(Event, frozen=True, kw_only=True):
    """The emulated Kafka log lost the record of event `append_number`; `error_code` is the log's error."""

    append_number: int
    error_code: int


class AppendTimedOut(Event, frozen=True, kw_only=True):
    """The commit of a record took too long, and waiting requests were refused; it may still be committed."""

    append_number: int


class TransactionalOffsetsWritten(Event, frozen=True, kw_only=True):
    """A producer wrote offsets in a transaction; they are committed with it (KIP-98, KIP-447)."""

    producer_id: int
    offsets: OffsetsByPartition
    member_id: MemberId = ""


class TransactionEnded(Event, frozen=True, kw_only=True):
    """A producer's transaction committed its offsets, or was aborted and dropped them."""

    producer_id: int
    committed: bool


class OffsetsDeleted(Event, frozen=True, kw_only=True):
    """Offsets were deleted: on request, with their topic, or because their retention expired."""

    partitions: dict[str, tuple[int, ...]]


class GroupDeleted(Event, frozen=True, kw_only=True):
    """The group was deleted with its offsets."""


class CoordinatorLoaded(Event, frozen=True, kw_only=True):
    """A coordinator loaded the group from its log; a new coordinator epoch begins.

    What the previous coordinator held in memory is lost: held responses, pending member ids, a running rebalance.
    """

    subscribed_topics: tuple[str, ...] | None
    """The topics to which members subscribe, decoded from the stored subscriptions; None if one cannot be decoded."""
    lost: tuple[str, ...] = ()
    """What was lost, in words."""


AnyEvent: TypeAlias = (
    GroupCreated
    | PendingMemberAdded
    | PendingMemberRemoved
    | MemberJoined
    | MemberRejoined
    | StaticMemberReplaced
    | LeaderElected
    | RebalanceStarted
    | JoinPhaseExtended
    | GenerationStarted
    | GenerationRaised
    | GroupEmptied
    | MemberSynced
    | AssignmentWritten
    | AssignmentCommitted
    | MemberLeft
    | MemberRemoved
    | GroupMetadataWritten
    | OffsetsCommitted
    | OffsetsWritten
    | AppendCommitted
    | AppendFailed
    | AppendTimedOut
    | TransactionalOffsetsWritten
    | TransactionEnded
    | OffsetsDeleted
    | GroupDeleted
    | CoordinatorLoaded
)
"""Any event of a classic group. Groups of the consumer protocol have some of these events, and those of
`AnyConsumerEvent`."""

OFFSET_EVENTS: Final = (OffsetsCommitted, TransactionalOffsetsWritten, TransactionEnded, OffsetsDeleted)
"""Events that change a group's offsets and nothing else."""
