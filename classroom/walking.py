"""Ways through the moments of a timeline: one by one, with or without commits of offsets, to the next rebalance, to the
next deadline that ran out, and to the next recorded request or response between them. Indexes of moments begin at 0."""

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from functools import cached_property
from itertools import pairwise
from typing import Final, NamedTuple

from regroup.classroom.recorded_values import TimelineExchange
from regroup.classroom.timeline import GroupTimeline
from regroup.coordinator import events as e

COMMITS: Final = (*e.OFFSET_EVENTS, e.OffsetsWritten)
"""Events that are about offsets alone."""


class MessageStop(NamedTuple):
    """A place between two events: a recorded request came, was lost on its way, or was answered."""

    moment_index: int
    """Of the last moment before it."""
    at_ms: int
    """Epoch milliseconds."""
    is_response: bool
    exchange: TimelineExchange


def message_stops(timeline: GroupTimeline) -> list[MessageStop]:
    """The recorded messages of a group in the order of time; those before its first event are left out.

    A request stands before the events to which it led, and the response behind them. Of a run of heartbeats the known
    times are given, without the responses.
    """
    moments = timeline.moments
    numbers = {moment.position: index for index, moment in enumerate(moments)}
    stops = []
    for each in timeline.exchanges:
        led_to = [numbers[position] for position in each.events if position in numbers]
        before = min(led_to, default=len(moments)) - 1
        for at_ms in each.seen_ms or (each.at_ms,):
            stops.append(MessageStop(min(_last_up_to(timeline, at_ms), before), at_ms, False, each))
        if each.answered_at_ms is not None and each.count == 1:
            index = max([_last_up_to(timeline, each.answered_at_ms), *led_to])
            stops.append(MessageStop(index, each.answered_at_ms, True, each))
    return sorted((each for each in stops if each.moment_index >= 0), key=lambda each: each[:3])


def _last_up_to(timeline: GroupTimeline, at_ms: int) -> int:
    return bisect_right(timeline.moments, at_ms, key=lambda moment: moment.at_ms) - 1


class Walk:
    """Computes where a step from a moment of a timeline leads. Without commits, events about offsets are skipped."""

    def __init__(self, timeline: GroupTimeline, *, with_commits: bool = True) -> None:
        moments = timeline.moments
        self._timeline = timeline
        self._shown: Sequence[int] = range(len(moments))
        if not with_commits:
            self._shown = [index for index, each in enumerate(moments) if not isinstance(each.event, COMMITS)]
        self._rebalances = [
            bisect_left(moments, each.began.position, key=lambda moment: moment.position)
            for each in timeline.rebalances
        ]
        self._deadlines = [
            index
            for index, (before, moment) in enumerate(pairwise((None, *moments)))
            if moment is not None
            and moment.cause is not None
            and moment.cause.deadline
            and (before is None or (before.cause, before.at_ms) != (moment.cause, moment.at_ms))
        ]

    def step(self, index: int, steps: int = 1) -> int:
        """The index of the moment `steps` further on, or back if negative; at most the last, and at least the first."""
        if not self._shown:
            return index
        at = bisect_right(self._shown, index) - 1 if steps > 0 else bisect_left(self._shown, index)
        return self._shown[min(max(at + steps, 0), len(self._shown) - 1)]

    def nearest(self, index: int) -> int:
        """The index itself, or that of the last moment before it if this walk skips the moment at `index`."""
        return self._shown[max(0, bisect_right(self._shown, index) - 1)] if self._shown else index

    def around(self, index: int, number: int) -> Sequence[int]:
        """The indexes of `number` moments, with the given one in the middle unless it is too near an end."""
        at = max(0, bisect_right(self._shown, index) - 1)
        first = min(max(0, at - number // 2), max(0, len(self._shown) - number))
        return self._shown[first : first + number]

    def first(self) -> int:
        return self._shown[0] if self._shown else 0

    def last(self) -> int:
        return self._shown[-1] if self._shown else 0

    def next_rebalance(self, index: int) -> int | None:
        """The index of the event that starts the next rebalance after `index`; None if there is none."""
        return _after(self._rebalances, index)

    def previous_rebalance(self, index: int) -> int | None:
        return _before(self._rebalances, index)

    def next_deadline(self, index: int) -> int | None:
        """The index of the first event that a deadline caused by running out, after `index`; None if there is none."""
        return _after(self._deadlines, index)

    def previous_deadline(self, index: int) -> int | None:
        return _before(self._deadlines, index)

    def next_message(self, index: int, number: int | None = None) -> int | None:
        """The number of the first recorded message after message `number`, or else after the moment at `index`.

        None if there is none.
        """
        found = bisect_left(self._messages, index, key=_index) if number is None else number + 1
        return found if found < len(self._messages) else None

    def previous_message(self, index: int, number: int | None = None) -> int | None:
        found = bisect_left(self._messages, index, key=_index) if number is None else number
        return found - 1 if found else None

    def message(self, number: int) -> MessageStop:
        """The recorded message with this number, from 0."""
        return self._messages[number]

    @cached_property
    def _messages(self) -> list[MessageStop]:
        return message_stops(self._timeline)


def _index(stop: MessageStop) -> int:
    return stop.moment_index


def _after(indexes: Sequence[int], index: int) -> int | None:
    at = bisect_right(indexes, index)
    return indexes[at] if at < len(indexes) else None


def _before(indexes: Sequence[int], index: int) -> int | None:
    at = bisect_left(indexes, index) - 1
    return indexes[at] if at >= 0 else None
