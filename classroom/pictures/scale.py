"""A time axis on which every event can be seen: short steps are stretched, and long ones are shortened."""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import accumulate, pairwise
from math import sqrt
from typing import Final

LEAST_STEP: Final = 9.0
"""Between two times with an event, in pixels."""


class TimeScale:
    """Places times between `left` and `right`: each step has its least width, and a share by the root of its length."""

    def __init__(self, times_ms: Sequence[int], left: float, right: float) -> None:
        self._times_ms = list(times_ms)
        steps = [sqrt(after - before) for before, after in pairwise(times_ms)]
        free = max(0.0, right - left - LEAST_STEP * len(steps))
        total = sum(steps) or 1.0
        self._places = list(accumulate((LEAST_STEP + free * step / total for step in steps), initial=left))
        self._right = right

    def __call__(self, at_ms: int) -> float:
        """The x-coordinate of a time, in pixels; the left or right margin for a time outside the axis."""
        times, places = self._times_ms, self._places
        index = bisect_right(times, at_ms) - 1
        if index < 0:
            return places[0]
        if index >= len(times) - 1:
            return places[-1] if len(times) > 1 else self._right
        share = (at_ms - times[index]) / (times[index + 1] - times[index])
        return places[index] + share * (places[index + 1] - places[index])

    def ticks(self, least_distance: float) -> Iterator[tuple[int, float]]:
        """Yield times for the labels of the axis, each with its place, at least `least_distance` pixels apart.

        The last time is always among them.
        """
        last_place = self._places[-1]
        before = float("-inf")
        for at_ms, place in zip(self._times_ms, self._places, strict=True):
            if place - before >= least_distance and last_place - place >= least_distance:
                yield at_ms, place
                before = place
        yield self._times_ms[-1], last_place
