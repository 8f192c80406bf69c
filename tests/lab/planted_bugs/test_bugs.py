"""A planted bug has an effect while it is planted, and none afterwards."""

import pytest

from regroup.lab.planted_bugs.registry import BUGS, UnknownBug, bug_named
from tests.lab.planted_bugs import bug_cases_join_sync, bug_cases_members, bug_cases_phases, bug_cases_timeouts
from tests.lab.planted_bugs.bug_cases import BUG_CASES, BugCase
from tests.lab.planted_bugs.bug_cases_consumer_groups import CONSUMER_BUG_CASES
from tests.lab.planted_bugs.bug_cases_transactions import TRANSACTION_BUG_CASES

MODULES_WITH_CASES = (bug_cases_join_sync, bug_cases_phases, bug_cases_timeouts, bug_cases_members)


@pytest.mark.parametrize("case", BUG_CASES, ids=lambda case: case.bug.name)
def test_a_bug_changes_the_result_while_it_is_planted_and_not_afterwards(case: BugCase) -> None:
    assert case.run() == case.expected
    with case.bug.plant():
        assert case.run() == case.with_bug
    assert case.run() == case.expected


@pytest.mark.quick("[step-keeps-one-partition-too-many]", "[upgrade-forgets-a-member]", "[fenced-member-commits]")
@pytest.mark.parametrize("case", CONSUMER_BUG_CASES, ids=lambda case: case.bug.name)
def test_a_bug_of_the_consumer_protocol_is_found_while_it_is_planted_and_not_afterwards(case: BugCase) -> None:
    with case.bug.plant():
        assert case.run() == case.with_bug
    assert case.run() == case.expected


@pytest.mark.parametrize("case", TRANSACTION_BUG_CASES, ids=lambda case: case.bug.name)
def test_a_bug_of_transactions_is_found_while_it_is_planted_and_not_afterwards(case: BugCase) -> None:
    with case.bug.plant():
        assert case.run() == case.with_bug
    assert case.run() == case.expected


def test_every_bug_has_its_case() -> None:
    cases = [case.bug for case in (*BUG_CASES, *CONSUMER_BUG_CASES, *TRANSACTION_BUG_CASES)]
    assert cases == list(dict.fromkeys(cases))
    assert {bug.name for bug in cases} == set(BUGS)


def test_every_bug_has_a_sentence() -> None:
    for bug in BUGS.values():
        assert bug.sentence.endswith("."), bug.name
        assert "  " not in bug.sentence, bug.name


def test_an_unknown_bug_is_refused_with_the_nearest_name() -> None:
    with pytest.raises(UnknownBug, match="did you mean two-leaders"):
        bug_named("two-leader")
