"""Which invariants of a group of the consumer protocol a change has kept, found from the changed members alone.

    KEPT[a_partition_has_one_holder](sound, group, changed_part)

Each function takes a former state of the group that breaks no invariant, the present one, and the present one with its
changed members alone. It returns True only if the present state keeps the invariant, too; False means that all members
have to be looked at. A group of thousands of members changes for each of them, and looking at all of them each time
would take the square of their number.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Final, TypeAlias

from msgspec.structs import replace

from regroup.coordinator.consumer.evolve_group import consumer_of
from regroup.coordinator.consumer.invariants import (
    a_member_at_the_target_has_nothing_else,
    a_partition_has_one_holder,
    a_target_gives_each_partition_once,
    epochs_are_in_order,
    every_instance_id_names_its_consumer,
    only_members_that_revoke_have_pending_partitions,
    the_members_behind_the_target_are_counted,
    the_subscriptions_are_those_of_the_members,
)
from regroup.coordinator.consumer_group import ConsumerGroup, ConsumerMember, ConsumerProfile
from regroup.coordinator.group import Group, MemberId
from regroup.coordinator.layered_mapping import added_keys, changed

IsKept: TypeAlias = Callable[[Group, Group, Group], bool]


def with_members(group: Group, members: Mapping[MemberId, ConsumerMember]) -> Group:
    """The group with these members alone, and otherwise as it is."""
    return replace(group, consumer=replace(consumer_of(group), members=members))


def _gone(sound: Group, group: Group) -> Collection[MemberId]:
    """The members that the group has lost since `sound`."""
    return added_keys(consumer_of(group).members, consumer_of(sound).members)


def _one_holder(sound: Group, group: Group, changed_part: Group) -> bool:
    """The changed members are the holders of what they hold, and of nothing else, and no other partition has another
    holder than before."""
    former, present = consumer_of(sound), consumer_of(group)
    held = {member_id: list(member.held()) for member_id, member in consumer_of(changed_part).members.items()}
    moved = {*held, *_gone(sound, group)}
    for member_id in moved:
        holds = held.get(member_id, [])
        had = former.members[member_id].held() if member_id in former.members else ()
        if len(holds) != len(set(holds)) or not all(_is_holder(present, member_id, *each) for each in holds):
            return False
        if any(_is_holder(present, member_id, *each) for each in set(had) - set(holds)):
            return False
    for topic_id in {**former.holders, **present.holders}:
        before, after = former.holders.get(topic_id, {}), present.holders.get(topic_id, {})
        given = [index for index, holder in changed(before, after).items() if holder != before.get(index)]
        if not all((topic_id, index) in held.get(after[index], ()) for index in given):
            return False
        taken = (index for index in (*given, *added_keys(after, before)) if index in before)
        if not all(before[index] in moved for index in taken):
            return False
    return True


def _is_holder(consumer: ConsumerGroup, member_id: MemberId, topic_id: str, index: int) -> bool:
    return consumer.holders.get(topic_id, {}).get(index) == member_id


def _epochs_in_order(sound: Group, group: Group, changed_part: Group) -> bool:
    keeps = consumer_of(sound).assignment_epoch <= consumer_of(group).assignment_epoch
    return keeps and epochs_are_in_order(changed_part)


def _same_instance_ids(sound: Group, group: Group, changed_part: Group) -> bool:
    former = consumer_of(sound).members
    return (
        consumer_of(sound).static_members is consumer_of(group).static_members
        and all(
            each.instance_id == (former[member_id].instance_id if member_id in former else None)
            for member_id, each in consumer_of(changed_part).members.items()
        )
        and all(former[member_id].instance_id is None for member_id in _gone(sound, group))
    )


def _nothing_beside_the_target(sound: Group, group: Group, changed_part: Group) -> bool:
    """With a new target, members that have not changed since have not reached it."""
    former, present = consumer_of(sound), consumer_of(group)
    if present.assignment_epoch < former.assignment_epoch:
        return False
    members = dict(consumer_of(changed_part).members)
    if present.assignment_epoch == former.assignment_epoch:
        shares = {*changed(former.targets, present.targets), *added_keys(present.targets, former.targets)}
        members |= {each: present.members[each] for each in shares if each in present.members}
    return a_member_at_the_target_has_nothing_else(with_members(group, members))


def _pending_partitions(sound: Group, group: Group, changed_part: Group) -> bool:
    return only_members_that_revoke_have_pending_partitions(changed_part)


def _same_target(sound: Group, group: Group, changed_part: Group) -> bool:
    """The target is as before, perhaps without the shares of some members, and those that are gone have none."""
    former, present = consumer_of(sound).targets, consumer_of(group).targets
    return not changed(former, present) and not any(each in present for each in _gone(sound, group))


def _same_subscriptions(sound: Group, group: Group, changed_part: Group) -> bool:
    former, present = consumer_of(sound), consumer_of(group)
    members, gone = consumer_of(changed_part).members, _gone(sound, group)
    old = [former.members[each].profile for each in (*members, *gone) if each in former.members]
    new = [each.profile for each in members.values()]
    return present.resolved_regexes.keys() <= present.regex_subscriptions.keys() and all(
        _counts(count, names(old), names(new)) == found
        for names, count, found in (
            (_topics, former.subscriptions, present.subscriptions),
            (_patterns, former.regex_subscriptions, present.regex_subscriptions),
            (_votes, former.assignor_votes, present.assignor_votes),
        )
    )


def _counts(counts: Mapping[str, int], old: Iterable[str], new: Iterable[str]) -> dict[str, int]:
    """The counts of names after those of some members have changed."""
    counted = Counter(counts)
    counted.subtract(old)
    counted.update(new)
    return {name: count for name, count in counted.items() if count}


def _topics(profiles: Iterable[ConsumerProfile]) -> list[str]:
    return [name for each in profiles for name in each.subscribed_topics]


def _patterns(profiles: Iterable[ConsumerProfile]) -> list[str]:
    return [each.subscribed_regex for each in profiles if each.subscribed_regex]


def _votes(profiles: Iterable[ConsumerProfile]) -> list[str]:
    return [each.server_assignor for each in profiles if each.server_assignor]


def _same_count_behind_the_target(sound: Group, group: Group, changed_part: Group) -> bool:
    former, present = consumer_of(sound), consumer_of(group)
    if present.assignment_epoch != former.assignment_epoch:
        return False
    members = consumer_of(changed_part).members
    old = {each: former.members[each] for each in (*members, *_gone(sound, group)) if each in former.members}
    moved = consumer_of(changed_part).count_behind_target() - replace(former, members=old).count_behind_target()
    return present.behind_target == former.behind_target + moved


KEPT: Final[dict[Callable[[Group], bool], IsKept]] = {
    a_partition_has_one_holder: _one_holder,
    epochs_are_in_order: _epochs_in_order,
    every_instance_id_names_its_consumer: _same_instance_ids,
    a_member_at_the_target_has_nothing_else: _nothing_beside_the_target,
    only_members_that_revoke_have_pending_partitions: _pending_partitions,
    a_target_gives_each_partition_once: _same_target,
    the_subscriptions_are_those_of_the_members: _same_subscriptions,
    the_members_behind_the_target_are_counted: _same_count_behind_the_target,
}
"""The function of each invariant of a group of the consumer protocol."""
