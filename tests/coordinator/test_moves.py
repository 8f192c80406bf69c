"""The table of legal moves: nothing else happens, and everything in it does."""

import re
from itertools import product
from pathlib import Path

import pytest

from regroup.coordinator.classic.transitions import MOVES, IllegalMove, check_move
from regroup.coordinator.commands import Command
from regroup.coordinator.decision import Decision
from regroup.coordinator.events import CoordinatorLoaded
from regroup.coordinator.evolve import evolve
from regroup.coordinator.group import Group, State
from tests.coordinator.anything import Player, moves_by_chance

ARCHITECTURE = Path(__file__).parents[2] / "docs" / "architecture.md"
LEGAL = {(before, after) for before, afters in MOVES.items() for after in afters}
UNLOADING = (State.STABLE, State.DEAD)
"""Kafka drops groups in any state when it unloads them. Here that is no event: the next coordinator begins a reign."""


def moves_seen(seed: int) -> set[tuple[State, State]]:
    """Within reigns, in a history by chance."""
    seen: set[tuple[State, State]] = set()

    def watch(command: Command, before: Group, decision: Decision) -> None:
        group = before
        for event in decision.events:
            after = evolve(group, event)
            if after.state is not group.state and not isinstance(event, CoordinatorLoaded):
                seen.add((group.state, after.state))
            group = after

    player = Player()
    player.watch = watch
    for move in moves_by_chance(seed, 400):
        player.play(move)
    return seen


def test_the_picture_in_the_architecture_is_the_table() -> None:
    picture = ARCHITECTURE.read_text(encoding="utf-8").split("```mermaid\n")[1].split("```")[0]
    drawn = re.findall(r"^ +(\w+) --> (\w+): \S.*$", picture, re.MULTILINE)
    assert sorted(drawn) == sorted((before.value, after.value) for before, after in LEGAL)


def test_every_legal_move_happens_and_no_other() -> None:
    seen = set().union(*(moves_seen(seed) for seed in range(30)))
    assert seen == LEGAL - {UNLOADING}


@pytest.mark.parametrize(("before", "after"), list(product(State, State)))
def test_a_move_that_is_not_in_the_table_is_a_defect(before: State, after: State) -> None:
    if before is after or (before, after) in LEGAL:
        check_move(before, after)
    else:
        with pytest.raises(IllegalMove, match=f"from {before} to {after}"):
            check_move(before, after)
