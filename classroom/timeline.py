"""The history of one group as values: what happened when, which members it had, and who owned which partition.

A timeline holds what the store's events say. Which requests were refused and when a member was last seen is in recorded
exchanges alone; which messages were lost, and what a member believed it owned, is in the observations of a simulation.
Without them a picture says what was not recorded, and draws nothing of it (`GroupTimeline.recorded`).
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping
from functools import cached_property
from math import inf
from typing import Final, NamedTuple

import msgspec

from regroup.classroom.kinds import AnyGroupState, AnyMember, Awaited
from regroup.classroom.points import Point, PositionRange
from regroup.classroom.recorded_values import LogEnd, Recorded, RepeatedRead, TimelineExchange, ViewSpan
from regroup.coordinator.commands import DeadlineKind
from regroup.coordinator.events import Event
from regroup.coordinator.group import GroupKind, MemberId
from regroup.coordinator.serialization import Cause
from regroup.protocol.consumer.subscription import TopicPartition


class ArmedDeadline(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A deadline that runs: when it ends, in epoch milliseconds, and what follows then.

    Those of a moment do not include session timeouts, because when a member was last seen is in no event;
    `recorded/session_clocks.py` has them where exchanges were recorded.
    """

    kind: DeadlineKind
    at_ms: int
    member_id: MemberId = ""
    follows: str
    uncertain_ms: int = 0
    """It may end by so much later; above 0 for a session alone, where not every time of a run was recorded."""


