"""The settings of the full run show every story, and the page says how each column was made."""

import pytest

from regroup.conformance.harness.cases import unmet_requirements
from regroup.conformance.run.not_observable import NOT_OBSERVABLE
from regroup.conformance.run.report import ConformanceReport
from regroup.conformance.run.runner import StoryOutcome, StoryVerdict
from regroup.conformance.stories import CASES
from tests.conformance.columns import COLUMNS, EVERYTHING, FULL_LONGEST_S, report_on
from tests.conformance.full_run import is_complete


def test_every_story_is_shown_by_one_of_the_settings_of_the_full_run() -> None:
    settings = [{"group.max.size": str(2**31 - 1), **plan.settings} for plan in EVERYTHING]
    for case in CASES.values():
        assert any(not [*unmet_requirements(each, case.required_settings)] for each in settings), case.id
        assert case.timeout_s <= FULL_LONGEST_S


def test_the_full_run_is_complete_if_only_what_no_setting_shows_is_missing() -> None:
    unobserved = [StoryVerdict(name, StoryOutcome.NOT_OBSERVABLE, reason) for name, reason in NOT_OBSERVABLE.items()]
    of_consumer_protocol = [each for each in unobserved if each.behaviour.startswith("cg.")]
    assert len(unobserved) - len(of_consumer_protocol) <= 29
    assert len(of_consumer_protocol) <= 37
    assert is_complete(ConformanceReport("", "", unobserved))
    missing = StoryVerdict("limits.static-members", StoryOutcome.NOT_OBSERVABLE, "group.max.size is too large")
    assert not is_complete(ConformanceReport("", "", [*unobserved, missing]))
    failed = StoryVerdict("heartbeat.stable", StoryOutcome.FAILED, "no")
    assert not is_complete(ConformanceReport("", "", [*unobserved, failed]))


@pytest.mark.slow
def test_a_default_regroup_fails_no_story_and_the_report_has_the_commands() -> None:
    report = report_on(COLUMNS["regroup-defaults"])
    failed = {each.behaviour: each.reason for each in report.verdicts if each.outcome is StoryOutcome.FAILED}
    assert failed == {}
    (run,) = report.runs
    assert (run.broker, run.command) == ("regroup serve", "regroup conformance --bootstrap HOST:PORT")
    assert (run.stories, run.shown) == (len(CASES), report.totals()[StoryOutcome.PASSED])
    assert run.shown > 230
