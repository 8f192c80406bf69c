"""The deadlines of a classic group, computed from its state and from when its members were last seen."""

from collections.abc import Iterable, Iterator, Mapping

from regroup.coordinator.commands import Deadline, DeadlineKind
from regroup.coordinator.group import NEW_MEMBER_JOIN_TIMEOUT_MS, Group, GroupState, Member, MemberId


def deadlines(group: Group, last_seen_ms: Mapping[MemberId, int]) -> Iterator[Deadline]:
    """Every deadline of the group.

    `last_seen_ms` says when each member's session timeout last started, in epoch milliseconds. For a member that is not
    in it, the session timeout counts from when the group was loaded.
    """
    if group.join_phase:
        yield Deadline(group.join_phase.deadline_ms, DeadlineKind.JOIN_PHASE)
    if group.pending_sync_members and group.state in (GroupState.COMPLETING_REBALANCE, GroupState.STABLE):
        yield Deadline(group.sync_deadline_ms, DeadlineKind.SYNC_PHASE)
    for member_id, member in group.members.items():
        deadline = member_deadline(member, last_seen_ms.get(member_id, group.loaded_at_ms))
        if deadline is not None:
            yield deadline
    for member_id, pending in group.pending_join_members.items():
        yield Deadline(pending.added_at_ms + pending.session_timeout_ms, DeadlineKind.PENDING_JOIN, member_id)
    for append in group.pending_appends.values():
        if not append.has_timed_out:
            yield Deadline(append.deadline_ms, DeadlineKind.LOG_APPEND)


def may_expire_earlier(group: Group, seen: Iterable[MemberId], last_seen_ms: Mapping[MemberId, int]) -> bool:
    """Whether a deadline of the group may become earlier because these members were seen, although the group does not
    change."""
    return any(
        may_expire_earlier_once_seen(group.members[each], last_seen_ms.get(each, group.loaded_at_ms)) for each in seen
    )


def may_expire_earlier_once_seen(member: Member, last_seen_ms: int) -> bool:
    """Whether the member's deadline may become earlier when the member is seen, because a shorter timeout counts from
    then on.

    This is so for a new member, and for the new process of a static member.
    """
    is_unseen_newcomer = member.is_new and last_seen_ms <= member.joined_at_ms
    is_unseen_replacement = member.replaced_session_timeout_ms is not None and last_seen_ms <= member.replaced_at_ms
    return is_unseen_newcomer or is_unseen_replacement


def member_deadline(member: Member, last_seen_ms: int) -> Deadline | None:
    """The deadline of one member: its session timeout, or that of a new member. None while the coordinator holds a
    request of the member, unless the member is new.

    A new member has five minutes from its first JoinGroup. Once it is seen again, its session timeout counts.
    """
    if member.is_new and last_seen_ms <= member.joined_at_ms:
        at_ms = member.joined_at_ms + NEW_MEMBER_JOIN_TIMEOUT_MS
        return Deadline(at_ms, DeadlineKind.NEW_MEMBER_JOIN, member.member_id, member.joined_at_ms)
    if member.awaiting and not member.is_new:
        return None
    at_ms = last_seen_ms + member.session_timeout_after(last_seen_ms)
    return Deadline(at_ms, DeadlineKind.SESSION, member.member_id, last_seen_ms)
