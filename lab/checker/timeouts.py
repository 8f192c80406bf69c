"""Who was heard when, and which phase ends when: whether a coordinator waits neither too short a time nor too long.

Two clocks are kept apart. How long a member was silent goes by the coordinator's own clock, which may jump; how late a
deadline is noticed goes by the run's, which never does.
"""

from collections.abc import Iterator
from typing import Any

from regroup.coordinator import commands as c
from regroup.coordinator.group import Group, Member, MemberId, State
from regroup.lab.checker.exchanges import Exchange
from regroup.protocol.errors import ErrorCode

SLACK_MS = 1_000
"""A deadline that passed so long ago and has had no effect was overlooked."""


class Patience:
    """`heard` is kept as Kafka's session timers are: accepted heartbeats and commits start them again."""

    def __init__(self) -> None:
        self.heard: dict[MemberId, int] = {}
        """By the coordinator's clock."""
        self._signs: dict[MemberId, int] = {}
        self._moved: dict[str, int] = {}
        self._phases: dict[str, tuple[int, int]] = {}

    def answered(self, exchange: Exchange, now_ms: int) -> None:
        """An answer leaves that tells of a member's place."""
        command: Any = exchange.command
        kind = type(command)
        if kind is c.Heartbeat:
            if exchange.code in (ErrorCode.NONE, ErrorCode.REBALANCE_IN_PROGRESS):
                self.heard[command.member_id] = exchange.arrived_ms
        elif kind is c.CommitOffsets:
            if exchange.code == 0 and command.member_id in exchange.before.members:
                self.heard[command.member_id] = exchange.arrived_ms
        elif kind is c.JoinGroup:
            answer: Any = exchange.answer
            self._signs[answer.member_id] = now_ms

    def dealt_with(self, exchange: Exchange, now_ms: int) -> None:
        """Whatever a member asks for is a sign of life to those who ask whether it was waited for too long."""
        member_id = getattr(exchange.command, "member_id", "")
        if member_id:
            self._signs[member_id] = now_ms

    def changed(self, exchange: Exchange, now_ms: int) -> None:
        """A group has changed: phases begin, and a load forgets who was heard."""
        before, after = exchange.before, exchange.after
        if before.members is not after.members:
            for name in after.members:
                if name not in before.members:
                    self._signs[name] = now_ms
        if before.state is not after.state or before.generation != after.generation:
            self._moved[after.name] = now_ms
        if isinstance(exchange.command, c.TakeOver):
            self._moved[after.name] = now_ms
            for name in after.members:
                self.heard.pop(name, None)
        deadline_ms = phase_deadline_ms(after)
        if deadline_ms is not None and deadline_ms != phase_deadline_ms(before):
            self._phases[after.name] = deadline_ms, now_ms + deadline_ms - exchange.arrived_ms

    def overdrawn(self, group: Group, now_ms: int) -> Iterator[str]:
        """What should have ended a while ago."""
        deadline_ms, due_ms = self._phases.get(group.name, (None, 0))
        if deadline_ms is not None and deadline_ms == phase_deadline_ms(group) and now_ms > due_ms + SLACK_MS:
            yield f"a phase of {group.state} was over {now_ms - due_ms} ms ago"
        for name, reserved in group.reserved_ids.items():
            since_ms = self._signs.get(name, now_ms)
            if now_ms - since_ms > reserved.session_timeout_ms + SLACK_MS:
                yield f"{name} was given out {now_ms - since_ms} ms ago and never used"
        moved_ms = self._moved.get(group.name, now_ms)
        for name, member in group.members.items():
            silent_ms = now_ms - max(self._signs.get(name, moved_ms), moved_ms)
            if silent_ms > longest_silence_ms(member) + SLACK_MS and not (member.waiting or member.is_newcomer):
                yield f"nothing was heard of {name} for {silent_ms} ms"


def phase_deadline_ms(group: Group) -> int | None:
    """When the present phase ends at the latest, by the coordinator's clock; None if none runs."""
    if group.join_phase is not None:
        return group.join_phase.deadline_ms
    is_awaited = bool(group.owes_sync) and group.state in (State.COMPLETING, State.STABLE)
    return group.sync_deadline_ms if is_awaited else None


def longest_silence_ms(member: Member) -> int:
    """Of a static member that came back, also by the timeout of its former process."""
    return max(member.session_timeout_ms, member.replaced_session_timeout_ms or 0)
