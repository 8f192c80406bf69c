"""What a group is at one moment: a value, and the sum of its events.

    EMPTY → PREPARING → COMPLETING → STABLE, and back to PREPARING whenever somebody comes, goes or changes

Everything is immutable: `evolve` makes new values, so that any moment of a history can be kept and compared for free.
Mappings keep the order in which their keys came, and that order decides wherever Kafka leaves a choice to a hash map.
"""

from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import TypeAlias

import msgspec

MemberId: TypeAlias = str
InstanceId: TypeAlias = str

NEWCOMER_TIMEOUT_MS = 300_000
"""A member that has never completed a join phase is timed by this, not by its session timeout."""


class State(StrEnum):
    """Kafka's five states of a classic group, by the names that DescribeGroups shows."""

    EMPTY = "Empty"
    """No members; perhaps offsets."""
    PREPARING = "PreparingRebalance"
    """The join phase: everybody is expected to send JoinGroup."""
    COMPLETING = "CompletingRebalance"
    """The sync phase: a generation has begun, and the leader's assignment is awaited."""
    STABLE = "Stable"
    """Everybody has, or can fetch, a share."""
    DEAD = "Dead"
    """There is no such group: not yet, or no longer."""


class Waiting(StrEnum):
    """Which answer the coordinator holds back."""

    JOIN = "join"
    SYNC = "sync"


class Protocol(msgspec.Struct, frozen=True, array_like=True):
    """An assignor that a member offers, and its subscription in that assignor's form."""

    name: str
    metadata: bytes = b""


