"""Random courses on Apache Kafka and on an emulator in this process, with several settings."""

import asyncio
import uuid
from collections.abc import Iterable, Iterator, Mapping
from functools import partial

from regroup.cli.conformance.steerable_cluster import run_steerable_cluster
from regroup.conformance.differential.comparison import CourseComparison, summarize
from regroup.conformance.differential.course_result import CourseResult
from regroup.conformance.differential.differential_run import ComparedBrokers, run_courses
from regroup.conformance.harness.broker_under_test import ConformanceTarget
from tests.conformance.apache_kafka import ApacheKafkaBroker, apache_kafka
from tests.conformance.columns import now
from tests.conformance.peers import RANDOM_COURSE_SETTINGS

COURSE_SETTINGS: tuple[Mapping[str, str], ...] = ({}, RANDOM_COURSE_SETTINGS)
"""Kafka's defaults, and settings with which other things happen."""

COURSES_AT_ONCE = 45


def compare_courses(courses: int) -> Iterator[CourseComparison]:
    """So many courses in all, the same number with each of the settings, no seed twice."""
    share = courses // len(COURSE_SETTINGS)
    for number, settings in enumerate(COURSE_SETTINGS):
        with apache_kafka(settings) as kafka:
            seeds = range(1 + number * share, 1 + (number + 1) * share)
            results, reported = asyncio.run(compare_on(kafka, seeds))
            command = f"python -m tests.conformance.full_run courses --courses {courses}"
            name = f"Apache Kafka {kafka.version}"
            yield summarize(name, "regroup", now(), command, reported, results)


async def compare_on(kafka: ApacheKafkaBroker, seeds: Iterable[int]) -> tuple[list[CourseResult], dict[str, str]]:
    """The results of the courses, and the settings that the broker reports."""

    def restart() -> None:
        kafka.stop()
        kafka.start()

    target = await ConformanceTarget.discover(kafka.address, restart=partial(asyncio.to_thread, restart))
    async with run_steerable_cluster(target.settings, target.topic_ids_in_order()) as emulator:
        ours = await ConformanceTarget.discover(emulator.address, restart=emulator.restart)
        brokers = await ComparedBrokers.prepare(target, ours, uuid.uuid4().hex[:8], steering=emulator)
        return await run_courses(brokers, seeds, at_once=COURSES_AT_ONCE), target.settings
