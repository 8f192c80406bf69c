"""What somebody wants of a group. Version numbers have ended at the door: a command says what its sender can do.

The time is in the command, and so is any id that may be needed; `decide` neither looks at a clock nor throws dice.
"""

from collections.abc import Mapping
from enum import StrEnum

import msgspec

from regroup.coordinator.group import MemberId, Protocol
from regroup.protocol.errors import ErrorCode


class Command(msgspec.Struct, frozen=True, kw_only=True):
    """Something asked of one group at one moment."""

    group_id: str
    at_ms: int
    log_holds_back: bool = False
    """Kafka's own log only writes what follows from this, and commits or refuses it later."""


class JoinGroup(Command, frozen=True, kw_only=True):
    """A consumer wants to be in the next generation."""

    member_id: MemberId = ""
    new_member_id: MemberId
    """To be used if it has none."""
    group_instance_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocol_type: str
    protocols: tuple[Protocol, ...]
    reason: str = ""
    can_be_asked_to_return: bool = True
    """It understands MEMBER_ID_REQUIRED (JoinGroup v4, KIP-394)."""
    can_skip_assignment: bool = True
    """It understands that it leads without having to assign (JoinGroup v9, KIP-814)."""


class SyncGroup(Command, frozen=True, kw_only=True):
    """A member asks for its share; the leader's request carries everybody's."""

    generation_id: int
    member_id: MemberId
    group_instance_id: str | None = None
    protocol_type: str | None = None
    protocol_name: str | None = None
    assignment: Mapping[MemberId, bytes] = {}


class Heartbeat(Command, frozen=True, kw_only=True):
    """A member is alive, and believes this generation to be the present one."""

    generation_id: int
    member_id: MemberId
    group_instance_id: str | None = None


class Leaving(msgspec.Struct, frozen=True):
    """One member that is to go; a static one may be named by its instance id alone."""

    member_id: MemberId
    group_instance_id: str | None = None
    reason: str = ""


class LeaveGroup(Command, frozen=True, kw_only=True):
    """Members say goodbye, or an operator removes them (KIP-345)."""

    members: tuple[Leaving, ...]


class OffsetToCommit(msgspec.Struct, frozen=True):
    """One partition of a commit; a null note counts as an empty one."""

    topic: str
    partition: int
    offset: int
    leader_epoch: int = -1
    metadata: str = ""


class CommitOffsets(Command, frozen=True, kw_only=True):
    """Somebody says up to where records are processed. Topics that do not exist have been taken out at the door."""

    generation_id: int = -1
    member_id: MemberId = ""
    group_instance_id: str | None = None
    offsets: tuple[OffsetToCommit, ...]
    retention_ms: int | None = None
    knows_missing_groups: bool = True
    """It understands GROUP_ID_NOT_FOUND (OffsetCommit v9)."""


class CommitTransactionalOffsets(Command, frozen=True, kw_only=True):
    """A producer says up to where records are processed, should its transaction commit (KIP-98).

    Since KIP-447 it also says for which member; generation -1 and no ids mean that it does not.
    """

    producer_id: int
    generation_id: int = -1
    member_id: MemberId = ""
    group_instance_id: str | None = None
    offsets: tuple[OffsetToCommit, ...]


class EndTransaction(Command, frozen=True, kw_only=True):
    """The transaction coordinator's word: the producer's open transaction committed, or was aborted."""

    producer_id: int
    committed: bool


class FetchOffsets(Command, frozen=True, kw_only=True):
    """Where does the group stand? `partitions=None` asks for everything that was committed."""

    partitions: Mapping[str, tuple[int, ...]] | None
    require_stable: bool = False
    """Rather be told to ask again than get an offset that an open transaction may be about to replace (KIP-447)."""


class DeleteOffsets(Command, frozen=True, kw_only=True):
    """Forget these offsets (KIP-496)."""

    partitions: Mapping[str, tuple[int, ...]]


class DescribeGroup(Command, frozen=True, kw_only=True):
    """Tell all about the group."""


class DeleteGroup(Command, frozen=True, kw_only=True):
    """Forget the group, if nobody is in it (KIP-229)."""


class DeadlineKind(StrEnum):
    """Which patience has run out, in the order in which simultaneous ones are dealt with."""

    JOIN_PHASE = "join-phase"
    SYNC_PHASE = "sync-phase"
    SESSION = "session"
    NEWCOMER = "newcomer"
    RESERVED_ID = "reserved-id"
    APPEND = "append"


class DeadlinePassed(Command, frozen=True, kw_only=True):
    """Nothing came in time: silence takes the same road as speech."""

    kind: DeadlineKind
    member: MemberId = ""
    last_heard_ms: int | None = None


class ForgetOldOffsets(Command, frozen=True, kw_only=True):
    """The regular look for offsets that outlived their retention, and for groups with nothing left (KIP-211)."""


class ForgetTopic(Command, frozen=True, kw_only=True):
    """A topic was deleted: what the group has committed of it means nothing any more."""

    topic: str


class CommitAppend(Command, frozen=True, kw_only=True):
    """Kafka's log commits what event number `append` wrote."""

    append: int


class RefuseAppend(Command, frozen=True, kw_only=True):
    """Kafka's log loses what event number `append` wrote, with one of Kafka's errors."""

    append: int
    code: ErrorCode


class TakeOver(Command, frozen=True, kw_only=True):
    """A coordinator loads the group and begins a new reign."""
