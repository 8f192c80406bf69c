"""Explains what happened in groups of the consumer protocol: group epochs, targets, steps of members, and how a
reconciliation ended.
"""

from collections.abc import Iterator
from typing import Final

from regroup.coordinator import events as e
from regroup.coordinator.consumer import events as ce
from regroup.coordinator.consumer.migration import events as me
from regroup.coordinator.consumer_group import ConsumerGroup, ConsumerGroupState, ReconciliationState
from regroup.server.explanation.causes import cause_of, cause_text
from regroup.server.explanation.consumer_history import (
    group_after,
    held_before,
    partitions_text,
    profile_before,
    takers_of,
    topic_changes,
)
from regroup.server.explanation.history import GroupHappening, KnownHistory
from regroup.server.explanation.membership import explain_leave, explain_removal
from regroup.server.explanation.migrations import explain_upgrade
from regroup.server.explanation.sentences import Explanation, counted, duration_text, listed, reason, time_text

MAX_LISTED: Final = 3
"""The most steps, or members that hold a reconciliation up, that are named; further ones are counted."""
STARTS: Final = (ce.GroupEpochBumped, me.GroupUpgraded)
"""The events with which a reconciliation begins."""


def explain_subscription(history: KnownHistory, happening: GroupHappening, event: ce.MemberSubscribed) -> Explanation:
    """Explain why a member joined, or what it changed in its subscription."""
    name, at = history.name_of(event.member_id), time_text(happening.at_ms)
    former = profile_before(history, happening, event.member_id)
    notes: list[str] = []
    if former is None:
        sentence = f"{name} joined at {at}"
    elif event.reason:
        sentence, notes = f"{name} got another session timeout at {at}", [f"the reason in the event is: {event.reason}"]
    else:
        names = [listed(each.subscribed_topics) for each in (former, event.profile)]
        sentence = f"{name} changed its description at {at}"
        if names[0] != names[1]:
            sentence = f"{name} changed its subscription from {names[0]} to {names[1]} at {at}"
        elif former.classic is not None and event.profile.classic is None:
            sentence = f"{name} went on with the consumer protocol at {at}"
    return Explanation(
        sentence=sentence, position=happening.position, because=(cause_of(history, happening),), notes=tuple(notes)
    )


def explain_bump(history: KnownHistory, happening: GroupHappening, event: ce.GroupEpochBumped) -> Explanation:
    return Explanation(
        sentence=f"the group epoch rose to {event.group_epoch} at {time_text(happening.at_ms)}",
        position=happening.position,
        because=tuple(_triggers(history, happening, event)),
    )


def _triggers(history: KnownHistory, happening: GroupHappening, event: ce.GroupEpochBumped) -> Iterator[Explanation]:
    """Explanations of what bumped the group epoch in `event`: earlier events of the same act, such as a member that
    joined or left, and changes of subscribed topics."""
    index, found = history.happenings.index(happening), False
    for each in (history.happenings[i] for i in history.act_of(index) if i < index):
        match each.event:
            case ce.MemberSubscribed() as subscribed:
                yield explain_subscription(history, each, subscribed)
            case e.MemberLeft() as left:
                yield explain_leave(history, each, left)
            case e.MemberRemoved() as removed:
                yield explain_removal(history, each, removed)
            case ce.StaticConsumerReplaced() as replaced:
                yield explain_return(history, each, replaced)
            case _:
                continue
        found = True
    changes = [reason(change) for change in topic_changes(history, index, event)] if "topics" in event.reason else []
    yield from changes
    if not found and not changes:
        yield reason(event.reason or cause_text(happening.cause))


def explain_target(history: KnownHistory, happening: GroupHappening, event: ce.TargetAssigned) -> Explanation:
    """Explain when the target assignment of an epoch was computed, and how many members have other partitions in it
    than before."""
    at = time_text(happening.at_ms)
    if not event.assignor:
        sentence = f"the target of epoch {event.assignment_epoch} was empty at {at}"
        return Explanation(sentence=sentence, position=happening.position, because=(reason("no member remained"),))
    sentence = f"the coordinator computed the target of epoch {event.assignment_epoch} with {event.assignor} at {at}"
    index = history.happenings.index(happening)
    started = history.last_before(index, *STARTS)
    bump = history.happenings[started] if started is not None else None
    if bump is None or started in history.act_of(index):
        why = reason("the group epoch rose with the same request")
    else:
        waited = duration_text(happening.at_ms - bump.at_ms)
        why = reason(
            f"{cause_text(happening.cause)} {waited} after the group epoch had risen",
            notes=[
                "a target is computed with the next heartbeat after the assignment interval and the search for topics "
                "of a pattern; when a timer removes a member, none is computed with that"
            ],
        )
    return Explanation(
        sentence=sentence,
        position=happening.position,
        because=(why,),
        notes=(f"{counted(len(event.targets), 'member')} got another share",),
    )


