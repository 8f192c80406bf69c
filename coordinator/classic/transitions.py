"""The legal moves of a group, as a table (`ClassicGroupState`). docs/architecture.md draws it, tests walk it."""

from typing import Final

from regroup.coordinator.group import State

S = State

MOVES: Final[dict[S, frozenset[S]]] = {  # from: where it may go
    S.DEAD: frozenset({S.EMPTY}),  # a group is made, or made again: a new life with generation 0
    S.EMPTY: frozenset({S.PREPARING, S.DEAD}),
    S.PREPARING: frozenset({S.COMPLETING, S.EMPTY, S.DEAD}),
    S.COMPLETING: frozenset({S.STABLE, S.PREPARING, S.DEAD}),
    S.STABLE: frozenset({S.PREPARING, S.DEAD}),
}


class IllegalMove(Exception):
    """An event would move a group where no group may go: a defect of the coordinator, never of a client."""


def check_move(before: S, after: S) -> None:
    """Moves are checked within a reign; taking over (`coordinator-loaded`) may lead anywhere."""
    if before is not after and after not in MOVES[before]:
        raise IllegalMove(f"A group cannot go from {before} to {after}.")
