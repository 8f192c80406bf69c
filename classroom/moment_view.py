"""A group after one event, as values to show: its state and last move, what each member does, which deadlines run, and
who owns what.

views = MomentViews(timeline)
view = views[12]

The index is made once for a timeline; a view is looked up in it, so that a step does not read the history again.
"""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from typing import NamedTuple, TypeVar

import msgspec

from regroup.classroom.kinds import READERS, AnyGroupState, reconciliation_of
from regroup.classroom.points import Point
from regroup.classroom.timeline import (
    ArmedDeadline,
    GenerationSpan,
    GroupTimeline,
    HeldRequest,
    Lane,
    PartitionSpan,
    Rebalance,
    StateSpan,
    TimelineMoment,
)
from regroup.coordinator import events as e
from regroup.coordinator.commands import DeadlineKind
from regroup.coordinator.consumer_group import ConsumerMember
from regroup.coordinator.group import AwaitedResponse, GroupKind, GroupState, MemberId
from regroup.protocol.consumer.subscription import TopicPartition

Span = TypeVar("Span", HeldRequest, Lane, StateSpan, GenerationSpan, Rebalance)


class MemberPhase(StrEnum):
    """What a member waits for after an event, or has yet to do: a request is held, or expected, or neither."""

    JOIN_HELD = "JoinGroup held"
    """Its JoinGroup waits for the end of the join phase."""
    SYNC_HELD = "SyncGroup held"
    """Its SyncGroup waits for the leader's assignment."""
    JOIN_EXPECTED = "JoinGroup expected"
    """A rebalance runs, and the member has not sent JoinGroup."""
    SYNC_EXPECTED = "SyncGroup expected"
    """The generation has started, and the member has not fetched its assignment."""
    ASSIGNED = "assigned"
    """It has received its assignment."""
    STABLE = "STABLE"
    """A member of the consumer protocol: it has its whole share of the target of its epoch."""
    UNREVOKED_PARTITIONS = "UNREVOKED_PARTITIONS"
    """It was asked to give up partitions, and has not reported that it did."""
    UNRELEASED_PARTITIONS = "UNRELEASED_PARTITIONS"
    """It waits for partitions that other members have not given up."""
    UNKNOWN = "UNKNOWN"
    """A state that only a newer broker has."""
    AWAY = "away"
    """A static member of the consumer protocol that has left and is expected to return."""

    @property
    def is_held(self) -> bool:
        """Whether the coordinator holds a request of the member, which protects it from its session timeout."""
        return self in (MemberPhase.JOIN_HELD, MemberPhase.SYNC_HELD)


class StateMove(NamedTuple):
    """A change of the group's state, and the type of the event that made it."""

    before: AnyGroupState
    after: AnyGroupState
    at: Point
    event_type: str


class MemberAtMoment(msgspec.Struct, frozen=True, kw_only=True):
    """One member after an event."""

    lane: Lane
    phase: MemberPhase
    since: Point | None
    """When the held request came; None if none is held."""
    is_leader: bool
    generation_id: int | None
    """The generation that it takes part in; None before the first one. Of a member of the consumer protocol
    its epoch."""
    owned: tuple[TopicPartition, ...]
    assigned: tuple[TopicPartition, ...]


class ClockAtMoment(msgspec.Struct, frozen=True, kw_only=True):
    """An armed deadline after an event. Times are milliseconds."""

    deadline: ArmedDeadline
    left_ms: int
    length_ms: int
    """From the event after which it first ran, to its end."""

    @property
    def share_left(self) -> float:
        """The share of the deadline's time that is left: 1 when it is armed, 0 when it runs out."""
        return self.left_ms / self.length_ms if self.length_ms > 0 else 0.0


