"""What each event says, in one sentence; none for events that only continue what another one says.

The words are in the catalogues of `phrases/`; here stands which of them an event has, and with which values.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

from regroup.classroom.languages import Language
from regroup.classroom.phrases.known_texts import CAUSE, LOST, REASON, known_text
from regroup.classroom.phrases.phrase import Phrase, PhraseValue, in_language, phrase, series
from regroup.classroom.timeline import TimelineMoment
from regroup.classroom.wording import MemberNames, length, partitions_value
from regroup.coordinator import events as e
from regroup.coordinator.consumer import events as ce
from regroup.coordinator.consumer.migration import events as me
from regroup.coordinator.consumer_group import ConsumerProfile, ReconciliationState
from regroup.coordinator.events import Event
from regroup.coordinator.group import MemberId, MemberProfile, OffsetsByPartition
from regroup.coordinator.serialization import Cause
from regroup.protocol.consumer.subscription import MalformedConsumerProtocol, TopicPartition, decode_assignment
from regroup.server.explanation.causes import cause_text

HEARTBEAT: Final = "ConsumerGroupHeartbeat"
"""The stored reason of a member of the consumer protocol that left by its last heartbeat."""


def sentence_of(moment: TimelineMoment, names: MemberNames, language: Language = Language.ENGLISH) -> str:
    """A sentence about the event of a moment, without its time; it says so if a test caused the event.

    Empty for an event that only continues what another one says.
    """
    return in_language(said_by(moment, names), language)


def said_by(moment: TimelineMoment, names: MemberNames) -> PhraseValue:
    """Like `sentence_of`, as a phrase without a language."""
    describe = SENTENCES.get(type(moment.event))
    return _whole(describe(moment.event, moment, names), moment.cause) if describe else ""


def moment_sentence(moment: TimelineMoment, names: MemberNames, language: Language = Language.ENGLISH) -> str:
    """The sentence of a moment, also for the events that a story sums up or leaves out."""
    return in_language(whole_sentence(moment, names), language)


def whole_sentence(moment: TimelineMoment, names: MemberNames) -> PhraseValue:
    """Like `moment_sentence`, as a phrase without a language."""
    return said_by(moment, names) or continued_sentence(moment, names) or phrase("sentence", what=moment.type)


def continued_sentence(moment: TimelineMoment, names: MemberNames) -> PhraseValue:
    """The sentence of an event that `story` sums up or leaves out, as a phrase; empty for all other events."""
    describe = FURTHER_SENTENCES.get(type(moment.event))
    return phrase("sentence", what=describe(moment.event, names)) if describe else ""


def cause_phrase(cause: Cause) -> PhraseValue:
    """The cause of an event as a phrase: a request, a deadline, an action of the broker or of a test."""
    return known_text(cause_text(cause), CAUSE)


def _whole(what: Phrase, cause: Cause | None) -> Phrase:
    if cause is not None and cause.test:
        return phrase("sentence of a test", what=what, cause=cause_phrase(cause))
    return phrase("sentence", what=what)


def _because(event: Event, names: MemberNames) -> PhraseValue:
    return phrase("because", reason=reason_of(event, names)) if event.reason else ""


def reason_of(event: Event, names: MemberNames) -> PhraseValue:
    """The reason that an event gives, as a phrase, with names of members in place of their ids."""
    if isinstance(event, e.MemberLeft) and event.reason == HEARTBEAT:
        return phrase("last heartbeat")
    return known_text(names.within(event.reason).rstrip("."), REASON)


def _group_created(event: e.GroupCreated, moment: TimelineMoment, names: MemberNames) -> Phrase:
    return phrase("group created by JoinGroup" if event.by_join else "group created by a commit")


def _member_joined(event: e.MemberJoined, moment: TimelineMoment, names: MemberNames) -> Phrase:
    profile = event.profile
    return phrase(
        "member joined",
        member=names[event.member_id],
        static=static_value(profile.instance_id),
        assignors=_assignors(profile),
        timeout=length(profile.session_timeout_ms),
    )


def static_value(instance_id: str | None) -> PhraseValue:
    """The words that begin the description of a static member; empty if `instance_id` is None."""
    return "" if instance_id is None else phrase("static member", instance=instance_id)


def _assignors(profile: MemberProfile) -> PhraseValue:
    return series("listed", (each.name for each in profile.supported_protocols), limit=None) or phrase("no assignor")


def _static_member_replaced(event: e.StaticMemberReplaced, moment: TimelineMoment, names: MemberNames) -> Phrase:
    return phrase(
        "static member replaced",
        member=names[event.member_id],
        instance=event.instance_id,
        replaced=names[event.replaced_member_id],
        then=phrase("it waits" if event.awaits_join else "it keeps"),
    )


def _rebalance_started(event: e.RebalanceStarted, moment: TimelineMoment, names: MemberNames) -> Phrase:
    left_ms = event.deadline_ms - event.at_ms
    if left_ms <= 0:
        return phrase("rebalance started without a join phase", because=_because(event, names))
    key = "initial rebalance started" if event.is_initial else "rebalance started"
    return phrase(key, because=_because(event, names), limit=length(left_ms))


def _join_phase_extended(event: e.JoinPhaseExtended, moment: TimelineMoment, names: MemberNames) -> Phrase:
    limit = length(max(0, event.deadline_ms - event.at_ms))
    return phrase("join phase extended", because=_because(event, names), limit=limit)


def _generation_started(event: e.GenerationStarted, moment: TimelineMoment, names: MemberNames) -> Phrase:
    members = names.series(moment.members, event.leader_id)
    return phrase("generation started", generation=event.generation_id, members=members, assignor=event.protocol_name)


def _member_synced(event: e.MemberSynced, moment: TimelineMoment, names: MemberNames) -> Phrase:
    key = "member synced and waits" if event.awaits_assignment else "member synced"
    return phrase(key, member=names[event.member_id])


def _assignment_written(event: e.AssignmentWritten, moment: TimelineMoment, names: MemberNames) -> Phrase:
    shares = [
        phrase("share", partitions=assigned_value(data), member=names[member_id])
        for member_id, data in event.assignments.items()
    ]
    return phrase(
        "assignment written",
        leader=names[moment.leader_id] if moment.leader_id else phrase("the leader"),
        shares=series("shares", shares) or phrase("nothing to any member"),
    )


def assigned_text(data: bytes) -> str:
    """The partitions in an encoded assignment, in English; if it cannot be decoded, its number of bytes."""
    return in_language(assigned_value(data), Language.ENGLISH)


def assigned_value(data: bytes) -> PhraseValue:
    """The partitions in an encoded assignment as a phrase; if it cannot be decoded, its number of bytes."""
    if not data:
        return partitions_value(())
    try:
        return partitions_value(decode_assignment(data).partitions)
    except MalformedConsumerProtocol:
        return phrase("bytes", number=len(data))


def _coordinator_loaded(event: e.CoordinatorLoaded, moment: TimelineMoment, names: MemberNames) -> Phrase:
    lost = series("shares", (known_text(names.within(each), LOST) for each in event.lost), limit=None)
    return phrase(
        "coordinator loaded",
        epoch=moment.coordinator_epoch,
        lost=phrase("lost with the former", lost=lost) if lost else "",
    )


def _offsets_deleted(event: e.OffsetsDeleted, moment: TimelineMoment, names: MemberNames) -> Phrase:
    partitions = [TopicPartition(topic, index) for topic, indexes in event.partitions.items() for index in indexes]
    return phrase("offsets deleted", partitions=partitions_value(partitions), because=_because(event, names))


def _about_member(key: str, name: str = "member_id") -> Callable[[Any, TimelineMoment, MemberNames], Phrase]:
    """Make a function that returns the phrase `key` with the member in the event's field `name`, and the reason."""
    return lambda event, moment, names: phrase(key, member=names[getattr(event, name)], because=_because(event, names))


