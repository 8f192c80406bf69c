"""The history of one group as values: what happened when, which members it had, and who owned which partition.

A timeline holds what the store's events say. Which requests were refused and when a member was last seen is in recorded
exchanges alone; which messages were lost, and what a member believed it owned, is in the observations of a simulation.
Without them a picture says what was not recorded, and draws nothing of it (`GroupTimeline.recorded`).
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping
from enum import StrEnum
from functools import cached_property
from math import inf
from typing import Final, NamedTuple

import msgspec

from regroup.classroom.kinds import AnyGroupState, AnyMember, Awaited
from regroup.coordinator.commands import DeadlineKind
from regroup.coordinator.events import Event
from regroup.coordinator.group import GroupKind, MemberId
from regroup.coordinator.serialization import Cause
from regroup.protocol.consumer.subscription import TopicPartition


class Point(NamedTuple):
    """A place in the history: the position of an event in the store, and its time in epoch milliseconds."""

    position: int
    at_ms: int


class PositionRange(NamedTuple):
    """The positions of the first and the last event of a part of the history."""

    first: int
    last: int


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
    """A time during which the group had one state."""

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


class LogEnd(NamedTuple):
    """A time at which a recorded response said where the log of a partition ended, if that had changed."""

    at_ms: int
    offset: int
    """The offset that the next record gets."""


class RepeatedRead(NamedTuple):
    """Records that a member of a simulation processed, after a member of the group had processed them before."""

    at_ms: int
    client_id: str
    first: int
    """The offset of the first of them."""
    record_count: int


class MemberSession(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What events say about the session timeout of one member id."""

    changes: tuple[tuple[int, AnyMember | None], ...]
    """The member from each position on, at which it has changed; None once it is no member."""
    started: tuple[Point, ...]
    """The events that started its session timeout again."""


class ExchangeFate(StrEnum):
    """What became of a request and its response."""

    ANSWERED = "answered"
    UNANSWERED = "unanswered"
    """It waited for its response when the recording ended, or the coordinator never answers it: the held SyncGroup of a
    removed member, for example."""
    CLOSED = "closed"
    """Its connection was lost or closed before the response was sent."""
    REQUEST_LOST = "request lost"
    """It never arrived, or a fault rule dropped it."""
    RESPONSE_LOST = "response lost"
    """It was handled, and the client did not get the response."""
    LATE = "late"
    """The request or the response took longer than the network or the broker alone would have taken."""
    REPEATED = "repeated"
    """A fault rule let the request be handled twice."""


