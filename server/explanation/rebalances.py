"""Explains rebalances: why one started, how it ended, and who leads the generation."""

from collections.abc import Iterator

from regroup.coordinator import events as e
from regroup.coordinator.group import MemberId, MemberProfile
from regroup.protocol.consumer.subscription import MalformedConsumerProtocol, decode_subscribed_topics
from regroup.server.cluster.events import PartitionsAdded, TopicCreated, TopicDeleted
from regroup.server.explanation.causes import cause_of, cause_text
from regroup.server.explanation.history import GroupHappening, KnownHistory
from regroup.server.explanation.membership import explain_join, explain_leave, explain_removal, explain_replacement
from regroup.server.explanation.sentences import (
    NOT_RECORDED,
    Explanation,
    counted,
    duration_text,
    listed,
    reason,
    time_text,
)

_TRIGGERS = (
    e.MemberJoined, e.MemberRejoined, e.MemberLeft, e.MemberRemoved, e.StaticMemberReplaced, e.AppendFailed,
    e.PendingMemberRemoved, e.CoordinatorLoaded,
)  # fmt: skip


def explain_rebalance(history: KnownHistory, happening: GroupHappening, event: e.RebalanceStarted) -> Explanation:
    return Explanation(
        sentence=f"a rebalance started at {time_text(happening.at_ms)}",
        position=happening.position,
        because=tuple(_triggers(history, happening, event)),
    )


def _triggers(history: KnownHistory, happening: GroupHappening, event: e.RebalanceStarted) -> Iterator[Explanation]:
    """Explanations of the events that started a rebalance: earlier events of the same act. One LeaveGroup, or the end
    of a sync phase, may remove several members."""
    index = history.happenings.index(happening)
    if happening.cause.test == "rebalance":
        yield reason(cause_text(happening.cause))
        return
    found = False
    for i in history.act_of(index):
        each = history.happenings[i]
        if i < index and isinstance(each.event, _TRIGGERS):
            found = True
            yield _trigger(history, each)
    if not found:
        yield reason(event.reason or cause_text(happening.cause))


def _trigger(history: KnownHistory, happening: GroupHappening) -> Explanation:
    match happening.event:
        case e.MemberJoined() as joined:
            return explain_join(history, happening, joined)
        case e.MemberRejoined() as rejoined:
            return explain_rejoin(history, happening, rejoined)
        case e.MemberLeft() as left:
            return explain_leave(history, happening, left)
        case e.MemberRemoved() as removed:
            return explain_removal(history, happening, removed)
        case e.StaticMemberReplaced() as replaced:
            return explain_replacement(history, happening, replaced)
        case e.CoordinatorLoaded():
            return reason("the group exceeds group.max.size, which the coordinator that loaded it found")
    return reason(happening.event.reason or cause_text(happening.cause))


def explain_rejoin(history: KnownHistory, happening: GroupHappening, event: e.MemberRejoined) -> Explanation:
    """Why a member sent JoinGroup again: its subscription or the topics have changed, a rebalance is in progress, or
    the reason that the request gives."""
    return Explanation(
        sentence=f"{history.name_of(event.member_id)} sent JoinGroup again at {time_text(happening.at_ms)}",
        position=happening.position,
        because=tuple(_reasons_to_rejoin(history, happening, event)),
    )


def _reasons_to_rejoin(
    history: KnownHistory, happening: GroupHappening, event: e.MemberRejoined
) -> Iterator[Explanation]:
    index = history.happenings.index(happening)
    if event.reason:
        yield reason(f"of the reason it gave: {event.reason}")
    changes = list(_profile_changes(history, index, event)) + list(_topic_changes(history, index))
    yield from (reason(change) for change in changes)
    if changes or event.reason:
        return
    started = next(
        (
            each.event.reason
            for each in (history.happenings[i] for i in history.act_of(index))
            if isinstance(each.event, e.RebalanceStarted)
        ),
        "",
    )
    if not started:
        yield reason("a rebalance was in progress")
    elif started.startswith("leader "):
        yield reason(f"it leads the group, and why it did so is {NOT_RECORDED}")
    else:
        yield reason(started)