def _consumer_group_created(event: ce.ConsumerGroupCreated, moment: TimelineMoment, names: MemberNames) -> Phrase:
    key = "consumer group created" if moment.event_number == 1 else "consumer group begun"
    return phrase(key, because=_because(event, names))


def _member_subscribed(event: ce.MemberSubscribed, moment: TimelineMoment, names: MemberNames) -> Phrase:
    profile = event.profile
    key = "consumer joined" if moment.joined else "consumer described"
    return phrase(
        key,
        member=names[event.member_id],
        static=static_value(profile.instance_id),
        topics=_subscription(profile),
        timeout=length(profile.session_timeout_ms),
    )


def _subscription(profile: ConsumerProfile) -> PhraseValue:
    """The topics to which a member subscribes, and its pattern of topics, if it has one, as a phrase."""
    pattern = phrase("pattern", pattern=profile.subscribed_regex) if profile.subscribed_regex else ""
    return series("listed", filter(None, (*profile.subscribed_topics, pattern))) or phrase("no topic")


def _target_assigned(event: ce.TargetAssigned, moment: TimelineMoment, names: MemberNames) -> Phrase:
    shares = [
        phrase("share", partitions=partitions_value(_of_topics(share, names)), member=names[member_id])
        for member_id, share in event.targets.items()
    ]
    return phrase(
        "target assigned" if event.assignor else "target without members",
        epoch=event.assignment_epoch,
        assignor=event.assignor,
        shares=series("shares", shares) or phrase("no other shares"),
    )


