"""Invariants of the stored events of groups of the consumer protocol: of each step of a member, and of the epochs.

They judge an event by the group before it (`StoredGroup`, which is folded without the product's `evolve`). The first
line of a docstring is the sentence of a violation; a function returns what was found, and None if the invariant holds.
"""

from collections.abc import Callable, Iterable
from typing import Final, TypeAlias

from regroup.coordinator.consumer import events as ce
from regroup.coordinator.consumer.migration.events import RejoinRequested
from regroup.coordinator.consumer_group import ReconciliationState
from regroup.coordinator.events import Event
from regroup.coordinator.invariants import invariant_sentence
from regroup.lab.checker.consumer.stored_group import Partition, StoredGroup, StoredMember, flat, flat_epochs

EventInvariant: TypeAlias = Callable[[StoredGroup, Event], str | None]


def what_a_step_keeps_was_in_its_target(group: StoredGroup, event: Event) -> str | None:
    """A step of a member keeps only partitions of the target that the step used.

    A member that has just unsubscribed from topics gives them up before there is a new target: it keeps the rest.
    """
    if not isinstance(event, ce.MemberReconciled):
        return None
    before = _member(group, event.member_id)
    kept, target = flat(event.assigned), group.targets.get(event.member_id, frozenset())
    if kept <= target or (event.epoch == before.epoch and kept == _without_topics_that_are_gone(before, kept)):
        return None
    return f"{event.member_id} keeps {_names(kept - target)}, and its target at epoch {group.target_epoch} does not"


def _without_topics_that_are_gone(before: StoredMember, kept: frozenset[Partition]) -> frozenset[Partition]:
    """The partitions that a member was assigned, without those of topics of which it keeps no partition."""
    topic_ids = {topic_id for topic_id, _ in kept}
    return frozenset(each for each in before.assigned if each[0] in topic_ids)


def a_step_takes_only_what_is_free(group: StoredGroup, event: Event) -> str | None:
    """A step of a member takes a partition only if its former owner has released it, or was removed.

    That holds of members of both protocols. A static member that is away holds what it is assigned, and nothing else.
    """
    if not isinstance(event, ce.MemberReconciled):
        return None
    for partition in sorted(flat(event.assigned) - _member(group, event.member_id).held.keys()):
        if holder := group.other_holder(partition, event.member_id):
            return f"{event.member_id} takes {_names([partition])}, and {holder} has not released it"
    return None


def a_step_leads_to_the_target_epoch(group: StoredGroup, event: Event) -> str | None:
    """A step of a member keeps its epoch while it has partitions to give up, and otherwise reaches that of the target.

    The epoch before the step is its previous epoch. It never grows beyond the target's.
    """
    if not isinstance(event, ce.MemberReconciled):
        return None
    before = _member(group, event.member_id)
    due = before.epoch if event.pending_revocation else group.target_epoch
    if (event.epoch, event.previous_epoch) == (due, before.epoch):
        return None
    found = f"from epoch {before.epoch} to {event.epoch}, with the previous epoch {event.previous_epoch}"
    return f"{event.member_id} goes {found}; the target has epoch {group.target_epoch}"


def a_kept_partition_keeps_its_epoch(group: StoredGroup, event: Event) -> str | None:
    """A partition that a member keeps has the epoch at which the member got it, and a new one that of the target.

    One that it has given up, and gets again, is a new one.
    """
    if not isinstance(event, ce.MemberReconciled):
        return None
    before = _member(group, event.member_id)
    assigned, pending = flat_epochs(event.assigned), flat_epochs(event.pending_revocation)
    pairs: list[tuple[Partition, int, int | None]] = [
        (each, epoch, before.assigned.get(each, group.target_epoch)) for each, epoch in assigned.items()
    ]
    pairs += [(each, epoch, before.held.get(each)) for each, epoch in pending.items()]
    for partition, epoch, expected in pairs:
        if epoch != expected:
            return f"{_names([partition])} of {event.member_id} has epoch {epoch} in place of {expected}"
    return None


