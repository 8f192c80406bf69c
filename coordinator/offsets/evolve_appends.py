"""Folding what Kafka's own log makes of records that it did not commit at once."""

from msgspec.structs import replace

from regroup.coordinator import events as e
from regroup.coordinator.group import Append, Group, State, StoredGroup, Written
from regroup.coordinator.offsets.evolve_offsets import merged, overtaken, without


def writes(group: Group, append: Append) -> Group:
    """The group while the record of its next event waits to be committed."""
    return replace(group, appends=group.appends | {group.number + 1: append})


def offsets_written(group: Group, event: e.OffsetsWritten) -> Group:
    return writes(group, Append(what=Written.OFFSETS, deadline_ms=event.commit_deadline_ms, offsets=event.offsets))


def append_late(group: Group, event: e.AppendLate) -> Group:
    late = replace(group.appends[event.append], is_late=True)
    return replace(group, appends=group.appends | {event.append: late})


def append_committed(group: Group, event: e.AppendCommitted) -> Group:
    """A failover would bring this back from now on, whatever has happened in memory since it was written."""
    append = group.appends[event.append]
    return replace(
        group,
        appends=without(group.appends, event.append),
        stored=newer(group.stored, append.stored),
        offsets=merged(group.offsets, append.offsets),
        pending_offsets=overtaken(group, append.offsets, before=event.append),
    )


def append_refused(group: Group, event: e.AppendRefused) -> Group:
    """What only stood in the log is gone with it, and what was done in memory already is undone.

    A lost assignment is taken back by the rebalance that follows.
    """
    append = group.appends[event.append]
    group = replace(group, appends=without(group.appends, event.append))
    if append.what is Written.GROUP or is_nothing(group):
        return Group(name=group.name, loaded_at_ms=group.loaded_at_ms)
    if append.what is Written.REPLACEMENT and group.state is State.STABLE and group.generation == append.generation:
        return with_the_old_member_back(group, append)
    return group


def is_nothing(group: Group) -> bool:
    """A group that was made for a commit alone, and the commit was refused."""
    nothing = not (group.offsets or group.pending_offsets or group.appends or group.reserved_ids)
    return group.state is State.EMPTY and group.stored is None and nothing


def awaits_assignment(group: Group, append: Append) -> bool:
    """Nothing has come between: what the leader wrote is still what everybody waits for."""
    return group.state is State.COMPLETING and group.generation == append.generation


def with_the_old_member_back(group: Group, append: Append) -> Group:
    """Only id, protocols and timeouts were replaced. If it has restarted once more meanwhile, it stays as it is now."""
    old = append.replaced
    if old is None or old.instance_id is None or group.static_members.get(old.instance_id) != append.member:
        return group
    present = group.members[append.member]
    restored = replace(
        present,
        member_id=old.member_id,
        protocols=old.protocols,
        session_timeout_ms=old.session_timeout_ms,
        rebalance_timeout_ms=old.rebalance_timeout_ms,
        replaced_at_ms=old.replaced_at_ms,
        replaced_session_timeout_ms=old.replaced_session_timeout_ms,
    )
    return replace(
        group,
        members=without(group.members, present.member_id) | {old.member_id: restored},
        static_members=group.static_members | {old.instance_id: old.member_id},
        leader=old.member_id if group.leader == present.member_id else group.leader,
    )


def newer(present: StoredGroup | None, committed: StoredGroup | None) -> StoredGroup | None:
    """A record of an older generation that is committed late does not hide what was stored since."""
    if present is None or committed is None:
        return committed or present
    return committed if committed.generation >= present.generation else present
