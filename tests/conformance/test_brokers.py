"""Every story is told to our own broker, and to Apache Kafka where it can run."""

from collections.abc import Iterable

import pytest
from apache_kafka import ApacheKafka
from peers import ROOMY
from peers import regroup as our_own

from regroup.cli.conformance.steerable_cluster import steered_emulator
from regroup.conformance.differential.duel import duels
from regroup.conformance.harness.target import Target
from regroup.conformance.run.runner import Outcome, Plan, Verdict, run
from regroup.conformance.stories import CASES


def failures(verdicts: Iterable[Verdict]) -> dict[str, str]:
    return {each.behaviour: each.reason for each in verdicts if each.outcome is Outcome.FAILED}


async def test_our_broker_does_as_kafka_does() -> None:
    with our_own(ROOMY) as broker:
        target = await Target.learn(broker.address)
        verdicts = await run(target, CASES.values(), Plan("test"))
    assert failures(verdicts) == {}
    assert sum(each.outcome is Outcome.PASSED for each in verdicts) > 180


@pytest.mark.slow
async def test_apache_kafka_does_as_the_stories_say(kafka: ApacheKafka) -> None:
    verdicts = await run(await Target.learn(kafka.address), CASES.values(), Plan("test"))
    assert failures(verdicts) == {}
    assert sum(each.outcome is Outcome.PASSED for each in verdicts) > 200


@pytest.mark.slow
async def test_apache_kafka_agrees_with_itself_on_random_courses(kafka: ApacheKafka) -> None:
    target = await Target.learn(kafka.address)
    outcomes = await duels(target, target, range(1000, 1010), "test")
    assert [each.seed for each in outcomes if each.difference and not each.only_choices] == []


FOUND_DIFFERENCES = (2100,)
"""Seeds that once told the emulator from Apache Kafka. What they found has stories and tests of its own."""


@pytest.mark.slow
@pytest.mark.timeout(400)
async def test_random_courses_end_alike_on_apache_kafka_and_on_an_emulator_that_is_told_its_choices(
    kafka: ApacheKafka,
) -> None:
    target = await Target.learn(kafka.address)
    async with steered_emulator(target.settings) as emulator:
        ours = await Target.learn(emulator.address)
        seeds = (*FOUND_DIFFERENCES, *range(1, 20))
        outcomes = await duels(target, ours, seeds, "test", guide=emulator, slot_ms=500)
    assert [line for each in outcomes if each.difference for line in each.difference.lines()] == []
    assert any(each.agreed for each in outcomes)
