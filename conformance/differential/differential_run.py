"""Differential runs: one random course is played to two brokers, and their observations are compared.

The order of lists is not compared. When a leader is gone, Kafka chooses the next one by the order of random member ids
in a hash map. A broker with `BrokerSteering` follows the choices of the first broker, and the comparison continues; for
other brokers the course is played again, with new member ids, until the choices agree.

A course is also played again when the brokers differ: only what differs in every attempt is a difference. What differs
in one attempt may be a race, and is only counted. An attempt in which a player was late proves nothing, unless the
brokers agree.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import count

from regroup.conformance.differential.consumer_groups.consumer_requests import CONSUMER_API_VERSION, CONSUMER_APIS
from regroup.conformance.differential.course_result import CourseDifference, CourseResult
from regroup.conformance.differential.played_course import MoveObservation, PlayedCourse
from regroup.conformance.differential.player import BrokerSteering, CoursePlayer
from regroup.conformance.differential.random_course import RandomCourse, random_course
from regroup.conformance.differential.requests import APIS_OF_MOVES
from regroup.conformance.differential.timing import (
    DEFAULT_SLOT_MS,
    CourseTiming,
    UnsuitableSettings,
    check_same_settings,
    timing_for,
)
from regroup.conformance.harness.broker_under_test import ConformanceTarget
from regroup.conformance.harness.expect import ExpectationFailed, NotObservable
from regroup.conformance.harness.offsets import warm_up_transactions
from regroup.conformance.harness.shared_restart import SharedRestart

DEFAULT_COURSES_AT_ONCE = 24
"""How many courses are played side by side. With more, a slow machine responds late."""

CLASSIC_COURSES = 4
"""Of so many courses one is of the classic protocol, if the brokers have the consumer protocol."""

WARM_UPS_AFTER_RESTART = 3
"""How often the brokers are warmed up after a restart: a Java process that has just started responds late."""

Restart = Callable[[], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class ComparedBrokers:
    """Two brokers with equal settings, to which courses are played.

    Kafka chooses leaders at random: `steering` lets the second broker choose the leaders of the first. `label` keeps
    the groups and transactional ids of one run apart from those of other runs.
    """

    one: ConformanceTarget
    other: ConformanceTarget
    label: str
    versions: Mapping[str, range]
    timing: CourseTiming
    steering: BrokerSteering | None = None

    @classmethod
    async def prepare(
        cls,
        one: ConformanceTarget,
        other: ConformanceTarget,
        label: str,
        *,
        steering: BrokerSteering | None = None,
        slot_ms: int = DEFAULT_SLOT_MS,
    ) -> "ComparedBrokers":
        """Check that courses can be compared on these two brokers, and return them with the timing of the courses.

        Raises UnsuitableSettings, whose text says why they cannot be compared.
        """
        check_same_settings(one.settings, other.settings)
        timing = timing_for(one.settings, slot_ms)
        versions = common_versions(one.versions, other.versions)
        for target in (one, other):
            try:
                await warm_up_transactions(target, label)
            except (NotObservable, ExpectationFailed) as error:
                reason = f"random courses need transactional producers, but at {target.host}:{target.port}: {error}"
                raise UnsuitableSettings(reason) from error
        return cls(one, other, label, versions, timing, steering)

    @property
    def can_restart(self) -> bool:
        """Whether both brokers can be restarted."""
        return self.one.restart is not None and self.other.restart is not None

    @property
    def have_consumer_groups(self) -> bool:
        """Whether both brokers have the consumer protocol, and the other one can be steered to the same ids, on whose
        order assignors depend.
        """
        offered = [target.versions.get(api, ()) for target in (self.one, self.other) for api in CONSUMER_APIS]
        same_ids = self.one.topic_ids == self.other.topic_ids
        return self.steering is not None and same_ids and all(CONSUMER_API_VERSION in versions for versions in offered)


def common_versions(one: Mapping[str, range], other: Mapping[str, range]) -> dict[str, range]:
    """By API of the courses, the versions that both brokers offer.

    Raises UnsuitableSettings if they have none in common.
    """
    common = {}
    for api in APIS_OF_MOVES.values():
        first, second = one.get(api, range(0)), other.get(api, range(0))
        common[api] = range(max(first.start, second.start), min(first.stop, second.stop))
        if not common[api]:
            raise UnsuitableSettings(f"the brokers have no version of {api} in common, which random courses need")
    return common


async def run_courses(
    brokers: ComparedBrokers,
    seeds: Iterable[int],
    *,
    at_once: int = DEFAULT_COURSES_AT_ONCE,
    on_result: Callable[[CourseResult], object] = lambda result: None,
) -> list[CourseResult]:
    """Play the course of each seed to both brokers until they agree, or there are enough attempts.

    `on_result` is called with each result as soon as it is there.
    """
    courses = [
        random_course(
            seed,
            brokers.timing,
            with_restarts=brokers.can_restart,
            of_consumers=brokers.have_consumer_groups and seed % CLASSIC_COURSES > 0,
        )
        for seed in seeds
    ]
    ordinary = [course for course in courses if not course.restarts]
    restarting = [course for course in courses if course.restarts]
    results = await _run_side_by_side(brokers, ordinary, at_once, on_result)
    for first in range(0, len(restarting), at_once):
        results |= (restarted := await _run_with_restarts(brokers, restarting[first : first + at_once]))
        for result in restarted.values():
            on_result(result)
    return [results[course.seed] for course in courses]


async def _run_side_by_side(
    brokers: ComparedBrokers,
    courses: Sequence[RandomCourse],
    at_once: int,
    on_result: Callable[[CourseResult], object],
) -> dict[int, CourseResult]:
    """Play up to `at_once` courses at a time, whose requests are sent at different times. Returns the results by
    seed."""
    places = asyncio.Semaphore(at_once)

    async def run(number: int, course: RandomCourse) -> CourseResult:
        async with places:
            await asyncio.sleep(number % at_once / at_once * course.slot_ms / 1000)
            result = await run_course(brokers, course)
            on_result(result)
            return result

    results = await asyncio.gather(*(run(number, course) for number, course in enumerate(courses)))
    return {result.seed: result for result in results}


async def run_course(brokers: ComparedBrokers, course: RandomCourse) -> CourseResult:
    """Play one course without a restart until the brokers agree, or there have been enough attempts."""
    result = CourseResult(course.seed)
    while not result.is_over:
        attempt = _Attempt(brokers, result, f"course-{course.seed}-{brokers.label}-{len(result.differences)}", course)
        if brokers.steering is None:
            await asyncio.gather(attempt.play_to_one(), attempt.play_to_other())
        else:
            await attempt.play_to_one()
            await attempt.play_to_other()
        attempt.compare()
    return result


async def _run_with_restarts(brokers: ComparedBrokers, courses: Sequence[RandomCourse]) -> dict[int, CourseResult]:
    """Play all these courses at the same time, since they share the restarts of the brokers."""
    results = {course.seed: CourseResult(course.seed, restarted=True) for course in courses}
    attempt_numbers = count(1)
    while unfinished := [course for course in courses if not results[course.seed].is_over]:
        label = f"{brokers.label}-{courses[0].seed}-{next(attempt_numbers)}"
        attempts = []
        for number, course in enumerate(unfinished):
            result = results[course.seed]
            group_id = f"course-{course.seed}-{brokers.label}-{len(result.differences)}"
            shift_s = number / len(unfinished) * course.slot_ms / 1000
            attempts.append(_Attempt(brokers, result, group_id, course, shift_s))
        one = SharedRestart(len(attempts), partial(_restart, brokers.one, label))
        await asyncio.gather(*(attempt.play_to_one(one) for attempt in attempts))
        other = SharedRestart(len(attempts), partial(_restart, brokers.other, label))
        await asyncio.gather(*(attempt.play_to_other(other) for attempt in attempts))
        for attempt in attempts:
            attempt.compare()
    return results


async def _restart(target: ConformanceTarget, label: str) -> None:
    """Restart a broker, and wait until groups and transactions have their coordinators again.

    Transactional producers then get their ids a few times, so that the broker's code is compiled before a course
    begins.
    """
    await target.restart_and_refresh()
    for number in range(WARM_UPS_AFTER_RESTART):
        await warm_up_transactions(target, f"{label}-{number}")


class _Attempt:
    """One attempt at a course: it is played to both brokers, and the observations are compared.

    `shift_s` shifts the slots of courses with a restart, which begin together, against each other.
    """

    def __init__(
        self,
        brokers: ComparedBrokers,
        result: CourseResult,
        group_id: str,
        course: RandomCourse,
        shift_s: float = 0.0,
    ) -> None:
        self._brokers = brokers
        self._shift_s = shift_s
        self._result = result
        self._group_id = group_id
        self._course = course
        self._played = PlayedCourse()
        self._others: list[MoveObservation] = []
        self._late_since: list[int] = []

    async def play_to_one(self, restart: SharedRestart | None = None) -> None:
        """Play the course to the first broker."""
        player = CoursePlayer(
            self._brokers.one,
            f"{self._group_id}-one",
            self._brokers.versions,
            topic_prefix=self._group_id,
            restart=self._restart_with(restart),
        )
        self._played = player.played(await self._play(player, restart))
        self._result.requests = player.counts

    async def play_to_other(self, restart: SharedRestart | None = None) -> None:
        """Play the course to the other broker.

        If the first broker's observations are there, it ends at the first difference.
        """
        player = CoursePlayer(
            self._brokers.other,
            f"{self._group_id}-other",
            self._brokers.versions,
            steering=self._brokers.steering,
            followed=self._played,
            topic_prefix=self._group_id,
            restart=self._restart_with(restart),
        )
        self._others = await self._play(player, restart)

    def _restart_with(self, restart: SharedRestart | None) -> Restart | None:
        async def wait() -> None:
            assert restart is not None, "only courses with a restart wait for one"
            await restart.wait(self)
            await asyncio.sleep(self._shift_s)

        return wait if restart else None

    async def _play(self, player: CoursePlayer, restart: SharedRestart | None) -> list[MoveObservation]:
        await asyncio.sleep(self._shift_s)
        try:
            return await player.play(self._course)
        finally:
            if player.late_since is not None:
                self._late_since.append(player.late_since)
            if restart:
                await restart.withdraw(self)

    def compare(self) -> None:
        """Compare the observations of both brokers: note in the result that they agree, or where they differ first."""
        for number, (mine, theirs) in enumerate(zip(self._played.observations, self._others, strict=False)):
            if mine != theirs:
                is_late = any(late_since <= number for late_since in self._late_since)
                difference = CourseDifference(self._course, number, mine, theirs, is_late)
                self._result.differences.append(difference)
                return
        self._result.agreed = True
