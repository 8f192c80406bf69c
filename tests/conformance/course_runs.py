"""Random courses on Apache Kafka and on an emulator in this process, with several settings."""

import asyncio
import sys
import uuid
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Final

from regroup.cli.conformance.steerable_cluster import run_steerable_cluster
from regroup.conformance.differential.comparison import CourseComparison, summarize
from regroup.conformance.differential.course_result import CourseResult
from regroup.conformance.differential.differential_run import ComparedBrokers, run_courses
from regroup.conformance.differential.timing import DEFAULT_SLOT_MS
from regroup.conformance.harness.broker_under_test import ConformanceTarget
from tests.conformance.apache_kafka import ApacheKafkaBroker, apache_kafka
from tests.conformance.columns import now
from tests.conformance.peers import RANDOM_COURSE_SETTINGS

COURSE_SETTINGS: Final[Mapping[str, Mapping[str, str]]] = {"defaults": {}, "short": RANDOM_COURSE_SETTINGS}
"""Kafka's defaults, and settings with which other things happen."""

COURSES_AT_ONCE: Final = 45


@dataclass(frozen=True)
class CoursePlan:
    """Which random courses are played: so many in all, from a seed on, the same number with each of the settings."""

    courses: int
    first_seed: int = 1
    settings: tuple[str, ...] = tuple(COURSE_SETTINGS)
    at_once: int = COURSES_AT_ONCE
    slot_ms: int = DEFAULT_SLOT_MS
    """The shortest time from move to move; a busy machine needs more."""

    @property
    def command(self) -> str:
        """The command that plays these courses."""
        words = [f"python -m tests.conformance.full_run courses --courses {self.courses}"]
        if self.first_seed != 1:
            words.append(f"--first-seed {self.first_seed}")
        if self.slot_ms != DEFAULT_SLOT_MS:
            words.append(f"--slot {self.slot_ms}")
        if self.settings != tuple(COURSE_SETTINGS):
            words += [f"--settings {each}" for each in self.settings]
        return " ".join(words)


def compare_courses(plan: CoursePlan) -> Iterator[CourseComparison]:
    """Play the courses of a plan, no seed twice; one comparison for each of its settings."""
    share = plan.courses // len(plan.settings)
    for number, name in enumerate(plan.settings):
        with apache_kafka(COURSE_SETTINGS[name]) as kafka:
            first = plan.first_seed + number * share
            results, reported = asyncio.run(
                compare_on(kafka, range(first, first + share), at_once=plan.at_once, slot_ms=plan.slot_ms)
            )
            yield summarize(f"Apache Kafka {kafka.version}", "regroup", now(), plan.command, reported, results)


async def compare_on(
    kafka: ApacheKafkaBroker, seeds: Iterable[int], at_once: int = COURSES_AT_ONCE, slot_ms: int = DEFAULT_SLOT_MS
) -> tuple[list[CourseResult], dict[str, str]]:
    """The results of the courses, and the settings that the broker reports."""

    def restart() -> None:
        kafka.stop()
        kafka.start()

    target = await ConformanceTarget.discover(kafka.address, restart=partial(asyncio.to_thread, restart))
    async with run_steerable_cluster(target.settings, target.topic_ids_in_order()) as emulator:
        ours = await ConformanceTarget.discover(emulator.address, restart=emulator.restart)
        brokers = await ComparedBrokers.prepare(target, ours, uuid.uuid4().hex[:8], steering=emulator, slot_ms=slot_ms)
        return await run_courses(brokers, seeds, at_once=at_once, on_result=print_difference), target.settings


def print_difference(result: CourseResult) -> None:
    """Print a difference at once: the other courses may take minutes."""
    for each in [result.difference or result.differences[-1]] if result.difference or result.is_too_late else ():
        late = ["too late, so that this may be a race:"] if result.is_too_late else []
        print(*late, *each.lines(), "", sep="\n", file=sys.stderr, flush=True)
