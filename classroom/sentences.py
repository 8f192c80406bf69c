"""What each event says, in one sentence; empty for events that only continue what another one says."""

from collections.abc import Callable
from typing import Any, Final

from regroup.classroom.timeline import TimelineMoment
from regroup.classroom.wording import MemberNames, listed_shares, partitions_text
from regroup.coordinator import events as e
from regroup.coordinator.events import Event
from regroup.coordinator.group import MemberId, MemberProfile, OffsetsByPartition
from regroup.protocol.consumer.subscription import MalformedConsumerProtocol, TopicPartition, decode_assignment
from regroup.server.explanation.causes import cause_text
from regroup.server.explanation.sentences import duration_text


def sentence_of(moment: TimelineMoment, names: MemberNames) -> str:
    """One sentence about a moment, without its time. What a test did is marked."""
    describe = SENTENCES.get(type(moment.event))
    sentence = describe(moment.event, moment, names) if describe else ""
    if sentence and moment.cause is not None and moment.cause.test:
        return f"{sentence.removesuffix('.')} ({cause_text(moment.cause)})."
    return sentence


def _because(event: Event, names: MemberNames) -> str:
    return f": {names.within(event.reason).rstrip('.')}" if event.reason else ""


def _group_created(event: e.GroupCreated, moment: TimelineMoment, names: MemberNames) -> str:
    return f"The group was created by its first {'JoinGroup' if event.by_join else 'commit'}."


def _member_joined(event: e.MemberJoined, moment: TimelineMoment, names: MemberNames) -> str:
    return f"{names[event.member_id]} joined ({_profile(event.profile)})."


def _profile(profile: MemberProfile) -> str:
    assignors = ", ".join(each.name for each in profile.supported_protocols) or "no assignor"
    static = f"static, instance id {profile.instance_id}, " if profile.instance_id is not None else ""
    return f"{static}{assignors}, session timeout {duration_text(profile.session_timeout_ms)}"


def _member_rejoined(event: e.MemberRejoined, moment: TimelineMoment, names: MemberNames) -> str:
    return f"{names[event.member_id]} sent JoinGroup again{_because(event, names)}."


def _static_member_replaced(event: e.StaticMemberReplaced, moment: TimelineMoment, names: MemberNames) -> str:
    then = "it has to wait for the rebalance" if event.awaits_join else "it keeps the assignment without a rebalance"
    return (
        f"{names[event.member_id]} took over the static member {event.instance_id} from "
        f"{names[event.replaced_member_id]}, which is fenced from now on; {then}."
    )


def _leader_elected(event: e.LeaderElected, moment: TimelineMoment, names: MemberNames) -> str:
    return f"{names[event.leader_id]} became the leader{_because(event, names)}."


def _rebalance_started(event: e.RebalanceStarted, moment: TimelineMoment, names: MemberNames) -> str:
    left_ms = event.deadline_ms - event.at_ms
    limit = duration_text(max(0, left_ms))
    phase = f"lasts {limit}, and longer if members join" if event.is_initial else f"may last {limit}"
    if left_ms <= 0:
        phase = "ends at once"
    return f"A rebalance started{_because(event, names)}. The join phase {phase}."


def _join_phase_extended(event: e.JoinPhaseExtended, moment: TimelineMoment, names: MemberNames) -> str:
    return (
        f"The join phase goes on for {duration_text(max(0, event.deadline_ms - event.at_ms))}{_because(event, names)}."
    )


def _generation_started(event: e.GenerationStarted, moment: TimelineMoment, names: MemberNames) -> str:
    members = names.listed(moment.members, event.leader_id)
    return f"Generation {event.generation_id} started with {members}, assignor {event.protocol_name}."


def _generation_raised(event: e.GenerationRaised, moment: TimelineMoment, names: MemberNames) -> str:
    return f"The generation was raised to {event.generation_id} without a rebalance."


def _group_emptied(event: e.GroupEmptied, moment: TimelineMoment, names: MemberNames) -> str:
    return f"The group had no member left: it was Empty, with generation {event.generation_id}."


