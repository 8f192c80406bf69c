"""The result of a course: the attempts in which two brokers differed, and how much the course tested."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from regroup.conformance.differential.played_course import MoveObservation
from regroup.conformance.differential.player import RequestCounts
from regroup.conformance.differential.random_course import RandomCourse

MAX_ATTEMPTS: Final = 4
"""So many attempts without a late player are enough: a difference in every one of them counts."""

MAX_LATE_ATTEMPTS: Final = 8
"""After so many attempts with a late player, the course has no result."""

CHOSEN_FIELDS: Final = ("leader", "members", "skip_assignment")
"""The fields of JoinGroup responses that depend on who leads."""


@dataclass(frozen=True)
class CourseDifference:
    """The first move after which the observations of two brokers differ.

    With `is_late` a player was late, so the difference may come from the machine and not from a broker.
    """

    course: RandomCourse
    move_number: int
    one: MoveObservation
    other: MoveObservation
    is_late: bool = False

    @property
    def is_leader_choice(self) -> bool:
        """Whether the brokers differ only in the leader, and in the members that its response lists."""
        return _without_leader(self.one) == _without_leader(self.other)

    def lines(self) -> Iterator[str]:
        """The difference as lines of text: the course up to the move, and what differs in the two observations."""
        yield f"seed {self.course.seed}, move {self.move_number}:"
        yield from (f"  {actor}" for actor in self.course.actors)
        yield from (f"  {number:3} {move}" for number, move in enumerate(self.course.moves[: self.move_number + 1]))
        for name, observation in (("one", self.one), ("other", self.other)):
            for group, fields in observation.groups.items():
                yield f"  {name}: {group}: {fields}"
            for number, response in sorted(observation.responses.items()):
                yield f"  {name}: response to move {number}: {response}"
            if self.one.offsets != self.other.offsets:
                yield f"  {name}: {observation.offsets}"


def _without_leader(observation: MoveObservation) -> tuple[object, ...]:
    responses = {
        number: {name: value for name, value in response.items() if name not in CHOSEN_FIELDS}
        for number, response in observation.responses.items()
    }
    return responses, observation.groups, observation.offsets


@dataclass
class CourseResult:
    """The result of playing one course: a difference for each attempt in which the brokers did not agree."""

    seed: int
    agreed: bool = False
    differences: list[CourseDifference] = field(default_factory=list)
    requests: RequestCounts = field(default_factory=Counter)
    """Numbers of requests to the first broker in the last attempt."""
    restarted: bool = False
    """Whether the brokers were restarted in the course."""

    @property
    def difference(self) -> CourseDifference | None:
        """The last difference that is more than another choice of leaders.

        None if there is none, if an attempt agreed, or if the course has no result.
        """
        real = [each for each in self._in_time if not each.is_leader_choice]
        return real[-1] if real and not self.agreed and not self.is_too_late else None

    @property
    def differs_only_in_leader(self) -> bool:
        """Whether the brokers chose other leaders in every attempt, and differed in nothing else."""
        return not self.agreed and not self.is_too_late and self.difference is None

    @property
    def is_too_late(self) -> bool:
        """Whether the course has no result: in too many attempts the machine was too slow to send a request at its
        time."""
        return self.is_over and not self.agreed and len(self._in_time) < MAX_ATTEMPTS

    @property
    def is_over(self) -> bool:
        """Whether the course need not be played again: the brokers agreed, or there were enough attempts."""
        late = len(self.differences) - len(self._in_time)
        return self.agreed or len(self._in_time) == MAX_ATTEMPTS or late == MAX_LATE_ATTEMPTS

    @property
    def _in_time(self) -> list[CourseDifference]:
        return [each for each in self.differences if not each.is_late]