class TimelineExchange(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A request that names the group, and its response; or a run of equal heartbeats on one connection.

    Times are epoch milliseconds by the clock of the brokers. The decoded messages are read from the store on demand
    (`read_messages` in `recorded/messages.py`).
    """

    number: int
    """1, 2, 3 … in the order of the timeline."""
    member_id: MemberId
    """The member id in the request, or the one that its response gave; empty if there is none, or several."""
    client_id: str
    api: str
    """Kafka's name: `JoinGroup`."""
    version: int
    connection: str
    """The connection's name in the causes of events: `0-3@7`."""
    correlation_id: int
    """Of a run, that of the first request."""
    at_ms: int
    """When it came; for a request that never arrived, when it was sent."""
    arrived_at_ms: int | None
    """When it came; of a run, the first. None if it never arrived."""
    last_at_ms: int
    """When the last request of the run came."""
    answered_at_ms: int | None
    """When the response was sent; of a run, the first. None if none was."""
    error: str
    """`NONE`, or the first error code in the response; empty without a response."""
    fate: ExchangeFate
    reason: str = ""
    """Why it was lost, late, closed or repeated."""
    count: int = 1
    """How many equal heartbeats the run has."""
    seen_ms: tuple[int, ...] = ()
    """The known times at which the requests of a run came; fewer than `count` if several came between two writes of the
    recorder."""
    generation: int | None = None
    """The generation that the request names; None if it names none."""
    events: tuple[int, ...] = ()
    """The positions of the group's events to which it led."""
    repeats: int | None = None
    """The number of the earlier request without an answer after which the client sent this one again."""
    closed_at_ms: int | None = None
    """When its connection was closed without an answer."""
    sent_at_ms: int | None = None
    """When the client sent it, where its network was observed and the request was lost or late."""
    received_at_ms: int | None = None
    """When the client got the response, where its network was observed and the response was late."""
    recorded_number: int = 0
    """The number of its row in the recording; 0 for a request that never arrived."""

    @property
    def is_refused(self) -> bool:
        """Whether it got an error that changes nothing. MEMBER_ID_REQUIRED is how a new member gets its id (KIP-394),
        and REBALANCE_IN_PROGRESS how a heartbeat, which is accepted, reports a rebalance."""
        if self.error in ("", "NONE", "MEMBER_ID_REQUIRED", NOT_KEPT):
            return False
        return (self.api, self.error) != ("Heartbeat", "REBALANCE_IN_PROGRESS")

    @property
    def ended_at_ms(self) -> int:
        """When the last thing that is known about it was: its arrival, its response, or when the client got that."""
        return max(self.last_at_ms, self.answered_at_ms or 0, self.received_at_ms or 0)


NOT_KEPT: Final = "not kept"
"""Stands for the error code in a response of which only the begin was recorded."""


class ViewSpan(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A time during which a simulated member believed that it owned the same partitions, one or more."""

    member_id: MemberId
    """The id under which it had last joined."""
    client_id: str
    partitions: tuple[TopicPartition, ...]
    began: Point
    """With the position of the last event at that time."""
    ended: Point | None = None
    """None if it believed so until the end."""


class Recorded(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What was recorded beside the events of a group."""

    exchanges: bool = False
    """Requests and responses, at least of a part of the history: refused ones, and when a member was last seen."""
    network: bool = False
    """What the network did to each message."""
    views: bool = False
    """What members believed they owned."""
    reads: bool = False
    """Which records members read again."""
    processes: tuple[tuple[int, int | None], ...] = ()
    """Each process of the coordinators: the epoch with which it began, and from when on its exchanges were recorded, in
    epoch milliseconds; 0 if they were from its begin, and None if they were not."""

    @property
    def missing(self) -> tuple[str, ...]:
        """What was not recorded, in words."""
        parts = (
            (self.exchanges, "session clocks"),
            (self.network, "lost messages"),
            (self.exchanges, "refused requests"),
            (self.views, "the members' own views"),
        )
        return tuple(words for is_there, words in parts if not is_there)

    def is_complete(self, coordinator_epoch: int, since_ms: int) -> bool:
        """Whether every request since this time was recorded, for an event or a moment of this coordinator epoch."""
        begun = [each for each in self.processes if each[0] <= coordinator_epoch]
        recorded_since_ms = max(begun)[1] if begun else None
        return recorded_since_ms is not None and recorded_since_ms <= since_ms


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
        """The kind of the group after the last event that it had while it existed."""
        existing = (each.kind for each in reversed(self.moments) if each.state != "Dead")
        return next(existing, GroupKind.CLASSIC)

    @property
    def positions(self) -> PositionRange:
        """The whole history."""
        return PositionRange(self.began.position, self.last.position)

    @cached_property
    def names(self) -> Mapping[MemberId, str]:
        """The names of all lanes by member id."""
        return {lane.member_id: lane.name for lane in self.lanes}

    @cached_property
    def names_of_ids(self) -> Mapping[str, str]:
        """The names of all lanes by member id, and of topics by their ids: what sentences have in place of ids."""
        return {**self.topic_names, **self.names}

    def member_at(self, member_id: MemberId, position: int) -> AnyMember | None:
        """A member after the event at a position, as the coordinator had it; None if it was none then."""
        session = self.sessions.get(member_id)
        index = bisect_right(session.changes, position, key=lambda each: each[0]) if session else 0
        return session.changes[index - 1][1] if session and index else None

    @cached_property
    def _positions(self) -> list[int]:
        return [moment.position for moment in self.moments]

    def moment_at(self, position: int) -> TimelineMoment | None:
        """The last moment up to a position in the store; None before the first."""
        index = bisect_right(self._positions, position)
        return self.moments[index - 1] if index else None

    def position_at(self, at_ms: int) -> int:
        """The position of the last event up to a time; that of the begin before the first."""
        index = bisect_right(self.moments, at_ms, key=lambda moment: moment.at_ms)
        return self.moments[index - 1].position if index else self.began.position

    def times_of(self, within: PositionRange) -> tuple[float, float]:
        """The times of the first and the last event of a part, in epoch milliseconds; without bounds at the ends of the
        history, so that what came before the first event and after the last one belongs to it."""
        moments = self.moments_between(*within)
        is_begin = not moments or moments[0] is self.moments[0]
        is_end = not moments or moments[-1] is self.moments[-1]
        return -inf if is_begin else moments[0].at_ms, inf if is_end else moments[-1].at_ms

    def moments_between(self, first: int, last: int) -> tuple[TimelineMoment, ...]:
        """The moments whose positions lie between these, both included."""
        return self.moments[bisect_right(self._positions, first - 1) : bisect_right(self._positions, last)]

    def ownership_at(self, position: int) -> Iterator[PartitionSpan]:
        """The span of each partition after the event at a position."""
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
        """What each member believed it owned at the time of the event at a position, after it."""
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
