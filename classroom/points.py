"""Places in the history of a group: positions of events in the store, and their times."""

from typing import NamedTuple


class Point(NamedTuple):
    """A place in the history: the position of an event in the store, and its time in epoch milliseconds."""

    position: int
    at_ms: int


class PositionRange(NamedTuple):
    """The positions of the first and the last event of a part of the history."""

    first: int
    last: int
