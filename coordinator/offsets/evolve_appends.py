"""Folding what the emulated Kafka log makes of records that it did not commit at once."""

from msgspec.structs import replace

from regroup.coordinator import events as e
from regroup.coordinator.group import Group, GroupMetadata, GroupState, LogRecordKind, PendingAppend, without
from regroup.coordinator.offsets.evolve_offsets import merge_offsets, with_superseded


def offsets_written(group: Group, event: e.OffsetsWritten) -> Group:
    return group.with_pending_append(
        PendingAppend(kind=LogRecordKind.OFFSETS, deadline_ms=event.commit_deadline_ms, offsets=event.offsets)
    )


def append_timed_out(group: Group, event: e.AppendTimedOut) -> Group:
    append = replace(group.pending_appends[event.append_number], has_timed_out=True)
    return replace(group, pending_appends=group.pending_appends | {event.append_number: append})


def append_committed(group: Group, event: e.AppendCommitted) -> Group:
    """A failover restores the record from now on, even if the group has changed in memory since it was written."""
    append = group.pending_appends[event.append_number]
    return replace(
        group,
        pending_appends=without(group.pending_appends, event.append_number),
        group_metadata=newer_metadata(group.group_metadata, append.group_metadata),
        committed_offsets=merge_offsets(group.committed_offsets, append.offsets),
        pending_transactional_offsets=with_superseded(group, append.offsets, before=event.append_number),
    )


def append_failed(group: Group, event: e.AppendFailed) -> Group:
    """The record is gone, and what it had changed in memory is undone.

    A lost assignment is undone by the rebalance that follows.
    """
    append = group.pending_appends[event.append_number]
    group = replace(group, pending_appends=without(group.pending_appends, event.append_number))
    if append.kind is LogRecordKind.GROUP_CREATION or is_vacant(group):
        return Group(group_id=group.group_id, loaded_at_ms=group.loaded_at_ms)
    is_present = group.state is GroupState.STABLE and group.generation_id == append.generation_id
    if append.kind is LogRecordKind.STATIC_MEMBER_REPLACEMENT and is_present:
        return with_member_restored(group, append)
    return group


def is_vacant(group: Group) -> bool:
    """Whether the group was created for a commit alone, and that commit failed."""
    return group.state is GroupState.EMPTY and not (
        group.group_metadata
        or group.committed_offsets
        or group.pending_transactional_offsets
        or group.pending_appends
        or group.pending_join_members
    )


def with_member_restored(group: Group, append: PendingAppend) -> Group:
    """Undo the replacement of a static member, unless the member has restarted once more since."""
    old = append.replaced_member
    if old is None or old.instance_id is None or group.static_members.get(old.instance_id) != append.member_id:
        return group
    restored = replace(
        group.members[append.member_id],
        member_id=old.member_id,
        profile=old.profile,
        replaced_at_ms=old.replaced_at_ms,
        replaced_session_timeout_ms=old.replaced_session_timeout_ms,
    )
    return replace(
        group,
        members=without(group.members, append.member_id) | {old.member_id: restored},
        static_members=group.static_members | {old.instance_id: old.member_id},
        leader_id=old.member_id if group.leader_id == append.member_id else group.leader_id,
    )


def newer_metadata(present: GroupMetadata | None, committed: GroupMetadata | None) -> GroupMetadata | None:
    """The metadata of the later generation: a record that is committed late does not hide a newer one."""
    if present is None or committed is None:
        return committed or present
    return committed if committed.generation_id >= present.generation_id else present
