"""What can happen to a group: frozen sentences in the past tense.

An event carries results (the leader, the protocol, the deadline), so that folding it needs no vote, no settings and
no clock, and an old store folds the same for ever. `reason` says why this time, in words for people.
"""

from typing import Final, TypeAlias

import msgspec

from regroup.coordinator.group import CommittedOffset, MemberId, Protocol


class Event(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Something that happened to one group at one moment."""

    at_ms: int
    reason: str = ""


class GroupCreated(Event, frozen=True, kw_only=True):
    """A group came to be: by the first JoinGroup without a member id, or by a commit of somebody who is no member.

    Kafka writes an empty group record for the first kind only; the second kind is called a simple group.
    """

    by_join: bool
    commit_deadline_ms: int | None = None
    """Set if Kafka's log has only written the record; it is given so long to commit it."""


class MemberIdGiven(Event, frozen=True, kw_only=True):
    """A newcomer came without an id, was given one, and was asked to join again with it (KIP-394)."""

    member: MemberId
    client_id: str
    session_timeout_ms: int


class MemberIdForgotten(Event, frozen=True, kw_only=True):
    """An id that had been given out was not used in time, was given back, or found no room."""

    member: MemberId


class MemberJoined(Event, frozen=True, kw_only=True):
    """A newcomer was admitted, and its JoinGroup waits for the join phase to end."""

    member: MemberId
    instance_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocol_type: str
    protocols: tuple[Protocol, ...]


class MemberRejoined(Event, frozen=True, kw_only=True):
    """A member sent JoinGroup again, with what it wants now, and waits for the join phase to end."""

    member: MemberId
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocols: tuple[Protocol, ...]


class StaticMemberReplaced(Event, frozen=True, kw_only=True):
    """A static member came back as a new process: it has a new member id and the old one's place (KIP-345).

    Whoever still uses the old id is fenced.
    """

    instance_id: str
    member: MemberId
    replaces: MemberId
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocols: tuple[Protocol, ...]
    waits: bool
    """Its JoinGroup is held back, because a rebalance runs or follows."""
    commit_deadline_ms: int | None = None
    """Set if Kafka's log has only written the record; it is given so long to commit it."""


class LeaderElected(Event, frozen=True, kw_only=True):
    """Another member leads from now on: its assignor will deal out the partitions."""

    leader: MemberId


class RebalanceStarted(Event, frozen=True, kw_only=True):
    """The join phase began: assignments are taken back, and everybody is expected to join again."""

    deadline_ms: int
    initial: bool = False
    delay_ms: int = 0
    remaining_ms: int = 0


class JoinPhaseProlonged(Event, frozen=True, kw_only=True):
    """The join phase goes on: newcomers arrived during the initial delay, or only silent static members are left."""

    deadline_ms: int
    delay_ms: int = 0
    remaining_ms: int = 0


class GenerationStarted(Event, frozen=True, kw_only=True):
    """The join phase ended: everybody who joined is a member of the new generation, and each owes a SyncGroup."""

    generation: int
    protocol_name: str
    leader: MemberId
    subscribed_topics: tuple[str, ...] | None
    sync_deadline_ms: int


class GroupEmptied(Event, frozen=True, kw_only=True):
    """The join phase ended with nobody left. That, too, counts as a generation."""

    generation: int


class MemberSynced(Event, frozen=True, kw_only=True):
    """A member asked for its share; if it `waits`, the leader's assignment has not come yet."""

    member: MemberId
    waits: bool


class AssignmentWritten(Event, frozen=True, kw_only=True):
    """The leader said who gets what, and the coordinator's log has written it. Opaque bytes for each member."""

    assignment: dict[MemberId, bytes]
    commit_deadline_ms: int | None = None
    """Set if Kafka's log has only written the record; it is given so long to commit it."""


class AssignmentCommitted(Event, frozen=True, kw_only=True):
    """The log has committed the assignment: the group is Stable, and everybody who waited gets a share."""


class MemberLeft(Event, frozen=True, kw_only=True):
    """A member said goodbye, or an operator removed it (LeaveGroup)."""

    member: MemberId


class MemberExpelled(Event, frozen=True, kw_only=True):
    """The coordinator lost patience with a member.

    `last_heard_ms` is when it last gave a sign of life, `timeout_ms` how long the coordinator waited.
    """

    member: MemberId
    last_heard_ms: int | None = None
    timeout_ms: int | None = None


class GroupStored(Event, frozen=True, kw_only=True):
    """The coordinator's log holds the group as it now is; a failover would bring it back like this."""


class OffsetsCommitted(Event, frozen=True, kw_only=True):
    """A member, or somebody outside while the group was Empty, said up to where records are processed."""

    offsets: dict[str, dict[int, CommittedOffset]]
    member: MemberId = ""


class OffsetsWritten(Event, frozen=True, kw_only=True):
    """Kafka's log has written a commit of offsets, and not committed it yet: plain fetches do not see it."""

    offsets: dict[str, dict[int, CommittedOffset]]
    member: MemberId = ""
    commit_deadline_ms: int


class AppendCommitted(Event, frozen=True, kw_only=True):
    """Kafka's log has committed what event number `append` wrote."""

    append: int


class AppendRefused(Event, frozen=True, kw_only=True):
    """Kafka's log has lost what event number `append` wrote; `code` is the error of the log, as Kafka numbers it."""

    append: int
    code: int


class AppendLate(Event, frozen=True, kw_only=True):
    """Kafka's log took too long. Whoever waited is told so; the record may be committed still."""

    append: int


class TransactionalOffsetsWritten(Event, frozen=True, kw_only=True):
    """A producer wrote offsets within a transaction. They count once it commits (KIP-98, KIP-447)."""

    producer_id: int
    offsets: dict[str, dict[int, CommittedOffset]]
    member: MemberId = ""


class TransactionEnded(Event, frozen=True, kw_only=True):
    """The producer's transaction committed, and its offsets count now; or it was aborted, and they are gone."""

    producer_id: int
    committed: bool


class OffsetsForgotten(Event, frozen=True, kw_only=True):
    """Offsets were deleted on request, with their topic, or since they had outlived their retention."""

    partitions: dict[str, tuple[int, ...]]


class GroupDeleted(Event, frozen=True, kw_only=True):
    """The group is gone, with its offsets."""


class CoordinatorLoaded(Event, frozen=True, kw_only=True):
    """A coordinator took the group over and knows only what Kafka would have on disk; a new reign begins.

    What the old one had in memory is forgotten: parked requests, reserved ids, a rebalance that was not finished.
    """

    subscribed_topics: tuple[str, ...] | None
    """Read again from the stored subscriptions."""
    forgotten: tuple[str, ...] = ()
    """In words, what was lost."""


AnyEvent: TypeAlias = (
    GroupCreated
    | MemberIdGiven
    | MemberIdForgotten
    | MemberJoined
    | MemberRejoined
    | StaticMemberReplaced
    | LeaderElected
    | RebalanceStarted
    | JoinPhaseProlonged
    | GenerationStarted
    | GroupEmptied
    | MemberSynced
    | AssignmentWritten
    | AssignmentCommitted
    | MemberLeft
    | MemberExpelled
    | GroupStored
    | OffsetsCommitted
    | OffsetsWritten
    | AppendCommitted
    | AppendRefused
    | AppendLate
    | TransactionalOffsetsWritten
    | TransactionEnded
    | OffsetsForgotten
    | GroupDeleted
    | CoordinatorLoaded
)

OFFSETS_ALONE: Final = (OffsetsCommitted, TransactionalOffsetsWritten, TransactionEnded, OffsetsForgotten)
"""Of a group they change what is committed, or will be, and nothing else."""
