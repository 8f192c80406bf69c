"""The table of legal state transitions, beside the documentation and beside random histories."""

import re
from itertools import product
from pathlib import Path

import pytest

from regroup.coordinator.classic.transitions import TRANSITIONS, IllegalTransition, check_transition
from regroup.coordinator.commands import Command
from regroup.coordinator.decision import Decision
from regroup.coordinator.events import CoordinatorLoaded
from regroup.coordinator.evolve import evolve
from regroup.coordinator.group import Group, GroupState
from tests.coordinator.random_commands import RandomCommandRunner, random_choices

ARCHITECTURE = Path(__file__).parents[3] / "docs" / "architecture.md"
LEGAL = {(before, after) for before, afters in TRANSITIONS.items() for after in afters}
UNLOAD = (GroupState.STABLE, GroupState.DEAD)
"""In Kafka a coordinator that unloads a group makes it Dead. Here that is no event: the next coordinator loads it."""


def transitions_seen(seed: int) -> set[tuple[GroupState, GroupState]]:
    """The transitions in a random history, except those of a load."""
    seen: set[tuple[GroupState, GroupState]] = set()

    def record(command: Command, before: Group, decision: Decision) -> None:
        group = before
        for event in decision.events:
            after = evolve(group, event)
            if after.state is not group.state and not isinstance(event, CoordinatorLoaded):
                seen.add((group.state, after.state))
            group = after

    runner = RandomCommandRunner()
    runner.on_decision = record
    for choice in random_choices(seed, 400):
        runner.run(choice)
    return seen


def test_the_diagram_in_the_architecture_is_the_table() -> None:
    diagram = ARCHITECTURE.read_text(encoding="utf-8").split("```mermaid\n")[1].split("```")[0]
    drawn = re.findall(r"^ +(\w+) --> (\w+): \S.*$", diagram, re.MULTILINE)
    assert sorted(drawn) == sorted((before.value, after.value) for before, after in LEGAL)


def test_random_commands_cause_every_legal_transition_and_no_other() -> None:
    seen = set().union(*(transitions_seen(seed) for seed in range(30)))
    assert seen == LEGAL - {UNLOAD}


@pytest.mark.parametrize(("before", "after"), list(product(GroupState, GroupState)))
def test_a_transition_that_is_not_in_the_table_raises(before: GroupState, after: GroupState) -> None:
    if (before, after) in LEGAL:
        check_transition(before, after)
    else:
        with pytest.raises(IllegalTransition, match=f"from {before} to {after}"):
            check_transition(before, after)
