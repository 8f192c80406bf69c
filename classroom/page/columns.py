"""Columns of numbers and a table of strings: a long history as JSON that is small and quick to read."""

from collections.abc import Iterable, Iterator
from itertools import pairwise

from regroup.classroom.timeline import Point

OPEN: int = -1
"""Stands for the length of a span that has not ended, and for the index of a string that is not there."""


class StringTable:
    """Gives each string a number; the strings stand in the document once."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}

    def __call__(self, text: str | None) -> int:
        """The number of a string; OPEN for None."""
        return OPEN if text is None else self._numbers.setdefault(text, len(self._numbers))

    def strings(self) -> list[str]:
        return list(self._numbers)


class PointTable:
    """Collects the times of positions that are not among the moments: events of topics, and the begin of a history."""

    def __init__(self, known: Iterable[int]) -> None:
        self._known = set(known)
        self._further: dict[int, int] = {}

    def __call__(self, point: Point) -> int:
        """The position of a point."""
        if point.position not in self._known:
            self._further[point.position] = point.at_ms
        return point.position

    def further(self) -> dict[str, list[int]]:
        return {"position": list(self._further), "at": list(self._further.values())}


class SpanColumns:
    """Begin and end of many spans: each begin as the distance from the end of the one before, each end as a length."""

    def __init__(self, points: PointTable) -> None:
        self._points = points
        self._last = 0
        self.began: list[int] = []
        self.length: list[int] = []

    def add(self, began: Point, ended: Point | None) -> None:
        begin = self._points(began)
        self.began.append(begin - self._last)
        self._last = begin if ended is None else self._points(ended)
        self.length.append(OPEN if ended is None else self._last - begin)


def differences(numbers: Iterable[int]) -> Iterator[int]:
    """The first number, and then how much each is larger than the one before."""
    return (after - before for before, after in pairwise((0, *numbers)))
