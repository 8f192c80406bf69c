"""Bugs in sessions: which request starts which one again, and how long a member or a member id may be silent."""

from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any

from msgspec.structs import replace

from regroup.coordinator.classic import heartbeat_leave, rebalance, sync
from regroup.coordinator.commands import Deadline, DeadlineKind, Heartbeat, JoinGroup, OffsetCommit, SyncGroup
from regroup.coordinator.decide import HANDLERS
from regroup.coordinator.decision import Decision, DecisionBuilder
from regroup.coordinator.group import Group, MemberId
from regroup.coordinator.runtime import deadlines, group_coordinator
from regroup.coordinator.runtime.group_coordinator import GroupCoordinator
from regroup.lab.planted_bugs.bug import BugContext, combine, patch_attribute, patch_handler, planted_bug


@planted_bug
def heartbeat_keeps_every_member() -> BugContext:
    """A heartbeat starts the sessions of all members of its group again."""

    def heartbeat(builder: DecisionBuilder, command: Heartbeat) -> Decision:
        decision = heartbeat_leave.heartbeat(builder, command)
        all_members = tuple(decision.group.members) if decision.touched_sessions else ()
        return replace(decision, touched_sessions=all_members)

    return combine(
        patch_handler(Heartbeat, heartbeat),
        patch_attribute(GroupCoordinator, "heartbeat_revalidator", lambda coordinator, heartbeat: lambda: False),
    )


@planted_bug
def refused_sync_keeps_its_member() -> BugContext:
    """Every SyncGroup of a member starts its session again, also one that is answered at once in Stable."""
    return patch_handler(SyncGroup, _with_session_of_sender(HANDLERS[SyncGroup]))


@planted_bug
def commit_does_not_renew_the_session() -> BugContext:
    """Commits are accepted, but the session of their member does not start again."""
    right = HANDLERS[OffsetCommit]

    def offset_commit(builder: DecisionBuilder, command: OffsetCommit) -> Decision:
        return replace(right(builder, command), touched_sessions=())

    return patch_handler(OffsetCommit, offset_commit)


@planted_bug
def generation_does_not_renew_sessions() -> BugContext:
    """The end of a join phase does not start the sessions of its members again."""
    return _without_sessions(rebalance, "start_generation")


@planted_bug
def assignment_does_not_renew_sessions() -> BugContext:
    """The response to a held SyncGroup does not start the session of its member again."""
    return _without_sessions(sync, "commit_assignments")


@planted_bug
def interrupted_sync_does_not_renew_the_session() -> BugContext:
    """A held SyncGroup that a rebalance refuses does not start the session of its member again."""
    return _without_sessions(rebalance, "abort_sync_phase")


def _without_sessions(module: ModuleType, name: str) -> BugContext:
    """Let this function of the coordinator start no sessions again; all else of its decision stays."""
    right = getattr(module, name)

    def wrong(decision: DecisionBuilder, *arguments: Any) -> None:
        touched = dict(decision.touched_sessions)
        right(decision, *arguments)
        decision.touched_sessions = touched

    return patch_attribute(module, name, wrong)


@planted_bug
def refused_commit_keeps_its_member() -> BugContext:
    """An OffsetCommit of a member starts its session again, also one that is refused."""
    return patch_handler(OffsetCommit, _with_session_of_sender(HANDLERS[OffsetCommit]))


@planted_bug
def answered_join_keeps_its_member() -> BugContext:
    """Every JoinGroup of a member starts its session again, also one that is answered without a rebalance."""
    return patch_handler(JoinGroup, _with_session_of_sender(HANDLERS[JoinGroup]))


def _with_session_of_sender(right: Callable[[DecisionBuilder, Any], Decision]) -> Callable[..., Decision]:
    """A handler that decides as `right`, and starts the session of the sender again if it is a member."""

    def decide(builder: DecisionBuilder, command: Any) -> Decision:
        decision = right(builder, command)
        touched = dict.fromkeys((*decision.touched_sessions, command.member_id))
        return replace(decision, touched_sessions=tuple(each for each in touched if each in decision.group.members))

    return decide


@planted_bug
def pending_member_has_half_its_time() -> BugContext:
    """A pending member id expires after half of its session timeout."""

    def next_deadline(group: Group, last_seen_ms: Mapping[MemberId, int]) -> Deadline | None:
        found = [_halved(each, group) for each in deadlines.deadlines(group, last_seen_ms)]
        return min(found, key=lambda each: each.at_ms, default=None)

    return patch_attribute(group_coordinator, "next_deadline", next_deadline)


def _halved(deadline: Deadline, group: Group) -> Deadline:
    pending = group.pending_join_members.get(deadline.member_id)
    if deadline.kind is not DeadlineKind.PENDING_JOIN or pending is None:
        return deadline
    return deadline._replace(at_ms=deadline.at_ms - pending.session_timeout_ms // 2)
