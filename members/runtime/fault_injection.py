"""A member's habits while it runs: which are still to come, which have begun, and what they do to a SyncGroup."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial

from regroup.assignors.interface import Assignor
from regroup.members.consumer.effects import Outgoing
from regroup.members.faults import FailingAssignor, Habit, Kind, Moment, doubling, forgetting
from regroup.members.runtime.timers import Alarms
from regroup.protocol.messages.group import SyncGroupRequest


class Misbehaving:
    """What lasts is kept here; what happens once is handed to `happens` when its time has come."""

    def __init__(self, habits: Iterable[Habit], alarms: Alarms, happens: Callable[[Habit], None]) -> None:
        self._waiting = list(habits)
        self._active: dict[Kind, Habit] = {}
        self._alarms = alarms
        self._happens = happens

    def assignors(self, offered: Sequence[Assignor]) -> Sequence[Assignor]:
        """The assignors of a member, made to fail if that is among its habits."""
        if not any(habit.kind is Kind.ASSIGNOR_FAILS for habit in (*self._waiting, *self._active.values())):
            return offered
        return [FailingAssignor(each, lambda: Kind.ASSIGNOR_FAILS in self._active) for each in offered]

    def moment(self, moment: Moment) -> None:
        """Something happened that a habit may be waiting for."""
        due = [habit for habit in self._waiting if habit.begins.moment is moment]
        self._waiting = [habit for habit in self._waiting if habit.begins.moment is not moment]
        for habit in due:
            if habit.begins.after_ms:
                self._alarms.after(habit.begins.after_ms, partial(self.begin, habit))
            else:
                self.begin(habit)

    def begin(self, habit: Habit) -> None:
        """Its time has come."""
        if habit.kind.lasts:
            self._active[habit.kind] = habit
        else:
            self._happens(habit)

    def delay_ms(self, kind: Kind) -> int | None:
        """By how much a habit that lasts slows the member down; None if it has not got it."""
        habit = self._active.get(kind)
        return None if habit is None else habit.milliseconds or 0

    def send(self, outgoing: Outgoing, transmit: Callable[[Outgoing], None]) -> None:
        """Send a request as the habits will have it: spoiled, late, or never."""
        if isinstance(outgoing.message, SyncGroupRequest):
            if Kind.NEVER_SYNC in self._active:
                return
            if Kind.ASSIGNOR_FORGETS in self._active:
                outgoing = replace(outgoing, message=forgetting(outgoing.message))
            if Kind.ASSIGNOR_DOUBLES in self._active:
                outgoing = replace(outgoing, message=doubling(outgoing.message))
            if (delay_ms := self.delay_ms(Kind.SLOW_SYNC)) is not None:
                self._alarms.after(delay_ms, partial(transmit, outgoing))
                return
        transmit(outgoing)
