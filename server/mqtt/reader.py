"""What a reader of the feed has to do to end with every event, once: drop what comes twice, notice what is missing.

reader = FeedReader()
for event in reader.take(message): ...         # in order, each once
for group, number in reader.missing(): ...     # publish {"from": number} on .../groups/{group}/again
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

from regroup.server.mqtt.messages import FeedEvent, FeedMessage

MOST_HELD = 10_000
"""Events behind a gap that are kept for one group; what comes beyond them is asked for again later."""


@dataclass(slots=True)
class _Group:
    last: int
    """Everything up to this number was taken."""
    known: int = 0
    """There is an event with this number, as somebody said."""
    held: dict[int, FeedEvent] = field(default_factory=dict)


class FeedReader:
    """`from_start`: a group's first event has number 1; otherwise the first that is seen begins."""

    def __init__(self, *, from_start: bool = True) -> None:
        self._from_start = from_start
        self._groups: dict[str | None, _Group] = {}

    def take(self, message: FeedMessage) -> list[FeedEvent]:
        """The events of the group that are new now, in order."""
        group = self._group(message.group, message.events[0].number if message.events else 1)
        if message.again and message.first > group.last + 1:
            group.last = message.first - 1  # what came before has been trimmed, and nobody can tell it any more
        for event in message.events:
            group.known = max(group.known, event.number)
            if event.number > group.last and len(group.held) < MOST_HELD:
                group.held[event.number] = event
        taken: list[FeedEvent] = []
        while (event_or_none := group.held.pop(group.last + 1, None)) is not None:
            taken.append(event_or_none)
            group.last += 1
        group.held = {number: event for number, event in group.held.items() if number > group.last}
        return taken

    def heard_of(self, group: str, number: int) -> None:
        """The group's summary says that there is an event with this number."""
        known = self._group(group, number + 1)
        known.known = max(known.known, number)

    def missing(self) -> Iterator[tuple[str | None, int]]:
        """Groups with a gap, and the number from which to ask again."""
        for name, group in self._groups.items():
            if group.known > group.last:
                yield name, group.last + 1

    def last(self, group: str | None) -> int:
        """The number up to which everything was taken; 0 for a group that was never seen."""
        return self._groups[group].last if group in self._groups else 0

    def _group(self, name: str | None, first: int) -> _Group:
        if name not in self._groups:
            self._groups[name] = _Group(0 if self._from_start else first - 1)
        return self._groups[name]
