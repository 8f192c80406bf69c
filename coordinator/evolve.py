"""Folding events: what the group is after something happened to it. It cannot refuse, because it already happened."""

from collections.abc import Callable, Iterable
from typing import Any, Final

from msgspec.structs import replace

from regroup.coordinator import events as e
from regroup.coordinator.classic.evolve_generations import (
    as_stored,
    assignment_committed,
    assignment_written,
    generation_started,
    group_emptied,
    group_stored,
    join_phase_prolonged,
    member_synced,
    rebalance_started,
    with_member,
)
from regroup.coordinator.group import (
    Append,
    Group,
    Member,
    MemberId,
    ReservedId,
    State,
    StoredGroup,
    Waiting,
    Written,
)
from regroup.coordinator.offsets.evolve_appends import (
    append_committed,
    append_late,
    append_refused,
    offsets_written,
    writes,
)
from regroup.coordinator.offsets.evolve_offsets import (
    offsets_committed,
    offsets_forgotten,
    transaction_ended,
    transactional_offsets_written,
    without,
)


def evolve(group: Group, event: e.Event) -> Group:
    """The group after the event. The same events give the same group, for ever and everywhere."""
    after: Group = EVOLVE[type(event)](group, event)
    if after.state is group.state or isinstance(event, e.CoordinatorLoaded):
        return replace(after, number=group.number + 1)
    return replace(after, number=group.number + 1, state_since_ms=event.at_ms)


def group_created(group: Group, event: e.GroupCreated) -> Group:
    fresh = Group(name=group.name, state=State.EMPTY, loaded_at_ms=group.loaded_at_ms)
    if not event.by_join:
        return fresh
    stored = StoredGroup(state_since_ms=event.at_ms)
    if event.commit_deadline_ms is None:
        return replace(fresh, stored=stored)
    append = Append(what=Written.GROUP, deadline_ms=event.commit_deadline_ms, stored=stored)
    return replace(fresh, appends={group.number + 1: append})


def member_id_given(group: Group, event: e.MemberIdGiven) -> Group:
    reserved = ReservedId(event.session_timeout_ms, event.at_ms)
    return replace(group, reserved_ids=group.reserved_ids | {event.member: reserved})


def member_id_forgotten(group: Group, event: e.MemberIdForgotten) -> Group:
    return replace(group, reserved_ids=without(group.reserved_ids, event.member))


def member_joined(group: Group, event: e.MemberJoined) -> Group:
    """Where others are in the group already, the newcomer has their protocol type."""
    phase = group.join_phase
    return replace(
        group,
        protocol_type=event.protocol_type,
        members=group.members | {event.member: newcomer(event)},
        static_members=with_instance(group.static_members, event.instance_id, event.member),
        reserved_ids=without(group.reserved_ids, event.member),
        new_member_added=group.new_member_added or (phase is not None and phase.initial),
        subscribed_topics=group.subscribed_topics if group.generation else None,
    )


def newcomer(event: e.MemberJoined) -> Member:
    return Member(
        member_id=event.member,
        instance_id=event.instance_id,
        client_id=event.client_id,
        client_host=event.client_host,
        session_timeout_ms=event.session_timeout_ms,
        rebalance_timeout_ms=event.rebalance_timeout_ms,
        protocols=event.protocols,
        joined_at_ms=event.at_ms,
        is_newcomer=True,
        waiting=Waiting.JOIN,
    )


def member_rejoined(group: Group, event: e.MemberRejoined) -> Group:
    return with_member(
        group,
        replace(
            group.members[event.member],
            session_timeout_ms=event.session_timeout_ms,
            rebalance_timeout_ms=event.rebalance_timeout_ms,
            protocols=event.protocols,
            waiting=Waiting.JOIN,
        ),
    )


def static_member_replaced(group: Group, event: e.StaticMemberReplaced) -> Group:
    """The one that comes back leads if the old one did. Kafka's log may yet lose that it came."""
    old = group.members[event.replaces]
    after = replace(
        group,
        members=without(group.members, event.replaces) | {event.member: restarted(old, event)},
        static_members=group.static_members | {event.instance_id: event.member},
        leader=event.member if group.leader == event.replaces else group.leader,
    )
    if event.commit_deadline_ms is None:
        return after
    append = Append(
        what=Written.REPLACEMENT,
        deadline_ms=event.commit_deadline_ms,
        generation=group.generation,
        stored=as_stored(after),
        member=event.member,
        replaced=old,
    )
    return writes(after, append)