def _member_synced(event: e.MemberSynced, moment: TimelineMoment, names: MemberNames) -> str:
    then = "waits for the assignment" if event.awaits_assignment else "received its assignment"
    return f"{names[event.member_id]} sent SyncGroup and {then}."


def _assignment_written(event: e.AssignmentWritten, moment: TimelineMoment, names: MemberNames) -> str:
    shares = [f"{assigned_text(data)} to {names[member_id]}" for member_id, data in event.assignments.items()]
    leader = names[moment.leader_id] if moment.leader_id else "the leader"
    return f"The assignor of {leader} gave {listed_shares(shares) or 'nothing to any member'}."


def assigned_text(data: bytes) -> str:
    """The partitions in the bytes of an assignment, or their number of bytes where another protocol wrote them."""
    if not data:
        return "nothing"
    try:
        return partitions_text(decode_assignment(data).partitions)
    except MalformedConsumerProtocol:
        return f"{len(data)} bytes"


def _assignment_committed(event: e.AssignmentCommitted, moment: TimelineMoment, names: MemberNames) -> str:
    return f"The assignment was committed: the group was Stable in generation {moment.generation_id}."


def _member_left(event: e.MemberLeft, moment: TimelineMoment, names: MemberNames) -> str:
    return f"{names[event.member_id]} left{_because(event, names)}."


def _member_removed(event: e.MemberRemoved, moment: TimelineMoment, names: MemberNames) -> str:
    return f"{names[event.member_id]} was removed{_because(event, names)}."


def _pending_member_removed(event: e.PendingMemberRemoved, moment: TimelineMoment, names: MemberNames) -> str:
    return f"The member id {names[event.member_id]} was removed before it was used{_because(event, names)}."


def _coordinator_loaded(event: e.CoordinatorLoaded, moment: TimelineMoment, names: MemberNames) -> str:
    lost = f" Lost with the former one: {'; '.join(map(names.within, event.lost))}." if event.lost else ""
    return f"A coordinator loaded the group from its log (coordinator epoch {moment.coordinator_epoch}).{lost}"


def _append_failed(event: e.AppendFailed, moment: TimelineMoment, names: MemberNames) -> str:
    return f"Kafka's log lost the record of event number {event.append_number}{_because(event, names)}."


def _append_timed_out(event: e.AppendTimedOut, moment: TimelineMoment, names: MemberNames) -> str:
    return f"Kafka's log did not commit the record of event number {event.append_number} in time."


def _offsets_deleted(event: e.OffsetsDeleted, moment: TimelineMoment, names: MemberNames) -> str:
    partitions = [TopicPartition(topic, index) for topic, indexes in event.partitions.items() for index in indexes]
    return f"The committed offsets of {partitions_text(partitions)} were deleted{_because(event, names)}."


def _group_deleted(event: e.GroupDeleted, moment: TimelineMoment, names: MemberNames) -> str:
    return f"The group was deleted{_because(event, names)}."


SENTENCES: Final[dict[type[Event], Callable[[Any, TimelineMoment, MemberNames], str]]] = {
    e.GroupCreated: _group_created,
    e.MemberJoined: _member_joined,
    e.MemberRejoined: _member_rejoined,
    e.StaticMemberReplaced: _static_member_replaced,
    e.LeaderElected: _leader_elected,
    e.RebalanceStarted: _rebalance_started,
    e.JoinPhaseExtended: _join_phase_extended,
    e.GenerationStarted: _generation_started,
    e.GenerationRaised: _generation_raised,
    e.GroupEmptied: _group_emptied,
    e.MemberSynced: _member_synced,
    e.AssignmentWritten: _assignment_written,
    e.AssignmentCommitted: _assignment_committed,
    e.MemberLeft: _member_left,
    e.MemberRemoved: _member_removed,
    e.PendingMemberRemoved: _pending_member_removed,
    e.CoordinatorLoaded: _coordinator_loaded,
    e.AppendFailed: _append_failed,
    e.AppendTimedOut: _append_timed_out,
    e.OffsetsDeleted: _offsets_deleted,
    e.GroupDeleted: _group_deleted,
}
"""The other events are about offsets, which a story counts, or continue what one of these says."""


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
