"""Commands: what a request, a deadline or the broker asks of one group.

API versions end before this module: a command says what its sender supports. The time and any id that may be needed
are in the command, so `decide` reads no clock and draws no random numbers.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import NamedTuple

import msgspec

from regroup.coordinator.group import MemberId, MemberProfile
from regroup.coordinator.topics import NO_TOPICS, TopicsImage
from regroup.protocol.errors import ErrorCode

__all__ = [
    "Command",
    "JoinGroup",
    "SyncGroup",
    "Heartbeat",
    "LeavingMember",
    "LeaveGroup",
    "RequestedOffset",
    "OffsetCommit",
    "TxnOffsetCommit",
    "EndTransaction",
    "OffsetFetch",
    "OffsetDelete",
    "DescribeGroup",
    "DeleteGroup",
    "DeadlineKind",
    "Deadline",
    "DeadlinePassed",
    "ExpireOffsets",
    "DeleteTopicOffsets",
    "CompleteAppend",
    "FailAppend",
    "LoadGroup",
]


class Command(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A request, a deadline or another occasion that one group handles, and its time in epoch milliseconds."""

    group_id: str
    at_ms: int
    delays_append: bool = False
    """The emulated Kafka log only writes the records of this command; it commits or fails them later."""


class JoinGroup(Command, frozen=True, kw_only=True):
    """A consumer joins the group's next generation."""

    member_id: MemberId = ""
    new_member_id: MemberId
    """The id to give the member if it has none."""
    new_short_member_id: MemberId = ""
    """The same in a group of the consumer protocol, where Kafka's ids are shorter."""
    protocol_type: str
    profile: MemberProfile
    reason: str = ""
    supports_member_id_required: bool = True
    """The client understands MEMBER_ID_REQUIRED (JoinGroup v4, KIP-394)."""
    supports_skip_assignment: bool = True
    """The client understands that it leads and must not assign (JoinGroup v9, KIP-814)."""
    topics: TopicsImage = NO_TOPICS
    """The topics of the cluster at this time; groups of the consumer protocol compare and name them."""


class SyncGroup(Command, frozen=True, kw_only=True):
    """A member fetches its assignment; the leader's request carries the assignments of all members."""

    generation_id: int
    member_id: MemberId
    group_instance_id: str | None = None
    protocol_type: str | None = None
    protocol_name: str | None = None
    assignments: Mapping[MemberId, bytes] = {}
    topics: TopicsImage = NO_TOPICS


class Heartbeat(Command, frozen=True, kw_only=True):
    """A member reports that it is alive in a generation."""

    generation_id: int
    member_id: MemberId
    group_instance_id: str | None = None


class LeavingMember(msgspec.Struct, frozen=True):
    """A member to remove; a static member may be named by its instance id alone."""

    member_id: MemberId
    group_instance_id: str | None = None
    reason: str = ""


class LeaveGroup(Command, frozen=True, kw_only=True):
    """Members leave, or an administrator removes them (KIP-345)."""

    members: tuple[LeavingMember, ...]
    topics: TopicsImage = NO_TOPICS


class RequestedOffset(msgspec.Struct, frozen=True, gc=False):
    """The offset of one partition in a commit request; null metadata count as empty."""

    topic: str
    partition: int
    offset: int
    leader_epoch: int = -1
    metadata: str = ""
    topic_id: str = ""
    """The topic's id in Kafka's text form; members of the consumer protocol are assigned topics by id."""


class OffsetCommit(Command, frozen=True, kw_only=True):
    """A member, or a client outside the group, commits offsets. The broker has removed unknown topics."""

    generation_id: int = -1
    member_id: MemberId = ""
    group_instance_id: str | None = None
    offsets: tuple[RequestedOffset, ...]
    retention_ms: int | None = None
    supports_group_id_not_found: bool = True
    """The client understands GROUP_ID_NOT_FOUND and STALE_MEMBER_EPOCH (OffsetCommit v9)."""


class TxnOffsetCommit(Command, frozen=True, kw_only=True):
    """A producer commits offsets as part of its transaction (KIP-98).

    Since KIP-447 the request names a member; generation -1 and empty ids name none.
    """

    producer_id: int
    generation_id: int = -1
    member_id: MemberId = ""
    group_instance_id: str | None = None
    offsets: tuple[RequestedOffset, ...]
    supports_group_id_not_found: bool = False
    """The client understands GROUP_ID_NOT_FOUND and STALE_MEMBER_EPOCH (TxnOffsetCommit v6)."""


