"""The legal state transitions of a classic group (`ClassicGroupState`). docs/architecture.md draws this table."""

from typing import Final

from regroup.coordinator.group import GroupState

S = GroupState

TRANSITIONS: Final[dict[S, frozenset[S]]] = {  # from: to
    S.DEAD: frozenset({S.EMPTY}),  # a group is created, or created again with generation 0
    S.EMPTY: frozenset({S.PREPARING_REBALANCE, S.DEAD}),
    S.PREPARING_REBALANCE: frozenset({S.COMPLETING_REBALANCE, S.EMPTY, S.DEAD}),
    S.COMPLETING_REBALANCE: frozenset({S.STABLE, S.PREPARING_REBALANCE, S.DEAD}),
    S.STABLE: frozenset({S.PREPARING_REBALANCE, S.DEAD}),
}


class IllegalTransition(Exception):
    """An event would bring a group into a state that may not follow: a defect of the coordinator, not of a client."""


def check_transition(before: S, after: S) -> None:
    """Raise IllegalTransition unless the table allows the transition from `before` to `after`, which are different. The
    table applies within one coordinator epoch."""
    if after not in TRANSITIONS[before]:
        raise IllegalTransition(f"A group cannot go from {before} to {after}.")
