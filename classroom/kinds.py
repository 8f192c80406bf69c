"""What a timeline takes from a group: the one place where the kind of a group chooses how it is read.

reader = reader_of(group)
reader.state(group), reader.number(group)       Stable, generation 3; or Reconciling, group epoch 3

Groups of both kinds have members that come and go, a state, a number that grows with each change of the group
(generation or group epoch), and times in which it changes hands.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final, Protocol, TypeAlias

from msgspec.structs import replace

from regroup.coordinator import events as e
from regroup.coordinator.classic import deadlines as classic_deadlines
from regroup.coordinator.classic.transitions import TRANSITIONS as CLASSIC_TRANSITIONS
from regroup.coordinator.commands import Deadline, DeadlineKind
from regroup.coordinator.consumer import events as ce
from regroup.coordinator.consumer.evolve_group import consumer_of
from regroup.coordinator.consumer.invariants import TRANSITIONS as CONSUMER_TRANSITIONS
from regroup.coordinator.consumer_group import ConsumerGroupState, ConsumerMember, ReconciliationState
from regroup.coordinator.group import (
    AwaitedResponse,
    Group,
    GroupKind,
    GroupState,
    LogRecordKind,
    Member,
    MemberId,
)

AnyMember: TypeAlias = Member | ConsumerMember
Awaited: TypeAlias = AwaitedResponse | ReconciliationState
HOLDING_UP: Final = (ReconciliationState.UNREVOKED_PARTITIONS, ReconciliationState.UNRELEASED_PARTITIONS)
AWAITED_NAMES: Final[Mapping[Awaited, str]] = {
    AwaitedResponse.JOIN: "JoinGroup",
    AwaitedResponse.SYNC: "SyncGroup",
    ReconciliationState.UNREVOKED_PARTITIONS: "UNREVOKED_PARTITIONS",
    ReconciliationState.UNRELEASED_PARTITIONS: "UNRELEASED_PARTITIONS",
}
"""The request whose response is held, or the state of the member."""
FIRST_STEPS: Final = (AwaitedResponse.JOIN, ReconciliationState.UNREVOKED_PARTITIONS)
"""What a member goes through first in a rebalance; the other ones come later."""
AnyGroupState: TypeAlias = GroupState | ConsumerGroupState

ONE_MEMBER_EVENTS: Final = (
    *(e.MemberJoined, e.MemberRejoined, e.MemberSynced, e.MemberLeft, e.MemberRemoved),
    *(ce.MemberSubscribed, ce.MemberReconciled, ce.StaticMemberAway),
)
"""Events that change the one member that they name, and no other."""


class GroupReader(Protocol):
    """Reads the state, members, deadlines and other facts of a group. There is one reader for each kind of group."""

    kind: GroupKind
    states: tuple[AnyGroupState, ...]
    """In the order in which a group passes through them; Dead stands last."""
    transitions: Mapping[AnyGroupState, frozenset[AnyGroupState]]
    """The table that runs the code."""

    def members(self, group: Group) -> Mapping[MemberId, AnyMember]: ...

    def state(self, group: Group) -> AnyGroupState: ...

    def number(self, group: Group) -> int:
        """The group's generation, or its group epoch in a group of the consumer protocol."""

    def leader_id(self, group: Group) -> MemberId | None: ...

    def protocol_name(self, group: Group) -> str | None:
        """The assignor of the present generation or target assignment; None if the group does not know it."""

    def is_rebalancing(self, group: Group) -> bool:
        """Whether the group's state is one that it has during a rebalance (classic) or a reconciliation (consumer)."""

    def starts_rebalance(self, event: e.Event, after: Group) -> bool: ...

    def gives_assignment(self, event: e.Event) -> str | None:
        """The name of the assignor if this event puts a new assignment in force; None if the event does not.

        The name is empty if it is known before the event, as in a classic group.
        """

    def deadlines(self, group: Group) -> Iterable[Deadline]:
        """The running deadlines except session timeouts, which depend on when each member was last seen."""

    def started_sessions(self, event: e.Event, before: Group, after: Group) -> Iterable[MemberId]:
        """The ids of the members whose session timeouts start again because of the event."""


class ClassicReader:
    """Reads classic groups."""

    kind = GroupKind.CLASSIC
    states: tuple[AnyGroupState, ...] = tuple(GroupState)
    transitions: Mapping[AnyGroupState, frozenset[AnyGroupState]] = dict[Any, Any](CLASSIC_TRANSITIONS)

    def members(self, group: Group) -> Mapping[MemberId, AnyMember]:
        return group.members

    def state(self, group: Group) -> AnyGroupState:
        return group.state

    def number(self, group: Group) -> int:
        return group.generation_id

    def leader_id(self, group: Group) -> MemberId | None:
        return group.leader_id

    def protocol_name(self, group: Group) -> str | None:
        return group.protocol_name

    def is_rebalancing(self, group: Group) -> bool:
        return group.state in (GroupState.PREPARING_REBALANCE, GroupState.COMPLETING_REBALANCE)

    def starts_rebalance(self, event: e.Event, after: Group) -> bool:
        return isinstance(event, e.RebalanceStarted)

    def gives_assignment(self, event: e.Event) -> str | None:
        return "" if isinstance(event, e.AssignmentCommitted) else None

    def deadlines(self, group: Group) -> Iterable[Deadline]:
        if not (group.join_phase or group.pending_sync_members or group.pending_join_members or group.pending_appends):
            return ()
        # The deadlines of members are those that need to be left out.
        return classic_deadlines.deadlines(replace(group, members={}), {})

    def started_sessions(self, event: e.Event, before: Group, after: Group) -> Iterable[MemberId]:
        """The members whose session timeout `touch_session` in `coordinator/classic/` restarts at this event."""
        match event:
            case e.GenerationStarted() | e.CoordinatorLoaded():
                yield from after.members
            case e.AssignmentCommitted() | e.RebalanceStarted():
                yield from (each.member_id for each in before.members_awaiting(AwaitedResponse.SYNC))
            case e.StaticMemberReplaced(awaits_join=False):
                yield event.member_id
            case e.OffsetsCommitted() | e.OffsetsWritten() if event.member_id in after.members:
                yield event.member_id
            case e.AppendFailed():
                append = before.pending_appends.get(event.append_number)
                if append and append.kind is LogRecordKind.STATIC_MEMBER_REPLACEMENT and append.replaced_member:
                    yield append.replaced_member.member_id


