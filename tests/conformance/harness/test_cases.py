"""The stories cover the catalogue, and each has a summary."""

import json
from pathlib import Path

from regroup.conformance.harness.broker_under_test import KAFKA_DEFAULTS
from regroup.conformance.harness.cases import SettingBounds, SettingChoice, unmet_requirements
from regroup.conformance.harness.remedy import Remedy
from regroup.conformance.run.not_observable import NOT_OBSERVABLE
from regroup.conformance.stories import CASES

CATALOGUES = [
    Path(__file__).parents[2] / "coordinator" / name for name in ("behaviours.jsonl", "consumer-behaviours.jsonl")
]
BEHAVIOURS = {
    each["id"]: each["importance"]
    for catalogue in CATALOGUES
    for each in map(json.loads, catalogue.read_text("utf-8").splitlines())
}


def test_every_behaviour_has_a_story_or_a_reason_why_it_is_not_observable() -> None:
    assert [name for name in BEHAVIOURS if (name in CASES) == (name in NOT_OBSERVABLE)] == []


def test_a_reason_belongs_to_a_behaviour_of_the_catalogue() -> None:
    assert set(NOT_OBSERVABLE) <= set(BEHAVIOURS)


def test_a_story_has_the_importance_of_its_behaviour() -> None:
    importance = {name: case.importance for name, case in CASES.items()}
    assert {name: BEHAVIOURS.get(name, own) for name, own in importance.items()} == importance


def test_every_story_has_a_sentence_as_its_summary() -> None:
    assert [case.id for case in CASES.values() if not case.summary.endswith(".") or len(case.summary) > 130] == []


def test_every_required_setting_has_a_default() -> None:
    assert {name for case in CASES.values() for name in case.required_settings} <= set(KAFKA_DEFAULTS)


def test_no_two_stories_have_the_same_summary() -> None:
    summaries = [case.summary for case in CASES.values()]
    assert len(set(summaries)) == len(summaries)


def test_an_unmet_requirement_says_what_the_setting_is_and_what_it_must_be() -> None:
    required = {"group.max.size": SettingBounds(at_least=2, at_most=11)}
    assert [*unmet_requirements({"group.max.size": "4"}, required)] == []
    ((unmet, remedy),) = unmet_requirements({}, required)
    assert unmet == "group.max.size is 2147483647, but must be at least 2 and at most 11"
    assert remedy == Remedy.setting("group.max.size", 11)


def test_a_setting_that_is_a_word_may_be_written_in_any_case() -> None:
    required = {"group.consumer.migration.policy": SettingChoice(("upgrade", "bidirectional"))}
    assert [*unmet_requirements({"group.consumer.migration.policy": "BIDIRECTIONAL"}, required)] == []
    ((unmet, remedy),) = unmet_requirements({"group.consumer.migration.policy": "disabled"}, required)
    assert unmet == "group.consumer.migration.policy is disabled, but must be upgrade or bidirectional"
    assert remedy == Remedy(settings=(("group.consumer.migration.policy", "upgrade"),))


def test_the_settings_that_a_story_is_said_to_need_are_enough_for_it() -> None:
    for each in CASES.values():
        remedies = [remedy for _, remedy in unmet_requirements(KAFKA_DEFAULTS, each.required_settings)]
        settings = {**KAFKA_DEFAULTS, **dict(Remedy.all_of(remedies).settings)}
        assert [*unmet_requirements(settings, each.required_settings)] == [], each.id
