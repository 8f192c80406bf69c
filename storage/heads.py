"""Who may write next: the rules of appending, the same for every driver."""

from collections.abc import Iterable, Mapping

from regroup.storage.errors import NumberIsTaken, ReignIsOver
from regroup.storage.records import Head, NewRecord

NOTHING_YET = Head(number=0, reign=0, position=0)


class Books:
    """The end of every group's history, kept in memory so that an append need not ask the disk."""

    def __init__(self, heads: Mapping[str | None, Head], last_position: int) -> None:
        self.heads = dict(heads)
        self.last_position = last_position

    def check(self, records: Iterable[NewRecord]) -> dict[str | None, Head]:
        """The heads that these records would move, once stored. Raises NumberIsTaken, ReignIsOver."""
        moved: dict[str | None, Head] = {}
        for position, record in enumerate(records, self.last_position + 1):
            group = record.group
            head = moved.get(group) or self.heads.get(group, NOTHING_YET)
            if record.reign < head.reign:
                raise ReignIsOver(group, record.reign, head.reign)
            if record.number != head.number + 1:
                raise NumberIsTaken(group, record.number, head.number + 1)
            moved[group] = Head(record.number, record.reign, position)
        return moved

    def stored(self, moved: Mapping[str | None, Head], count: int) -> int:
        """Note that a checked batch is stored; returns the last position."""
        self.heads.update(moved)
        self.last_position += count
        return self.last_position
