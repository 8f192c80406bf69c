"""What a command leads to, and the notepad on which it is worked out."""

from typing import TypeAlias

import msgspec

from regroup.coordinator.classic.transitions import check_move
from regroup.coordinator.commands import Command
from regroup.coordinator.events import CoordinatorLoaded, Event
from regroup.coordinator.evolve import evolve
from regroup.coordinator.group import Group, MemberId, Waiting
from regroup.coordinator.settings import Settings
from regroup.protocol.errors import ErrorCode
from regroup.protocol.message import Structure

Place: TypeAlias = tuple[Waiting, MemberId]
"""Where an answer waits: the JoinGroup or the SyncGroup of one member."""


class Reply(msgspec.Struct, frozen=True):
    """An answer to a request that was held back."""

    place: Place
    message: Structure | None
    """None: as in Kafka, nobody will ever answer; the client gives up by itself."""


class Settled(msgspec.Struct, frozen=True):
    """Kafka's log has said what becomes of a record: whoever waits behind it is answered now."""

    append: int
    code: ErrorCode = ErrorCode.NONE
    """What they get in place of their answers, if the record was refused or took too long."""
    to_the_joiner: Structure | None = None
    """What a JoinGroup among them gets instead of a plain refusal."""


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
    behind: int | None = None
    """The answer waits until Kafka's log has settled what event number `behind` wrote."""
    settled: tuple[Settled, ...] = ()
    """Records that Kafka's log has settled."""


class Unfolding:
    """One command at work: events happen to the group one after another, and answers are noted."""

    def __init__(self, group: Group, at_ms: int) -> None:
        self.group = group
        self.at_ms = at_ms
        self._events: list[Event] = []
        self._replies: list[Reply] = []
        self._heard: dict[MemberId, None] = {}
        self._parked: Place | None = None
        self._settled: list[Settled] = []

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

    def commit_deadline_ms(self, settings: Settings, command: Command) -> int | None:
        """Until when Kafka's log may take to commit what is written now; None if it commits at once.

        The log keeps its order, so it holds back whatever follows something that it holds back.
        """
        if command.log_holds_back or self.group.appends:
            return self.at_ms + settings.offsets_commit_timeout_ms
        return None

    def parks(self, answer: Waiting, member: MemberId) -> None:
        """The present request waits."""
        self._parked = (answer, member)

    def replies(self, answer: Waiting, member: MemberId, message: Structure | None) -> None:
        """A request that waited is answered."""
        self._replies.append(Reply((answer, member), message))

    def hears(self, member: MemberId) -> None:
        """The member gave a sign of life: its session timer starts again."""
        self._heard[member] = None

    def settles(self, append: int, code: ErrorCode = ErrorCode.NONE, to_the_joiner: Structure | None = None) -> None:
        """Whoever waits for this record of Kafka's log is answered."""
        self._settled.append(Settled(append, code, to_the_joiner))

    def ends(self, answer: Structure | None = None, *, behind: int | None = None) -> Decision:
        return Decision(
            group=self.group,
            events=tuple(self._events),
            answer=answer,
            parked=self._parked,
            replies=tuple(self._replies),
            heard=tuple(member for member in self._heard if member in self.group.members),
            behind=behind,
            settled=tuple(self._settled),
        )

    def ends_behind_the_log(self, answer: Structure) -> Decision:
        """The answer rests on whatever Kafka's log has written but not committed."""
        return self.ends(answer, behind=self.group.last_append)
