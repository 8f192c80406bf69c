"""Differential runs: one random course is played to two brokers, and their observations are compared.

The order of lists is not compared. When a leader is gone, Kafka chooses the next one by the order of random member ids
in a hash map. A broker with `LeaderSteering` follows the choices of the first broker, and the comparison continues; for
other brokers the course is played again, with new member ids, until the choices agree.

A course is also played again when the brokers differ: only what differs in every attempt is a difference. What differs
in one attempt may be a race of a request against a timeout, and is only counted. An attempt in which a player was late
proves nothing, unless the brokers agree.
"""

import asyncio
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from regroup.conformance.differential.player import CoursePlayer, LeaderSteering, MoveObservation
from regroup.conformance.differential.random_course import SLOT_MS, RandomCourse, random_course
from regroup.conformance.harness.target import ConformanceTarget

MAX_ATTEMPTS = 4
"""Attempts in time, after which the differences count."""

MAX_LATE_ATTEMPTS = 8
"""Attempts with a late player, after which the course has no result."""

DEFAULT_COURSES_AT_ONCE = 30
"""Courses side by side; with more of them, a slow machine responds late."""


@dataclass(frozen=True)
class CourseDifference:
    """The first move after which the observations of two brokers differ; `is_late` if a player was late."""

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
        """The course up to the difference, and the two observations."""
        yield f"seed {self.course.seed}, move {self.move_number}:"
        yield from (f"  {actor}" for actor in self.course.actors)
        yield from (f"  {number:3} {move}" for number, move in enumerate(self.course.moves[: self.move_number + 1]))
        for name, observation in (("one", self.one), ("other", self.other)):
            yield f"  {name}: {observation.group}"
            for number, response in sorted(observation.responses.items()):
                yield f"  {name}: response to move {number}: {response}"


@dataclass
class CourseResult:
    """The result of playing one course: a difference for each attempt, but for one in which the brokers agreed."""

    seed: int
    agreed: bool = False
    differences: list[CourseDifference] = field(default_factory=list)

    @property
    def difference(self) -> CourseDifference | None:
        """The difference that showed in every attempt, unless it was only a choice of leaders."""
        real = [each for each in self._in_time if not each.is_leader_choice]
        return real[-1] if real and not self.agreed and not self.is_too_late else None

    @property
    def differs_only_in_leader(self) -> bool:
        """Whether the brokers chose other leaders in every attempt, and differed in nothing else."""
        return not self.agreed and not self.is_too_late and self.difference is None

    @property
    def is_too_late(self) -> bool:
        """Whether there is no result, because a player was late in too many attempts."""
        return self.is_over and not self.agreed and len(self._in_time) < MAX_ATTEMPTS

    @property
    def is_over(self) -> bool:
        """Whether there are enough attempts."""
        late = len(self.differences) - len(self._in_time)
        return self.agreed or len(self._in_time) == MAX_ATTEMPTS or late == MAX_LATE_ATTEMPTS

    @property
    def _in_time(self) -> list[CourseDifference]:
        return [each for each in self.differences if not each.is_late]


def _without_leader(observation: MoveObservation) -> tuple[object, ...]:
    chosen = ("leader", "members", "skip_assignment")
    responses = {
        number: {name: value for name, value in response.items() if name not in chosen}
        for number, response in observation.responses.items()
    }
    return responses, observation.group


async def run_course(
    one: ConformanceTarget,
    other: ConformanceTarget,
    course: RandomCourse,
    label: str,
    *,
    steering: LeaderSteering | None = None,
) -> CourseResult:
    """Play a course to both brokers until they agree or there are enough attempts; steer the other one."""
    result = CourseResult(course.seed)
    while not result.is_over:
        group_id = f"course-{course.seed}-{label}-{len(result.differences)}"
        difference = await _play_to_both(one, other, course, group_id, steering)
        if difference is None:
            result.agreed = True
        else:
            result.differences.append(difference)
    return result


async def _play_to_both(
    one: ConformanceTarget,
    other: ConformanceTarget,
    course: RandomCourse,
    group_id: str,
    steering: LeaderSteering | None,
) -> CourseDifference | None:
    first, second = CoursePlayer(one, f"{group_id}-one"), CoursePlayer(other, f"{group_id}-other")
    if steering is None:
        observed, others = await asyncio.gather(first.play(course), second.play(course))
    else:
        observed = await first.play(course)
        second = CoursePlayer(other, f"{group_id}-other", steering, next_leaders(observed))
        others = await second.play(course, observed)
    is_late = first.is_late or second.is_late
    for number, (mine, theirs) in enumerate(zip(observed, others, strict=False)):  # the second may have stopped
        if mine != theirs:
            return CourseDifference(course, number, mine, theirs, is_late)
    return None


def next_leaders(observations: Sequence[MoveObservation]) -> list[str]:
    """The leader of the next new generation, for each slot, by name; empty if no new generation follows."""
    leaders: list[str] = []
    newest = 0
    for observation in observations:
        new = [
            (generation_id, str(response["leader"]))
            for response in observation.responses.values()
            if response.get("error_code") == "NONE"
            and isinstance(generation_id := response.get("generation_id"), int)
            and generation_id > newest
        ]
        newest = max([newest, *(generation_id for generation_id, _ in new)])
        leaders.append(min(new)[1] if new else "")
    following = ""
    for number in reversed(range(len(leaders))):
        leaders[number] = following = leaders[number] or following
    return leaders


async def run_courses(
    one: ConformanceTarget,
    other: ConformanceTarget,
    seeds: Iterable[int],
    label: str,
    *,
    steering: LeaderSteering | None = None,
    at_once: int = DEFAULT_COURSES_AT_ONCE,
    slot_ms: int = SLOT_MS,
) -> list[CourseResult]:
    """Run the course of each seed, many side by side, with their slots shifted against each other."""
    places = asyncio.Semaphore(at_once)

    async def run(number: int, seed: int) -> CourseResult:
        async with places:
            await asyncio.sleep(number % at_once / at_once * slot_ms / 1000)
            return await run_course(one, other, random_course(seed, slot_ms), label, steering=steering)

    return await asyncio.gather(*(run(number, seed) for number, seed in enumerate(seeds)))
