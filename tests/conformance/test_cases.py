"""The list of stories is complete, and each says what it is about."""

from pathlib import Path

from regroup.conformance.harness.cases import DEFAULTS, Need, unmet
from regroup.conformance.run.not_observable import UNSEEN
from regroup.conformance.stories import CASES

BEHAVIOURS = dict(
    reversed(line.split(maxsplit=1))
    for line in (Path(__file__).parent / "behaviours.txt").read_text(encoding="utf-8").splitlines()
    if not line.startswith("#")
)


def test_every_behaviour_has_a_story_or_a_reason_why_it_cannot_be_seen() -> None:
    assert [each for each in BEHAVIOURS if (each in CASES) == (each in UNSEEN)] == []


def test_a_reason_belongs_to_a_behaviour_of_the_catalogue() -> None:
    assert set(UNSEEN) <= set(BEHAVIOURS)


def test_a_story_is_as_important_as_its_behaviour() -> None:
    differing = [
        name for name, each in CASES.items() if str(each.importance) != BEHAVIOURS.get(name, str(each.importance))
    ]
    assert differing == []


def test_every_story_says_in_a_sentence_what_it_is_about() -> None:
    assert [each.id for each in CASES.values() if not each.summary.endswith(".") or len(each.summary) > 130] == []


def test_what_a_story_needs_has_a_default() -> None:
    assert {name for each in CASES.values() for name in each.needs} <= set(DEFAULTS)


def test_no_two_stories_have_the_same_words() -> None:
    summaries = [each.summary for each in CASES.values()]
    assert len(set(summaries)) == len(summaries)


def test_a_need_names_what_the_setting_is_and_what_it_should_be() -> None:
    needs = {"group.max.size": Need(at_least=2, at_most=11)}
    assert [*unmet({"group.max.size": "4"}, needs)] == []
    assert [*unmet({}, needs)] == ["group.max.size is 2147483647, and must be at least 2 and at most 11"]
