"""The transitions that a group of the consumer protocol may make with one event.

Its state is derived from epochs and members; this table says what follows from the rules of `ConsumerGroup.state`.
Where one command has several events, a group may pass through Reconciling on its way to Assigning.
"""

from typing import Final

from regroup.coordinator.consumer_group import ConsumerGroupState
from regroup.coordinator.group import GroupState

S = ConsumerGroupState

TRANSITIONS: Final[dict[S | GroupState, frozenset[S | GroupState]]] = {
    S.EMPTY: frozenset({S.ASSIGNING, S.RECONCILING, GroupState.DEAD}),
    S.ASSIGNING: frozenset({S.RECONCILING, S.EMPTY}),
    S.RECONCILING: frozenset({S.STABLE, S.ASSIGNING, S.EMPTY}),
    S.STABLE: frozenset({S.ASSIGNING, S.RECONCILING, S.EMPTY}),
    GroupState.DEAD: frozenset({S.EMPTY}),
}
