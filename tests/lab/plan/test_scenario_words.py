"""The reference of scenarios: nothing that a file may say is missing, and everything has a meaning."""

from regroup.lab.checker.invariant_list import invariant_reference
from regroup.lab.plan.scenario_words import scenario_reference, with_capitals
from regroup.lab.plan.step_sentences import STEP_TYPES
from regroup.lab.plan.triggers import MILESTONES

TABLES = {table.title: table.rows for table in scenario_reference()}
WORDS = {words for rows in TABLES.values() for row in rows for words in row.words.split(" / ")}


def test_every_step_and_every_milestone_is_in_the_reference() -> None:
    assert {with_capitals(text) for kind in STEP_TYPES for text in kind.templates} <= WORDS
    assert {f"after {with_capitals(each.text)}" for each in MILESTONES} <= WORDS


def test_every_row_has_a_meaning_and_no_name_of_the_code() -> None:
    for title, rows in TABLES.items():
        for row in rows:
            assert row.meaning, (title, row.words)
            assert "_ms" not in row.meaning, row
            assert "None" not in row.meaning, row


def test_options_have_the_defaults_that_the_plan_has() -> None:
    members = dict(TABLES["Options of a member"])
    assert members["session timeout"].endswith("Default: 45s.")
    assert "Default: [range, cooperative-sticky]." in members["assignors"]


def test_each_invariant_is_listed_once() -> None:
    sentences = [sentence for rows in invariant_reference().values() for sentence, _ in rows]
    assert len(sentences) == len(set(sentences)) > 35
    assert [each for each in sentences if not each.endswith(".")] == []