class MomentView(msgspec.Struct, frozen=True, kw_only=True):
    """What can be shown of a group after one of its events."""

    index: int
    """The number of the event in the timeline, from 0."""
    moment: TimelineMoment
    at_ms: int
    """The time that is shown, in epoch milliseconds: that of the event, or a later one before the next event."""
    state_since: Point
    last_move: StateMove | None
    """None if the group has had one state only."""
    may_follow: tuple[AnyGroupState, ...]
    """The states that may follow the present one, by the table that runs the code."""
    generation: GenerationSpan | None
    """None before the first generation, and without a group."""
    rebalance: Rebalance | None
    """The rebalance that runs; None if none does."""
    members: tuple[MemberAtMoment, ...]
    clocks: tuple[ClockAtMoment, ...]
    """The earliest first."""
    partitions: tuple[PartitionSpan, ...]
    believed: Mapping[TopicPartition, tuple[MemberId, ...]]
    """The members of a simulation that believed they owned a partition; empty where that was not recorded."""

    @property
    def is_of_consumer_protocol(self) -> bool:
        """Whether the group was one of the consumer protocol (KIP-848) after the event."""
        return self.moment.kind is GroupKind.CONSUMER

    @property
    def changed_members(self) -> tuple[MemberId, ...]:
        """The members that the event names, in the order of its fields."""
        named = (getattr(self.moment.event, name, None) for name in ("member_id", "leader_id", "replaced_member_id"))
        return tuple(dict.fromkeys(filter(None, named)))


class MomentViews(Sequence[MomentView]):
    """The views of all moments of a timeline, each made when it is asked for."""

    def __init__(self, timeline: GroupTimeline) -> None:
        self._timeline = timeline
        self._held = _by_member(timeline.held_requests)
        self._lanes = _by_member(timeline.lanes)
        self._armed = _first_times(timeline.moments)

    def __len__(self) -> int:
        return len(self._timeline.moments)

    def __getitem__(self, index: int) -> MomentView:  # type: ignore[override]
        return self.at(index)

    def at(self, index: int, at_ms: int | None = None) -> MomentView:
        """The view after the event with this index, at the time `at_ms`, which must be before the next event.

        By default `at_ms` is the time of the event itself.
        """
        timeline = self._timeline
        moment = timeline.moments[index]
        at_ms = moment.at_ms if at_ms is None else at_ms
        position, reader = moment.position, READERS[moment.kind]
        generation = _last_begun(timeline.generations, position)
        if generation is not None and generation.ended is not None and generation.ended.position <= position:
            generation = None
        state_number = bisect_right(timeline.states, position, key=_began) - 1
        partitions = tuple(timeline.ownership_at(position))
        return MomentView(
            index=range(len(self))[index],
            moment=moment,
            at_ms=at_ms,
            state_since=timeline.states[state_number].began,
            last_move=self._move_to(state_number),
            may_follow=tuple(each for each in reader.states if each in reader.transitions[moment.state]),
            generation=generation,
            rebalance=_open_at(timeline.rebalances, position),
            members=tuple(self._members(moment, generation, partitions)),
            clocks=tuple(self._clock(each, at_ms) for each in moment.deadlines),
            partitions=partitions,
            believed=_believed(timeline, position),
        )

    def _move_to(self, state_number: int) -> StateMove | None:
        if not state_number:
            return None
        before, after = self._timeline.states[state_number - 1 : state_number + 1]
        moment = self._timeline.moment_at(after.began.position)
        return StateMove(before.state, after.state, after.began, moment.type if moment else "")

    def _members(
        self, moment: TimelineMoment, generation: GenerationSpan | None, partitions: Iterable[PartitionSpan]
    ) -> Iterable[MemberAtMoment]:
        owned: dict[MemberId, list[TopicPartition]] = defaultdict(list)
        assigned: dict[MemberId, list[TopicPartition]] = defaultdict(list)
        for span in partitions:
            for member_id in span.owners:
                owned[member_id].append(span.partition)
            for member_id in span.assigned_to:
                assigned[member_id].append(span.partition)
        for member_id in moment.members:
            lane = _last_begun(self._lanes[member_id], moment.position)
            assert lane is not None
            held = self._held_at(member_id, moment.position)
            reconciles = reconciliation_of(self._timeline.member_at(member_id, moment.position))
            takes_part = generation is not None and _takes_part(lane, generation)
            number = generation.generation_id if generation is not None and takes_part else None
            yield MemberAtMoment(
                lane=lane,
                phase=_reconciliation_phase(reconciles) if reconciles else self._phase(lane, held, moment, generation),
                since=held.began if held else None,
                is_leader=member_id == moment.leader_id,
                generation_id=reconciles.epoch if reconciles else number,
                owned=tuple(owned[member_id]),
                assigned=tuple(assigned[member_id]),
            )

    def _held_at(self, member_id: MemberId, position: int) -> HeldRequest | None:
        return _open_at(self._held.get(member_id, ()), position)

    def _phase(
        self, lane: Lane, held: HeldRequest | None, moment: TimelineMoment, generation: GenerationSpan | None
    ) -> MemberPhase:
        if held is not None:
            return MemberPhase.JOIN_HELD if held.response is AwaitedResponse.JOIN else MemberPhase.SYNC_HELD
        match moment.state:
            case GroupState.PREPARING_REBALANCE:
                return MemberPhase.JOIN_EXPECTED
            case GroupState.COMPLETING_REBALANCE:
                return MemberPhase.SYNC_EXPECTED
        has_fetched = generation is None or self._has_fetched(lane, generation, moment.position)
        return MemberPhase.ASSIGNED if has_fetched else MemberPhase.SYNC_EXPECTED

    def _has_fetched(self, lane: Lane, generation: GenerationSpan, position: int) -> bool:
        """Whether a member of a group in Stable has its assignment of this generation.

        It has if it has sent SyncGroup since the generation began, was loaded with the generation, or replaced a static
        member in it.
        """
        start = self._timeline.moment_at(generation.began.position)
        if start is None:
            is_fetched_from_start = generation.assigned == generation.began
        else:
            is_fetched_from_start = not isinstance(start.event, e.GenerationStarted)
        if is_fetched_from_start or lane.began > generation.began:
            return True
        last = _last_begun(self._held.get(lane.member_id, ()), position)
        return last is not None and last.response is AwaitedResponse.SYNC and last.began >= generation.began

    def _clock(self, deadline: ArmedDeadline, at_ms: int) -> ClockAtMoment:
        armed_ms = self._armed[_key(deadline)]
        return ClockAtMoment(
            deadline=deadline,
            left_ms=max(0, deadline.at_ms - at_ms),
            length_ms=max(0, deadline.at_ms - armed_ms),
        )


