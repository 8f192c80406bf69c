"""Folds the events of a classic group: its members, its rebalances, and the metadata that the log holds of them."""

from msgspec.structs import replace

from regroup.coordinator import events as e
from regroup.coordinator.group import (
    AwaitedResponse,
    Group,
    GroupMetadata,
    GroupState,
    JoinPhase,
    LogRecordKind,
    Member,
    PendingAppend,
    PendingJoinMember,
)
from regroup.coordinator.layered_mapping import with_newer, without


def pending_member_added(group: Group, event: e.PendingMemberAdded) -> Group:
    pending = PendingJoinMember(event.session_timeout_ms, event.at_ms)
    return replace(group, pending_join_members=with_newer(group.pending_join_members, {event.member_id: pending}))


def pending_member_removed(group: Group, event: e.PendingMemberRemoved) -> Group:
    return replace(group, pending_join_members=without(group.pending_join_members, event.member_id))


def member_joined(group: Group, event: e.MemberJoined) -> Group:
    """The group with a new member. The first member sets the group's protocol type; later ones have the same."""
    member = Member(
        member_id=event.member_id,
        profile=event.profile,
        joined_at_ms=event.at_ms,
        is_new=True,
        awaiting=AwaitedResponse.JOIN,
    )
    instance_id, phase = event.profile.instance_id, group.join_phase
    instance = {} if instance_id is None else {instance_id: event.member_id}
    return replace(
        group,
        protocol_type=event.protocol_type,
        members=with_newer(group.members, {event.member_id: member}),
        static_members=with_newer(group.static_members, instance) if instance else group.static_members,
        pending_join_members=without(group.pending_join_members, event.member_id),
        new_member_added=group.new_member_added or (phase is not None and phase.is_initial),
        subscribed_topics=group.subscribed_topics if group.generation_id else None,
    )


def member_rejoined(group: Group, event: e.MemberRejoined) -> Group:
    member = group.members[event.member_id]
    return group.with_member(replace(member, profile=event.profile, awaiting=AwaitedResponse.JOIN))


def static_member_replaced(group: Group, event: e.StaticMemberReplaced) -> Group:
    """The group with a static member's new process in place of the old one. It is the leader if the old one was, keeps
    the assignment, and its first session has the old timeout.

    The emulated Kafka log may still lose the replacement.
    """
    old = group.members[event.replaced_member_id]
    member = replace(
        old,
        member_id=event.member_id,
        profile=event.profile,
        replaced_at_ms=event.at_ms,
        replaced_session_timeout_ms=old.profile.session_timeout_ms,
        is_new=False,
        awaiting=AwaitedResponse.JOIN if event.awaits_join else None,
    )
    after = replace(
        group,
        members=with_newer(without(group.members, event.replaced_member_id), {event.member_id: member}),
        static_members=with_newer(group.static_members, {event.instance_id: event.member_id}),
        leader_id=event.member_id if group.leader_id == event.replaced_member_id else group.leader_id,
    )
    if event.commit_deadline_ms is None:
        return after
    return after.with_pending_append(
        PendingAppend(
            kind=LogRecordKind.STATIC_MEMBER_REPLACEMENT,
            deadline_ms=event.commit_deadline_ms,
            generation_id=group.generation_id,
            group_metadata=metadata_of(after),
            member_id=event.member_id,
            replaced_member=old,
        )
    )


def leader_elected(group: Group, event: e.LeaderElected) -> Group:
    return replace(group, leader_id=event.leader_id)


def member_removed(group: Group, event: e.MemberLeft | e.MemberRemoved) -> Group:
    removed = event.member_id
    return replace(
        group,
        members=without(group.members, removed),
        static_members=without(group.static_members, group.members[removed].instance_id),
        leader_id=None if group.leader_id == removed else group.leader_id,
        pending_sync_members=tuple(member_id for member_id in group.pending_sync_members if member_id != removed),
    )


def rebalance_started(group: Group, event: e.RebalanceStarted) -> Group:
    """The group in a join phase. Assignments and held SyncGroups of an unfinished sync phase are dropped; assignments
    of a Stable group stay visible."""
    members = group.members
    if group.state is GroupState.COMPLETING_REBALANCE:
        members = {
            member_id: replace(member, assignment=b"", awaiting=without_sync(member))
            for member_id, member in members.items()
        }
    return replace(
        group,
        state=GroupState.PREPARING_REBALANCE,
        members=members,
        join_phase=JoinPhase(event.deadline_ms, event.is_initial, event.delay_ms, event.remaining_ms),
        pending_sync_members=(),
        uncommitted_assignments=None,
    )


