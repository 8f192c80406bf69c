"""Checks timeouts: whether sessions, join phases and sync phases end when they should, and not earlier.

Two clocks are kept apart. How long a member has not been seen is measured by the coordinator's clock, which may jump;
how late a deadline is handled, by the run's clock, which never does.
"""

from collections.abc import Iterator
from typing import Any

from regroup.coordinator import commands as c
from regroup.coordinator.consumer.commands import ConsumerGroupHeartbeat
from regroup.coordinator.group import Group, GroupState, Member, MemberId
from regroup.lab.checker.consumer.timeouts import RevocationTimeouts, session_timeouts_ms
from regroup.lab.checker.exchanges import ObservedExchange
from regroup.protocol.errors import ErrorCode

SLACK_MS = 1_000
"""A deadline that passed more than this long ago without an effect counts as missed."""


class TimeoutChecker:
    """Tracks session, join phase, sync phase and revocation timeouts of all groups of a run.

    `session_timeout_ms` is that of members of the consumer protocol, which the broker sets.
    """

    def __init__(self, session_timeout_ms: int) -> None:
        self.session_timeout_ms = session_timeout_ms
        self._revocations = RevocationTimeouts()
        self.last_seen_ms: dict[MemberId, int] = {}
        """By member id, when a heartbeat or commit last restarted the session, by the coordinator's clock."""
        self._last_activity_ms: dict[MemberId, int] = {}
        """By member id, when any request or response of the member was last seen, by the run's clock."""
        self._last_move_ms: dict[str, int] = {}
        """By group id, when the group's state or generation last changed, by the run's clock."""
        self._phases: dict[str, tuple[int, int]] = {}
        """By group id, the deadline of the present join or sync phase, by the coordinator's clock and by the run's."""

    def on_response(self, exchange: ObservedExchange, now_ms: int) -> None:
        """A response leaves: an accepted heartbeat or commit restarts the session."""
        command: Any = exchange.command
        kind = type(command)
        if kind is c.Heartbeat:
            if exchange.error_code in (ErrorCode.NONE, ErrorCode.REBALANCE_IN_PROGRESS):
                self.last_seen_ms[command.member_id] = exchange.received_ms
        elif kind is ConsumerGroupHeartbeat:
            if exchange.error_code == 0 and command.member_epoch >= 0:
                self.last_seen_ms[command.member_id] = exchange.received_ms
        elif kind is c.OffsetCommit:
            if exchange.error_code == 0 and command.member_id in exchange.before.members:
                self.last_seen_ms[command.member_id] = exchange.received_ms
        elif kind is c.JoinGroup:
            response: Any = exchange.response
            self._last_activity_ms[response.member_id] = now_ms

    def on_command(self, exchange: ObservedExchange, now_ms: int) -> None:
        """A command was handled: any request of a member is activity, a deadline of the member is not."""
        member_id = getattr(exchange.command, "member_id", "")
        if member_id and not isinstance(exchange.command, c.DeadlinePassed):
            self._last_activity_ms[member_id] = now_ms

    def on_group_change(self, exchange: ObservedExchange, now_ms: int) -> None:
        """Compare a group before and after a command.

        A phase that begins is noted; after a load all session timeouts start again.
        """
        before, after = exchange.before, exchange.after
        if before.members is not after.members or before.consumer is not after.consumer:
            for member_id in after.member_ids:
                if member_id not in before.member_ids:
                    self._last_activity_ms[member_id] = now_ms
        self._revocations.on_group_change(exchange, now_ms)
        if before.state is not after.state or before.generation_id != after.generation_id:
            self._last_move_ms[after.group_id] = now_ms
        if isinstance(exchange.command, c.LoadGroup):
            self._last_move_ms[after.group_id] = now_ms
            for member_id in after.member_ids:
                self.last_seen_ms.pop(member_id, None)
        deadline_ms = phase_deadline_ms(after)
        if deadline_ms is not None and deadline_ms != phase_deadline_ms(before):
            self._phases[after.group_id] = deadline_ms, now_ms + deadline_ms - exchange.received_ms

    def overdue(self, group: Group, now_ms: int) -> Iterator[str]:
        """Describe each phase, pending join member and session that should have ended by now."""
        deadline_ms, due_ms = self._phases.get(group.group_id, (None, 0))
        if deadline_ms is not None and deadline_ms == phase_deadline_ms(group) and now_ms > due_ms + SLACK_MS:
            yield f"a phase of {group.state} ended {now_ms - due_ms} ms ago"
        for member_id, pending in group.pending_join_members.items():
            since_ms = self._last_activity_ms.get(member_id, now_ms)
            if now_ms - since_ms > pending.session_timeout_ms + SLACK_MS:
                yield f"pending join member {member_id} was added {now_ms - since_ms} ms ago and has not joined"
        last_move_ms = self._last_move_ms.get(group.group_id, now_ms)
        for member_id, member in group.members.items():
            silent_ms = now_ms - max(self._last_activity_ms.get(member_id, last_move_ms), last_move_ms)
            if silent_ms > max_session_timeout_ms(member) + SLACK_MS and not (member.awaiting or member.is_new):
                yield f"{member_id} has sent nothing for {silent_ms} ms"
        for member_id, timeouts_ms in session_timeouts_ms(group, self.session_timeout_ms):
            silent_ms = now_ms - max(self._last_activity_ms.get(member_id, last_move_ms), last_move_ms)
            if silent_ms > max(timeouts_ms) + SLACK_MS:
                yield f"{member_id} has sent nothing for {silent_ms} ms"
        yield from self._revocations.overdue(group, now_ms, SLACK_MS)


def phase_deadline_ms(group: Group) -> int | None:
    """The deadline of the present join or sync phase, by the coordinator's clock; None if there is none."""
    if group.join_phase is not None:
        return group.join_phase.deadline_ms
    is_syncing = bool(group.pending_sync_members) and group.state in (
        GroupState.COMPLETING_REBALANCE,
        GroupState.STABLE,
    )
    return group.sync_deadline_ms if is_syncing else None


def max_session_timeout_ms(member: Member) -> int:
    """The session timeout of a member; for a static member that was replaced, the longer one of its two processes."""
    return max(member.profile.session_timeout_ms, member.replaced_session_timeout_ms or 0)
