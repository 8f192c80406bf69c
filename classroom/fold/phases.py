"""The states, generations and rebalances of a group, built while its events are folded."""

from msgspec.structs import replace

from regroup.classroom.timeline import GenerationSpan, Point, Rebalance, StateSpan
from regroup.coordinator import events as e
from regroup.coordinator.group import Group, GroupState


class PhasesBuilder:
    """Builds the spans of states and generations, and the rebalances, of one group."""

    def __init__(self) -> None:
        self._states: list[StateSpan] = []
        self._generations: list[GenerationSpan] = []
        self._rebalances: list[Rebalance] = []

    def begin_with(self, group: Group, point: Point) -> None:
        """Begin with a group in the middle of its history."""
        self._states.append(StateSpan(state=group.state, began=point))
        if group.generation_id:
            self._begin_generation(group, point)
        if group.state in (GroupState.PREPARING_REBALANCE, GroupState.COMPLETING_REBALANCE):
            self._rebalances.append(Rebalance(began=point, starts=(point,)))

    def on_event(self, event: e.Event, before: Group, after: Group, point: Point, event_type: str) -> None:
        """Take in an event of the group."""
        if after.state is not before.state or not self._states:
            self._end_state(point)
            self._states.append(StateSpan(state=after.state, began=point))
        if after.generation_id != before.generation_id or isinstance(event, e.CoordinatorLoaded):
            self._end_generation(point)
            if after.generation_id:
                self._begin_generation(after, point)
        match event:
            case e.AssignmentCommitted() if self._generations:
                self._generations[-1] = replace(self._generations[-1], assigned=point)
            case e.RebalanceStarted():
                self._start_rebalance(point)
        if after.state not in (GroupState.PREPARING_REBALANCE, GroupState.COMPLETING_REBALANCE):
            self._end_rebalance(point, event_type)

    def states(self) -> tuple[StateSpan, ...]:
        return tuple(self._states)

    def generations(self) -> tuple[GenerationSpan, ...]:
        return tuple(self._generations)

    def rebalances(self) -> tuple[Rebalance, ...]:
        return tuple(self._rebalances)

    def _end_state(self, point: Point) -> None:
        if self._states:
            self._states[-1] = replace(self._states[-1], ended=point)

    def _begin_generation(self, group: Group, point: Point) -> None:
        self._generations.append(
            GenerationSpan(
                generation_id=group.generation_id,
                leader_id=group.leader_id,
                protocol_name=group.protocol_name,
                members=tuple(group.members),
                began=point,
                assigned=point if group.state is GroupState.STABLE else None,
            )
        )

    def _end_generation(self, point: Point) -> None:
        if self._generations and self._generations[-1].ended is None:
            self._generations[-1] = replace(self._generations[-1], ended=point)

    def _start_rebalance(self, point: Point) -> None:
        last = self._rebalances[-1] if self._rebalances else None
        if last is not None and last.ended is None:
            self._rebalances[-1] = replace(last, starts=(*last.starts, point))
        else:
            self._rebalances.append(Rebalance(began=point, starts=(point,)))

    def _end_rebalance(self, point: Point, event_type: str) -> None:
        if self._rebalances and self._rebalances[-1].ended is None:
            self._rebalances[-1] = replace(self._rebalances[-1], ended=point, ended_by=event_type)