def join_phase_extended(group: Group, event: e.JoinPhaseExtended) -> Group:
    is_initial = group.join_phase is not None and group.join_phase.is_initial
    # An event with neither waits for absent static members; with a delay of 0 the rest of the delay remains.
    extends_initial_delay = bool(event.delay_ms or event.remaining_ms)
    return replace(
        group,
        join_phase=JoinPhase(event.deadline_ms, is_initial, event.delay_ms, event.remaining_ms),
        new_member_added=group.new_member_added and not extends_initial_delay,
    )


def generation_started(group: Group, event: e.GenerationStarted) -> Group:
    """The group in the sync phase of a new generation. Members keep their previous assignment until the leader's is
    committed; DescribeGroups returns it."""
    return replace(
        group,
        state=GroupState.COMPLETING_REBALANCE,
        generation_id=event.generation_id,
        protocol_name=event.protocol_name,
        leader_id=event.leader_id,
        members={
            member_id: replace(member, is_new=False, awaiting=None) for member_id, member in group.members.items()
        },
        join_phase=None,
        pending_sync_members=tuple(group.members),
        sync_deadline_ms=event.sync_deadline_ms,
        subscribed_topics=event.subscribed_topics,
    )


def generation_raised(group: Group, event: e.GenerationRaised) -> Group:
    group = replace(group, generation_id=event.generation_id)
    return replace(group, group_metadata=metadata_of(group))


def group_emptied(group: Group, event: e.GroupEmptied) -> Group:
    return replace(
        group,
        state=GroupState.EMPTY,
        generation_id=event.generation_id,
        protocol_name=None,
        leader_id=None,
        join_phase=None,
        subscribed_topics=(),
        group_metadata=GroupMetadata(group.protocol_type, event.generation_id, None, None, event.at_ms),
    )


def member_synced(group: Group, event: e.MemberSynced) -> Group:
    pending = group.pending_sync_members
    if event.member_id in pending:
        at = pending.index(event.member_id)
        group = replace(group, pending_sync_members=pending[:at] + pending[at + 1 :])
    if not event.awaits_assignment:
        return group
    return group.with_member(replace(group.members[event.member_id], awaiting=AwaitedResponse.SYNC))


def assignment_written(group: Group, event: e.AssignmentWritten) -> Group:
    assigned = {
        member_id: replace(member, assignment=event.assignments.get(member_id, b""))
        for member_id, member in group.members.items()
    }
    metadata = metadata_of(replace(group, members=assigned))
    group = replace(group, uncommitted_assignments=event.assignments)
    if event.commit_deadline_ms is None:
        return replace(group, group_metadata=metadata)
    return group.with_pending_append(
        PendingAppend(
            kind=LogRecordKind.ASSIGNMENT,
            deadline_ms=event.commit_deadline_ms,
            generation_id=group.generation_id,
            group_metadata=metadata,
        )
    )


def assignment_committed(group: Group, event: e.AssignmentCommitted) -> Group:
    assignments = group.uncommitted_assignments or {}
    return replace(
        group,
        state=GroupState.STABLE,
        members={
            member_id: replace(member, assignment=assignments.get(member_id, b""), awaiting=without_sync(member))
            for member_id, member in group.members.items()
        },
        uncommitted_assignments=None,
    )


def group_metadata_written(group: Group, event: e.GroupMetadataWritten) -> Group:
    return replace(group, group_metadata=metadata_of(group))


def metadata_of(group: Group) -> GroupMetadata:
    """The metadata record that Kafka writes of the group. Of each member's protocols it contains only the selected one
    (`GroupMetadataValue`)."""
    return GroupMetadata(
        protocol_type=group.protocol_type,
        generation_id=group.generation_id,
        protocol_name=group.protocol_name,
        leader_id=group.leader_id,
        state_since_ms=group.state_since_ms,
        members=tuple(member_metadata(member, group.protocol_name) for member in group.members.values()),
    )


def member_metadata(member: Member, protocol_name: str | None) -> Member:
    """The member with the selected protocol as its only one. If it supports no other, its profile is shared, to save
    memory."""
    profile = member.profile
    selected = tuple(protocol for protocol in profile.supported_protocols if protocol.name == protocol_name)
    if selected != profile.supported_protocols:
        profile = replace(profile, supported_protocols=selected)
    return replace(member, profile=profile, awaiting=None)


def without_sync(member: Member) -> AwaitedResponse | None:
    """The value of `awaiting` of a member after held SyncGroups were answered: JOIN if its JoinGroup is held, else
    None."""
    return None if member.awaiting is AwaitedResponse.SYNC else member.awaiting
