"""The deadlines that run after an event, as far as events say: all but session timeouts."""

from functools import lru_cache
from typing import Final

from regroup.classroom.kinds import reader_of
from regroup.classroom.timeline import ArmedDeadline
from regroup.coordinator.commands import DeadlineKind
from regroup.coordinator.group import Group, MemberId

WHAT_FOLLOWS: Final = {
    DeadlineKind.JOIN_PHASE: "the join phase ends with the members that have sent JoinGroup",
    DeadlineKind.SYNC_PHASE: "the members that have not sent SyncGroup are removed",
    DeadlineKind.PENDING_JOIN: "the member id is removed, because it was not used",
    DeadlineKind.REVOCATION: "the member is removed, because it has not given up its partitions",
    DeadlineKind.LOG_APPEND: "the requests that wait for the log are refused",
}
INITIAL_JOIN_PHASE: Final = "the join phase ends, or goes on if members joined and time remains"


def deadline_facts(group: Group) -> tuple[object, ...]:
    """The values on which a classic group's deadlines depend: if they are equal, the deadlines are equal too."""
    has_pending_syncs = bool(group.pending_sync_members)
    return (
        group.state,
        group.join_phase,
        has_pending_syncs and group.sync_deadline_ms,
        group.pending_join_members,
        group.pending_appends,
    )


def armed_deadlines(group: Group) -> tuple[ArmedDeadline, ...]:
    """The running deadlines, the earliest first. Session timeouts count from when a member was last seen, which is in
    no event, so they are left out."""
    running = sorted(reader_of(group).deadlines(group))
    return tuple([_armed(each.kind, each.at_ms, each.member_id, _follows(group, each.kind)) for each in running])


@lru_cache(maxsize=1024)
def _armed(kind: DeadlineKind, at_ms: int, member_id: MemberId, follows: str) -> ArmedDeadline:
    """An ArmedDeadline of these values; the same object for all events during which the deadline runs."""
    return ArmedDeadline(kind=kind, at_ms=at_ms, member_id=member_id, follows=follows)


def _follows(group: Group, kind: DeadlineKind) -> str:
    phase = group.join_phase
    if kind is DeadlineKind.JOIN_PHASE and phase is not None and phase.is_initial:
        return INITIAL_JOIN_PHASE
    return WHAT_FOLLOWS[kind]
