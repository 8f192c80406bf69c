"""Invariants of groups of the consumer protocol; the first line of a docstring is the sentence of a violation."""

from collections import Counter
from collections.abc import Callable
from typing import Final, TypeAlias

from regroup.coordinator.consumer import events as ce
from regroup.coordinator.consumer.evolve_group import consumer_of
from regroup.coordinator.consumer.migration.events import GroupDowngraded, GroupUpgraded
from regroup.coordinator.consumer_group import (
    ConsumerGroup,
    ConsumerGroupState,
    ConsumerMember,
    ReconciliationState,
    every_partition,
)
from regroup.coordinator.events import CoordinatorLoaded, Event
from regroup.coordinator.group import Group, GroupState

S = ConsumerGroupState
TRANSITIONS: Final[dict[S | GroupState, frozenset[S | GroupState]]] = {
    S.EMPTY: frozenset({S.ASSIGNING, S.RECONCILING, GroupState.DEAD}),
    S.ASSIGNING: frozenset({S.RECONCILING, S.EMPTY}),
    S.RECONCILING: frozenset({S.STABLE, S.ASSIGNING, S.EMPTY}),
    S.STABLE: frozenset({S.ASSIGNING, S.RECONCILING, S.EMPTY}),
    GroupState.DEAD: frozenset({S.EMPTY}),
}
"""The states that may follow another one with one event. A state is derived from epochs and members: where one command
has several events, a group may pass through Reconciling on its way to Assigning."""

ConsumerStepInvariant: TypeAlias = Callable[[Group, Event, Group], bool]


def a_partition_has_one_holder(group: Group) -> bool:
    """A partition is assigned to, or pending revocation with, at most one member, and the group knows which one."""
    consumer = consumer_of(group)
    held = [(each, member_id) for member_id, member in consumer.members.items() for each in member.held()]
    known = {
        (topic_id, index): holder for topic_id, holders in consumer.holders.items() for index, holder in holders.items()
    }
    return len(held) == len(known) and dict(held) == known


def epochs_are_in_order(group: Group) -> bool:
    """No member is ahead of the target, and the target is not ahead of the group."""
    consumer = consumer_of(group)
    return consumer.assignment_epoch <= consumer.group_epoch and all(
        member.epoch <= consumer.assignment_epoch and member.previous_epoch <= consumer.assignment_epoch
        for member in consumer.members.values()
    )


def every_instance_id_names_its_consumer(group: Group) -> bool:
    """Each instance id names its static member, and no other member has one."""
    consumer = consumer_of(group)
    named = {member.instance_id: each for each, member in consumer.members.items() if member.instance_id is not None}
    return named == consumer.static_members


def a_member_at_the_target_has_nothing_else(group: Group) -> bool:
    """A member that is stable at the epoch of the target has nothing outside its share."""
    consumer = consumer_of(group)
    return all(
        has_nothing_outside_target(consumer, member)
        for member in consumer.members.values()
        if member.has_reached(consumer.assignment_epoch)
    )


def has_nothing_outside_target(consumer: ConsumerGroup, member: ConsumerMember) -> bool:
    target = consumer.targets.get(member.member_id, {})
    return all(index in target.get(topic_id, ()) for topic_id, index in every_partition(member.assigned))


def only_members_that_revoke_have_pending_partitions(group: Group) -> bool:
    """A member has partitions pending revocation only while it is asked to give them up, and then a deadline.

    A member of the classic protocol has a deadline to join instead, once a response has required that.
    """
    for member in consumer_of(group).members.values():
        revokes = member.state is ReconciliationState.UNREVOKED_PARTITIONS
        if member.pending_revocation and not revokes:
            return False
        has_deadline = member.revocation_deadline_ms is not None
        if has_deadline != bool(member.pending_revocation) and not (member.is_classic and not has_deadline):
            return False
    return True


def a_target_gives_each_partition_once(group: Group) -> bool:
    """The target gives a partition to one member, and shares to members only."""
    consumer = consumer_of(group)
    given = [each for target in consumer.targets.values() for each in every_partition(target)]
    return len(given) == len(set(given)) and consumer.targets.keys() <= consumer.members.keys()


