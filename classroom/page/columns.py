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
    """Numbers the different strings of a document, so that each is written once, and elsewhere its number."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}

    def __call__(self, text: str | None) -> int:
        """The number of a string, the next free one for a new string; OPEN for None."""
        return OPEN if text is None else self._numbers.setdefault(text, len(self._numbers))

    def strings(self) -> list[str]:
        return list(self._numbers)


class PatternTable:
    """Numbers the different sentence patterns of a document: sentences, in all languages, without names and numbers."""

    def __init__(self, strings: StringTable) -> None:
        self._strings = strings
        self._numbers: dict[tuple[str, ...], int] = {}
        self._counts: list[int] = []

    def __call__(self, value: PhraseValue) -> list[int]:
        """The number of the sentence's pattern, followed by the sentence's values.

        A value is the number of its string in the StringTable, or -1 - n for the whole number n.
        """
        texts, values = pattern_of(value)
        number = self._numbers.setdefault(texts, len(self._numbers))
        if number == len(self._counts):
            self._counts.append(len(values))
        return [number, *map(self._value, values)]

    def patterns(self) -> list[tuple[int, *tuple[str, ...]]]:
        """For each pattern in the order of the numbers: how many values it takes, and its text in each language."""
        return [(self._counts[number], *texts) for texts, number in self._numbers.items()]

    def _value(self, text: str) -> int:
        is_number = text.isascii() and text.isdigit() and len(text) <= MAX_DIGITS and str(int(text)) == text
        return -1 - int(text) if is_number else self._strings(text)


class PhraseTable:
    """Numbers the different phrases of a document (a pattern with its values), so that each phrase is written once."""

    def __init__(self, patterns: PatternTable) -> None:
        self._patterns = patterns
        self._numbers: dict[tuple[int, ...], int] = {}

    def __call__(self, value: PhraseValue | None) -> int:
        """The number of a phrase, the next free one for a new phrase; OPEN for None."""
        return OPEN if value is None else self._numbers.setdefault(tuple(self._patterns(value)), len(self._numbers))

    def phrases(self) -> list[tuple[int, ...]]:
        """For each phrase in the order of the numbers: the number of its pattern, followed by its values."""
        return list(self._numbers)


class PointTable:
    """Collects positions, with their times, that are not those of moments: events of topics, the begin of a history."""

    def __init__(self, known: Iterable[int]) -> None:
        self._known = set(known)
        self._further: dict[int, int] = {}

    def __call__(self, point: Point) -> int:
        """The position of a point. If no moment has this position, the point's time is kept for `further`."""
        if point.position not in self._known:
            self._further[point.position] = point.at_ms
        return point.position

    def further(self) -> dict[str, list[int]]:
        return {"position": list(self._further), "at": list(self._further.values())}


class SpanColumns:
    """The begins and ends of many spans, as two columns of positions.

    `began` has the distance of each begin from the end of the span before, `length` the distance from begin to end;
    OPEN for a span that has not ended.
    """

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
    """Yield the first number, and then the difference between each number and the one before."""
    return (after - before for before, after in pairwise((0, *numbers)))
