"""Ways through the moments of a timeline: one by one, with or without commits of offsets, to the next rebalance, and to
the next deadline that ran out. All are indexes of moments, from 0."""

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from itertools import pairwise
from typing import Final

from regroup.classroom.timeline import GroupTimeline
from regroup.coordinator import events as e

COMMITS: Final = (*e.OFFSET_EVENTS, e.OffsetsWritten)
"""Events that are about offsets alone."""


class Walk:
    """Where a step leads from any moment of one timeline. A walk without commits passes over events about offsets."""

    def __init__(self, timeline: GroupTimeline, *, with_commits: bool = True) -> None:
        moments = timeline.moments
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
        """The moment so many steps on, or back; the first or the last one if there are fewer."""
        if not self._shown:
            return index
        at = bisect_right(self._shown, index) - 1 if steps > 0 else bisect_left(self._shown, index)
        return self._shown[min(max(at + steps, 0), len(self._shown) - 1)]

    def nearest(self, index: int) -> int:
        """The moment itself if it is walked to, or else the last one before it."""
        return self._shown[max(0, bisect_right(self._shown, index) - 1)] if self._shown else index

    def around(self, index: int, number: int) -> Sequence[int]:
        """So many moments, the given one in the middle of them as far as there are others on both sides."""
        at = max(0, bisect_right(self._shown, index) - 1)
        first = min(max(0, at - number // 2), max(0, len(self._shown) - number))
        return self._shown[first : first + number]

    def first(self) -> int:
        return self._shown[0] if self._shown else 0

    def last(self) -> int:
        return self._shown[-1] if self._shown else 0

    def next_rebalance(self, index: int) -> int | None:
        """The event with which the next rebalance began; None if there is no further one."""
        return _after(self._rebalances, index)

    def previous_rebalance(self, index: int) -> int | None:
        return _before(self._rebalances, index)

    def next_deadline(self, index: int) -> int | None:
        """The first event of the next deadline that ran out; None if no further one did."""
        return _after(self._deadlines, index)

    def previous_deadline(self, index: int) -> int | None:
        return _before(self._deadlines, index)


def _after(indexes: Sequence[int], index: int) -> int | None:
    at = bisect_right(indexes, index)
    return indexes[at] if at < len(indexes) else None


def _before(indexes: Sequence[int], index: int) -> int | None:
    at = bisect_left(indexes, index) - 1
    return indexes[at] if at >= 0 else None
