"""All stories on regroup, and on Apache Kafka where it can run; random courses on both."""

from collections.abc import Iterable

import pytest

from regroup.conformance.differential.differential_run import ComparedBrokers, run_courses
from regroup.conformance.harness.broker_under_test import ConformanceTarget
from regroup.conformance.run.runner import StoryOutcome, StoryRunOptions, StoryVerdict, run_stories
from regroup.conformance.stories import CASES
from tests.conformance.apache_kafka import ApacheKafkaBroker
from tests.conformance.course_runs import compare_on
from tests.conformance.peers import FAST_SETTINGS, regroup_broker


def failures(verdicts: Iterable[StoryVerdict]) -> dict[str, str]:
    return {each.behaviour: each.reason for each in verdicts if each.outcome is StoryOutcome.FAILED}


async def test_all_stories_pass_on_regroup() -> None:
    with regroup_broker(FAST_SETTINGS) as broker:
        target = await ConformanceTarget.discover(broker.address)
        verdicts = await run_stories(target, CASES.values(), StoryRunOptions("test"))
    assert failures(verdicts) == {}
    assert sum(each.outcome is StoryOutcome.PASSED for each in verdicts) > 180


@pytest.mark.slow
async def test_all_stories_pass_on_apache_kafka(kafka: ApacheKafkaBroker) -> None:
    target = await ConformanceTarget.discover(kafka.address)
    verdicts = await run_stories(target, CASES.values(), StoryRunOptions("test"))
    assert failures(verdicts) == {}
    assert sum(each.outcome is StoryOutcome.PASSED for each in verdicts) > 200


@pytest.mark.slow
async def test_apache_kafka_agrees_with_itself_on_random_courses(kafka: ApacheKafkaBroker) -> None:
    target = await ConformanceTarget.discover(kafka.address)
    brokers = await ComparedBrokers.prepare(target, target, "itself")
    results = await run_courses(brokers, range(1000, 1010))
    assert [result.seed for result in results if result.difference and not result.differs_only_in_leader] == []


@pytest.mark.slow
@pytest.mark.timeout(400)
async def test_random_courses_are_the_same_on_apache_kafka_and_on_a_steered_emulator(
    kafka: ApacheKafkaBroker,
) -> None:
    results, _ = await compare_on(kafka, range(1, 23))
    assert [line for result in results if result.difference for line in result.difference.lines()] == []
    assert any(result.agreed for result in results)
    assert any(result.agreed and result.restarted for result in results)
