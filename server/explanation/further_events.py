"""Explains the events whose explanation is what happened and its recorded cause: of groups, the log and offsets."""

from collections.abc import Callable
from typing import Any, Final

from regroup.coordinator import events as e
from regroup.coordinator.consumer import events as ce
from regroup.coordinator.group import OffsetsByPartition
from regroup.notation.partitions import format_partitions
from regroup.server.explanation.causes import cause_of
from regroup.server.explanation.history import GroupHappening, KnownHistory
from regroup.server.explanation.sentences import Explanation, counted, listed, time_text

Clause = Callable[[KnownHistory, Any], str]
"""What happened in an event, without the time, such as `the group was deleted`."""


def _created(_: KnownHistory, event: e.GroupCreated) -> str:
    return "the group was created as a classic one" if event.by_join else "the group was created for a commit"


def _consumer_group_created(history: KnownHistory, event: ce.ConsumerGroupCreated) -> str:
    is_first = not history.beginning and history.happenings[0].event is event
    subject = "the group was created as" if is_first else "the group, which had no members, became"
    return f"{subject} one of the consumer protocol"


def _synced(history: KnownHistory, event: e.MemberSynced) -> str:
    then = "waited for the assignment of the leader" if event.awaits_assignment else "got its assignment"
    return f"{history.name_of(event.member_id)} sent SyncGroup and {then}"


def _resolved(_: KnownHistory, event: ce.RegexesResolved) -> str:
    found = (f"{pattern} matches {listed(each.topics or ['no topic'])}" for pattern, each in event.resolved.items())
    return f"the topics that match patterns were looked up ({'; '.join(found) or 'no pattern is left'})"


def _partitions(offsets: OffsetsByPartition) -> str:
    return format_partitions(
        [(topic, index) for topic, indexes in offsets.items() for index in indexes], between=" and "
    )


def _committed(history: KnownHistory, event: e.OffsetsCommitted | e.OffsetsWritten) -> str:
    who = history.name_of(event.member_id) if event.member_id else "a client that is no member"
    offsets = _partitions(event.offsets)
    if isinstance(event, e.OffsetsCommitted):
        return f"{who} committed offsets of {offsets}"
    return f"Kafka's log wrote a commit of {who} for {offsets}, and had not committed it"


CLAUSES: Final[dict[type[e.Event], Clause]] = {
    e.GroupCreated: _created,
    e.LeaderElected: lambda history, event: f"{history.name_of(event.leader_id)} became the leader",
    e.JoinPhaseExtended: lambda _, event: f"the join phase was extended until {time_text(event.deadline_ms)}",
    e.GenerationRaised: lambda _, event: f"the generation was raised to {event.generation_id} without a rebalance",
    e.GroupEmptied: lambda _, event: f"the group had no member left, and was Empty in generation {event.generation_id}",
    e.MemberSynced: _synced,
    e.AssignmentWritten: lambda _, event: (
        f"the leader's assignment for {counted(len(event.assignments), 'member')} was written to Kafka's log"
    ),
    e.GroupMetadataWritten: lambda *_: "the group's present metadata was written to Kafka's log",
    e.OffsetsCommitted: _committed,
    e.OffsetsWritten: _committed,
    e.AppendCommitted: lambda _, event: f"Kafka's log committed the record of event number {event.append_number}",
    e.AppendFailed: lambda _, event: f"Kafka's log lost the record of event number {event.append_number}",
    e.AppendTimedOut: lambda _, event: (
        f"Kafka's log did not commit the record of event number {event.append_number} in time"
    ),
    e.TransactionalOffsetsWritten: lambda _, event: (
        f"producer {event.producer_id} wrote offsets of {_partitions(event.offsets)} in a transaction"
    ),
    e.GroupDeleted: lambda *_: "the group was deleted",
    ce.ConsumerGroupCreated: _consumer_group_created,
    ce.ConsumerGroupEnded: lambda *_: "the group, which had no members, became a classic one",
    ce.RegexesResolved: _resolved,
}


def explain_further_event(history: KnownHistory, happening: GroupHappening, event: e.Event) -> Explanation:
    return Explanation(
        sentence=f"{CLAUSES[type(event)](history, event)} at {time_text(happening.at_ms)}",
        position=happening.position,
        because=(cause_of(history, happening),),
        notes=(f"the reason in the event is: {event.reason}",) if event.reason else (),
    )
