"""Folds the events of one group to a timeline, with the coordinator's own `evolve`.

builder = TimelineBuilder("payments")
for record in records:
    builder.on_record(record)
timeline = builder.timeline()
"""

from collections.abc import Iterable
from typing import Final

from regroup.classroom.fold.deadlines import armed_deadlines, deadline_facts
from regroup.classroom.fold.holdings import holdings_of
from regroup.classroom.fold.members import MembersBuilder
from regroup.classroom.fold.offsets import OffsetsBuilder
from regroup.classroom.fold.ownership import OwnershipBuilder
from regroup.classroom.fold.phases import PhasesBuilder
from regroup.classroom.fold.sessions import SessionsBuilder
from regroup.classroom.kinds import changed_members, members_of, reader_of
from regroup.classroom.points import Point
from regroup.classroom.timeline import BEFORE, ArmedDeadline, GroupTimeline, TimelineMoment
from regroup.coordinator import events as e
from regroup.coordinator.evolve import evolve
from regroup.coordinator.group import Group, GroupKind, MemberId
from regroup.coordinator.serialization import UNREADABLE_ERRORS, damaged, decode_cause, decode_event
from regroup.server.cluster.events import PartitionsAdded, TopicCreated, TopicDeleted, decode_cluster_event
from regroup.storage.records import Record

TOPIC_EVENT_TYPES: Final = ("topic-created", "partitions-added", "topic-deleted")
"""Events of the cluster that say how many partitions a topic has; every timeline needs them."""


class TimelineBuilder:
    """Builds a group's timeline from the records of the group and of topics, given in the order of positions."""

    def __init__(self, group_id: str, *, trimmed_through: Point | None = None, group: Group | None = None) -> None:
        """Begin with `group` as it was at `trimmed_through`, if events up to that point have been trimmed."""
        self._group = group or Group(group_id=group_id)
        self._is_trimmed = trimmed_through is not None
        self._began = self._last = trimmed_through
        self._moments: list[TimelineMoment] = []
        self._protocol_type = self._group.shown_protocol_type
        self._members_of_last: tuple[MemberId, ...] = tuple(members_of(self._group))
        self._ownership, self._members, self._phases = OwnershipBuilder(), MembersBuilder(), PhasesBuilder()
        self._holdings = holdings_of(self._ownership)
        self._offsets = OffsetsBuilder()
        self._sessions = SessionsBuilder()
        self._deadline_facts: tuple[object, ...] = ()
        self._deadlines: tuple[ArmedDeadline, ...] = ()
        if trimmed_through is not None:
            self._offsets.begin_with(self._group, trimmed_through)
            self._holdings[self._group.kind].begin_with(self._group)
            self._ownership.update(trimmed_through, BEFORE)
            self._members.begin_with(self._group, trimmed_through)
            self._phases.begin_with(self._group, trimmed_through)
            self._sessions.begin_with(self._group, trimmed_through)

    def on_record(self, record: Record) -> None:
        """Take in a record of the group or of a topic. Raises UnknownEvent, UnknownClusterEvent, StoreDamaged."""
        try:
            if record.group is None:
                self._on_topic(record)
            else:
                self._on_event(record)
        except UNREADABLE_ERRORS as error:
            raise damaged(f"Record {record.position}", error) from error

    @property
    def group(self) -> Group:
        """The group after the last record."""
        return self._group

    @property
    def event_count(self) -> int:
        """How many events of the group `on_record` has taken in."""
        return len(self._moments)

    @property
    def has_history(self) -> bool:
        """Whether the group has an event, or a snapshot in place of trimmed events, so that a timeline can be made."""
        return self._began is not None

    def timeline(self) -> GroupTimeline:
        """The timeline of the records so far. Raises ValueError if the group has no history."""
        if self._began is None or self._last is None:
            raise ValueError(f"group {self._group.group_id!r} has no events")
        return GroupTimeline(
            group_id=self._group.group_id,
            protocol_type=self._protocol_type,
            began=self._began,
            last=self._last,
            is_trimmed=self._is_trimmed,
            moments=tuple(self._moments),
            lanes=self._members.lanes(),
            held_requests=self._members.held_requests(),
            states=self._phases.states(),
            generations=self._phases.generations(),
            rebalances=self._phases.rebalances(),
            ownership=self._ownership.spans(),
            offsets=self._offsets.steps(),
            sessions=self._sessions.sessions(),
            topic_names=dict(self._ownership.topic_names),
        )

    def _on_topic(self, record: Record) -> None:
        if record.type not in TOPIC_EVENT_TYPES:
            return
        point = Point(record.position, record.at_ms)
        match decode_cluster_event(record):
            case TopicCreated(name=name, partitions=partitions, topic_id=topic_id):
                self._ownership.on_topic(name, partitions, point, record.type, topic_id)
            case PartitionsAdded(name=name, partitions=partitions):
                self._ownership.on_topic(name, partitions, point, record.type)
            case TopicDeleted(name=name):
                self._ownership.on_topic(name, 0, point, record.type)

    def _on_event(self, record: Record) -> None:
        event, before = decode_event(record), self._group
        after = self._group = evolve(before, event)
        point = Point(record.position, record.at_ms)
        self._began, self._last = self._began or point, point
        self._protocol_type = after.shown_protocol_type or self._protocol_type
        changed = changed_members(event, before, after)
        self._holdings[after.kind].on_event(event, before, after, changed)
        self._ownership.update(point, record.type)
        self._members.on_event(event, before, after, changed, point, record.type)
        self._phases.on_event(event, before, after, point, record.type)
        self._offsets.on_event(event, before, after, point)
        self._sessions.on_event(event, before, after, changed, point)
        former, present = members_of(before), members_of(after)
        if any((each in former) != (each in present) for each in changed):
            self._members_of_last = tuple(present)
        joined = len(present) > len(former)
        self._moments.append(self._moment(record, event, after, joined=joined))

    def _moment(self, record: Record, event: e.Event, after: Group, *, joined: bool) -> TimelineMoment:
        reader = reader_of(after)
        return TimelineMoment(
            position=record.position,
            event_number=record.event_number,
            coordinator_epoch=record.coordinator_epoch,
            at_ms=record.at_ms,
            type=record.type,
            event=event,
            cause=decode_cause(record),
            state=reader.state(after),
            generation_id=reader.number(after),
            leader_id=reader.leader_id(after),
            members=self._members_of_last,
            deadlines=self._armed_deadlines(after),
            kind=reader.kind,
            joined=joined,
        )

    def _armed_deadlines(self, after: Group) -> tuple[ArmedDeadline, ...]:
        """The group's running deadlines after an event; computed only if what they depend on has changed."""
        if after.kind is not GroupKind.CLASSIC:
            return armed_deadlines(after)
        facts = deadline_facts(after)
        if facts != self._deadline_facts:
            self._deadline_facts, self._deadlines = facts, armed_deadlines(after)
        return self._deadlines


def timeline_of(group_id: str, records: Iterable[Record]) -> GroupTimeline:
    """The timeline of a group whose whole history is among these records. Raises as `TimelineBuilder` does."""
    builder = TimelineBuilder(group_id)
    for record in records:
        if record.group in (None, group_id):
            builder.on_record(record)
    return builder.timeline()
