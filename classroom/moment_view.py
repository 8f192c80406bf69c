"""One moment of a timeline as a whole: the phase of each member, what it owns, and the deadlines that run.

view = moment_view(timeline, position)
for member in view.members:
    print(member.name, member.phase, member.owns)
"""

from bisect import bisect_right
from collections.abc import Callable, Iterator
from enum import StrEnum
from typing import Any, Final

import msgspec

from regroup.classroom.sentences import sentence_of
from regroup.classroom.timeline import (
    GenerationSpan,
    GroupTimeline,
    HeldRequest,
    Lane,
    Point,
    TimelineMoment,
)
from regroup.classroom.wording import MemberNames, partitions_text
from regroup.coordinator import events as e
from regroup.coordinator.events import Event
from regroup.coordinator.group import AwaitedResponse, GroupState, MemberId, OffsetsByPartition
from regroup.protocol.consumer.subscription import TopicPartition


class MemberPhase(StrEnum):
    """Where a member stands in the course of a rebalance, as far as the coordinator has seen it."""

    MUST_JOIN = "JoinGroup awaited"
    """A rebalance runs, and this member has not sent JoinGroup since it started."""
    JOINING = "JoinGroup held"
    MUST_SYNC = "SyncGroup awaited"
    """A generation has started, and this member has not sent SyncGroup in it."""
    SYNCING = "SyncGroup held"
    ASSIGNED = "assigned"
    """It has received its assignment."""


class MemberAtMoment(msgspec.Struct, frozen=True, kw_only=True):
    """A member of the group at one moment."""

    member_id: MemberId
    name: str
    phase: MemberPhase
    is_leader: bool
    held_since_ms: int | None
    """Epoch milliseconds of the request that is held; None if none is."""
    owns: tuple[TopicPartition, ...]
    assigned: tuple[TopicPartition, ...]


class MomentView(msgspec.Struct, frozen=True, kw_only=True):
    """The group after one event. `moment.deadlines` are the deadlines that run then."""

    moment: TimelineMoment
    members: tuple[MemberAtMoment, ...]
    """In the order of their first JoinGroup."""
    without_owner: tuple[TopicPartition, ...]


def moment_view(timeline: GroupTimeline, position: int) -> MomentView:
    """The group after the last event up to a position. Raises ValueError for one before the first event."""
    moment = timeline.moment_at(position)
    if moment is None:
        raise ValueError(f"no event of group {timeline.group_id!r} up to position {position}")
    owns: dict[MemberId, list[TopicPartition]] = {}
    assigned: dict[MemberId, list[TopicPartition]] = {}
    without_owner = []
    for span in timeline.ownership_at(position):
        for member_id in span.owners:
            owns.setdefault(member_id, []).append(span.partition)
        for member_id in span.assigned_to:
            assigned.setdefault(member_id, []).append(span.partition)
        if not span.owners:
            without_owner.append(span.partition)
    held = {each.member_id: each for each in held_at(timeline, moment.position)}
    synced = _synced(timeline, moment.position)
    return MomentView(
        moment=moment,
        members=tuple(
            MemberAtMoment(
                member_id=lane.member_id,
                name=lane.name,
                phase=_phase(moment.state, held.get(lane.member_id), lane.member_id in synced),
                is_leader=lane.member_id == moment.leader_id,
                held_since_ms=held[lane.member_id].began.at_ms if lane.member_id in held else None,
                owns=tuple(owns.get(lane.member_id, ())),
                assigned=tuple(assigned.get(lane.member_id, ())),
            )
            for lane in members_at(timeline, moment.position)
        ),
        without_owner=tuple(without_owner),
    )


def members_at(timeline: GroupTimeline, position: int) -> Iterator[Lane]:
    """The lanes of the members that the group has after the event at a position."""
    return (lane for lane in timeline.lanes if _lasts(lane.began, lane.ended, position))


def held_at(timeline: GroupTimeline, position: int) -> Iterator[HeldRequest]:
    """The requests whose responses are held after the event at a position."""
    return (each for each in timeline.held_requests if _lasts(each.began, each.ended, position))


