"""Explains the events of a group that changes its protocol, and of classic members in a group of the consumer
protocol.
"""

from collections.abc import Iterator

from regroup.coordinator import events as e
from regroup.coordinator.consumer import events as ce
from regroup.coordinator.consumer.migration import events as me
from regroup.coordinator.consumer_group import ConsumerMember, ReconciliationState
from regroup.server.explanation.causes import cause_of
from regroup.server.explanation.consumer_history import group_after, partitions_text
from regroup.server.explanation.history import GroupHappening, KnownHistory
from regroup.server.explanation.membership import explain_leave, explain_removal
from regroup.server.explanation.sentences import NOT_RECORDED, Explanation, listed, reason, time_text


def explain_upgrade(history: KnownHistory, happening: GroupHappening, event: me.GroupUpgraded) -> Explanation:
    """Explain why a classic group with members became one of the consumer protocol, and what its members keep."""
    members = listed(map(history.name_of, event.profiles))
    return Explanation(
        sentence=f"the group changed to the consumer protocol at {time_text(happening.at_ms)}",
        position=happening.position,
        because=(cause_of(history, happening),),
        notes=(
            f"its generation {event.group_epoch} became the group epoch",
            f"{members} went on with the classic protocol",
        ),
    )


def explain_refused_upgrade(history: KnownHistory, happening: GroupHappening, event: me.UpgradeRefused) -> Explanation:
    """Explain why members of a classic group had to join again although the group did not change its protocol."""
    exchange = history.exchange_of(happening)
    notes = [f"the reason in the event is: {event.reason}"] if event.reason else []
    if exchange is None:
        notes.append(f"with which error the joining member was refused is {NOT_RECORDED}")
    else:
        notes.append(f"the joining member was refused with {exchange.answer}: {exchange.error_message.rstrip('.')}")
    return Explanation(
        sentence=f"the group stayed a classic one at {time_text(happening.at_ms)}, and its waiting JoinGroups and "
        "SyncGroups were refused with REBALANCE_IN_PROGRESS",
        position=happening.position,
        because=(cause_of(history, happening),),
        notes=tuple(notes),
    )


def explain_downgrade(history: KnownHistory, happening: GroupHappening, event: me.GroupDowngraded) -> Explanation:
    """Explain why a group of the consumer protocol became a classic one, and who goes on in it."""
    members = listed(history.name_of(each.member_id) for each in event.members)
    return Explanation(
        sentence=f"the group changed to the classic protocol at {time_text(happening.at_ms)}, in generation "
        f"{event.generation_id}",
        position=happening.position,
        because=tuple(_ends_of_membership(history, happening)) or (cause_of(history, happening),),
        notes=(
            f"no member of the consumer protocol remained; {members} went on, with the assignor {event.protocol_name}",
        ),
    )


def _ends_of_membership(history: KnownHistory, happening: GroupHappening) -> Iterator[Explanation]:
    """Explanations of how members left, were removed or were replaced by the same act, before the event `happening`."""
    index = history.happenings.index(happening)
    for each in (history.happenings[i] for i in history.act_of(index) if i < index):
        match each.event:
            case e.MemberLeft() as left:
                yield explain_leave(history, each, left)
            case e.MemberRemoved() as removed:
                yield explain_removal(history, each, removed)
            case ce.StaticConsumerReplaced(instance_id=instance_id, member_id=member_id):
                new = history.name_of(member_id)
                yield reason(f"instance {instance_id} got a new process of the classic protocol, {new}")


def explain_classic_join(
    history: KnownHistory, happening: GroupHappening, event: me.ClassicMemberJoined
) -> Explanation:
    """Explain the response to the JoinGroup of a classic member, and whether its SyncGroup followed."""
    member = _member_after(history, happening, event.member_id)
    generation = f" with generation {member.epoch}" if member is not None else ""
    return Explanation(
        sentence=f"the JoinGroup of {history.name_of(event.member_id)} was answered{generation} at "
        f"{time_text(happening.at_ms)}",
        position=happening.position,
        because=(cause_of(history, happening),),
        notes=(_follow_up(history, happening, event.member_id, "SyncGroup", event.sync_deadline_ms),),
    )


def explain_classic_sync(
    history: KnownHistory, happening: GroupHappening, event: me.ClassicMemberSynced
) -> Explanation:
    """Explain which partitions a classic member got with its SyncGroup."""
    member = _member_after(history, happening, event.member_id)
    shares = "" if member is None else f": {partitions_text(history, member.assigned) or 'no partition'}"
    return Explanation(
        sentence=f"{history.name_of(event.member_id)} fetched its assignment at {time_text(happening.at_ms)}{shares}",
        position=happening.position,
        because=(cause_of(history, happening),),
    )


def explain_rejoin_request(history: KnownHistory, happening: GroupHappening, event: me.RejoinRequested) -> Explanation:
    """Explain why a classic member was asked to send JoinGroup again, and whether it did."""
    member = _member_after(history, happening, event.member_id)
    why = cause_of(history, happening) if member is None else reason(_why_to_rejoin(history, happening, member))
    api = happening.cause.api or "request"
    return Explanation(
        sentence=f"a {api} of {history.name_of(event.member_id)} was answered with REBALANCE_IN_PROGRESS at "
        f"{time_text(happening.at_ms)}",
        position=happening.position,
        because=(why,),
        notes=(_follow_up(history, happening, event.member_id, "JoinGroup", event.join_deadline_ms),),
    )


def _why_to_rejoin(history: KnownHistory, happening: GroupHappening, member: ConsumerMember) -> str:
    if member.state is ReconciliationState.UNREVOKED_PARTITIONS:
        return f"it has to give up {partitions_text(history, member.pending_revocation)}"
    [(_, consumer), *_] = group_after(history, history.happenings.index(happening))
    assert consumer is not None, "only groups of the consumer protocol have members of this class"
    if member.epoch < consumer.assignment_epoch:
        return f"the target of epoch {consumer.assignment_epoch} is newer than its epoch {member.epoch}"
    return "the partitions of its share that others had are free"


def _member_after(history: KnownHistory, happening: GroupHappening, member_id: str) -> ConsumerMember | None:
    """The member as the coordinator knows it after an event; None if the beginning of the history was trimmed."""
    for _, consumer in group_after(history, history.happenings.index(happening)):
        return consumer.members.get(member_id) if consumer is not None else None
    return None


def _follow_up(
    history: KnownHistory, happening: GroupHappening, member_id: str, expected: str, deadline_ms: int
) -> str:
    """Whether the request that a classic member has to send (`expected`) came, as a clause."""
    for each in history.happenings[history.happenings.index(happening) + 1 :]:
        at = time_text(each.at_ms)
        match each.event:
            case me.ClassicMemberSynced(member_id=found) if (found, expected) == (member_id, "SyncGroup"):
                return f"its SyncGroup followed at {at}"
            case me.ClassicMemberJoined(member_id=found) if found == member_id:
                return f"it sent JoinGroup{' again' if expected == 'SyncGroup' else ''} at {at}"
            case e.MemberLeft(member_id=found) if found == member_id:
                return f"it left at {at}"
            case e.MemberRemoved(member_id=found) if found == member_id:
                return f"it was removed at {at}, {time_text(deadline_ms)} being its time limit for {expected}"
            case me.GroupDowngraded():
                return f"before its {expected} the group changed to the classic protocol at {at}"
    return f"it is removed unless it sends {expected} until {time_text(deadline_ms)}"