def the_subscriptions_are_those_of_the_members(group: Group) -> bool:
    """The counts of names, patterns and votes are those of the members, and only their patterns are resolved."""
    consumer = consumer_of(group)
    profiles = [member.profile for member in consumer.members.values()]
    return (
        consumer.subscriptions == Counter(name for each in profiles for name in each.subscribed_topics)
        and consumer.regex_subscriptions == Counter(each.subscribed_regex for each in profiles if each.subscribed_regex)
        and consumer.assignor_votes == Counter(each.server_assignor for each in profiles if each.server_assignor)
        and consumer.resolved_regexes.keys() <= consumer.regex_subscriptions.keys()
    )


def the_members_behind_the_target_are_counted(group: Group) -> bool:
    """The group knows how many of its members have not reached the target."""
    consumer = consumer_of(group)
    return consumer.behind_target == consumer.count_behind_target()


def group_epochs_grow(before: Group, event: Event, after: Group) -> bool:
    """The group epoch grows by one when the group changes; the assignment epoch follows it and never runs back."""
    if before.consumer is None or after.consumer is None:
        return True
    bumped = after.consumer.group_epoch - before.consumer.group_epoch
    follows = after.consumer.assignment_epoch - before.consumer.assignment_epoch
    is_target = isinstance(event, ce.TargetAssigned)
    return bumped == isinstance(event, ce.GroupEpochBumped) and follows >= 0 and (follows == 0 or is_target)


def the_state_follows_the_table(before: Group, event: Event, after: Group) -> bool:
    """The state of a group of the consumer protocol is followed by one that the table of its transitions names."""
    if before.consumer is None or after.consumer is None:
        return True
    former, present = before.consumer.state, after.consumer.state
    return present is former or present in TRANSITIONS[former]


def member_epochs_grow(before: Group, event: Event, after: Group) -> bool:
    """A member's epoch never runs back by a step of its own."""
    if not isinstance(event, ce.MemberReconciled) or before.consumer is None:
        return True
    member = before.consumer.members[event.member_id]
    return event.epoch >= member.epoch and event.previous_epoch == member.epoch


def a_step_gives_only_free_partitions(before: Group, event: Event, after: Group) -> bool:
    """A partition is given to a member only when no other member has it, and when it is in the member's target."""
    if not isinstance(event, ce.MemberReconciled) or before.consumer is None:
        return True
    had = frozenset(before.consumer.members[event.member_id].held())
    target = before.consumer.targets.get(event.member_id, {})
    return all(
        each in had
        or (each[1] in target.get(each[0], ()) and not before.consumer.is_held_by_another(*each, event.member_id))
        for each in every_partition(event.assigned)
    )


def a_load_keeps_all_but_moments(before: Group, event: Event, after: Group) -> bool:
    """A coordinator that loads a group of the consumer protocol knows its epochs, members, targets and offsets."""
    if not isinstance(event, CoordinatorLoaded) or before.consumer is None or after.consumer is None:
        return True
    return (
        list(before.consumer.members) == list(after.consumer.members)
        and before.consumer.targets == after.consumer.targets
        and before.consumer.group_epoch == after.consumer.group_epoch
        and before.committed_offsets == after.committed_offsets
    )


def a_migration_loses_no_member_and_no_offset(before: Group, event: Event, after: Group) -> bool:
    """A group that changes its protocol keeps its members and every offset."""
    if not isinstance(event, GroupUpgraded | GroupDowngraded):
        return True
    return (
        list(before.member_ids) == list(after.member_ids)
        and before.committed_offsets == after.committed_offsets
        and before.pending_transactional_offsets == after.pending_transactional_offsets
    )


CONSUMER_GROUP_INVARIANTS: Final = (
    a_partition_has_one_holder,
    epochs_are_in_order,
    every_instance_id_names_its_consumer,
    a_member_at_the_target_has_nothing_else,
    only_members_that_revoke_have_pending_partitions,
    a_target_gives_each_partition_once,
    the_subscriptions_are_those_of_the_members,
    the_members_behind_the_target_are_counted,
)
"""Invariants that hold after every command to a group of the consumer protocol."""

CONSUMER_STEP_INVARIANTS: Final[tuple[ConsumerStepInvariant, ...]] = (
    group_epochs_grow,
    the_state_follows_the_table,
    member_epochs_grow,
    a_step_gives_only_free_partitions,
    a_load_keeps_all_but_moments,
    a_migration_loses_no_member_and_no_offset,
)
"""Invariants of every event of a group of the consumer protocol, given the group before and after it."""