def _of_topics(partitions: Mapping[str, Iterable[int]], names: MemberNames) -> Iterator[TopicPartition]:
    return (TopicPartition(names[topic], index) for topic, indexes in partitions.items() for index in indexes)


def _member_reconciled(event: ce.MemberReconciled, moment: TimelineMoment, names: MemberNames) -> Phrase:
    limit_ms = max(0, (event.revocation_deadline_ms or event.at_ms) - event.at_ms)
    key = f"member {event.state.value}"
    if event.state is ReconciliationState.UNREVOKED_PARTITIONS and event.revocation_deadline_ms is None:
        key = "classic member unrevoked-partitions"
    return phrase(
        key,
        member=names[event.member_id],
        epoch=event.epoch,
        assigned=partitions_value(_of_topics(event.assigned, names)),
        pending=partitions_value(_of_topics(event.pending_revocation, names)),
        limit=length(limit_ms),
    )


def _static_consumer_replaced(event: ce.StaticConsumerReplaced, _: TimelineMoment, names: MemberNames) -> Phrase:
    return phrase(
        "static consumer replaced",
        member=names[event.member_id],
        instance=event.instance_id,
        replaced=names[event.replaced_member_id],
    )


def _regexes_resolved(event: ce.RegexesResolved, moment: TimelineMoment, names: MemberNames) -> Phrase:
    found = [
        phrase("matches", pattern=pattern, topics=series("listed", each.topics) or phrase("no topic"))
        for pattern, each in event.resolved.items()
    ]
    return phrase("patterns resolved", found=series("shares", found) or phrase("no topic"))


