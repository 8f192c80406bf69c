"""Folding the events of a rebalance: join phase, generation, sync phase, and what the log holds of it."""

from msgspec.structs import replace

from regroup.coordinator import events as e
from regroup.coordinator.group import Append, Group, JoinPhase, Member, State, StoredGroup, Waiting, Written
from regroup.coordinator.offsets.evolve_appends import writes


def rebalance_started(group: Group, event: e.RebalanceStarted) -> Group:
    """In the sync phase this takes assignments and parked SyncGroups back; in Stable they stay to be looked at."""
    members = group.members
    if group.state is State.COMPLETING:
        members = {
            name: replace(member, assignment=b"", waiting=None if member.waiting is Waiting.SYNC else member.waiting)
            for name, member in members.items()
        }
    return replace(
        group,
        state=State.PREPARING,
        members=members,
        join_phase=JoinPhase(event.deadline_ms, event.initial, event.delay_ms, event.remaining_ms),
        owes_sync=(),
        written_assignment=None,
    )


def join_phase_prolonged(group: Group, event: e.JoinPhaseProlonged) -> Group:
    initial = group.join_phase is not None and group.join_phase.initial
    # Where there is neither, silent static members are waited for; where the delay is 0, the rest of it remains.
    draws_delay_out = bool(event.delay_ms or event.remaining_ms)
    return replace(
        group,
        join_phase=JoinPhase(event.deadline_ms, initial, event.delay_ms, event.remaining_ms),
        new_member_added=group.new_member_added and not draws_delay_out,
    )


def generation_started(group: Group, event: e.GenerationStarted) -> Group:
    """Everybody still has the share of before, to be looked at, until the leader has said what is new."""
    return replace(
        group,
        state=State.COMPLETING,
        generation=event.generation,
        protocol_name=event.protocol_name,
        leader=event.leader,
        members={name: replace(member, is_newcomer=False, waiting=None) for name, member in group.members.items()},
        join_phase=None,
        owes_sync=tuple(group.members),
        sync_deadline_ms=event.sync_deadline_ms,
        subscribed_topics=event.subscribed_topics,
    )


def group_emptied(group: Group, event: e.GroupEmptied) -> Group:
    return replace(
        group,
        state=State.EMPTY,
        generation=event.generation,
        protocol_name=None,
        leader=None,
        join_phase=None,
        subscribed_topics=(),
        stored=StoredGroup(group.protocol_type, event.generation, None, None, event.at_ms),
    )


def member_synced(group: Group, event: e.MemberSynced) -> Group:
    group = replace(group, owes_sync=tuple(name for name in group.owes_sync if name != event.member))
    if not event.waits:
        return group
    return with_member(group, replace(group.members[event.member], waiting=Waiting.SYNC))


def assignment_written(group: Group, event: e.AssignmentWritten) -> Group:
    assigned = {
        name: replace(member, assignment=event.assignment.get(name, b"")) for name, member in group.members.items()
    }
    stored = as_stored(replace(group, members=assigned))
    if event.commit_deadline_ms is None:
        return replace(group, written_assignment=event.assignment, stored=stored)
    append = Append(
        what=Written.ASSIGNMENT,
        deadline_ms=event.commit_deadline_ms,
        generation=group.generation,
        stored=stored,
    )
    return writes(replace(group, written_assignment=event.assignment), append)


def assignment_committed(group: Group, event: e.AssignmentCommitted) -> Group:
    shares = group.written_assignment or {}
    return replace(
        group,
        state=State.STABLE,
        members={
            name: replace(
                member,
                assignment=shares.get(name, b""),
                waiting=None if member.waiting is Waiting.SYNC else member.waiting,
            )
            for name, member in group.members.items()
        },
        written_assignment=None,
    )


def group_stored(group: Group, event: e.GroupStored) -> Group:
    return replace(group, stored=as_stored(group))


def as_stored(group: Group) -> StoredGroup:
    """The record that Kafka writes of the group: of each member only the chosen protocol (`GroupMetadataValue`)."""
    return StoredGroup(
        protocol_type=group.protocol_type,
        generation=group.generation,
        protocol_name=group.protocol_name,
        leader=group.leader,
        state_since_ms=group.state_since_ms,
        members=tuple(as_stored_member(member, group.protocol_name) for member in group.members.values()),
    )


def as_stored_member(member: Member, protocol_name: str | None) -> Member:
    chosen = tuple(protocol for protocol in member.protocols if protocol.name == protocol_name)
    return replace(member, protocols=chosen, waiting=None)


def with_member(group: Group, member: Member) -> Group:
    return replace(group, members=group.members | {member.member_id: member})