def generation_at(timeline: GroupTimeline, position: int) -> GenerationSpan | None:
    """The generation after the event at a position; None before the first, and of a group that does not exist."""
    index = bisect_right(timeline.generations, position, key=lambda each: each.began.position) - 1
    found = timeline.generations[index] if index >= 0 else None
    return found if found is not None and _lasts(found.began, found.ended, position) else None


def _lasts(began: Point, ended: Point | None, position: int) -> bool:
    return began.position <= position and (ended is None or position < ended.position)


def _phase(state: GroupState, held: HeldRequest | None, has_synced: bool) -> MemberPhase:
    if held is not None:
        return MemberPhase.JOINING if held.response is AwaitedResponse.JOIN else MemberPhase.SYNCING
    if state is GroupState.PREPARING_REBALANCE:
        return MemberPhase.MUST_JOIN
    return MemberPhase.ASSIGNED if has_synced else MemberPhase.MUST_SYNC


def _synced(timeline: GroupTimeline, position: int) -> set[MemberId]:
    """The members that have sent SyncGroup in the present generation, or whose SyncGroup was before the history."""
    began = _generation_began(timeline, position)
    if began is None:
        return set()
    first = bisect_right(timeline.held_requests, began - 1, key=lambda each: each.began.position)
    synced = {
        each.member_id
        for each in timeline.held_requests[first:]
        if each.response is AwaitedResponse.SYNC and each.began.position <= position
    }
    if timeline.is_trimmed and began == timeline.began.position:
        synced |= {lane.member_id for lane in timeline.lanes if lane.began.position == began}
    return synced


def _generation_began(timeline: GroupTimeline, position: int) -> int | None:
    """The position at which the present generation began, also where a load has interrupted it."""
    index = bisect_right(timeline.generations, position, key=lambda each: each.began.position) - 1
    if index < 0:
        return None
    number = timeline.generations[index].generation_id
    while index and timeline.generations[index - 1].generation_id == number:
        index -= 1
    return timeline.generations[index].began.position


def moment_sentence(moment: TimelineMoment, names: MemberNames) -> str:
    """The sentence of a moment, also for the events that a story sums up or leaves out."""
    sentence = sentence_of(moment, names)
    if sentence:
        return sentence
    describe = FURTHER_SENTENCES.get(type(moment.event))
    return describe(moment.event, names) if describe else f"{moment.type}."


def _committed(offsets: OffsetsByPartition) -> str:
    """`orders 0 up to 500`; of several partitions their names alone."""
    found = [(TopicPartition(topic, index), each.offset) for topic, by in offsets.items() for index, each in by.items()]
    text = partitions_text(partition for partition, _ in found)
    return f"{text} up to {found[0][1]}" if len(found) == 1 else text


def _who(member_id: MemberId, names: MemberNames) -> str:
    return names[member_id] if member_id else "A client that is no member"


FURTHER_SENTENCES: Final[dict[type[Event], Callable[[Any, MemberNames], str]]] = {
    e.OffsetsCommitted: lambda event, names: f"{_who(event.member_id, names)} committed {_committed(event.offsets)}.",
    e.OffsetsWritten: lambda event, names: (
        f"Kafka's log wrote a commit of {_who(event.member_id, names)} and has not committed it: "
        f"{_committed(event.offsets)}."
    ),
    e.TransactionalOffsetsWritten: lambda event, names: (
        f"Producer {event.producer_id} wrote offsets of {_committed(event.offsets)} in a transaction."
    ),
    e.TransactionEnded: lambda event, names: (
        f"The transaction of producer {event.producer_id} {'committed' if event.committed else 'dropped'} its offsets."
    ),
    e.PendingMemberAdded: lambda event, _: (
        f"{event.client_id or 'A client'} got a member id, and has to send JoinGroup again with it."
    ),
    e.GroupMetadataWritten: lambda event, names: "The coordinator's log holds the group's present metadata.",
    e.AppendCommitted: lambda event, names: f"Kafka's log committed the record of event number {event.append_number}.",
}
"""What a story counts, or leaves out because another sentence says it."""
