"""Folds the events of one group to a timeline, with the coordinator's own `evolve`.

builder = TimelineBuilder("payments")
for record in records:
    builder.on_record(record)
timeline = builder.timeline()
"""

from collections.abc import Iterable
from typing import Final

from regroup.classroom.fold.deadlines import armed_deadlines, deadline_facts
from regroup.classroom.fold.members import MembersBuilder
from regroup.classroom.fold.offsets import OffsetsBuilder
from regroup.classroom.fold.ownership import OwnershipBuilder
from regroup.classroom.fold.phases import PhasesBuilder
from regroup.classroom.fold.sessions import SessionsBuilder
from regroup.classroom.timeline import BEFORE, ArmedDeadline, GroupTimeline, Point, TimelineMoment
from regroup.coordinator import events as e
from regroup.coordinator.evolve import evolve
from regroup.coordinator.group import Group, GroupKind, MemberId
from regroup.coordinator.serialization import UNREADABLE_ERRORS, damaged, decode_cause, decode_event
from regroup.protocol.topic_ids import topic_id_bytes
from regroup.server.cluster.events import PartitionsAdded, TopicCreated, TopicDeleted, decode_cluster_event
from regroup.storage.records import Record

TOPIC_EVENT_TYPES: Final = ("topic-created", "partitions-added", "topic-deleted")
"""Events of the cluster that say how many partitions a topic has; every timeline needs them."""

ONE_MEMBER_EVENTS: Final = (e.MemberJoined, e.MemberRejoined, e.MemberSynced, e.MemberLeft, e.MemberRemoved)
"""Events that change the one member that they name, and no other."""


class TimelineBuilder:
    """Takes the records of one group, and those of topics, in the order of their positions."""

    def __init__(self, group_id: str, *, trimmed_through: Point | None = None, group: Group | None = None) -> None:
        """`group` is the group at the position up to which events have been trimmed, if any have."""
        self._group = group or Group(group_id=group_id)
        self._is_trimmed = trimmed_through is not None
        self._has_consumer_protocol = self._group.kind is GroupKind.CONSUMER
        self._began = self._last = trimmed_through
        self._moments: list[TimelineMoment] = []
        self._protocol_type = self._group.protocol_type
        self._members_of_last: tuple[MemberId, ...] = tuple(self._group.members)
        self._ownership, self._members, self._phases = OwnershipBuilder(), MembersBuilder(), PhasesBuilder()
        self._offsets = OffsetsBuilder()
        self._sessions = SessionsBuilder()
        self._topic_ids: dict[bytes, str] = {}
        self._deadline_facts: tuple[object, ...] = ()
        self._deadlines: tuple[ArmedDeadline, ...] = ()
        if trimmed_through is not None:
            self._offsets.begin_with(self._group, trimmed_through)
            self._ownership.begin_with(self._group, trimmed_through, BEFORE)
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
        """How many events of the group were taken in."""
        return len(self._moments)

    @property
    def has_consumer_protocol(self) -> bool:
        """Whether the group was one of the consumer protocol (KIP-848), which timelines do not show."""
        return self._has_consumer_protocol

    @property
    def has_history(self) -> bool:
        """Whether there is anything of the group to show."""
        return self._began is not None

    def timeline(self) -> GroupTimeline:
        """The timeline of what was taken in. Raises ValueError if there was nothing of the group."""
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
            topic_ids=dict(self._topic_ids),
        )

    def _on_topic(self, record: Record) -> None:
        if record.type not in TOPIC_EVENT_TYPES:
            return
        point = Point(record.position, record.at_ms)
        match decode_cluster_event(record):
            case TopicCreated(name=name, partitions=partitions, topic_id=topic_id):
                self._topic_ids[topic_id_bytes(topic_id)] = name
                self._ownership.on_topic(name, partitions, point, record.type)
            case PartitionsAdded(name=name, partitions=partitions):
                self._ownership.on_topic(name, partitions, point, record.type)
            case TopicDeleted(name=name):
                self._ownership.on_topic(name, 0, point, record.type)

    def _on_event(self, record: Record) -> None:
        event, before = decode_event(record), self._group
        after = self._group = evolve(before, event)
        self._has_consumer_protocol = self._has_consumer_protocol or after.kind is GroupKind.CONSUMER
        point = Point(record.position, record.at_ms)
        self._began, self._last = self._began or point, point
        self._protocol_type = after.protocol_type or self._protocol_type
        changed = changed_members(event, before, after)
        self._ownership.on_event(event, before, after, changed, point, record.type)
        self._members.on_event(event, before, after, changed, point, record.type)
        self._phases.on_event(event, before, after, point, record.type)
        self._offsets.on_event(event, before, after, point)
        self._sessions.on_event(event, before, after, changed, point)
        if any((each in before.members) != (each in after.members) for each in changed):
            self._members_of_last = tuple(after.members)
        self._moments.append(self._moment(record, event, after))

    def _moment(self, record: Record, event: e.Event, after: Group) -> TimelineMoment:
        return TimelineMoment(
            position=record.position,
            event_number=record.event_number,
            coordinator_epoch=record.coordinator_epoch,
            at_ms=record.at_ms,
            type=record.type,
            event=event,
            cause=decode_cause(record),
            state=after.state,
            generation_id=after.generation_id,
            leader_id=after.leader_id,
            members=self._members_of_last,
            deadlines=self._armed_deadlines(after),
        )

    def _armed_deadlines(self, after: Group) -> tuple[ArmedDeadline, ...]:
        """Most events leave the deadlines as they are."""
        facts = deadline_facts(after)
        if facts != self._deadline_facts:
            self._deadline_facts, self._deadlines = facts, armed_deadlines(after)
        return self._deadlines


def changed_members(event: e.Event, before: Group, after: Group) -> Iterable[MemberId]:
    """The members that an event may have changed, added or removed."""
    if before.members is after.members:
        return ()
    if isinstance(event, ONE_MEMBER_EVENTS):
        return (event.member_id,)
    return dict.fromkeys((*before.members, *after.members))


def timeline_of(group_id: str, records: Iterable[Record]) -> GroupTimeline:
    """The timeline of a group whose whole history is among these records. Raises as `TimelineBuilder` does."""
    builder = TimelineBuilder(group_id)
    for record in records:
        if record.group in (None, group_id):
            builder.on_record(record)
    return builder.timeline()
