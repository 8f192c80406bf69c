"""The state of one group: immutable values, the sum of the group's events.

A group of the consumer protocol has its own state in `Group.consumer`; offsets belong to groups of every kind, and the
other fields to classic groups, whose state moves so:

    EMPTY → PREPARING_REBALANCE → COMPLETING_REBALANCE → STABLE, and back to PREPARING_REBALANCE on every change

`evolve` makes new values and never changes old ones, so any moment of a history can be kept and compared. Mappings
keep insertion order, and that order decides wherever Kafka leaves a choice to the order of a hash map.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from enum import StrEnum
from itertools import islice
from operator import attrgetter, is_
from typing import Final, TypeAlias, TypeVar

import msgspec

from regroup.coordinator.consumer_group import ConsumerGroup, ConsumerGroupState
from regroup.coordinator.layered_mapping import keys_from_end, with_newer
from regroup.coordinator.supported_protocol import SupportedProtocol

__all__ = [
    "MemberId",
    "InstanceId",
    "GroupKind",
    "GroupState",
    "AwaitedResponse",
    "MemberProfile",
    "Member",
    "PendingJoinMember",
    "JoinPhase",
    "CommittedOffset",
    "OffsetsByPartition",
    "PendingTransactionalOffset",
    "PendingTransactionalOffsets",
    "GroupMetadata",
    "LogRecordKind",
    "PendingAppend",
    "Group",
]

Key = TypeVar("Key")
Value = TypeVar("Value")

FIRST_FEW_MEMBERS: Final = 16
"""How many members are asked from the front whether they have joined, before all are from the end."""

MemberId: TypeAlias = str
"""The id that the coordinator gave a member."""
InstanceId: TypeAlias = str
"""The group instance id of a static member (KIP-345)."""

NEW_MEMBER_JOIN_TIMEOUT_MS = 300_000
"""Time limit of a member that has never completed a join phase; it replaces the session timeout (Kafka's constant)."""


class GroupKind(StrEnum):
    """The protocol of a group, by the names that ListGroups returns."""

    CLASSIC = "classic"
    """JoinGroup and SyncGroup: a member assigns. A group that does not exist counts as classic, too."""
    CONSUMER = "consumer"
    """ConsumerGroupHeartbeat: the coordinator assigns (KIP-848)."""


class GroupState(StrEnum):
    """Kafka's five states of a classic group, by the names that DescribeGroups returns."""

    EMPTY = "Empty"
    """The group has no members; it may have committed offsets."""
    PREPARING_REBALANCE = "PreparingRebalance"
    """The join phase: every member is expected to send JoinGroup."""
    COMPLETING_REBALANCE = "CompletingRebalance"
    """The sync phase: a generation has started and waits for the leader's assignment."""
    STABLE = "Stable"
    """Every member has its assignment, or can fetch it."""
    DEAD = "Dead"
    """The group does not exist: not yet, or not any more."""


class AwaitedResponse(StrEnum):
    """Which response the coordinator holds for a member: that to its JoinGroup or to its SyncGroup."""

    JOIN = "join"
    SYNC = "sync"


class MemberProfile(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """The description of a member in its JoinGroup request."""

    instance_id: InstanceId | None = None
    """Set for a static member (KIP-345)."""
    client_id: str = ""
    client_host: str = ""
    session_timeout_ms: int
    rebalance_timeout_ms: int
    supported_protocols: tuple[SupportedProtocol, ...]
    """Ordered by the member's preference."""

    def supports(self, protocol_name: str) -> bool:
        """Whether the member lists the assignor `protocol_name` exactly once."""
        return [protocol.name for protocol in self.supported_protocols].count(protocol_name) == 1

    def updated(self, request: "MemberProfile") -> "MemberProfile":
        """The profile after another JoinGroup of the same member: timeouts and protocols change, its identity stays."""
        return msgspec.structs.replace(
            self,
            session_timeout_ms=request.session_timeout_ms,
            rebalance_timeout_ms=request.rebalance_timeout_ms,
            supported_protocols=request.supported_protocols,
        )


class Member(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """One member of a classic group, as the coordinator knows it."""

    member_id: MemberId
    profile: MemberProfile
    joined_at_ms: int = 0
    replaced_at_ms: int = 0
    """When a new process of the static member took over; 0 if none did."""
    replaced_session_timeout_ms: int | None = None
    """Session timeout of the replaced process. Kafka's timer keeps it until the new process is first seen."""
    is_new: bool = False
    """The member has not completed a join phase yet."""
    awaiting: AwaitedResponse | None = None
    assignment: bytes = b""

    @property
    def instance_id(self) -> InstanceId | None:
        return self.profile.instance_id

    def session_timeout_after(self, last_seen_ms: int) -> int:
        """The session timeout in milliseconds that runs from `last_seen_ms`."""
        if self.replaced_session_timeout_ms is not None and last_seen_ms <= self.replaced_at_ms:
            return self.replaced_session_timeout_ms
        return self.profile.session_timeout_ms

    def metadata(self, protocol_name: str | None) -> bytes:
        """The member's subscription for one assignor; empty if it does not support that assignor."""
        protocols = self.profile.supported_protocols
        return next((protocol.metadata for protocol in protocols if protocol.name == protocol_name), b"")

    def supports(self, protocol_name: str) -> bool:
        """Whether the member lists the protocol once: Kafka counts a name that is listed twice as two members', and
        never selects it."""
        return self.profile.supports(protocol_name)


class PendingJoinMember(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A member id that was returned with MEMBER_ID_REQUIRED and not used yet (KIP-394)."""

    session_timeout_ms: int
    added_at_ms: int


class JoinPhase(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """The running join phase: its deadline, and what else decides when it ends."""

    deadline_ms: int
    is_initial: bool = False
    """The group was Empty before: the phase lasts for the initial delay, even if every member has joined (KIP-134)."""
    delay_ms: int = 0
    """Length of the present delay of an initial phase."""
    remaining_ms: int = 0
    """How much longer an initial phase may be extended."""


class CommittedOffset(msgspec.Struct, frozen=True, omit_defaults=True, gc=False, forbid_unknown_fields=True):
    """A group's committed offset in one partition: the offset of the next record to read."""

    offset: int
    leader_epoch: int = -1
    metadata: str = ""
    committed_at_ms: int = 0
    expires_at_ms: int | None = None
    """Set only if the request asked for an expiry (OffsetCommit v2 to v4)."""


OffsetsByPartition: TypeAlias = Mapping[str, Mapping[int, CommittedOffset]]
"""Offsets by topic name and partition index."""


class PendingTransactionalOffset(msgspec.Struct, frozen=True, omit_defaults=True, gc=False, forbid_unknown_fields=True):
    """An offset that is committed when its transaction commits."""

    offset: CommittedOffset
    event_number: int
    """Number of the event that wrote it. Of two transactions, the later write wins."""
    is_superseded: bool = False
    """A later commit wins over this offset. The partition stays unstable until the transaction ends."""


PendingTransactionalOffsets: TypeAlias = Mapping[str, Mapping[int, PendingTransactionalOffset]]
"""Offsets of one open transaction, by topic name and partition index."""


class GroupMetadata(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """The group's last GroupMetadata record in Kafka's log.

    A coordinator that loads the group knows this record and the committed offsets, and nothing else.
    """

    protocol_type: str = ""
    generation_id: int = 0
    protocol_name: str | None = None
    leader_id: MemberId | None = None
    state_since_ms: int = 0
    members: tuple[Member, ...] = ()
    """The members, each with the selected protocol only."""


class LogRecordKind(StrEnum):
    """The subject of a record that the emulated Kafka log has written and not committed yet."""

    GROUP_CREATION = "group-creation"
    ASSIGNMENT = "assignment"
    STATIC_MEMBER_REPLACEMENT = "static-member-replacement"
    OFFSETS = "offsets"


class PendingAppend(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """A record that the emulated Kafka log has written and not committed yet; it may still fail."""

    kind: LogRecordKind
    deadline_ms: int
    """Requests that wait for the record are refused at this time."""
    has_timed_out: bool = False
    """The deadline has passed. The record may still be committed."""
    generation_id: int = 0
    group_metadata: GroupMetadata | None = None
    """The group's metadata once the record is committed."""
    offsets: OffsetsByPartition = {}
    member_id: MemberId = ""
    """New member id of a replaced static member."""
    replaced_member: Member | None = None
    """The static member before the replacement."""


class Group(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False, forbid_unknown_fields=True):
    """One group. `Group(group_id=…)` is the group before its first event."""

    group_id: str
    consumer: ConsumerGroup | None = None
    """The state of a group of the consumer protocol; None for a classic group."""
    state: GroupState = GroupState.DEAD
    """The state of a classic group; a group of the consumer protocol has its own."""
    state_since_ms: int = 0
    """When a group of any kind came into its state."""
    generation_id: int = 0
    protocol_type: str = ""
    protocol_name: str | None = None
    """The assignor selected for this generation."""
    leader_id: MemberId | None = None
    members: Mapping[MemberId, Member] = {}
    static_members: Mapping[InstanceId, MemberId] = {}
    pending_join_members: Mapping[MemberId, PendingJoinMember] = {}
    join_phase: JoinPhase | None = None
    new_member_added: bool = False
    """A member joined during the initial delay since it was last extended. Kafka clears this at no other time."""
    pending_sync_members: tuple[MemberId, ...] = ()
    """Members of this generation that have not sent SyncGroup yet."""
    sync_deadline_ms: int = 0
    """Meaningful only while there are pending sync members."""
    uncommitted_assignments: dict[MemberId, bytes] | None = None
    """The leader's assignments while the log has written and not committed them."""
    subscribed_topics: tuple[str, ...] | None = ()
    """Topics of the last completed join phase. None if a subscription could not be read, and during a group's first
    join phase: then every topic counts as subscribed."""
    committed_offsets: OffsetsByPartition = {}
    pending_transactional_offsets: dict[int, PendingTransactionalOffsets] = {}
    """Offsets of open transactions, by producer id."""
    group_metadata: GroupMetadata | None = None
    left_deadlines_ms: dict[MemberId, tuple[int | None, int | None]] = {}
    """For JoinGroup and SyncGroup, of members of a consumer group that became this classic one. Kafka does not cancel
    its timers: they count again after an upgrade."""
    pending_appends: dict[int, PendingAppend] = {}
    """Pending appends by the number of the event that wrote them; empty unless the emulated Kafka log is delayed."""
    event_number: int = 0
    """Number of the group's last event."""
    loaded_at_ms: int = 0
    """When the present coordinator loaded the group."""

    @property
    def next_event_number(self) -> int:
        """Number of the group's next event: of the one that is being folded."""
        return self.event_number + 1

    @property
    def kind(self) -> GroupKind:
        return GroupKind.CLASSIC if self.consumer is None else GroupKind.CONSUMER

    @property
    def exists(self) -> bool:
        return self.state is not GroupState.DEAD or self.consumer is not None

    @property
    def named_state(self) -> GroupState | ConsumerGroupState:
        """The state of a group of any kind."""
        return self.state if self.consumer is None else self.consumer.state

    @property
    def state_name(self) -> str:
        """The state of a group of any kind, as ListGroups returns it."""
        return self.named_state.value

    @property
    def shown_protocol_type(self) -> str:
        """The protocol type of a group of any kind, as ListGroups returns it."""
        return self.protocol_type if self.consumer is None else self.kind.value

    @property
    def members_of_any_kind(self) -> Mapping[MemberId, object]:
        """The members of a classic group or of one of the consumer protocol, by member id."""
        return self.members if self.consumer is None else self.consumer.members

    @property
    def member_ids(self) -> Collection[MemberId]:
        """The members of a group of any kind, in the order in which they joined."""
        return self.members_of_any_kind.keys()

    @property
    def last_pending_append(self) -> int | None:
        """The event number of the newest pending append that has not timed out: responses wait for it."""
        appends = self.pending_appends
        if not appends:
            return None
        return next((number for number in reversed(appends) if not appends[number].has_timed_out), None)

    @property
    def all_members_joined(self) -> bool:
        """Whether every member has a held JoinGroup, and no member id is pending.

        This is checked at each JoinGroup, in groups of thousands. Members rejoin about in the order in which they
        joined, and newcomers have joined already, so one that is missing is found soon among the first few, or from the
        end.
        """
        if self.pending_join_members:
            return False
        members, joined = self.members, AwaitedResponse.JOIN
        if any(member.awaiting is not joined for member in islice(members.values(), FIRST_FEW_MEMBERS)):
            return False
        return all(members[member_id].awaiting is joined for member_id in keys_from_end(members))

    @property
    def rebalance_timeout_ms(self) -> int:
        """The time limit of a join or sync phase in milliseconds: the longest rebalance timeout of the members, at
        least 0."""
        return max([0, *(member.profile.rebalance_timeout_ms for member in self.members.values())])

    def members_awaiting(self, response: AwaitedResponse) -> Iterator[Member]:
        """The members whose response of this kind is held, in the order in which they joined."""
        return (member for member in self.members.values() if member.awaiting is response)

    def committed_offset(self, topic: str, partition: int) -> CommittedOffset | None:
        return self.committed_offsets.get(topic, {}).get(partition)

    def partitions_with_offsets(self, topic: str) -> tuple[int, ...]:
        """Partitions of a topic with an offset that is committed, transactional, or not yet committed by the log."""
        held: list[Mapping[str, Mapping[int, object]]] = [self.committed_offsets]
        held += self.pending_transactional_offsets.values()
        held += [append.offsets for append in self.pending_appends.values()]
        return tuple(dict.fromkeys(index for offsets in held for index in offsets.get(topic, ())))

    def may_have_offsets(self, topics: Iterable[str]) -> bool:
        """False if no partition of these topics has an offset; quicker than `partitions_with_offsets`."""
        if self.pending_transactional_offsets or self.pending_appends:
            return True
        return not self.committed_offsets.keys().isdisjoint(topics)

    def has_pending_transactional_offset(self, topic: str, partition: int) -> bool:
        """Whether an open transaction has written an offset for this partition (KIP-447)."""
        return any(partition in pending.get(topic, ()) for pending in self.pending_transactional_offsets.values())

    def has_only_other_offsets_than(self, other: "Group") -> bool:
        """Whether this group and the other one are the same in everything but committed offsets and the number of the
        last event.

        A commit of offsets keeps all other fields as the same objects, so these are compared by identity.
        """
        return all(map(is_, BESIDE_OFFSETS(self), BESIDE_OFFSETS(other)))

    def with_member(self, member: Member) -> "Group":
        return msgspec.structs.replace(self, members=with_newer(self.members, {member.member_id: member}))

    def with_pending_append(self, append: PendingAppend) -> "Group":
        """The group with one more record that the emulated Kafka log has written and not committed: that of its next
        event."""
        return msgspec.structs.replace(self, pending_appends=self.pending_appends | {self.next_event_number: append})


BESIDE_OFFSETS: Final = attrgetter(*sorted({*Group.__struct_fields__} - {"committed_offsets", "event_number"}))
"""Returns the fields of a group that a commit of offsets does not change."""