def _reconciliation_phase(member: ConsumerMember) -> MemberPhase:
    return MemberPhase.AWAY if member.is_away else MemberPhase[member.state.name]


def _believed(timeline: GroupTimeline, position: int) -> Mapping[TopicPartition, tuple[MemberId, ...]]:
    found: dict[TopicPartition, tuple[MemberId, ...]] = {}
    for view in timeline.views_at(position):
        for partition in view.partitions:
            found[partition] = (*found.get(partition, ()), view.member_id)
    return found


def _takes_part(lane: Lane, generation: GenerationSpan) -> bool:
    """Whether the lane's member was in the generation when it started, or replaced a static member that was."""
    return lane.member_id in generation.members or (lane.replaces is not None and lane.replaces in generation.members)


def _key(deadline: ArmedDeadline) -> tuple[DeadlineKind, MemberId, int]:
    return deadline.kind, deadline.member_id, deadline.at_ms


def _first_times(moments: Iterable[TimelineMoment]) -> Mapping[tuple[DeadlineKind, MemberId, int], int]:
    """The time, in epoch milliseconds, of the first moment at which each deadline ran."""
    first: dict[tuple[DeadlineKind, MemberId, int], int] = {}
    for moment in moments:
        for deadline in moment.deadlines:
            first.setdefault(_key(deadline), moment.at_ms)
    return first


ByMember = TypeVar("ByMember", HeldRequest, Lane)


def _by_member(spans: Iterable[ByMember]) -> Mapping[MemberId, list[ByMember]]:
    found: dict[MemberId, list[ByMember]] = defaultdict(list)
    for span in spans:
        found[span.member_id].append(span)
    return found


def _began(span: Span) -> int:
    return span.began.position


def _last_begun(spans: Sequence[Span], position: int) -> Span | None:
    """The last span that begins at or before a position; None if all begin later. `spans` are in order of begin."""
    index = bisect_right(spans, position, key=_began) - 1
    return spans[index] if index >= 0 else None


def _open_at(spans: Sequence[Span], position: int) -> Span | None:
    """The span that is open after the event at a position; None if there is none. `spans` must not overlap."""
    span = _last_begun(spans, position)
    return span if span is not None and (span.ended is None or position < span.ended.position) else None
