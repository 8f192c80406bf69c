"""The states, generations and rebalances of a group, built while its events are folded."""

from msgspec.structs import replace

from regroup.classroom.kinds import reader_of
from regroup.classroom.points import Point
from regroup.classroom.timeline import GenerationSpan, Rebalance, StateSpan
from regroup.coordinator import events as e
from regroup.coordinator.group import Group, GroupState


class PhasesBuilder:
    """Builds the spans of states and generations, and the rebalances, of one group."""

    def __init__(self) -> None:
        self._states: list[StateSpan] = []
        self._generations: list[GenerationSpan] = []
        self._rebalances: list[Rebalance] = []

    def begin_with(self, group: Group, point: Point) -> None:
        """Start from a group whose earlier events have been trimmed, in its state at `point`."""
        reader = reader_of(group)
        self._states.append(StateSpan(state=reader.state(group), began=point))
        if reader.number(group):
            self._begin_generation(group, point)
        if reader.is_rebalancing(group):
            self._rebalances.append(Rebalance(began=point, starts=(point,)))

    def on_event(self, event: e.Event, before: Group, after: Group, point: Point, event_type: str) -> None:
        """Take in an event with the group before and after it; end and begin spans if state or number changed."""
        reader, former = reader_of(after), reader_of(before)
        state = reader.state(after)
        if state != former.state(before) or not self._states:
            self._end_state(point)
            self._states.append(StateSpan(state=state, began=point))
        is_other_kind = reader is not former
        if reader.number(after) != former.number(before) or is_other_kind or isinstance(event, e.CoordinatorLoaded):
            self._end_generation(point)
            if reader.number(after):
                self._begin_generation(after, point)
        assignor = reader.gives_assignment(event)
        if assignor is not None and self._generations:
            last = self._generations[-1]
            self._generations[-1] = replace(last, assigned=point, protocol_name=assignor or last.protocol_name)
        if reader.starts_rebalance(event, after):
            self._start_rebalance(point)
        if not reader.is_rebalancing(after):
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
        reader = reader_of(group)
        self._generations.append(
            GenerationSpan(
                generation_id=reader.number(group),
                leader_id=reader.leader_id(group),
                protocol_name=reader.protocol_name(group),
                members=tuple(reader.members(group)),
                began=point,
                assigned=point if reader.state(group) == GroupState.STABLE else None,
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
