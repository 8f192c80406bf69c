"""Checks timeouts: whether sessions, join phases and sync phases end when they should, and not earlier.

Two clocks are kept apart. How long a member has not been seen is measured by the coordinator's clock, which may jump;
how late a deadline is handled, by the run's clock, which never does.
"""

from collections.abc import Iterator
from typing import Any

from regroup.coordinator import commands as c
from regroup.coordinator.consumer.commands import ConsumerGroupHeartbeat
from regroup.coordinator.group import Group, GroupState, MemberId
from regroup.coordinator.layered_mapping import added_keys
from regroup.lab.checker.classic.sessions import ClassicSessions
from regroup.lab.checker.consumer.timeouts import HeartbeatTimes, RevocationTimeouts, session_timeouts_ms
from regroup.lab.checker.exchanges import ObservedExchange
from regroup.protocol.errors import ErrorCode

SLACK_MS = 1_000
"""A deadline that passed more than this long ago without an effect counts as missed."""


class TimeoutChecker:
    """Since when the timeouts of all groups of a run are running: sessions, join and sync phases, and giving up
    partitions.

    `session_timeout_ms` is that of members of the consumer protocol, which the broker sets.
    """

    def __init__(self, session_timeout_ms: int) -> None:
        self.session_timeout_ms = session_timeout_ms
        self._revocations = RevocationTimeouts()
        self.heartbeats = HeartbeatTimes()
        self.sessions = ClassicSessions()
        self.last_seen_ms: dict[MemberId, int] = {}
        """By id of a member of the consumer protocol's groups, when its session last started again, by the
        coordinator's clock."""
        self._last_activity_ms: dict[MemberId, int] = {}
        """By member id, when any request or response of the member was last seen, by the run's clock."""
        self._last_move_ms: dict[str, int] = {}
        """By group id, when the group's state or generation last changed, by the run's clock."""
        self._phases: dict[str, tuple[int, int]] = {}
        """By group id, the deadline of the present join or sync phase, by the coordinator's clock and by the run's."""
        self._looked_ms: dict[str, int] = {}
        """By group id, when it was last looked for missed deadlines before a command, by the run's clock."""

    def on_response(self, exchange: ObservedExchange, now_ms: int) -> None:
        """Note when a member was last seen, if the response accepts its heartbeat or commit.

        A JoinGroup response counts as activity of the member that it names.
        """
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
        """Note when the member of a handled request last sent one, and which sessions the command starts again.

        A deadline of the member that has passed is a command, too, but no activity.
        """
        self.sessions.on_command(exchange, now_ms)
        member_id = getattr(exchange.command, "member_id", "")
        if member_id and not isinstance(exchange.command, c.DeadlinePassed):
            self._last_activity_ms[member_id] = now_ms

    def on_group_change(self, exchange: ObservedExchange, now_ms: int) -> None:
        """Note when a group has changed its state, and the deadline of a join or sync phase that has begun.

        After a load the session timeouts of all its members start again.
        """
        before, after = exchange.before, exchange.after
        if before.members is not after.members or before.consumer is not after.consumer:
            for member_id in added_keys(before.members_of_any_kind, after.members_of_any_kind):
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

    def begin_look(self, before: Group, after: Group, now_ms: int) -> bool:
        """Note a look for missed deadlines before a command that makes `after` of `before`; False if none is due.

        One is due if the command begins a generation, which starts sessions again, and otherwise once in `SLACK_MS`,
        since a look takes longer the more members there are.
        """
        if before.generation_id == after.generation_id and now_ms < self._looked_ms.get(after.group_id, 0) + SLACK_MS:
            return False
        self._looked_ms[after.group_id] = now_ms
        return True

    def overdue(self, group: Group, now_ms: int) -> Iterator[str]:
        """Describe all timeouts of a group that should have ended by now.

        These are those of join and sync phases, pending member ids, sessions, and members that have partitions to give
        up.
        """
        deadline_ms, due_ms = self._phases.get(group.group_id, (None, 0))
        if deadline_ms is not None and deadline_ms == phase_deadline_ms(group) and now_ms > due_ms + SLACK_MS:
            yield f"a phase of {group.state} ended {now_ms - due_ms} ms ago"
        yield from self.sessions.overdue(group, now_ms, SLACK_MS)
        last_move_ms = self._last_move_ms.get(group.group_id, now_ms)
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
