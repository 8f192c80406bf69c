"""The history of one group as values: what happened when, which members it had, and who owned which partition.

A timeline holds what the store's events say. Events do not say when a member was last seen, which messages were lost,
which requests were refused, or what a member believed it owned: a picture names these as `NOT_IN_EVENTS`.
"""

from bisect import bisect_right
from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Final, NamedTuple

import msgspec

from regroup.coordinator.commands import DeadlineKind
from regroup.coordinator.events import Event
from regroup.coordinator.group import AwaitedResponse, GroupState, MemberId
from regroup.coordinator.serialization import Cause
from regroup.protocol.consumer.subscription import TopicPartition

NOT_IN_EVENTS: Final = "session clocks, lost messages, refused requests and the members' own views"
"""What a timeline made of events alone lacks."""


class Point(NamedTuple):
    """A place in the history: the position of an event in the store, and its time in epoch milliseconds."""

    position: int
    at_ms: int


class PositionRange(NamedTuple):
    """The positions of the first and the last event of a part of the history."""

    first: int
    last: int


class ArmedDeadline(msgspec.Struct, frozen=True, kw_only=True):
    """A deadline that runs: when it ends, in epoch milliseconds, and what follows then.

    Session timeouts are not among them: when a member was last seen is in no event.
    """

    kind: DeadlineKind
    at_ms: int
    member_id: MemberId = ""
    follows: str


class TimelineMoment(msgspec.Struct, frozen=True, kw_only=True):
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
    state: GroupState
    generation_id: int
    leader_id: MemberId | None
    members: tuple[MemberId, ...]
    deadlines: tuple[ArmedDeadline, ...]

    @property
    def address(self) -> str:
        """The moment's name in a link: `event-123`, with the position in the store."""
        return f"event-{self.position}"

    @property
    def point(self) -> Point:
        return Point(self.position, self.at_ms)


class Lane(msgspec.Struct, frozen=True, kw_only=True):
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


class HeldRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A JoinGroup or SyncGroup whose response the coordinator holds. Begin and end are equal if it was not held."""

    member_id: MemberId
    response: AwaitedResponse
    began: Point
    ended: Point | None = None
    ended_by: str = ""
    """Type of the event that ended it; empty while it is held."""


class StateSpan(msgspec.Struct, frozen=True, kw_only=True):
    """A time during which the group had one state."""

    state: GroupState
    began: Point
    ended: Point | None = None


class GenerationSpan(msgspec.Struct, frozen=True, kw_only=True):
    """One generation, from the end of its join phase to the next generation, or to the end of the group."""

    generation_id: int
    leader_id: MemberId | None
    """None for a generation without members."""
    protocol_name: str | None
    members: tuple[MemberId, ...]
    began: Point
    assigned: Point | None = None
    """When the leader's assignment was committed; None if it never was."""
    ended: Point | None = None


class Rebalance(msgspec.Struct, frozen=True, kw_only=True):
    """A join phase and a sync phase, up to the commit of an assignment, or to a group without members.

    A rebalance that starts before the last one has ended counts as the same one: its members had no assignment between.
    """

    began: Point
    starts: tuple[Point, ...]
    """Every `rebalance-started`, the first among them."""
    ended: Point | None = None
    """None while it runs."""
    ended_by: str = ""


class PartitionSpan(msgspec.Struct, frozen=True, kw_only=True):
    """A time during which neither the assignment nor the owners of a partition changed.

    `assigned_to` is what the coordinator has, and `regroup replay` shows. `owners` are those of them that have received
    the assignment, and have not given the partition up with a JoinGroup that does not list it. A span without owners is
    a gap.
    """

    partition: TopicPartition
    assigned_to: tuple[MemberId, ...]
    owners: tuple[MemberId, ...]
    began: Point
    began_by: str
    """Type of the event that began it, of the group or of a topic; or `BEFORE`."""
    ended: Point | None = None
    ended_by: str = ""


class CommittedStep(NamedTuple):
    """A commit of a partition, or (with None) the deletion of its committed offset."""

    began: Point
    offset: int | None
    """The offset of the next record to read."""


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

    @property
    def positions(self) -> PositionRange:
        """The whole history."""
        return PositionRange(self.began.position, self.last.position)

    @cached_property
    def names(self) -> Mapping[MemberId, str]:
        """The names of all lanes by member id."""
        return {lane.member_id: lane.name for lane in self.lanes}

    @cached_property
    def _positions(self) -> list[int]:
        return [moment.position for moment in self.moments]

    def moment_at(self, position: int) -> TimelineMoment | None:
        """The last moment up to a position in the store; None before the first."""
        index = bisect_right(self._positions, position)
        return self.moments[index - 1] if index else None

    def moments_between(self, first: int, last: int) -> tuple[TimelineMoment, ...]:
        """The moments whose positions lie between these, both included."""
        return self.moments[bisect_right(self._positions, first - 1) : bisect_right(self._positions, last)]

    def ownership_at(self, position: int) -> Iterator[PartitionSpan]:
        """The span of each partition after the event at a position."""
        for spans in self.ownership.values():
            index = bisect_right(spans, position, key=lambda span: span.began.position) - 1
            if index >= 0 and ((end := spans[index].ended) is None or position < end.position):
                yield spans[index]

    def lanes_between(self, first: int, last: int) -> tuple[Lane, ...]:
        """The lanes of members that the group had at some time between two positions."""
        return tuple(lane for lane in self.lanes if _overlaps(lane.began, lane.ended, first, last))


def _overlaps(began: Point, ended: Point | None, first: int, last: int) -> bool:
    return began.position <= last and (ended is None or ended.position >= first)