def _profile_changes(history: KnownHistory, index: int, event: e.MemberRejoined) -> Iterator[str]:
    old = _profile_before(history, index, event.member_id)
    if old is None or old.supported_protocols == event.profile.supported_protocols:
        return
    former, present = old.supported_protocols, event.profile.supported_protocols
    if [each.name for each in former] != [each.name for each in present]:
        names = [listed(each.name for each in protocols) for protocols in (former, present)]
        yield f"its assignors changed from {names[0]} to {names[1]}"
        return
    try:
        topics = [decode_subscribed_topics(each[0].metadata) for each in (former, present)]
    except MalformedConsumerProtocol:
        yield "its metadata changed"
        return
    if topics[0] == topics[1]:
        yield "its user data or its owned partitions changed"
    else:
        yield f"its subscription changed from {listed(topics[0])} to {listed(topics[1])}"


def _profile_before(history: KnownHistory, index: int, member_id: MemberId) -> MemberProfile | None:
    for each in reversed(history.happenings[:index]):
        match each.event:
            case (
                e.MemberJoined(member_id=found, profile=profile)
                | e.MemberRejoined(member_id=found, profile=profile)
                | e.StaticMemberReplaced(member_id=found, profile=profile)
            ) if found == member_id:
                return profile
    return None


def _topic_changes(history: KnownHistory, index: int) -> Iterator[str]:
    """Changes of subscribed topics since the generation began, as phrases. The leader may have seen them in its
    metadata and have rejoined because of them."""
    started = history.last_before(index, e.GenerationStarted)
    if started is None:
        return
    generation = history.happenings[started]
    assert isinstance(generation.event, e.GenerationStarted)
    subscribed = generation.event.subscribed_topics
    for each in history.cluster:
        if not generation.position < each.position < history.happenings[index].position:
            continue
        at = time_text(each.at_ms)
        match each.event:
            case TopicDeleted(name=name) if subscribed is None or name in subscribed:
                yield f"topic {name} was deleted at {at}"
            case TopicCreated(name=name, partitions=partitions) if subscribed is None or name in subscribed:
                yield f"topic {name} was created at {at} with {counted(partitions, 'partition')}"
            case PartitionsAdded(name=name, partitions=partitions) if subscribed is None or name in subscribed:
                yield f"topic {name} had got {counted(partitions, 'partition')} at {at}"


def explain_generation(history: KnownHistory, happening: GroupHappening, event: e.GenerationStarted) -> Explanation:
    return Explanation(
        sentence=f"generation {event.generation_id} began at {time_text(happening.at_ms)} with the assignor "
        f"{event.protocol_name or 'without a name'}",
        position=happening.position,
        because=tuple(_ends_of_join_phase(history, happening)),
    )


def _ends_of_join_phase(history: KnownHistory, happening: GroupHappening) -> Iterator[Explanation]:
    index, cause = history.happenings.index(happening), happening.cause
    if cause.deadline == "join-phase":
        started = history.last_before(index, e.RebalanceStarted, e.JoinPhaseExtended)
        phase = history.happenings[started] if started is not None else None
        began = f", which had begun at {time_text(phase.at_ms)}," if phase else ""
        delay_ms = getattr(phase.event, "delay_ms", None) if phase is not None else None
        if delay_ms:
            delay = duration_text(delay_ms)
            yield reason(f"the initial rebalance delay of {delay}{began} ended")
        else:
            yield reason(f"the join phase{began} reached its deadline")
    elif cause.api == "JoinGroup":
        yield reason(f"every member had joined, client {cause.client_id or 'without a name'} as the last")
    elif cause.test:
        yield reason(cause_text(cause))
    for i in history.act_of(index):
        each = history.happenings[i]
        if i < index and isinstance(each.event, e.MemberLeft | e.MemberRemoved):
            yield _trigger(history, each)