class Member(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One consumer as the coordinator knows it."""

    member_id: MemberId
    instance_id: InstanceId | None = None
    """Of a static member (KIP-345)."""
    client_id: str = ""
    client_host: str = ""
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocols: tuple[Protocol, ...]
    """In the member's order of preference."""
    joined_at_ms: int = 0
    replaced_at_ms: int = 0
    """When it took the place of an earlier process, as a static member."""
    replaced_session_timeout_ms: int | None = None
    """Of that process: Kafka's timer goes by it until the new one is heard again."""
    is_newcomer: bool = False
    """It has not completed a join phase yet."""
    waiting: Waiting | None = None
    assignment: bytes = b""

    def session_timeout_after(self, heard_ms: int) -> int:
        """How long the member may be silent after its last sign of life."""
        if self.replaced_session_timeout_ms is not None and heard_ms <= self.replaced_at_ms:
            return self.replaced_session_timeout_ms
        return self.session_timeout_ms

    def metadata(self, protocol_name: str | None) -> bytes:
        """The member's subscription for one assignor; empty if it does not offer it."""
        return next((protocol.metadata for protocol in self.protocols if protocol.name == protocol_name), b"")

    def offers(self, protocol_name: str) -> bool:
        return protocol_name in [protocol.name for protocol in self.protocols]


class ReservedId(msgspec.Struct, frozen=True):
    """A member id that was handed out with MEMBER_ID_REQUIRED and has not come back yet (KIP-394)."""

    session_timeout_ms: int
    given_at_ms: int


class JoinPhase(msgspec.Struct, frozen=True, omit_defaults=True):
    """The running join phase: when it ends at the latest, and whether it may still be drawn out."""

    deadline_ms: int
    initial: bool = False
    """The group was Empty before: the phase lasts for the initial delay even if everybody has joined (KIP-134)."""
    delay_ms: int = 0
    """The length of the present delay; only of an initial phase."""
    remaining_ms: int = 0
    """How much longer the initial phase may be drawn out."""


class CommittedOffset(msgspec.Struct, frozen=True, omit_defaults=True):
    """Where a group stands in one partition: `offset` is that of the next record to read."""

    offset: int
    leader_epoch: int = -1
    metadata: str = ""
    committed_at_ms: int = 0
    expires_at_ms: int | None = None
    """Only where the commit itself asked for it (OffsetCommit v2 to v4)."""


Offsets: TypeAlias = dict[str, dict[int, CommittedOffset]]


class PendingOffset(msgspec.Struct, frozen=True, omit_defaults=True):
    """An offset that counts once its transaction commits."""

    offset: CommittedOffset
    number: int
    """Of the event that wrote it: of two transactions, the one that wrote later has the last word."""
    overtaken: bool = False
    """Something was committed later, and counts instead. Until the transaction ends the partition is unstable still."""


PendingOffsets: TypeAlias = dict[str, dict[int, PendingOffset]]


class StoredGroup(msgspec.Struct, frozen=True, omit_defaults=True):
    """What Kafka's own log would hold of the group: the last GroupMetadata record.

    A coordinator that takes over knows this and the offsets, and nothing else.
    """

    protocol_type: str = ""
    generation: int = 0
    protocol_name: str | None = None
    leader: MemberId | None = None
    state_since_ms: int = 0
    members: tuple[Member, ...] = ()
    """Each with the chosen protocol alone."""


class Written(StrEnum):
    """What a record is about that Kafka's log has written and not committed yet."""

    GROUP = "group"
    """That there is a group."""
    ASSIGNMENT = "assignment"
    REPLACEMENT = "replacement"
    """That a static member has a new member id."""
    OFFSETS = "offsets"


class Append(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A record that Kafka's log has written and not committed yet; it may still refuse it."""

    what: Written
    deadline_ms: int
    """Whoever waits for the record waits until then."""
    is_late: bool = False
    """The deadline has passed. The record may be committed still."""
    generation: int = 0
    stored: StoredGroup | None = None
    """What the log will hold of the group."""
    offsets: Offsets = {}
    member: MemberId = ""
    """The static member's new id."""
    replaced: Member | None = None
    """The static member as it was before."""


class Group(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One consumer group. `Group(name=…)` is the group before its first event."""

    name: str
    state: State = State.DEAD
    state_since_ms: int = 0
    generation: int = 0
    protocol_type: str = ""
    protocol_name: str | None = None
    """The assignor chosen for this generation."""
    leader: MemberId | None = None
    members: dict[MemberId, Member] = {}
    static_members: dict[InstanceId, MemberId] = {}
    reserved_ids: dict[MemberId, ReservedId] = {}
    join_phase: JoinPhase | None = None
    new_member_added: bool = False
    """Somebody has joined during an initial delay since one was last drawn out. Kafka forgets it at no other time."""
    owes_sync: tuple[MemberId, ...] = ()
    """Members of this generation whose SyncGroup has not come yet."""
    sync_deadline_ms: int = 0
    """Means something only while somebody owes a sync."""
    written_assignment: dict[MemberId, bytes] | None = None
    """The leader's assignment while the log has written but not committed it."""
    subscribed_topics: tuple[str, ...] | None = ()
    """Of the last completed join phase; None where a subscription could not be read, or while the first phase runs:
    then any topic counts."""
    offsets: Offsets = {}
    pending_offsets: dict[int, PendingOffsets] = {}
    """Written in transactions that have not ended yet, by producer id."""
    stored: StoredGroup | None = None
    appends: dict[int, Append] = {}
    """By the number of the event that wrote them. Empty, unless Kafka's log is slow."""
    number: int = 0
    """Of the last event within this group."""
    loaded_at_ms: int = 0
    """When the present coordinator took the group over."""

    @property
    def exists(self) -> bool:
        return self.state is not State.DEAD

    @property
    def last_append(self) -> int | None:
        """The record behind which answers wait, if any."""
        if not self.appends:
            return None
        return next((number for number in reversed(self.appends) if not self.appends[number].is_late), None)

    @property
    def everybody_has_joined(self) -> bool:
        return not self.reserved_ids and all(member.waiting is Waiting.JOIN for member in self.members.values())

    @property
    def rebalance_timeout_ms(self) -> int:
        """How long a join or sync phase may last: the longest that any member asked for, at least 0."""
        return max([0, *(member.rebalance_timeout_ms for member in self.members.values())])

    def waiting(self, answer: Waiting) -> Iterator[Member]:
        """The members whose answer of this kind is held back, in the order in which they came."""
        return (member for member in self.members.values() if member.waiting is answer)

    def committed(self, topic: str, partition: int) -> CommittedOffset | None:
        return self.offsets.get(topic, {}).get(partition)

    def partitions_with_offsets(self, topic: str) -> tuple[int, ...]:
        """Those of a topic with an offset that counts, or that an open transaction or Kafka's log holds back."""
        held: list[Mapping[str, Mapping[int, object]]] = [self.offsets, *self.pending_offsets.values()]
        held += [append.offsets for append in self.appends.values()]
        return tuple(dict.fromkeys(number for offsets in held for number in offsets.get(topic, ())))

    def is_unstable(self, topic: str, partition: int) -> bool:
        """An open transaction has written an offset for this partition (KIP-447)."""
        return any(partition in pending.get(topic, ()) for pending in self.pending_offsets.values())