def explain_step(history: KnownHistory, happening: GroupHappening, event: ce.MemberReconciled) -> Explanation:
    """Explain a step of a member's reconciliation: why the member was asked to give up partitions, or how it reached an
    epoch, and with which partitions."""
    name, at = history.name_of(event.member_id), time_text(happening.at_ms)
    assigned = partitions_text(history, event.assigned) or "nothing"
    notes: tuple[str, ...] = ()
    if event.state is ReconciliationState.UNREVOKED_PARTITIONS:
        given_up = partitions_text(history, event.pending_revocation)
        sentence = f"{name} was asked to give up {given_up} at {at}, and stays at epoch {event.epoch}"
        if event.revocation_deadline_ms is not None:
            notes = (f"it is removed unless it does so until {time_text(event.revocation_deadline_ms)}",)
        epoch, takers = takers_of(history, happening, event.pending_revocation)
        names = listed(map(history.name_of, takers))
        why = f"the target of epoch {epoch} has them for {names}" if takers else "no share of the target has them"
    else:
        sentence = f"{name} reached epoch {event.epoch} with {assigned} at {at}"
        released = partitions_text(history, held_before(history, happening, event.member_id))
        if event.state is ReconciliationState.UNRELEASED_PARTITIONS:
            notes = ("it waits for partitions of its share that others have not given up",)
        why = f"it reported that it had given up {released}" if released else cause_text(happening.cause)
    return Explanation(sentence=sentence, position=happening.position, because=(reason(why),), notes=notes)


def explain_away(history: KnownHistory, happening: GroupHappening, event: ce.StaticMemberAway) -> Explanation:
    return Explanation(
        sentence=f"{history.name_of(event.member_id)} went away at {time_text(happening.at_ms)}",
        position=happening.position,
        because=(reason("it sent ConsumerGroupHeartbeat with the member epoch -2"),),
        notes=("as a static member it keeps what it is assigned, until its session timeout ends",),
    )


def explain_return(history: KnownHistory, happening: GroupHappening, event: ce.StaticConsumerReplaced) -> Explanation:
    """Explain how a new process took the place of a static member whose former process had gone."""
    return Explanation(
        sentence=f"instance {event.instance_id} got a new process, {history.name_of(event.member_id)}, at "
        f"{time_text(happening.at_ms)}",
        position=happening.position,
        because=(cause_of(history, happening),),
        notes=(f"the id of {history.name_of(event.replaced_member_id)} is fenced since then",)
        if event.replaced_member_id != event.member_id
        else (),
    )


def explain_whole_reconciliation(history: KnownHistory, started: int) -> list[Explanation]:
    """The reconciliation that began with the event at this index: its cause, its target, who had to give up partitions,
    and how it ended or what it waits for."""
    happenings = history.happenings
    begun = happenings[started]
    explanations = []
    if isinstance(begun.event, ce.GroupEpochBumped):
        explanations.append(explain_bump(history, begun, begun.event))
    elif isinstance(begun.event, me.GroupUpgraded):
        explanations.append(explain_upgrade(history, begun, begun.event))
    later = happenings[started + 1 :]
    for each in later:
        if isinstance(each.event, ce.TargetAssigned):
            explanations.append(explain_target(history, each, each.event))
    asked = [
        explain_step(history, each, each.event)
        for each in later
        if isinstance(each.event, ce.MemberReconciled) and each.event.state is ReconciliationState.UNREVOKED_PARTITIONS
    ]
    explanations += asked[:MAX_LISTED]
    if len(asked) > MAX_LISTED:
        more = counted(len(asked) - MAX_LISTED, "further time")
        explanations.append(reason(f"members were asked to give up partitions {more}"))
    return [*explanations, *_end(history, started)]


def _end(history: KnownHistory, started: int) -> Iterator[Explanation]:
    """How the reconciliation ended, or whom it waits for at the end of the history; nothing if the events before it
    were trimmed."""
    begun = history.happenings[started]
    for index, group in group_after(history, started):
        happening = history.happenings[index]
        at, took = time_text(happening.at_ms), duration_text(happening.at_ms - begun.at_ms)
        if group is None:
            yield reason(f"the group was no group of the consumer protocol any more at {at}")
            return
        if group.state is ConsumerGroupState.EMPTY:
            yield Explanation(sentence=f"the group was Empty at {at}", position=happening.position)
            return
        if group.state is ConsumerGroupState.STABLE:
            member_id = getattr(happening.event, "member_id", "")
            last = (reason(f"{history.name_of(member_id)} was the last to reach it"),) if member_id else ()
            sentence = f"every member had reached the target at {at}, {took} after the group epoch rose"
            yield Explanation(sentence=sentence, position=happening.position, because=last)
            return
        is_last = index == len(history.happenings) - 1
        if is_last:
            yield _unfinished(history, group)


def _unfinished(history: KnownHistory, group: ConsumerGroup) -> Explanation:
    """Explain which members have not reached the target at the end of the history, and what each of them has yet to
    do."""
    if group.state is ConsumerGroupState.ASSIGNING:
        return reason("at the end of the history the target of the group epoch is not computed yet")
    behind: list[str] = []
    for member_id, member in group.members.items():
        if member.has_reached(group.assignment_epoch):
            continue
        name = history.name_of(member_id)
        if member.is_away:
            behind.append(f"{name} is away")
        elif member.state is ReconciliationState.UNREVOKED_PARTITIONS:
            behind.append(f"{name} has yet to give up {partitions_text(history, member.pending_revocation)}")
        elif member.state is ReconciliationState.UNRELEASED_PARTITIONS:
            behind.append(f"{name} waits for partitions that others have")
        else:
            behind.append(f"{name} has not sent its next heartbeat")
    more = [f"{counted(len(behind) - MAX_LISTED, 'further member')} did not reach it"] if behind[MAX_LISTED:] else []
    return reason(
        "at the end of the history the reconciliation is still running",
        *(reason(each) for each in [*behind[:MAX_LISTED], *more]),
    )
