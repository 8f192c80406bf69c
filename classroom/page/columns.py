"""Columns of numbers and a table of strings: a long history as JSON that is small and quick to read."""

from collections.abc import Iterable, Iterator
from itertools import pairwise

from regroup.classroom.phrases.phrase import PhraseValue, pattern_of
from regroup.classroom.points import Point

OPEN: int = -1
"""Stands for the length of a span that has not ended, and for the index of a string that is not there."""
MAX_DIGITS: int = 15
"""Of a number that a browser has without loss."""


class StringTable:
    """Gives each string a number; the strings stand in the document once."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}

    def __call__(self, text: str | None) -> int:
        """The number of a string; OPEN for None."""
        return OPEN if text is None else self._numbers.setdefault(text, len(self._numbers))

    def strings(self) -> list[str]:
        return list(self._numbers)


class PatternTable:
    """Gives each sentence without its names and numbers a number: it stands in the document once, in all languages."""

    def __init__(self, strings: StringTable) -> None:
        self._strings = strings
        self._numbers: dict[tuple[str, ...], int] = {}
        self._counts: list[int] = []

    def __call__(self, value: PhraseValue) -> list[int]:
        """The number of the pattern, and its values: numbers of strings, and for a whole number n -1 - n."""
        texts, values = pattern_of(value)
        number = self._numbers.setdefault(texts, len(self._numbers))
        if number == len(self._counts):
            self._counts.append(len(values))
        return [number, *map(self._value, values)]

    def patterns(self) -> list[tuple[int, *tuple[str, ...]]]:
        """How many values each pattern has, and its text in each language."""
        return [(self._counts[number], *texts) for texts, number in self._numbers.items()]

    def _value(self, text: str) -> int:
        is_number = text.isascii() and text.isdigit() and len(text) <= MAX_DIGITS and str(int(text)) == text
        return -1 - int(text) if is_number else self._strings(text)


class PhraseTable:
    """Gives each phrase a number; the phrases stand in the document once."""

    def __init__(self, patterns: PatternTable) -> None:
        self._patterns = patterns
        self._numbers: dict[tuple[int, ...], int] = {}

    def __call__(self, value: PhraseValue | None) -> int:
        """The number of a phrase; OPEN for None."""
        return OPEN if value is None else self._numbers.setdefault(tuple(self._patterns(value)), len(self._numbers))

    def phrases(self) -> list[tuple[int, ...]]:
        """The number of the pattern of each, and its values."""
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