def restarted(old: Member, event: e.StaticMemberReplaced) -> Member:
    """The same member in another process: it keeps its share, and its first silence is measured as before."""
    return replace(
        old,
        member_id=event.member,
        session_timeout_ms=event.session_timeout_ms,
        rebalance_timeout_ms=event.rebalance_timeout_ms,
        protocols=event.protocols,
        replaced_at_ms=event.at_ms,
        replaced_session_timeout_ms=old.session_timeout_ms,
        is_newcomer=False,
        waiting=Waiting.JOIN if event.waits else None,
    )


def leader_elected(group: Group, event: e.LeaderElected) -> Group:
    return replace(group, leader=event.leader)


def member_gone(group: Group, event: e.MemberLeft | e.MemberExpelled) -> Group:
    member = group.members[event.member]
    return replace(
        group,
        members=without(group.members, event.member),
        static_members=without(group.static_members, member.instance_id),
        leader=None if group.leader == event.member else group.leader,
        owes_sync=tuple(name for name in group.owes_sync if name != event.member),
    )


def group_deleted(group: Group, event: e.GroupDeleted) -> Group:
    return Group(name=group.name, loaded_at_ms=group.loaded_at_ms)


def coordinator_loaded(group: Group, event: e.CoordinatorLoaded) -> Group:
    """Offsets, and what Kafka's log has of the group; all else was memory. Offsets alone make a simple group: Empty,
    generation 0, no protocol type."""
    fresh = Group(
        name=group.name,
        offsets=group.offsets,
        pending_offsets=group.pending_offsets,
        stored=group.stored,
        loaded_at_ms=event.at_ms,
    )
    if group.stored is not None:
        return as_it_was(fresh, group.stored, event.subscribed_topics)
    is_simple = group.offsets or group.pending_offsets
    return replace(fresh, state=State.EMPTY, state_since_ms=event.at_ms) if is_simple else fresh


def as_it_was(fresh: Group, stored: StoredGroup, topics: tuple[str, ...] | None) -> Group:
    """The group that the log's last record tells of."""
    return replace(
        fresh,
        state=State.STABLE if stored.members else State.EMPTY,
        state_since_ms=stored.state_since_ms,
        generation=stored.generation,
        protocol_type=stored.protocol_type,
        protocol_name=stored.protocol_name,
        leader=stored.leader,
        members={member.member_id: member for member in stored.members},
        static_members={member.instance_id: member.member_id for member in stored.members if member.instance_id},
        subscribed_topics=topics,
    )


def with_instance(known: dict[str, MemberId], instance_id: str | None, member: MemberId) -> dict[str, MemberId]:
    return known if instance_id is None else known | {instance_id: member}


def fold(group: Group, history: Iterable[e.Event]) -> Group:
    """The group after a history."""
    for event in history:
        group = evolve(group, event)
    return group


EVOLVE: Final[dict[type[e.Event], Callable[[Group, Any], Group]]] = {
    e.GroupCreated: group_created,
    e.MemberIdGiven: member_id_given,
    e.MemberIdForgotten: member_id_forgotten,
    e.MemberJoined: member_joined,
    e.MemberRejoined: member_rejoined,
    e.StaticMemberReplaced: static_member_replaced,
    e.LeaderElected: leader_elected,
    e.RebalanceStarted: rebalance_started,
    e.JoinPhaseProlonged: join_phase_prolonged,
    e.GenerationStarted: generation_started,
    e.GroupEmptied: group_emptied,
    e.MemberSynced: member_synced,
    e.AssignmentWritten: assignment_written,
    e.AssignmentCommitted: assignment_committed,
    e.MemberLeft: member_gone,
    e.MemberExpelled: member_gone,
    e.GroupStored: group_stored,
    e.OffsetsCommitted: offsets_committed,
    e.OffsetsWritten: offsets_written,
    e.AppendCommitted: append_committed,
    e.AppendRefused: append_refused,
    e.AppendLate: append_late,
    e.TransactionalOffsetsWritten: transactional_offsets_written,
    e.TransactionEnded: transaction_ended,
    e.OffsetsForgotten: offsets_forgotten,
    e.GroupDeleted: group_deleted,
    e.CoordinatorLoaded: coordinator_loaded,
}
