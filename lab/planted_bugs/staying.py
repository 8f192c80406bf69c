"""Bugs about heartbeats, leaving, and those who are not heard of any more."""

from collections.abc import Callable, Mapping

from msgspec.structs import replace

from regroup.coordinator import responses
from regroup.coordinator.classic import deadlines as patience
from regroup.coordinator.classic import expiry, heartbeat_leave, rebalance
from regroup.coordinator.classic.deadlines import Deadline
from regroup.coordinator.commands import DeadlineKind, DeadlinePassed, Heartbeat
from regroup.coordinator.decision import Decision, Unfolding
from regroup.coordinator.events import MemberExpelled
from regroup.coordinator.group import Group, Member, MemberId, State
from regroup.coordinator.runtime import group_coordinator as driver
from regroup.coordinator.runtime.group_coordinator import GroupCoordinator
from regroup.coordinator.runtime.timers import Timers
from regroup.coordinator.settings import Settings
from regroup.lab.planted_bugs.bug import Planted, bug, decides, instead_of, together
from regroup.protocol.errors import ErrorCode


@bug
def heartbeat_says_27_while_syncing() -> Planted:
    """A heartbeat in the sync phase is told to join again, though the join phase is over."""

    def heartbeat(settings: Settings, group: Group, command: Heartbeat) -> Decision:
        decision = heartbeat_leave.heartbeat(settings, group, command)
        if group.state is State.COMPLETING and decision.heard:
            return replace(decision, answer=responses.beat(ErrorCode.REBALANCE_IN_PROGRESS))
        return decision

    return decides(Heartbeat, heartbeat)


@bug
def heartbeat_does_not_count() -> Planted:
    """Heartbeats are answered, but the session timer does not start again."""

    def heartbeat(settings: Settings, group: Group, command: Heartbeat) -> Decision:
        return replace(heartbeat_leave.heartbeat(settings, group, command), heard=())

    def repeats(coordinator: GroupCoordinator, heartbeat: Heartbeat) -> Callable[[], bool]:
        return lambda: False

    return together(decides(Heartbeat, heartbeat), instead_of(GroupCoordinator, "repeats", repeats))


@bug
def parked_member_falls_silent() -> Planted:
    """The session of a member runs on while its own request is parked."""

    def of_member(member: Member, heard_ms: int) -> Deadline | None:
        return right(replace(member, waiting=None), heard_ms)

    right = patience.of_member
    return instead_of(patience, "of_member", of_member)


@bug
def leave_without_a_rebalance() -> Planted:
    """When a member leaves, the others keep the shares that they have."""
    return instead_of(heartbeat_leave, "rebalance", lambda *about: None)


@bug
def expelled_leader_is_not_replaced() -> Planted:
    """When the leader falls silent it is taken out, and nobody is asked to join again."""

    def expel(now: Unfolding, settings: Settings, command: DeadlinePassed, timeout_ms: int, reason: str) -> None:
        if command.member != now.group.leader:
            right(now, settings, command, timeout_ms, reason)
            return
        silent = MemberExpelled(
            at_ms=now.at_ms,
            reason=reason,
            member=command.member,
            last_heard_ms=command.last_heard_ms,
            timeout_ms=timeout_ms,
        )
        rebalance.remove(now, command.member, silent)

    right = expiry.expel
    return instead_of(expiry, "expel", expel)


@bug
def session_never_ends() -> Planted:
    """A member that is not heard of any more stays in the group."""
    return without_patience_for(DeadlineKind.SESSION)


@bug
def sync_phase_never_ends() -> Planted:
    """A leader that never hands in the shares is waited for as long as it sends heartbeats."""
    return without_patience_for(DeadlineKind.SYNC_PHASE)


@bug
def rebalance_timeout_is_ignored() -> Planted:
    """The join phase waits for everybody, however long they take, except where it began in an Empty group."""

    def next_deadline(group: Group, heard: Mapping[MemberId, int]) -> Deadline | None:
        phase = group.join_phase
        if phase and not phase.initial:
            group = replace(group, join_phase=None)
        return patience.next_deadline(group, heard)

    return instead_of(driver, "next_deadline", next_deadline)


@bug
def unused_id_is_kept_for_ever() -> Planted:
    """A member id that was given out and never used is waited for in every rebalance."""
    return without_patience_for(DeadlineKind.RESERVED_ID)


def without_patience_for(kind: DeadlineKind) -> Planted:
    """The coordinator never finds that this has taken too long."""

    def next_deadline(group: Group, heard: Mapping[MemberId, int]) -> Deadline | None:
        others = (each for each in patience.deadlines(group, heard) if each.kind is not kind)
        return min(others, key=lambda each: each.at_ms, default=None)

    return instead_of(driver, "next_deadline", next_deadline)


@bug
def earlier_deadline_is_overlooked() -> Planted:
    """A timer that is set is not set anew when something comes up that will not wait so long."""

    def arm(timers: Timers, name: str) -> None:
        if name not in timers._set:
            right(timers, name)

    right = Timers._arm
    return instead_of(Timers, "_arm", arm)