class TimelineMoment(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One event of the group, and the group after it."""

    position: int
    event_number: int
    coordinator_epoch: int
    at_ms: int
    type: str
    """A stable name such as `member-joined`."""
    event: Event
    cause: Cause | None
    """None if the store does not hold it."""
    state: AnyGroupState
    generation_id: int
    """Of a group of the consumer protocol the group epoch."""
    leader_id: MemberId | None
    members: tuple[MemberId, ...]
    deadlines: tuple[ArmedDeadline, ...]
    kind: GroupKind = GroupKind.CLASSIC
    joined: bool = False
    """Whether the event added a member."""

    @property
    def address(self) -> str:
        """The moment's name in a link: `event-123`, with the position in the store."""
        return f"event-{self.position}"

    @property
    def point(self) -> Point:
        return Point(self.position, self.at_ms)


class Lane(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One member id, from its first JoinGroup with that id to its removal."""

    member_id: MemberId
    name: str
    """The client id, with the first digits of the member id's UUID where several members have the same."""
    client_id: str
    client_host: str
    instance_id: str | None
    session_timeout_ms: int
    began: Point
    began_by: str
    """Type of the event that began it, or `BEFORE` for a member that the group had before the first event here."""
    ended: Point | None = None
    """None while it is a member."""
    ended_by: str = ""
    """Type of the event that ended it; empty while it is a member."""
    replaces: MemberId | None = None
    """The former member id of this static member."""


BEFORE: Final = "before"
"""Stands for the event that began something, where that event has been trimmed."""


class HeldRequest(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A JoinGroup or SyncGroup whose response the coordinator holds. Begin and end are equal if it was not held.

    In a group of the consumer protocol no response is held: there it is a time in which a member has to give up
    partitions, or waits for others to do so.
    """

    member_id: MemberId
    response: Awaited
    began: Point
    ended: Point | None = None
    ended_by: str = ""
    """Type of the event that ended it; empty while it is held."""


class StateSpan(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A time during which the group was in one state."""

    state: AnyGroupState
    began: Point
    ended: Point | None = None


class GenerationSpan(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One generation, from the end of its join phase to the next generation, or to the end of the group.

    In a group of the consumer protocol one group epoch.
    """

    generation_id: int
    leader_id: MemberId | None
    """None for a generation without members, and for a group epoch."""
    protocol_name: str | None
    members: tuple[MemberId, ...]
    began: Point
    assigned: Point | None = None
    """When the leader's assignment was committed, or the target of the epoch computed; None if it never was."""
    ended: Point | None = None


class Rebalance(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A join phase and a sync phase, up to the commit of an assignment, or to a group without members.

    A rebalance that starts before the last one has ended counts as the same one: its members had no assignment between.
    In a group of the consumer protocol it lasts from a new group epoch until every member has reached the target.
    """

    began: Point
    starts: tuple[Point, ...]
    """Every `rebalance-started` or `group-epoch-bumped`, the first among them."""
    ended: Point | None = None
    """None while it runs."""
    ended_by: str = ""


class PartitionSpan(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A time during which neither the assignment nor the owners of a partition changed.

    `assigned_to` is what the coordinator has, and `regroup replay` shows. `owners` are those of them that have received
    the assignment, and have not given the partition up with a JoinGroup that does not list it. A span without owners is
    a gap.

    In a group of the consumer protocol `assigned_to` is whose share of the target it is, and `owners` are those that
    hold it; `revoking` are those of them that were asked to give it up.
    """

    partition: TopicPartition
    assigned_to: tuple[MemberId, ...]
    owners: tuple[MemberId, ...]
    began: Point
    began_by: str
    """Type of the event that began it, of the group or of a topic; or `BEFORE`."""
    ended: Point | None = None
    ended_by: str = ""
    revoking: tuple[MemberId, ...] = ()


class CommittedStep(NamedTuple):
    """A commit of a partition, or (with None) the deletion of its committed offset."""

    began: Point
    offset: int | None
    """The offset of the next record to read."""


class MemberSession(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What events say about the session timeout of one member id."""

    changes: tuple[tuple[int, AnyMember | None], ...]
    """The member from each position on, at which it has changed; None once it is no member."""
    started: tuple[Point, ...]
    """The events that started its session timeout again."""


class GroupTimeline(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """The history of one group. Every sequence is in the order of the events."""

    group_id: str
    protocol_type: str
    began: Point
    """The first event, or the position up to which events have been trimmed."""
    last: Point
    """The last event."""
    is_trimmed: bool
    moments: tuple[TimelineMoment, ...]
    lanes: tuple[Lane, ...]
    """A static member has one lane for each of its processes. A member id that a load brought back has two."""
    held_requests: tuple[HeldRequest, ...]
    states: tuple[StateSpan, ...]
    generations: tuple[GenerationSpan, ...]
    rebalances: tuple[Rebalance, ...]
    ownership: Mapping[TopicPartition, tuple[PartitionSpan, ...]]
    """By partition, in the order of topics and indexes. Times at which no member subscribed to a topic are left out."""
    offsets: Mapping[TopicPartition, tuple[CommittedStep, ...]] = {}
    """Committed offsets, by partition, in the order of topics and indexes."""
    exchanges: tuple[TimelineExchange, ...] = ()
    """The recorded requests that name the group, and those that were lost on their way, in the order of `at_ms`."""
    views: tuple[ViewSpan, ...] = ()
    """What the members of a simulation believed they owned, in the order of their begin."""
    recorded: Recorded = Recorded()
    log_ends: Mapping[TopicPartition, tuple[LogEnd, ...]] = {}
    """Where the logs of partitions of the group ended, as far as recorded; of logs that no response names, nothing."""
    repeated_reads: Mapping[TopicPartition, tuple[RepeatedRead, ...]] = {}
    """The records that members of a simulation read again."""
    sessions: Mapping[MemberId, MemberSession] = {}
    topic_names: Mapping[str, str] = {}
    """The names of topics by their ids, which events of the consumer protocol have."""

    @property
    def kind(self) -> GroupKind:
        """The kind of the group after its last event, or, if the group was deleted, the kind that it had before."""
        existing = (each.kind for each in reversed(self.moments) if each.state != "Dead")
        return next(existing, GroupKind.CLASSIC)

    @property
    def positions(self) -> PositionRange:
        """The positions of the begin and of the last event of the whole history."""
        return PositionRange(self.began.position, self.last.position)

    @cached_property
    def names(self) -> Mapping[MemberId, str]:
        """The name of each lane by its member id."""
        return {lane.member_id: lane.name for lane in self.lanes}

    @cached_property
    def names_of_ids(self) -> Mapping[str, str]:
        """The names of members by member id, and of topics by topic id, for sentences."""
        return {**self.topic_names, **self.names}

    def member_at(self, member_id: MemberId, position: int) -> AnyMember | None:
        """The member as the coordinator had it after the event at a position; None if it was not in the group then."""
        session = self.sessions.get(member_id)
        index = bisect_right(session.changes, position, key=lambda each: each[0]) if session else 0
        return session.changes[index - 1][1] if session and index else None

    @cached_property
    def _positions(self) -> list[int]:
        return [moment.position for moment in self.moments]

    def moment_at(self, position: int) -> TimelineMoment | None:
        """The last moment at or before a position in the store; None if there is none."""
        index = bisect_right(self._positions, position)
        return self.moments[index - 1] if index else None

    def position_at(self, at_ms: int) -> int:
        """The position of the last event at or before a time; the begin of the history if there is none."""
        index = bisect_right(self.moments, at_ms, key=lambda moment: moment.at_ms)
        return self.moments[index - 1].position if index else self.began.position

    def times_of(self, within: PositionRange) -> tuple[float, float]:
        """The times of the first and the last event of a part of the history, in epoch milliseconds.

        For a part at the begin or the end of the history the bound is infinite on this side, so that requests before
        the first or after the last event belong to the part.
        """
        moments = self.moments_between(*within)
        is_begin = not moments or moments[0] is self.moments[0]
        is_end = not moments or moments[-1] is self.moments[-1]
        return -inf if is_begin else moments[0].at_ms, inf if is_end else moments[-1].at_ms

    def moments_between(self, first: int, last: int) -> tuple[TimelineMoment, ...]:
        """The moments whose positions lie between these, both included."""
        return self.moments[bisect_right(self._positions, first - 1) : bisect_right(self._positions, last)]

    def ownership_at(self, position: int) -> Iterator[PartitionSpan]:
        """Yield the span of each partition that is open after the event at a position."""
        for spans in self.ownership.values():
            index = bisect_right(spans, position, key=lambda span: span.began.position) - 1
            if index >= 0 and ((end := spans[index].ended) is None or position < end.position):
                yield spans[index]

    @cached_property
    def _exchange_times(self) -> list[int]:
        return [each.at_ms for each in self.exchanges]

    def exchanges_between(self, from_ms: int, to_ms: int) -> tuple[TimelineExchange, ...]:
        """The exchanges that began between two times, both included."""
        times = self._exchange_times
        return self.exchanges[bisect_left(times, from_ms) : bisect_right(times, to_ms)]

    def views_at(self, position: int) -> Iterator[ViewSpan]:
        """Yield what each member believed it owned right after the event at a position."""
        moment = self.moment_at(position)
        now = (moment.at_ms if moment else self.began.at_ms, position)
        for each in self.views:
            has_ended = each.ended is not None and (each.ended.at_ms, each.ended.position) <= now
            if (each.began.at_ms, each.began.position) <= now and not has_ended:
                yield each

    def lanes_between(self, first: int, last: int) -> tuple[Lane, ...]:
        """The lanes of members that the group had at some time between two positions."""
        return tuple(lane for lane in self.lanes if _overlaps(lane.began, lane.ended, first, last))


def _overlaps(began: Point, ended: Point | None, first: int, last: int) -> bool:
    return began.position <= last and (ended is None or ended.position >= first)