def explain_leader(history: KnownHistory, happening: GroupHappening, event: e.GenerationStarted) -> Explanation:
    """Which member leads a generation, and why the coordinator chose it."""
    leader = history.name_of(event.leader_id)
    index = history.happenings.index(happening)
    sentence = f"{leader} leads generation {event.generation_id} and computes the assignment"
    for i in range(index - 1, -1, -1):
        each = history.happenings[i]
        match each.event:
            case e.LeaderElected(leader_id=event.leader_id):
                return Explanation(
                    sentence=sentence,
                    position=each.position,
                    because=(reason(f"it was elected at {time_text(each.at_ms)}", _election(history, each)),),
                )
            case e.StaticMemberReplaced(member_id=event.leader_id):
                why = f"it took the place of the leader {history.name_of(each.event.replaced_member_id)}"
                return Explanation(sentence=sentence, position=each.position, because=(reason(why),))
    return Explanation(sentence=sentence, because=(reason(f"of an election that is {NOT_RECORDED}"),))


def _election(history: KnownHistory, happening: GroupHappening) -> Explanation:
    text = happening.event.reason
    if text == "first member":
        return reason("it was the first member of the group")
    for i in reversed(history.act_of(history.happenings.index(happening))):
        each = history.happenings[i].event
        if isinstance(each, e.MemberLeft | e.MemberRemoved) and each.member_id in text:
            verb = "left" if isinstance(each, e.MemberLeft) else "was removed"
            return reason(f"the leader {history.name_of(each.member_id)} {verb}")
    return reason(text or cause_text(happening.cause))


def explain_whole_rebalance(history: KnownHistory) -> list[Explanation]:
    """The last rebalance of the group: its start, who was removed in it, its end, and the leader."""
    happenings = history.happenings
    started = history.last_before(len(happenings), e.RebalanceStarted)
    if started is None:
        return []
    explanations: list[Explanation] = []
    first_act = history.act_of(started)
    for index in range(started, len(happenings)):
        happening = happenings[index]
        match happening.event:
            case e.RebalanceStarted() as event:
                explanations.append(explain_rebalance(history, happening, event))
            case e.MemberRemoved() as event if index not in first_act:
                explanations.append(explain_removal(history, happening, event))
            case e.MemberLeft() as event if index not in first_act:
                explanations.append(explain_leave(history, happening, event))
            case e.GenerationStarted() as event:
                explanations += [
                    explain_generation(history, happening, event),
                    explain_leader(history, happening, event),
                ]
            case e.AssignmentCommitted():
                explanations.append(explain_assignment(history, happening))
                return explanations
            case e.GroupEmptied():
                text = f"the group was Empty at {time_text(happening.at_ms)}"
                why = reason("no member was left in the join phase")
                explanations.append(Explanation(sentence=text, position=happening.position, because=(why,)))
                return explanations
            case e.GroupDeleted() | e.CoordinatorLoaded():
                return explanations
    return [*explanations, _unfinished(history, started)]


def _unfinished(history: KnownHistory, started: int) -> Explanation:
    """Why the last rebalance has not ended yet: what it waits for at the end of the history."""
    later = history.happenings[started:]
    generation = next((each for each in later if isinstance(each.event, e.GenerationStarted)), None)
    if generation is not None and isinstance(generation.event, e.GenerationStarted):
        leader = history.name_of(generation.event.leader_id)
        until = time_text(generation.event.sync_deadline_ms)
        return reason(
            "at the end of the history the group waits for its assignment",
            reason(f"{leader} has not sent it with SyncGroup", notes=[f"the sync phase ends at {until}"]),
        )
    joined = dict.fromkeys(
        history.name_of(each.event.member_id)
        for each in history.happenings[history.act_of(started).start :]
        if isinstance(each.event, e.MemberJoined | e.MemberRejoined)
    )
    phases = [each.event for each in later if isinstance(each.event, e.RebalanceStarted | e.JoinPhaseExtended)]
    return reason(
        "at the end of the history the join phase is still running",
        notes=[f"joined so far: {listed(joined)}", f"it ends at {time_text(phases[-1].deadline_ms)} at the latest"],
    )


def explain_assignment(history: KnownHistory, happening: GroupHappening) -> Explanation:
    return Explanation(
        sentence=f"the group was Stable at {time_text(happening.at_ms)}",
        position=happening.position,
        because=(reason("the leader's assignment was committed", cause_of(history, happening)),),
    )