class ConsumerReader:
    """Reads groups of the consumer protocol (KIP-848)."""

    kind = GroupKind.CONSUMER
    states: tuple[AnyGroupState, ...] = (*ConsumerGroupState, GroupState.DEAD)
    transitions: Mapping[AnyGroupState, frozenset[AnyGroupState]] = CONSUMER_TRANSITIONS

    def members(self, group: Group) -> Mapping[MemberId, AnyMember]:
        return consumer_of(group).members

    def state(self, group: Group) -> AnyGroupState:
        return consumer_of(group).state

    def number(self, group: Group) -> int:
        return consumer_of(group).group_epoch

    def leader_id(self, group: Group) -> MemberId | None:
        return None

    def protocol_name(self, group: Group) -> str | None:
        return None

    def is_rebalancing(self, group: Group) -> bool:
        return self.state(group) in (ConsumerGroupState.ASSIGNING, ConsumerGroupState.RECONCILING)

    def starts_rebalance(self, event: e.Event, after: Group) -> bool:
        return isinstance(event, ce.GroupEpochBumped) and self.is_rebalancing(after)

    def gives_assignment(self, event: e.Event) -> str | None:
        return event.assignor if isinstance(event, ce.TargetAssigned) else None

    def deadlines(self, group: Group) -> Iterable[Deadline]:
        for member_id, member in consumer_of(group).members.items():
            if member.revocation_deadline_ms is not None:
                yield Deadline(member.revocation_deadline_ms, DeadlineKind.REVOCATION, member_id)
        for append in group.pending_appends.values():
            if not append.has_timed_out:
                yield Deadline(append.deadline_ms, DeadlineKind.LOG_APPEND)

    def started_sessions(self, event: e.Event, before: Group, after: Group) -> Iterable[MemberId]:
        """The members whose heartbeats led to the event; all members after a CoordinatorLoaded."""
        match event:
            case e.CoordinatorLoaded():
                yield from consumer_of(after).members
            case ce.MemberSubscribed() if not event.reason:  # with a reason, settings of the group have changed
                yield event.member_id
            case ce.MemberReconciled() | ce.StaticMemberAway() | ce.StaticConsumerReplaced():
                yield event.member_id


READERS: Final[Mapping[GroupKind, GroupReader]] = {
    GroupKind.CLASSIC: ClassicReader(),
    GroupKind.CONSUMER: ConsumerReader(),
}


def reader_of(group: Group) -> GroupReader:
    """The reader for groups of the same kind as this one."""
    return READERS[group.kind]


def members_of(group: Group) -> Mapping[MemberId, AnyMember]:
    return reader_of(group).members(group)


def changed_members(event: e.Event, before: Group, after: Group) -> Iterable[MemberId]:
    """The ids of members that an event may have changed, added or removed, or that got another target assignment."""
    former, present = members_of(before), members_of(after)
    if isinstance(event, ce.TargetAssigned):
        return event.targets.keys()
    if former is present:
        return ()
    if isinstance(event, ONE_MEMBER_EVENTS):
        return (event.member_id,)
    return dict.fromkeys((*former, *present))


def session_deadline(member: AnyMember, last_seen_ms: int) -> Deadline | None:
    """The session deadline of a member last seen at this time; None while a held request suspends the timeout."""
    if isinstance(member, ConsumerMember):
        at_ms = last_seen_ms + member.profile.session_timeout_ms
        return Deadline(at_ms, DeadlineKind.SESSION, member.member_id, last_seen_ms)
    return classic_deadlines.member_deadline(member, last_seen_ms)


def awaited_by(member: AnyMember | None) -> Awaited | None:
    """What the member waits for: the response to a held request, or a step of its reconciliation; None if nothing."""
    if isinstance(member, ConsumerMember):
        return member.state if member.state in HOLDING_UP and not member.is_away else None
    return member.awaiting if member is not None else None


def reconciliation_of(member: AnyMember | None) -> ConsumerMember | None:
    """The member if it is one of the consumer protocol, which reconciles; None for a member of a classic group."""
    return member if isinstance(member, ConsumerMember) else None


def joined_at_ms(member: AnyMember) -> int:
    """When a member joined, in epoch milliseconds; 0 for one of the consumer protocol, whose join time is not kept."""
    return member.joined_at_ms if isinstance(member, Member) else 0
