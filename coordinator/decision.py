"""What a command leads to, and the notepad on which it is worked out."""

from typing import TypeAlias

import msgspec

from regroup.coordinator.events import CoordinatorLoaded, Event
from regroup.coordinator.evolve import evolve
from regroup.coordinator.group import Group, MemberId, Waiting
from regroup.coordinator.moves import check_move
from regroup.protocol.message import Structure

Place: TypeAlias = tuple[Waiting, MemberId]
"""Where an answer waits: the JoinGroup or the SyncGroup of one member."""


class Reply(msgspec.Struct, frozen=True):
    """An answer to a request that was held back."""

    place: Place
    message: Structure


class Decision(msgspec.Struct, frozen=True):
    """Everything that follows from one command. Answers leave only after the events are durable."""

    group: Group
    """After the events: `fold(before, events)`."""
    events: tuple[Event, ...] = ()
    answer: Structure | None = None
    """To the command itself; None if nobody asked, or if the answer is held back."""
    parked: Place | None = None
    """The command's own answer is held back here; an older request that waits in this place is dropped."""
    replies: tuple[Reply, ...] = ()
    """Answers to earlier requests that end their wait now, perhaps the one that was just parked among them."""
    heard: tuple[MemberId, ...] = ()
    """Members whose session timer starts again."""


class Unfolding:
    """One command at work: events happen to the group one after another, and answers are noted."""

    def __init__(self, group: Group, at_ms: int) -> None:
        self.group = group
        self.at_ms = at_ms
        self._events: list[Event] = []
        self._replies: list[Reply] = []
        self._heard: dict[MemberId, None] = {}
        self._parked: Place | None = None

    def happens(self, event: Event) -> None:
        """The group changes at once, so that what is decided next sees it."""
        before = self.group.state
        self.group = evolve(self.group, event)
        check_move(before, self.group.state)
        self._events.append(event)

    def takes_over(self, event: CoordinatorLoaded) -> None:
        """A new reign may begin anywhere: what the group was in memory is no more."""
        self.group = evolve(self.group, event)
        self._events.append(event)

    def parks(self, answer: Waiting, member: MemberId) -> None:
        """The present request waits."""
        self._parked = (answer, member)

    def replies(self, answer: Waiting, member: MemberId, message: Structure) -> None:
        """A request that waited is answered."""
        self._replies.append(Reply((answer, member), message))

    def hears(self, member: MemberId) -> None:
        """The member gave a sign of life: its session timer starts again."""
        self._heard[member] = None

    def ends(self, answer: Structure | None = None) -> Decision:
        heard = tuple(member for member in self._heard if member in self.group.members)
        return Decision(self.group, tuple(self._events), answer, self._parked, tuple(self._replies), heard)
