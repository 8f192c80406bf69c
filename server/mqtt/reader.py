"""A reader of the feed that returns every event once and in order: it drops duplicates and finds gaps.

reader = FeedReader()
for event in reader.accept(message): ...       # in order, each once
for group, number in reader.gaps(): ...        # publish {"from": number} on .../groups/{group}/replay
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

from regroup.server.mqtt.messages import FeedEvent, FeedMessage

MAX_HELD_EVENTS = 10_000
"""How many events of one group are held behind a gap; further ones are dropped, and must be requested again."""


@dataclass(slots=True)
class _Group:
    last: int
    """The last event number up to which all events were accepted."""
    known: int = 0
    """The highest event number that the group is known to have."""
    held: dict[int, FeedEvent] = field(default_factory=dict)


class FeedReader:
    """Reads the feed of any number of groups: with `from_start` from event number 1, otherwise from the first event
    that it gets of a group."""

    def __init__(self, *, from_start: bool = True) -> None:
        self._from_start = from_start
        self._groups: dict[str | None, _Group] = {}

    def accept(self, message: FeedMessage) -> list[FeedEvent]:
        """Add the events of a message, and return all events that are now next in the order of their event numbers.
        Events after a gap are kept until the missing events have arrived."""
        group = self._group(message.group, message.events[0].event_number if message.events else 1)
        if message.is_replay:
            group.last = max(group.last, message.first_event_number - 1)  # earlier events were trimmed
        for event in message.events:
            group.known = max(group.known, event.event_number)
            if event.event_number > group.last and len(group.held) < MAX_HELD_EVENTS:
                group.held[event.event_number] = event
        accepted: list[FeedEvent] = []
        while (next_event := group.held.pop(group.last + 1, None)) is not None:
            accepted.append(next_event)
            group.last += 1
        group.held = {number: event for number, event in group.held.items() if number > group.last}
        return accepted

    def note_event_number(self, group: str, number: int) -> None:
        """Note that the group has an event with this number, as its summary says, so that `gaps` returns the group if
        that event is missing."""
        known = self._group(group, number + 1)
        known.known = max(known.known, number)

    def gaps(self) -> Iterator[tuple[str | None, int]]:
        """The groups with missing events, each with the number of its first missing event."""
        for name, group in self._groups.items():
            if group.known > group.last:
                yield name, group.last + 1

    def _group(self, name: str | None, first: int) -> _Group:
        if name not in self._groups:
            self._groups[name] = _Group(0 if self._from_start else first - 1)
        return self._groups[name]