def a_waiting_member_waits_for_something(group: StoredGroup, event: Event) -> str | None:
    """A member waits for partitions only if another one has them, and is STABLE only if it has its whole target.

    Topics to which it does not subscribe, and deleted ones, are left out of its target. To which it subscribes is not
    known here if it has unsubscribed from some since the target was computed, or subscribes to a pattern.
    """
    if not isinstance(event, ce.MemberReconciled) or event.pending_revocation or event.epoch != group.target_epoch:
        return None
    missing = group.targets.get(event.member_id, frozenset()) - flat(event.assigned)
    blocked = {each for each in missing if group.other_holder(each, event.member_id)}
    present = {each for each in blocked if each[0] not in group.deleted_topics}
    if event.state is ReconciliationState.UNRELEASED_PARTITIONS and not blocked:
        return f"{event.member_id} is {event.state} at epoch {event.epoch}, and no other member has {_names(missing)}"
    member = _member(group, event.member_id)
    # Kafka computes a target as if all members had the same topics while one without any joins. It gets none of them.
    names_topics = bool(member.profile.subscribed_topics) and not member.profile.subscribed_regex
    is_known = names_topics and not member.has_dropped_topics
    if event.state is ReconciliationState.STABLE and present and is_known:
        return f"{event.member_id} is {event.state} at epoch {event.epoch}, and waits for {_names(present)}"
    return None


def epochs_of_a_group_grow_in_order(group: StoredGroup, event: Event) -> str | None:
    """The group epoch grows by one at a time, and a target is computed for the present group epoch."""
    match event:
        case ce.GroupEpochBumped(group_epoch=epoch) if epoch != group.group_epoch + 1:
            return f"the group epoch {group.group_epoch} is followed by {epoch}"
        case ce.TargetAssigned(assignment_epoch=epoch) if epoch != group.group_epoch:
            return f"the target has epoch {epoch}, and the group {group.group_epoch}"
    return None


def other_topics_bump_the_group_epoch(group: StoredGroup, event: Event) -> str | None:
    """A member that subscribes to other topics by their names than before bumps the group epoch with the next event.

    So does one that joins and names topics. A process that replaces a static member had the topics of that one.
    """
    if group.resubscribed is None or isinstance(event, ce.GroupEpochBumped):
        return None
    return f"{group.resubscribed} has other topics, and the group epoch stays {group.group_epoch}"


def a_request_to_rejoin_keeps_its_deadline(group: StoredGroup, event: Event) -> str | None:
    """A classic member has one rebalance timeout to join again, from the first response that asks it to."""
    if not isinstance(event, RejoinRequested):
        return None
    member = _member(group, event.member_id)
    due_ms = event.at_ms + member.profile.rebalance_timeout_ms
    if member.deadlines_ms[0] is not None:
        return f"{event.member_id} has until {member.deadlines_ms[0]} ms, and gets {event.join_deadline_ms} ms"
    return None if event.join_deadline_ms == due_ms else f"{event.join_deadline_ms} ms is not {due_ms} ms"


STEP_INVARIANTS: Final[tuple[EventInvariant, ...]] = (
    what_a_step_keeps_was_in_its_target,
    a_step_takes_only_what_is_free,
    a_step_leads_to_the_target_epoch,
    a_kept_partition_keeps_its_epoch,
    a_waiting_member_waits_for_something,
    epochs_of_a_group_grow_in_order,
    other_topics_bump_the_group_epoch,
    a_request_to_rejoin_keeps_its_deadline,
)
"""Invariants of the stored events of a group of the consumer protocol."""
_JUDGED: Final = (ce.MemberReconciled, ce.GroupEpochBumped, ce.TargetAssigned, RejoinRequested)


def step_violations(group: StoredGroup, event: Event) -> list[tuple[str, str]]:
    """Check one stored event of a group of the consumer protocol; `group` is the group before the event.

    Returns the sentence of each invariant that the event violates, and what was found.
    """
    if not isinstance(event, _JUDGED) and group.resubscribed is None:
        return []
    found = ((each, each(group, event)) for each in STEP_INVARIANTS)
    return [(invariant_sentence(each), detail) for each, detail in found if detail]


def _member(group: StoredGroup, member_id: str) -> StoredMember:
    return group.members[member_id]


def _names(partitions: Iterable[Partition]) -> str:
    return ", ".join(f"partition {index} of topic {topic_id}" for topic_id, index in sorted(partitions))
