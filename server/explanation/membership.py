"""Explains events of members: why they joined, left, were removed or fenced."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from regroup.coordinator import events as e
from regroup.coordinator.consumer import events as ce
from regroup.coordinator.consumer.migration import events as me
from regroup.coordinator.group import MemberId
from regroup.server.explanation.causes import cause_of, cause_text, refused_text
from regroup.server.explanation.history import GroupHappening, KnownHistory
from regroup.server.explanation.sentences import (
    NOT_RECORDED,
    Explanation,
    counted,
    duration_text,
    listed,
    reason,
    time_text,
)
from regroup.server.recording.exchange import NO_ANSWER, RecordedExchange


def explain_removal(history: KnownHistory, happening: GroupHappening, event: e.MemberRemoved) -> Explanation:
    return Explanation(
        sentence=f"{history.name_of(event.member_id)} was removed at {time_text(happening.at_ms)}",
        position=happening.position,
        because=(_reason_of_removal(history, happening, event),),
    )


def _reason_of_removal(history: KnownHistory, happening: GroupHappening, event: e.MemberRemoved) -> Explanation:
    cause = happening.cause
    if event.timeout_ms is not None and event.last_seen_ms is not None:
        timeout = duration_text(event.timeout_ms)
        if cause.deadline == "new-member-join":
            began = time_text(event.last_seen_ms)
            return reason(f"no join phase was completed within {timeout} of its first JoinGroup at {began}")
        return reason(f"its session of {timeout} ended", _last_seen(history, happening, event.member_id))
    if cause.test:
        return reason(event.reason if event.reason != "its session was ended by a test" else cause_text(cause))
    if cause.deadline == "sync-phase":
        return reason("it did not send SyncGroup in time", *_phase_began(history, happening, e.GenerationStarted))
    if "group.max.size" in event.reason:
        return reason(event.reason, cause_of(history, happening))
    if event.reason.startswith("did not rejoin"):
        return reason(
            f"it {event.reason}",
            *_phase_began(history, happening, e.RebalanceStarted),
            notes=_later_requests(history, happening, event.member_id, _phase_began_ms(history, happening)),
        )
    if event.reason.startswith("did not "):
        return reason(f"it {event.reason}", *_requested(history, happening, event.member_id))
    return reason(event.reason or cause_text(cause))


def _requested(history: KnownHistory, happening: GroupHappening, member_id: MemberId) -> Iterator[Explanation]:
    """Explain what the coordinator had last asked of a member of a group of the consumer protocol before the event
    `happening`, and when."""
    for each in reversed(history.happenings[: history.happenings.index(happening)]):
        match each.event:
            case ce.MemberReconciled(member_id=found) if found == member_id:
                yield reason(f"it was asked to give up partitions at {time_text(each.at_ms)}")
                return
            case me.RejoinRequested(member_id=found) if found == member_id:
                yield reason(f"it got REBALANCE_IN_PROGRESS at {time_text(each.at_ms)}")
                return
            case me.ClassicMemberJoined(member_id=found) if found == member_id:
                yield reason(f"its JoinGroup was answered at {time_text(each.at_ms)}")
                return


def _phase_began_ms(history: KnownHistory, happening: GroupHappening) -> int:
    index = history.last_before(history.happenings.index(happening), e.RebalanceStarted)
    return happening.at_ms if index is None else history.happenings[index].at_ms


def _phase_began(history: KnownHistory, happening: GroupHappening, kind: type[e.Event]) -> Iterator[Explanation]:
    """A sentence that says when the join phase or sync phase began whose deadline led to this event; nothing if that
    event is not in the history."""
    index = history.last_before(history.happenings.index(happening), kind)
    if index is not None:
        before = history.happenings[index]
        if isinstance(before.event, e.GenerationStarted):
            yield reason(f"generation {before.event.generation_id} had begun at {time_text(before.at_ms)}")
        elif isinstance(before.event, e.RebalanceStarted):
            why = f" ({before.event.reason})" if before.event.reason else ""
            yield reason(f"the rebalance had begun at {time_text(before.at_ms)}{why}")


def _last_seen(history: KnownHistory, happening: GroupHappening, member_id: MemberId) -> Explanation:
    """A sentence about a member whose session timed out: which request restarted the timeout for the last time, and
    that no later request did."""
    event = happening.event
    assert isinstance(event, e.MemberRemoved)
    since_ms = event.last_seen_ms or 0
    at, is_recorded = time_text(since_ms), history.is_recorded(happening, since_ms)
    last = _accepted_request_at(history, member_id, since_ms)
    if last is not None and last.api in ("Heartbeat", "ConsumerGroupHeartbeat"):
        text = f"its last heartbeat came at {at}"
    elif what := _event_at(history, since_ms):
        text = f"its session timeout started for the last time at {at}, {what}"
    elif last is not None:
        text = f"its last request, {last.api}, came at {at}"
    elif is_recorded:
        text = f"it was last seen at {at}"
    else:
        text = f"it was last seen at {at} (with which request is {NOT_RECORDED})"
    if not is_recorded:
        return reason(text, notes=[f"whether requests of it followed is {NOT_RECORDED}"])
    later = [each for each in history.requests_of(member_id, since_ms, happening.at_ms) if each is not last]
    text += ", and no request that counts followed" if later else ", and no request of it followed"
    return reason(text, notes=_what_became_of(later))


_RESTARTING_ANSWERS = ("NONE", "REBALANCE_IN_PROGRESS")
"""Answers to heartbeats that have restarted the session timeout."""
MAX_HANDLING_MS = 5
"""A repeated heartbeat is recorded at most this many milliseconds after it was accepted."""


def _accepted_request_at(history: KnownHistory, member_id: MemberId, at_ms: int) -> RecordedExchange | None:
    """The accepted request of the member that was handled at this time; None if none was recorded."""
    found = None
    for each in history.requests_of(member_id, at_ms - MAX_HANDLING_MS, at_ms + 1):
        ended_ms = at_ms if each.row.ended_at_ms is None else max(each.row.ended_at_ms, each.last_at_ms)
        if each.last_at_ms - MAX_HANDLING_MS <= at_ms <= ended_ms and each.answer in _RESTARTING_ANSWERS:
            found = each
    return found


def _event_at(history: KnownHistory, at_ms: int) -> str:
    """The event at this time that restarted the session timeouts of all members, in words; empty if there is none."""
    for each in reversed(history.happenings):
        if each.at_ms == at_ms:
            match each.event:
                case e.GenerationStarted(generation_id=generation_id):
                    return f"when generation {generation_id} began"
                case e.AssignmentCommitted():
                    return "when the assignment was committed"
                case e.CoordinatorLoaded():
                    return "when a coordinator loaded the group"
    return ""


def _later_requests(
    history: KnownHistory, happening: GroupHappening, member_id: MemberId, since_ms: int
) -> tuple[str, ...]:
    """Phrases about the requests of a member that came after `since_ms` and did not prevent its removal: they were
    refused, hit by a fault rule, or not answered. If requests were not recorded during that time, the only phrase says
    so."""
    if not history.is_recorded(happening, since_ms):
        return (f"whether requests of it came in the meantime is {NOT_RECORDED}",)
    return _what_became_of(history.requests_of(member_id, since_ms, happening.at_ms))


def _what_became_of(requests: Iterable[RecordedExchange]) -> tuple[str, ...]:
    faults: Counter[tuple[str, str]] = Counter()
    refusals: Counter[tuple[str, str]] = Counter()
    unanswered: Counter[str] = Counter()
    for each in requests:
        if each.fault:
            faults[each.api, each.fault] += each.count
        elif each.answer == NO_ANSWER:
            unanswered[each.api] += each.count
        elif each.answer != "NONE":
            refusals[each.api, each.answer] += each.count
    notes = [f"a fault rule hit {counted(n, f'later {api} request')} ({effect})" for (api, effect), n in faults.items()]
    notes += [refused_text(count, f"later {api}", answer) for (api, answer), count in refusals.items()]
    notes += [f"{counted(count, f'later {api} request')} had no answer" for api, count in unanswered.items()]
    return tuple(notes)


def explain_leave(history: KnownHistory, happening: GroupHappening, event: e.MemberLeft) -> Explanation:
    name, cause = history.name_of(event.member_id), happening.cause
    at = time_text(happening.at_ms)
    if cause.test or cause.deadline or not cause.api:
        notes = [f"the reason given is: {event.reason}"] if event.reason else []
        return Explanation(
            sentence=f"{name} was removed at {at}",
            position=happening.position,
            because=(reason(cause_text(cause), notes=notes),),
        )
    if cause.api == "ConsumerGroupHeartbeat":
        left = reason("it sent ConsumerGroupHeartbeat with the member epoch -1")
        return Explanation(sentence=f"{name} left at {at}", position=happening.position, because=(left,))
    given = f"with the reason: {event.reason}" if event.reason else "and the request gives no reason"
    if cause.client_id == history.client_id_of(event.member_id):
        text, why = f"{name} left at {at}", f"it sent LeaveGroup, {given}"
    else:
        sender = cause.client_id or "a client without a name"
        text, why = f"{name} was removed at {at}", f"{sender} sent LeaveGroup for it, {given}"
    return Explanation(sentence=text, position=happening.position, because=(reason(why),))


def explain_replacement(history: KnownHistory, happening: GroupHappening, event: e.StaticMemberReplaced) -> Explanation:
    """Why the old process of a static member was fenced: a new process joined with its instance id."""
    old, new = event.replaced_member_id, event.member_id
    client = happening.cause.client_id or "a client without a name"
    notes = [f"the id of {history.name_of(old)} is fenced since then"]
    fenced = [each for each in history.requests_of(old, happening.at_ms) if each.answer == "FENCED_INSTANCE_ID"]
    if fenced:
        total = sum(each.count for each in fenced)
        notes.append(f"{refused_text(total, 'later', 'FENCED_INSTANCE_ID')}, the first at {time_text(fenced[0].at_ms)}")
    elif not history.is_recorded(happening, happening.at_ms):
        notes.append(f"whether the old process sent requests after that is {NOT_RECORDED}")
    else:
        notes.append("the old process sent no request that was refused for it")
    return Explanation(
        sentence=f"instance {event.instance_id} got a new process, {history.name_of(new)}, at "
        f"{time_text(happening.at_ms)}",
        position=happening.position,
        because=(reason(f"client {client} sent JoinGroup with this instance id and without a member id"),),
        notes=tuple(notes),
    )


def explain_join(history: KnownHistory, happening: GroupHappening, event: e.MemberJoined) -> Explanation:
    name, client_id = history.name_of(event.member_id), event.profile.client_id
    notes = [f"the reason it gave is: {event.reason}"] if event.reason else []
    index = history.happenings.index(happening)
    former = [each for each in history.member_ids_of(client_id) if each != event.member_id] if client_id else []
    for each in reversed(history.happenings[:index]):
        if isinstance(each.event, e.MemberRemoved | e.MemberLeft) and each.event.member_id in former:
            verb = "left" if isinstance(each.event, e.MemberLeft) else "was removed"
            notes.append(
                f"a member with the same client id, {history.name_of(each.event.member_id)}, {verb} at "
                f"{time_text(each.at_ms)}"
            )
            break
    return Explanation(
        sentence=f"{name} joined at {time_text(happening.at_ms)}",
        position=happening.position,
        because=(cause_of(history, happening),),
        notes=tuple(notes),
    )


def explain_new_member_id(history: KnownHistory, happening: GroupHappening, event: e.PendingMemberAdded) -> Explanation:
    """Why a member got MEMBER_ID_REQUIRED, and whether it has used the member id since."""
    later = [each for each in history.happenings if each.position > happening.position]
    follow_up = "until the end of the history no JoinGroup used it"
    for each in later:
        match each.event:
            case e.MemberJoined(member_id=event.member_id):
                follow_up = f"a second JoinGroup used it at {time_text(each.at_ms)}"
                break
            case e.PendingMemberRemoved(member_id=event.member_id):
                follow_up = f"it was dropped at {time_text(each.at_ms)}, because {_why_dropped(each.event)}"
                break
    sender = event.client_id or "a client without a name"
    given = history.name_of(event.member_id)
    return Explanation(
        sentence=f"a JoinGroup of {sender} was refused with MEMBER_ID_REQUIRED at {time_text(happening.at_ms)}",
        position=happening.position,
        because=(reason(f"it came without a member id, and got the id of {given} to join with (KIP-394)"),),
        notes=(follow_up,),
    )


def explain_dropped_member_id(
    history: KnownHistory, happening: GroupHappening, event: e.PendingMemberRemoved
) -> Explanation:
    return Explanation(
        sentence=f"the id of {history.name_of(event.member_id)}, which no member had used, was dropped at "
        f"{time_text(happening.at_ms)}",
        position=happening.position,
        because=(reason(_why_dropped(event) or cause_text(happening.cause)),),
    )


def _why_dropped(event: e.PendingMemberRemoved) -> str:
    return f"it {event.reason}" if event.reason.startswith("did not") else event.reason


def explain_refusals(history: KnownHistory, member_ids: Sequence[MemberId], last: Explanation) -> Iterator[Explanation]:
    """Explain which requests of the member with these ids were refused after its last event, as far as they were
    recorded; `last` is the explanation of that event."""
    after = next((each for each in history.happenings if each.position == last.position), None)
    if after is None:
        return
    expected = {"NONE", NO_ANSWER, "MEMBER_ID_REQUIRED"}
    if isinstance(after.event, e.StaticMemberReplaced):
        expected.add("FENCED_INSTANCE_ID")  # the explanation of the replacement counts them
    found: dict[tuple[str, str], list[RecordedExchange]] = {}
    for member_id in member_ids:
        for each in history.requests_of(member_id, after.at_ms):
            if each.at_ms >= after.at_ms and each.answer not in expected:
                requests = found.setdefault((each.api, each.answer), [])
                if each not in requests:
                    requests.append(each)
    for (api, answer), requests in found.items():
        times = listed(dict.fromkeys((time_text(requests[0].at_ms), time_text(requests[-1].last_at_ms))))
        text = f"{refused_text(sum(each.count for each in requests), api, answer)} at {times}"
        faults = sorted({each.fault for each in requests if each.fault})
        why = reason(f"a fault rule did this ({', '.join(faults)})") if faults else _why_refused(answer, last)
        yield Explanation(sentence=text, because=(why,) if why else ())


def _why_refused(answer: str, last: Explanation) -> Explanation | None:
    match answer:
        case "UNKNOWN_MEMBER_ID" | "FENCED_INSTANCE_ID":
            return reason(last.sentence)
        case "REBALANCE_IN_PROGRESS":
            return reason("a rebalance was in progress")
        case "FENCED_MEMBER_EPOCH" | "STALE_MEMBER_EPOCH":
            return reason("they named another member epoch than the member's")
        case "ILLEGAL_GENERATION":
            return reason("they named another generation than the group's")
        case "NOT_COORDINATOR" | "COORDINATOR_LOAD_IN_PROGRESS" | "COORDINATOR_NOT_AVAILABLE":
            return reason("the coordinator was moving, loading or down")
    return None