class EndTransaction(Command, frozen=True, kw_only=True):
    """The transaction coordinator ends a producer's open transaction: committed or aborted."""

    producer_id: int
    committed: bool


class OffsetFetch(Command, frozen=True, kw_only=True):
    """A client fetches committed offsets; `partitions=None` asks for all of them."""

    partitions: Mapping[str, tuple[int, ...]] | None
    member_id: MemberId | None = None
    """The member of the consumer protocol that asks; None for any other client."""
    member_epoch: int = -1
    require_stable: bool = False
    """Return UNSTABLE_OFFSET_COMMIT where an open transaction has written an offset (KIP-447)."""


class OffsetDelete(Command, frozen=True, kw_only=True):
    """An administrator deletes committed offsets (KIP-496)."""

    partitions: Mapping[str, tuple[int, ...]]


class DescribeGroup(Command, frozen=True, kw_only=True):
    """An administrator asks for the group's state and members."""


class DeleteGroup(Command, frozen=True, kw_only=True):
    """An administrator deletes the group if it has no members (KIP-229)."""


class DeadlineKind(StrEnum):
    """The kinds of deadline, in the order in which simultaneous ones are handled.

    Members come first: where a phase and the timeouts of its members start together, Kafka sets the members' timers
    first, and timers that end in the same millisecond fire in the order in which they were set.
    """

    SESSION = "session"
    NEW_MEMBER_JOIN = "new-member-join"
    PENDING_JOIN = "pending-join"
    REVOCATION = "revocation"
    """A member of the consumer protocol was asked to give up partitions: its rebalance timeout."""
    CLASSIC_JOIN = "classic-join"
    """A member of the classic protocol in a group of the consumer protocol got REBALANCE_IN_PROGRESS, and has to send
    JoinGroup."""
    CLASSIC_SYNC = "classic-sync"
    """Such a member has joined, and has yet to send SyncGroup."""
    JOIN_PHASE = "join-phase"
    SYNC_PHASE = "sync-phase"
    LOG_APPEND = "log-append"


class Deadline(NamedTuple):
    """A time in epoch milliseconds, what expires then, and of which member. `last_seen_ms` is when the member's timeout
    started."""

    at_ms: int
    kind: DeadlineKind
    member_id: MemberId = ""
    last_seen_ms: int | None = None


class DeadlinePassed(Command, frozen=True, kw_only=True):
    """A deadline of the group has passed."""

    kind: DeadlineKind
    member_id: MemberId = ""
    last_seen_ms: int | None = None
    topics: TopicsImage = NO_TOPICS


class ExpireOffsets(Command, frozen=True, kw_only=True):
    """The periodic check for offsets past their retention, and for groups with nothing left (KIP-211)."""


class DeleteTopicOffsets(Command, frozen=True, kw_only=True):
    """A topic was deleted: the group's offsets in it are deleted too."""

    topic: str


class CompleteAppend(Command, frozen=True, kw_only=True):
    """The emulated Kafka log commits the record of event `append_number`."""

    append_number: int


class FailAppend(Command, frozen=True, kw_only=True):
    """The emulated Kafka log loses the record of event `append_number`, with one of Kafka's errors."""

    append_number: int
    error_code: ErrorCode


class ForcedChange(Command, frozen=True, kw_only=True):
    """A change that a test forces on the group. No client has asked for it, and no deadline has passed."""


class EndSession(ForcedChange, frozen=True, kw_only=True):
    """The session of a member, or of a pending member id, ends now, as if its timeout had expired."""

    member_id: MemberId
    topics: TopicsImage = NO_TOPICS


class StartRebalance(ForcedChange, frozen=True, kw_only=True):
    """The group rebalances although neither its members nor their subscriptions have changed."""


class CompleteJoinPhase(ForcedChange, frozen=True, kw_only=True):
    """The running join phase ends now, the initial delay included; members that have not joined are removed."""


class RaiseGeneration(ForcedChange, frozen=True, kw_only=True):
    """A Stable group counts one generation more, without a rebalance: requests of its members are refused."""


class ForgetOffsets(ForcedChange, frozen=True, kw_only=True):
    """Committed offsets are deleted, even of subscribed topics; `partitions=None` means all of them."""

    partitions: Mapping[str, tuple[int, ...]] | None = None


class LoadGroup(Command, frozen=True, kw_only=True):
    """A coordinator loads the group and begins a new coordinator epoch."""
