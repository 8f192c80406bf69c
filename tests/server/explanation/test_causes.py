"""Causes in words: clauses that stand alone, as in a view of one event, or after `because`."""

import re
from pathlib import Path

import pytest

from regroup.coordinator.serialization import Cause
from regroup.server.explanation.causes import DEADLINES, INTERNAL, cause_text

ROOT = Path(__file__).parents[3]
PACKAGES = ("coordinator", "server", "lab", "testing", "control", "members")
WRITTEN = re.compile(r'Cause\(internal="([^"]+)"')
PREPOSITION = re.compile(r"(?:of|by|for) ")


def test_whatever_a_broker_does_by_itself_has_a_clause() -> None:
    written = {
        found
        for package in PACKAGES
        for file in (ROOT / package).rglob("*.py")
        for found in WRITTEN.findall(file.read_text())
    }
    assert "load of the group" in written
    assert written == set(INTERNAL)


@pytest.mark.parametrize(
    "cause",
    [*(Cause(internal=each) for each in (*INTERNAL, "something new")), *(Cause(deadline=each) for each in DEADLINES)],
    ids=lambda cause: cause.internal or cause.deadline,
)
def test_a_cause_is_a_clause(cause: Cause) -> None:
    text = cause_text(cause)
    assert not PREPOSITION.match(text)
    assert " " in text


def test_the_load_of_a_group_is_that_of_a_coordinator() -> None:
    assert cause_text(Cause(internal="load of the group")) == "a coordinator loaded the group"
    assert cause_text(Cause(internal="something new")) == "the broker did this (something new)"
