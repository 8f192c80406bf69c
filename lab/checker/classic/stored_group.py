"""The classic groups that the stored events add up to, folded without the product's `evolve`.

    group = StoredClassicGroup()
    group.apply(event, event_number)
    group.state, group.members["anna"].assignment, list(group.differences(folded_by_evolve))

The lab's other second state, `ShadowState`, folds with `evolve`. An event that `evolve` applies wrongly changes that
state and the coordinator's own alike; it does not change this one, and `differences` finds it.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Final

from regroup.coordinator import events as e
from regroup.coordinator.consumer import events as ce
from regroup.coordinator.consumer.migration import events as me
from regroup.coordinator.events import Event
from regroup.coordinator.group import AwaitedResponse, Group, GroupState, LogRecordKind
from regroup.lab.checker.classic.stored_members import (
    LoggedGroup,
    MemberComparison,
    StoredClassicMember,
    StoredJoinPhase,
    WrittenRecord,
    stored_member,
    with_protocols,
)
from regroup.lab.checker.classic.stored_offsets import StoredOffsets

JOIN, SYNC = AwaitedResponse.JOIN, AwaitedResponse.SYNC


@dataclass(slots=True)
class StoredClassicGroup:
    """The state, the members, the running phase, the offsets and the log of one classic group.

    Of a group of the consumer protocol only the offsets are followed.
    """

    state: GroupState = GroupState.DEAD
    since_ms: int = 0
    """Since when the group has its state, in epoch milliseconds."""
    is_consumer: bool = False
    generation_id: int = 0
    protocol_type: str = ""
    protocol_name: str | None = None
    leader_id: str | None = None
    members: dict[str, StoredClassicMember] = field(default_factory=dict)
    pending_ids: dict[str, tuple[int, int]] = field(default_factory=dict)
    """By member id that was given and not used yet: the session timeout, and when it was given."""
    phase: StoredJoinPhase | None = None
    subscribed_topics: tuple[str, ...] | None = ()
    has_newcomers: bool = False
    """A member joined during the initial delay since it was last extended."""
    unsynced: dict[str, None] = field(default_factory=dict)
    """Members of the generation that have not sent SyncGroup."""
    sync_deadline_ms: int = 0
    assignments: dict[str, bytes] | None = None
    """What the leader has sent, until Kafka's log has committed it."""
    logged: LoggedGroup | None = None
    written: dict[int, WrittenRecord] = field(default_factory=dict)
    offsets: StoredOffsets = field(default_factory=StoredOffsets)
    removed_at_ms: int = -1
    """When a member or a pending id was last removed."""
    event_number: int = 0
    _comparison: MemberComparison = field(default_factory=MemberComparison)

    @property
    def rebalance_timeout_ms(self) -> int:
        """The longest rebalance timeout of the members, at least 0."""
        return max([0, *(each.profile.rebalance_timeout_ms for each in self.members.values())])

    @property
    def joined(self) -> list[str]:
        """The members whose JoinGroup is held."""
        return [each for each, member in self.members.items() if member.awaiting is JOIN]

    def apply(self, event: Event, event_number: int) -> None:
        """Apply one stored event."""
        self.event_number = event_number
        self.offsets.apply(event, event_number)
        former = self.state, self.is_consumer
        self._apply(event)
        if (self.state, self.is_consumer) != former and not isinstance(event, e.CoordinatorLoaded):
            self.since_ms = event.at_ms

    def _apply(self, event: Event) -> None:
        match event:
            case e.GroupCreated():
                self._create(event)
            case e.GroupDeleted():
                self._clear()
            case e.CoordinatorLoaded():
                self._load(event)
            case me.GroupUpgraded() | ce.ConsumerGroupCreated():
                self._clear(keeps_written=True)
                self.is_consumer = True
                if isinstance(event, me.GroupUpgraded):
                    self.written = {each: w for each, w in self.written.items() if w.kind is LogRecordKind.OFFSETS}
            case ce.ConsumerGroupEnded():
                self._clear(keeps_written=True)
                self.state = GroupState.EMPTY
            case me.GroupDowngraded():
                self._downgrade(event)
            case e.AppendCommitted(append_number=number):
                self._commit(self.written.pop(number, None))
            case e.AppendFailed(append_number=number):
                self._lose(self.written.pop(number, None))
            case e.OffsetsWritten():
                self.written[self.event_number] = WrittenRecord(LogRecordKind.OFFSETS)
            case _ if not self.is_consumer:
                self._apply_to_members(event)
                self._apply_to_phases(event)

    # -- the group and its log

    def _clear(self, *, keeps_written: bool = False) -> None:
        """Nothing but the offsets is left of the classic group."""
        self.state, self.is_consumer, self.generation_id = GroupState.DEAD, False, 0
        self.protocol_type, self.protocol_name, self.leader_id = "", None, None
        self.members, self.pending_ids, self.phase, self.has_newcomers = {}, {}, None, False
        self.unsynced, self.sync_deadline_ms, self.assignments, self.logged = {}, 0, None, None
        self.subscribed_topics = ()
        self._comparison.begin_again()
        if not keeps_written:
            self.written = {}

    def _create(self, event: e.GroupCreated) -> None:
        self._clear()
        self.state = GroupState.EMPTY
        if event.by_join and event.commit_deadline_ms is None:
            self.logged = LoggedGroup(since_ms=event.at_ms)
        elif event.by_join:
            logged = LoggedGroup(since_ms=event.at_ms)
            self.written[self.event_number] = WrittenRecord(LogRecordKind.GROUP_CREATION, logged)

    def _load(self, event: e.CoordinatorLoaded) -> None:
        """A coordinator loads the group: what was in the memory of the former one is lost."""
        if self.is_consumer:
            self.written = {}
            return
        logged, has_offsets = self.logged, self.offsets.has_any
        self._clear()
        if logged is None:
            self.state, self.since_ms = GroupState.EMPTY if has_offsets else GroupState.DEAD, event.at_ms
            return
        self.logged, self.since_ms = logged, logged.since_ms
        self.state = GroupState.STABLE if logged.members else GroupState.EMPTY
        self.generation_id, self.protocol_type = logged.generation_id, logged.protocol_type
        self.protocol_name, self.leader_id = logged.protocol_name, logged.leader_id
        self.members = {each: replace(member) for each, member in logged.members.items()}
        self.subscribed_topics = event.subscribed_topics

    def _downgrade(self, event: me.GroupDowngraded) -> None:
        self._clear(keeps_written=True)
        self.state, self.generation_id, self.protocol_type = GroupState.STABLE, event.generation_id, "consumer"
        self.since_ms = event.at_ms
        self.protocol_name, self.leader_id = event.protocol_name, event.leader_id
        self.members = {each.member_id: stored_member(each) for each in event.members}
        self.subscribed_topics = event.subscribed_topics
        self._log()

    def _record(self, assignments: dict[str, bytes] | None = None) -> LoggedGroup:
        """The record that Kafka writes of the group: of each member's protocols it has the selected one alone."""
        members = {}
        for each, member in self.members.items():
            profile, name = member.profile, self.protocol_name
            selected = tuple(protocol for protocol in profile.supported_protocols if protocol.name == name)
            members[each] = StoredClassicMember(
                profile=with_protocols(profile, selected),
                joined_at_ms=member.joined_at_ms,
                is_new=member.is_new,
                assignment=member.assignment if assignments is None else assignments.get(each, b""),
                replaced_at_ms=member.replaced_at_ms,
                replaced_session_timeout_ms=member.replaced_session_timeout_ms,
            )
        return LoggedGroup(
            self.generation_id, self.protocol_type, self.protocol_name, self.leader_id, members, self.since_ms
        )

    def _log(self) -> None:
        self.logged = self._record()

    def _commit(self, record: WrittenRecord | None) -> None:
        """Kafka's log has committed a record; one of an earlier generation replaces no later one."""
        if record is None or record.logged is None:
            return
        if self.logged is None or record.logged.generation_id >= self.logged.generation_id:
            self.logged = record.logged

    def _lose(self, record: WrittenRecord | None) -> None:
        """Kafka's log has lost a record: a group that it would have created is gone, a replaced member is back."""
        if record is None:
            return
        is_vacant = self.state is GroupState.EMPTY and not (
            self.logged or self.offsets.has_any or self.written or self.pending_ids
        )
        if record.kind is LogRecordKind.GROUP_CREATION or is_vacant:
            self._clear()
            self.offsets.clear()
        elif record.kind is LogRecordKind.STATIC_MEMBER_REPLACEMENT:
            former, present = record.former, self.members.get(record.member_id)
            if former is not None and present is not None:
                del self.members[record.member_id]
                self._touch(record.member_id)
                self._touch(record.former_id)
                self.members[record.former_id] = replace(
                    present,
                    profile=former.profile,
                    replaced_at_ms=former.replaced_at_ms,
                    replaced_session_timeout_ms=former.replaced_session_timeout_ms,
                )
                if self.leader_id == record.member_id:
                    self.leader_id = record.former_id

    # -- members

    def _touch(self, member_id: str) -> None:
        self._comparison.touched.add(member_id)

    def _apply_to_members(self, event: Event) -> None:
        members = self.members
        match event:
            case e.PendingMemberAdded(member_id=member_id):
                self.pending_ids[member_id] = event.session_timeout_ms, event.at_ms
            case e.PendingMemberRemoved(member_id=member_id):
                self.pending_ids.pop(member_id, None)
                self.removed_at_ms = event.at_ms
            case e.MemberJoined(member_id=member_id):
                self.pending_ids.pop(member_id, None)
                self.protocol_type = event.protocol_type
                self._touch(member_id)
                members.pop(member_id, None)
                members[member_id] = StoredClassicMember(event.profile, event.at_ms, is_new=True, awaiting=JOIN)
                self.has_newcomers = self.has_newcomers or (self.phase is not None and self.phase.is_initial)
                self.subscribed_topics = self.subscribed_topics if self.generation_id else None
            case e.MemberRejoined(member_id=member_id):
                self._touch(member_id)
                members[member_id].profile, members[member_id].awaiting = event.profile, JOIN
            case e.StaticMemberReplaced():
                self._replace(event)
            case e.LeaderElected(leader_id=leader_id):
                self.leader_id = leader_id
            case e.MemberLeft(member_id=member_id) | e.MemberRemoved(member_id=member_id):
                del members[member_id]
                self._touch(member_id)
                self.unsynced.pop(member_id, None)
                self.leader_id = None if self.leader_id == member_id else self.leader_id
                self.removed_at_ms = event.at_ms
            case me.UpgradeRefused():
                self._await_nothing(JOIN, SYNC)

    def _replace(self, event: e.StaticMemberReplaced) -> None:
        """Another process of a static member has its assignment, and leads if the former one did."""
        former_id, member_id = event.replaced_member_id, event.member_id
        former = self.members.pop(former_id)
        self._touch(former_id)
        self._touch(member_id)
        self.members[member_id] = StoredClassicMember(
            profile=event.profile,
            joined_at_ms=former.joined_at_ms,
            awaiting=JOIN if event.awaits_join else None,
            assignment=former.assignment,
            replaced_at_ms=event.at_ms,
            replaced_session_timeout_ms=former.profile.session_timeout_ms,
        )
        if self.leader_id == former_id:
            self.leader_id = member_id
        if event.commit_deadline_ms is not None:
            self.written[self.event_number] = WrittenRecord(
                LogRecordKind.STATIC_MEMBER_REPLACEMENT,
                self._record(),
                self.generation_id,
                member_id,
                former_id,
                former,
            )

    def _await_nothing(self, *responses: AwaitedResponse) -> None:
        for each, member in self.members.items():
            if member.awaiting in responses:
                member.awaiting = None
                self._touch(each)

    # -- phases

    def _apply_to_phases(self, event: Event) -> None:
        match event:
            case e.RebalanceStarted():
                if self.state is GroupState.COMPLETING_REBALANCE:
                    self._await_nothing(SYNC)
                    for each, member in self.members.items():
                        member.assignment = b""
                        self._touch(each)
                self.state = GroupState.PREPARING_REBALANCE
                self.phase = StoredJoinPhase(event.deadline_ms, event.is_initial, event.delay_ms, event.remaining_ms)
                self.unsynced, self.assignments = {}, None
            case e.JoinPhaseExtended():
                is_initial = self.phase is not None and self.phase.is_initial
                self.phase = StoredJoinPhase(event.deadline_ms, is_initial, event.delay_ms, event.remaining_ms)
                if event.delay_ms or event.remaining_ms:
                    self.has_newcomers = False
            case e.GenerationStarted():
                self._begin_generation(event)
            case e.GenerationRaised(generation_id=generation_id):
                self.generation_id = generation_id
                self._log()
            case e.GroupEmptied(generation_id=generation_id):
                self.state, self.generation_id, self.protocol_name = GroupState.EMPTY, generation_id, None
                self.leader_id, self.phase, self.subscribed_topics = None, None, ()
                self.logged = LoggedGroup(generation_id, self.protocol_type, since_ms=event.at_ms)
            case e.MemberSynced(member_id=member_id):
                self.unsynced.pop(member_id, None)
                if event.awaits_assignment:
                    self.members[member_id].awaiting = SYNC
                    self._touch(member_id)
            case e.AssignmentWritten(assignments=assignments):
                self.assignments = dict(assignments)
                if event.commit_deadline_ms is None:
                    self.logged = self._record(self.assignments)
                else:
                    record = self._record(self.assignments)
                    self.written[self.event_number] = WrittenRecord(
                        LogRecordKind.ASSIGNMENT, record, self.generation_id
                    )
            case e.AssignmentCommitted():
                self.state = GroupState.STABLE
                self._await_nothing(SYNC)
                for each, member in self.members.items():
                    member.assignment = (self.assignments or {}).get(each, b"")
                    self._touch(each)
                self.assignments = None
            case e.GroupMetadataWritten():
                self._log()

    def _begin_generation(self, event: e.GenerationStarted) -> None:
        self.state, self.generation_id = GroupState.COMPLETING_REBALANCE, event.generation_id
        self.protocol_name, self.leader_id, self.phase = event.protocol_name, event.leader_id, None
        self.unsynced, self.sync_deadline_ms = dict.fromkeys(self.members), event.sync_deadline_ms
        self.subscribed_topics = event.subscribed_topics
        for member in self.members.values():
            member.is_new, member.awaiting = False, None
        self._comparison.begin_again()

    # -- the comparison

    def differences(self, other: Group) -> Iterator[str]:
        """What the product's own fold of the same events has otherwise; `other` is its result."""
        yield from self.offsets.differences(other)
        if self.is_consumer or other.consumer is not None:
            if self.is_consumer != (other.consumer is not None):
                yield "the kind of the group"
            return
        fields, found = self._fields(), self._fields_of(other)
        if fields != found:
            yield from (name for name, here, there in zip(_FIELDS, fields, found, strict=True) if here != there)
        if (self.logged is None) != (other.group_metadata is None):
            yield "what the log holds"
        elif self.logged is not None and other.group_metadata is not None:
            yield from self._comparison.log_differences(self.logged, other.group_metadata)
        yield from self._comparison.member_differences(self.members, other.members)

    def _fields(self) -> tuple[object, ...]:
        """The values of `_FIELDS` here."""
        phase = self.phase
        return (
            self.state,
            self.since_ms if self.state is not GroupState.DEAD else None,
            self.generation_id,
            (self.protocol_type, self.protocol_name),
            self.leader_id,
            phase and (phase.deadline_ms, phase.is_initial, phase.delay_ms, phase.remaining_ms),
            self.has_newcomers,
            tuple(self.unsynced),
            self.sync_deadline_ms if self.unsynced else None,
            self.pending_ids,
            self.subscribed_topics,
            self.assignments,
            self.written.keys(),
        )

    def _fields_of(self, other: Group) -> tuple[object, ...]:
        """The values of `_FIELDS` in the product's own fold."""
        phase, pending = other.join_phase, other.pending_join_members
        return (
            other.state,
            other.state_since_ms if self.state is not GroupState.DEAD else None,
            other.generation_id,
            (other.protocol_type, other.protocol_name),
            other.leader_id,
            phase and (phase.deadline_ms, phase.is_initial, phase.delay_ms, phase.remaining_ms),
            other.new_member_added,
            other.pending_sync_members,
            other.sync_deadline_ms if self.unsynced else None,
            {each: (known.session_timeout_ms, known.added_at_ms) for each, known in pending.items()} if pending else {},
            other.subscribed_topics,
            other.uncommitted_assignments,
            other.pending_appends.keys(),
        )


_FIELDS: Final = (
    *("the state", "since when it has its state", "the generation", "the protocol", "the leader"),
    "the join phase",
    "the newcomers of the initial delay",
    "the members that have not sent SyncGroup",
    "the deadline of the sync phase",
    "the pending member ids",
    "the subscribed topics",
    "the assignments of the leader",
    "the records that are not committed",
)
"""What is compared of a group beside its offsets, its members and its log, in the order of a tuple of values."""
