"""Stories fit themselves to the settings of the broker, or say which settings they need: none fails."""

from collections.abc import Iterable, Mapping

import pytest

from regroup.conformance.harness.broker_under_test import ConformanceTarget
from regroup.conformance.harness.cases import ConformanceCase
from regroup.conformance.harness.remedy import group_by_remedy
from regroup.conformance.run.runner import StoryOutcome, StoryRunOptions, StoryVerdict, run_stories
from regroup.conformance.stories import CASES
from tests.conformance.peers import regroup_broker

ONCE_FALSE_ALARMS = (
    "timeout.session.parked-join-not-expired",
    "timeout.session.parked-sync-not-expired",
    "timeout.initial-delay.cut-short-by-pending-expiry",
)
"""Stories that once failed on an Apache Kafka with default settings, because of their own timeouts."""

ODD_SETTINGS = (
    {},
    {"group.max.session.timeout.ms": "15000"},
    {"group.initial.rebalance.delay.ms": "12000", "offset.metadata.max.bytes": "100000"},
    {"group.min.session.timeout.ms": "12000", "offset.metadata.max.bytes": "0"},
    {"group.initial.rebalance.delay.ms": "200", "group.max.size": "5", "group.min.session.timeout.ms": "0"},
)
"""Settings far from those with which the stories were written; the first ones are the defaults."""


async def verdicts_with(
    settings: Mapping[str, str], cases: Iterable[ConformanceCase], *, brokers: int = 1, longest_s: float = 120
) -> list[StoryVerdict]:
    with regroup_broker(settings, brokers=brokers) as broker:
        target = await ConformanceTarget.discover(broker.address)
        return await run_stories(target, cases, StoryRunOptions("test", max_case_timeout_s=longest_s))


@pytest.mark.slow
async def test_stories_that_wait_for_sessions_pass_with_default_settings() -> None:
    verdicts = await verdicts_with({}, [CASES[name] for name in ONCE_FALSE_ALARMS])
    assert [each.outcome for each in verdicts] == [
        StoryOutcome.PASSED,
        StoryOutcome.PASSED,
        StoryOutcome.NOT_OBSERVABLE,
    ]
    assert verdicts[2].remedy is not None
    assert verdicts[2].remedy.settings == (("group.min.session.timeout.ms", "1000"),)


@pytest.mark.slow
@pytest.mark.timeout(400)
@pytest.mark.parametrize("settings", ODD_SETTINGS, ids=str)
async def test_no_story_fails_whatever_the_settings_are(settings: dict[str, str]) -> None:
    verdicts = await verdicts_with(settings, CASES.values())
    assert {each.behaviour: each.reason for each in verdicts if each.outcome is StoryOutcome.FAILED} == {}
    unobserved = [each for each in verdicts if each.outcome is StoryOutcome.NOT_OBSERVABLE]
    assert [each.behaviour for each in unobserved if each.remedy is None] == []


@pytest.mark.slow
@pytest.mark.timeout(400)
async def test_the_broker_that_a_default_run_asks_for_shows_the_stories_for_which_it_asks() -> None:
    longest_s = 150
    verdicts = await verdicts_with({}, CASES.values(), longest_s=longest_s)
    remedies = group_by_remedy({each.behaviour: each.remedy for each in verdicts if each.remedy is not None})
    asked_for = {remedy: names for remedy, names in remedies.items() if remedy.changes_the_broker}
    assert sum(map(len, asked_for.values())) > 15
    for remedy, names in asked_for.items():
        cases = [CASES[name] for name in names]
        found = await verdicts_with(dict(remedy.settings), cases, brokers=remedy.brokers, longest_s=longest_s)
        unshown = [each for each in found if each.outcome is not StoryOutcome.PASSED]
        assert [each.behaviour for each in unshown if each.remedy is None or each.remedy.changes_the_broker] == []
        assert len(unshown) < len(found), "a few stories need a restart too, for which they ask next"
