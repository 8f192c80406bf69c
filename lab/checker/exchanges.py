"""One request to a coordinator and what became of it, as a witness saw it."""

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any

import msgspec

from regroup.coordinator.commands import Command
from regroup.coordinator.decision import Place
from regroup.coordinator.group import Group
from regroup.coordinator.serialization import Cause
from regroup.protocol.errors import ErrorCode
from regroup.protocol.message import Structure

if TYPE_CHECKING:
    from regroup.lab.checker.observed_coordinator import WitnessedCoordinator


class Outcome(Enum):
    """What became of a request."""

    OPEN = "is being dealt with, or waits for the disk"
    WAITING = "is parked: its answer depends on other members"
    ANSWERED = "was answered"
    UNHEARD = "came from inside, and nobody waits for an answer"
    SUPERSEDED = "was sent once more, and the later request took its place"
    REMOVED = "was a parked SyncGroup whose member was taken out: as in Kafka, nobody answers it"
    LOST = "was lost with its connection"
    DIED = "died with its coordinator"


@dataclass(slots=True, eq=False)
class Exchange:
    """A command, the group as it was before and after it, and the answer. Groups are values: nothing is copied.

    `refusal`: the coordinator did not serve at all when the request came. `place` is where it was parked, if it was.
    """

    number: int
    coordinator: "WitnessedCoordinator"
    reign: int
    command: Command
    before: Group
    refusal: ErrorCode | None
    because: Callable[[], bytes] | None
    after: Group = field(init=False)
    """As `before` until the command has been dealt with."""
    is_sealed: bool = False
    """`after` stands: whatever else happens is the doing of others."""
    position: int = 0
    """The last record that its group had when the answer was decided: so far the disk must be when it leaves."""
    decided: Group = field(init=False)
    """The group when the answer was decided: for a parked request that is later than `after`."""
    caught_up: tuple[Group, int] | None = None
    """The group and its last record when Kafka's log, where that was behind, had caught up. Whoever is accepted has
    waited for that; a refusal, or an id that is given out, waits for the disk alone."""
    outcome: Outcome = Outcome.OPEN
    place: Place | None = None
    answer: Structure | None = None
    """The first one."""
    code: int = 0
    """Of that answer: the first that it holds."""
    answers: int = 0
    answered_ms: int | None = None
    durable_position: int = 0
    """So far the disk was when the answer left."""

    def __post_init__(self) -> None:
        self.after = self.decided = self.before

    def rests_on(self, group: Group, position: int) -> None:
        """Its answer is decided in this state of the group, whose last record has this position."""
        self.decided = group
        self.position = max(self.position, position)

    @property
    def due_position(self) -> int:
        """Once the disk is there, the answer must have left."""
        return self.position if self.caught_up is None else max(self.position, self.caught_up[1])

    @property
    def arrived_ms(self) -> int:
        return self.command.at_ms

    @property
    def group_id(self) -> str:
        return self.command.group_id

    @property
    def is_open(self) -> bool:
        """An answer is still to come."""
        return self.outcome in (Outcome.OPEN, Outcome.WAITING)

    @property
    def cause(self) -> Cause | None:
        """The request as it came in, the deadline that passed, or what else led to it."""
        return None if self.because is None else msgspec.json.decode(self.because(), type=Cause)

    def take(self, answer: Structure, at_ms: int, durable_position: int) -> None:
        """The first answer leaves."""
        self.answer, self.code = answer, code_of(answer)
        if self.caught_up is not None and self.code == ErrorCode.NONE:
            self.rests_on(*self.caught_up)
        self.answered_ms, self.durable_position = at_ms, durable_position

    def __str__(self) -> str:
        told = "no answer" if self.answer is None else f"{type(self.answer).__name__} {self.answer}"
        return (
            f"{type(self.command).__name__} number {self.number} to {self.group_id!r} in {self.before.state}, "
            f"generation {self.before.generation}, reign {self.reign}: {self.command} got {told}"
        )


def code_of(answer: Any) -> int:
    """The first code of an answer: for commits that of the first partition."""
    code: int | None = getattr(answer, "error_code", None)
    if code is not None:
        return code
    return next((row.error_code for topic in answer.topics for row in topic.partitions), 0)
