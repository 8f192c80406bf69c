"""Folding the events of a classic group's members: who joins, rejoins, is replaced, leads and leaves."""

from msgspec.structs import replace

from regroup.coordinator import events as e
from regroup.coordinator.classic.evolve_generations import metadata_of
from regroup.coordinator.group import (
    AwaitedResponse,
    Group,
    LogRecordKind,
    Member,
    PendingAppend,
    PendingJoinMember,
    without,
)


def pending_member_added(group: Group, event: e.PendingMemberAdded) -> Group:
    pending = PendingJoinMember(event.session_timeout_ms, event.at_ms)
    return replace(group, pending_join_members=group.pending_join_members | {event.member_id: pending})


def pending_member_removed(group: Group, event: e.PendingMemberRemoved) -> Group:
    return replace(group, pending_join_members=without(group.pending_join_members, event.member_id))


def member_joined(group: Group, event: e.MemberJoined) -> Group:
    """If the group has members, the new one has the group's protocol type already."""
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
        members=group.members | {event.member_id: member},
        static_members=group.static_members | instance,
        pending_join_members=without(group.pending_join_members, event.member_id),
        new_member_added=group.new_member_added or (phase is not None and phase.is_initial),
        subscribed_topics=group.subscribed_topics if group.generation_id else None,
    )


def member_rejoined(group: Group, event: e.MemberRejoined) -> Group:
    member = group.members[event.member_id]
    return group.with_member(replace(member, profile=event.profile, awaiting=AwaitedResponse.JOIN))


def static_member_replaced(group: Group, event: e.StaticMemberReplaced) -> Group:
    """The new process leads if the old one did, keeps its assignment, and its first session keeps the old timeout.

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
        members=without(group.members, event.replaced_member_id) | {event.member_id: member},
        static_members=group.static_members | {event.instance_id: event.member_id},
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