SENTENCES: Final[dict[type[Event], Callable[[Any, TimelineMoment, MemberNames], Phrase]]] = {
    e.GroupCreated: _group_created,
    e.MemberJoined: _member_joined,
    e.MemberRejoined: _about_member("member rejoined"),
    e.StaticMemberReplaced: _static_member_replaced,
    e.LeaderElected: _about_member("leader elected", "leader_id"),
    e.RebalanceStarted: _rebalance_started,
    e.JoinPhaseExtended: _join_phase_extended,
    e.GenerationStarted: _generation_started,
    e.GenerationRaised: lambda event, *_: phrase("generation raised", generation=event.generation_id),
    e.GroupEmptied: lambda event, *_: phrase("group emptied", generation=event.generation_id),
    e.MemberSynced: _member_synced,
    e.AssignmentWritten: _assignment_written,
    e.AssignmentCommitted: lambda _, moment, __: phrase("assignment committed", generation=moment.generation_id),
    e.MemberLeft: _about_member("member left"),
    e.MemberRemoved: _about_member("member removed"),
    e.PendingMemberRemoved: _about_member("pending member removed"),
    e.CoordinatorLoaded: _coordinator_loaded,
    e.AppendFailed: lambda event, _, names: phrase(
        "append failed", number=event.append_number, because=_because(event, names)
    ),
    e.AppendTimedOut: lambda event, *_: phrase("append timed out", number=event.append_number),
    ce.ConsumerGroupCreated: _consumer_group_created,
    ce.ConsumerGroupEnded: lambda event, _, names: phrase("consumer group ended", because=_because(event, names)),
    me.GroupUpgraded: lambda *_: phrase("consumer group begun", because=""),
    me.GroupDowngraded: lambda *_: phrase("consumer group ended", because=""),
    ce.MemberSubscribed: _member_subscribed,
    ce.GroupEpochBumped: lambda event, _, names: phrase(
        "group epoch bumped", epoch=event.group_epoch, because=_because(event, names)
    ),
    ce.TargetAssigned: _target_assigned,
    ce.MemberReconciled: _member_reconciled,
    ce.StaticMemberAway: _about_member("static member away"),
    ce.StaticConsumerReplaced: _static_consumer_replaced,
    ce.RegexesResolved: _regexes_resolved,
    e.OffsetsDeleted: _offsets_deleted,
    e.GroupDeleted: lambda event, _, names: phrase("group deleted", because=_because(event, names)),
}
"""The other events are about offsets, which a story counts, or continue what one of these says."""


def _committed(offsets: OffsetsByPartition) -> PhraseValue:
    """Topic, partition and offset of a commit, such as `orders 0 up to 500`; of several only the partitions."""
    found = [(TopicPartition(topic, index), each.offset) for topic, by in offsets.items() for index, each in by.items()]
    partitions = partitions_value(partition for partition, _ in found)
    return phrase("up to", partitions=partitions, offset=found[0][1]) if len(found) == 1 else partitions


def _who(member_id: MemberId, names: MemberNames) -> PhraseValue:
    return names[member_id] if member_id else phrase("no member")


FURTHER_SENTENCES: Final[dict[type[Event], Callable[[Any, MemberNames], Phrase]]] = {
    e.OffsetsCommitted: lambda event, names: phrase(
        "offsets committed", who=_who(event.member_id, names), offsets=_committed(event.offsets)
    ),
    e.OffsetsWritten: lambda event, names: phrase(
        "offsets written", who=_who(event.member_id, names), offsets=_committed(event.offsets)
    ),
    e.TransactionalOffsetsWritten: lambda event, _: phrase(
        "transactional offsets", id=event.producer_id, offsets=_committed(event.offsets)
    ),
    e.TransactionEnded: lambda event, _: phrase(
        "transaction committed" if event.committed else "transaction dropped", id=event.producer_id
    ),
    e.PendingMemberAdded: lambda event, _: phrase(
        "pending member added", client=event.client_id or phrase("unnamed client")
    ),
    e.GroupMetadataWritten: lambda *_: phrase("group metadata written"),
    me.RejoinRequested: lambda event, names: phrase("rejoin requested", member=names[event.member_id]),
    me.ClassicMemberJoined: lambda event, names: phrase("classic member joined", member=names[event.member_id]),
    me.ClassicMemberSynced: lambda event, names: phrase("classic member synced", member=names[event.member_id]),
    me.UpgradeRefused: lambda event, names: phrase("upgrade refused", because=_because(event, names)),
    e.AppendCommitted: lambda event, _: phrase("append committed", number=event.append_number),
}
"""What a story counts, or leaves out because another sentence says it."""
