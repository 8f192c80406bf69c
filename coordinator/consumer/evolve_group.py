"""Folding the events of a group of the consumer protocol."""

from collections.abc import Mapping

from msgspec.structs import replace

from regroup.coordinator.consumer import events as ce
from regroup.coordinator.consumer_group import (
    AWAY_EPOCH,
    ConsumerGroup,
    ConsumerMember,
    ConsumerProfile,
    PartitionEpochs,
    ReconciliationState,
    TopicId,
)
from regroup.coordinator.events import CoordinatorLoaded, GroupDeleted, MemberLeft, MemberRemoved
from regroup.coordinator.group import Group, GroupState
from regroup.coordinator.layered_mapping import with_newer, without


def consumer_of(group: Group) -> ConsumerGroup:
    """The state that a group of the consumer protocol has in `Group.consumer`. Raises ValueError for a group of another
    kind, to which no event of the consumer protocol belongs."""
    if group.consumer is None:
        raise ValueError(f"group {group.group_id!r} is no group of the consumer protocol")
    return group.consumer


def with_consumer(group: Group, consumer: ConsumerGroup) -> Group:
    return replace(group, consumer=consumer)


def consumer_group_created(group: Group, event: ce.ConsumerGroupCreated) -> Group:
    return replace(with_offsets_only(group), consumer=ConsumerGroup())


def consumer_group_ended(group: Group, event: ce.ConsumerGroupEnded) -> Group:
    return replace(with_offsets_only(group), state=GroupState.EMPTY)


def with_offsets_only(group: Group) -> Group:
    """A group with the same id, offsets, records not yet committed and time of load, and with none of the fields that
    belong to one protocol."""
    return Group(
        group_id=group.group_id,
        committed_offsets=group.committed_offsets,
        pending_transactional_offsets=group.pending_transactional_offsets,
        pending_appends=group.pending_appends,
        loaded_at_ms=group.loaded_at_ms,
    )


def consumer_group_deleted(group: Group, event: GroupDeleted) -> Group:
    return Group(group_id=group.group_id, loaded_at_ms=group.loaded_at_ms)


def consumer_group_loaded(group: Group, event: CoordinatorLoaded) -> Group:
    """The group after a new coordinator has loaded it. Kafka's log contains all of its state except the times from
    which timeouts count, so all timeouts start again in full."""
    consumer = consumer_of(group)
    loaded = {member_id: loaded_member(member, event.at_ms) for member_id, member in consumer.members.items()}
    if any(loaded[member_id] is not member for member_id, member in consumer.members.items()):
        consumer = replace(consumer, members=loaded)
    return replace(group, consumer=consumer, pending_appends={}, loaded_at_ms=event.at_ms)


def loaded_member(member: ConsumerMember, at_ms: int) -> ConsumerMember:
    """A member after the group was loaded at `at_ms`. If it has to give up partitions, its rebalance timeout starts
    again, in Kafka also for a member of the classic protocol.

    Deadlines of a member of the classic protocol for JoinGroup and SyncGroup are dropped.
    """
    if member.state is ReconciliationState.UNREVOKED_PARTITIONS and not member.is_away:
        member = replace(member, revocation_deadline_ms=at_ms + member.profile.rebalance_timeout_ms)
    if member.join_deadline_ms is None and member.sync_deadline_ms is None:
        return member
    return replace(member, join_deadline_ms=None, sync_deadline_ms=None)


def member_subscribed(group: Group, event: ce.MemberSubscribed) -> Group:
    """The group after a member has joined or changed its description. A member that names another instance id than
    before no longer has the former one."""
    consumer, profile = consumer_of(group), event.profile
    before = consumer.members.get(event.member_id)
    old = before.profile if before else None
    member = replace(before, profile=profile) if before else ConsumerMember(member_id=event.member_id, profile=profile)
    if before and before.is_classic and not member.is_classic:
        member = with_deadlines_of_consumer_protocol(member, event.at_ms)
    static_members = consumer.static_members
    if old is None or old.instance_id != profile.instance_id:
        static_members = without(static_members, old.instance_id if old else None)
        if profile.instance_id is not None:
            static_members = with_newer(static_members, {profile.instance_id: event.member_id})
    after = replace(
        consumer,
        members=with_newer(consumer.members, {event.member_id: member}),
        static_members=static_members,
        behind_target=behind_target(consumer, before, member),
    )
    return with_consumer(group, with_subscriptions(after, old, profile))


def with_deadlines_of_consumer_protocol(member: ConsumerMember, at_ms: int) -> ConsumerMember:
    """A member of the classic protocol after it has sent its first heartbeat of the consumer protocol. If partitions
    are pending revocation, it gets its rebalance timeout to give them up. Its deadlines for JoinGroup and SyncGroup
    stay, since Kafka does not cancel those timers."""
    deadline_ms = at_ms + member.profile.rebalance_timeout_ms if member.pending_revocation else None
    return replace(member, revocation_deadline_ms=deadline_ms)


def group_epoch_bumped(group: Group, event: ce.GroupEpochBumped) -> Group:
    return with_consumer(
        group,
        replace(
            consumer_of(group),
            group_epoch=event.group_epoch,
            bumped_at_ms=event.at_ms,
            metadata_hash=event.metadata_hash,
            hashed_topics=event.hashed_topics,
        ),
    )


def target_assigned(group: Group, event: ce.TargetAssigned) -> Group:
    consumer = consumer_of(group)
    assigned = replace(
        consumer,
        assignment_epoch=event.assignment_epoch,
        assigned_at_ms=event.assigned_at_ms,
        targets=with_newer(consumer.targets, event.targets) if event.targets else consumer.targets,
    )
    return with_consumer(group, replace(assigned, behind_target=assigned.count_behind_target()))


def member_reconciled(group: Group, event: ce.MemberReconciled) -> Group:
    consumer = consumer_of(group)
    before = consumer.members[event.member_id]
    after = replace(
        before,
        state=event.state,
        epoch=event.epoch,
        previous_epoch=event.previous_epoch,
        assigned=event.assigned,
        pending_revocation=event.pending_revocation,
        revocation_deadline_ms=event.revocation_deadline_ms,
    )
    return with_consumer(group, with_member(consumer, before, after))


def static_member_away(group: Group, event: ce.StaticMemberAway) -> Group:
    """The group after a static member has left temporarily, with epoch -2. Its partitions get assignment epoch 0, as if
    it had always had them, so that its next process may commit offsets in them."""
    consumer = consumer_of(group)
    before = consumer.members[event.member_id]
    after = replace(
        before,
        epoch=AWAY_EPOCH,
        assigned={topic_id: dict.fromkeys(epochs, 0) for topic_id, epochs in before.assigned.items()},
        pending_revocation={},
        revocation_deadline_ms=None,
    )
    return with_consumer(group, with_member(consumer, before, after))


def static_consumer_replaced(group: Group, event: ce.StaticConsumerReplaced) -> Group:
    """The group after a new process has replaced a static member: it gets the old one's partitions and target, at epoch
    0. If its member id belonged to another member, that member is removed.

    Only a member of the classic protocol, or a process that replaces one, may still have partitions to give up.
    """
    consumer, old_id, new_id = consumer_of(group), event.replaced_member_id, event.member_id
    if new_id != old_id and new_id in consumer.members:
        consumer = without_member(consumer, new_id)
    old = consumer.members[old_id]
    new = replace(
        old,
        member_id=new_id,
        epoch=0,
        previous_epoch=0,
        revocation_deadline_ms=None,
        join_deadline_ms=None,
        sync_deadline_ms=None,
    )
    holders = consumer.holders
    for partitions in (old.assigned, old.pending_revocation):
        holders = with_holders(with_holders(holders, old_id, held=partitions), new_id, gained=partitions)
    consumer = replace(
        consumer,
        members=with_newer(without(consumer.members, old_id), {new_id: new}),
        static_members=with_newer(consumer.static_members, {event.instance_id: new_id}),
        targets=with_newer(without(consumer.targets, old_id), {new_id: consumer.targets.get(old_id, {})}),
        holders=holders,
        behind_target=behind_target(consumer, old, new),
    )
    return with_consumer(group, consumer)


def consumer_removed(group: Group, event: MemberLeft | MemberRemoved) -> Group:
    return with_consumer(group, without_member(consumer_of(group), event.member_id))


def without_member(consumer: ConsumerGroup, member_id: str) -> ConsumerGroup:
    member = consumer.members[member_id]
    holders = with_holders(consumer.holders, member.member_id, held=member.assigned)
    consumer = replace(
        consumer,
        members=without(consumer.members, member.member_id),
        static_members=without(consumer.static_members, member.instance_id),
        targets=without(consumer.targets, member.member_id),
        holders=with_holders(holders, member.member_id, held=member.pending_revocation),
        behind_target=behind_target(consumer, member, None),
    )
    return with_subscriptions(consumer, member.profile, None)


def regexes_resolved(group: Group, event: ce.RegexesResolved) -> Group:
    consumer = consumer_of(group)
    consumer = replace(consumer, resolved_regexes=consumer.resolved_regexes | event.resolved)
    return with_consumer(group, with_subscribed_topics(consumer))


# What follows from the members


def with_member(consumer: ConsumerGroup, before: ConsumerMember, after: ConsumerMember) -> ConsumerGroup:
    """The group with the member `after` in place of `before`; holders and counts follow from the partitions that
    changed."""
    held, holds = frozenset(before.held()), frozenset(after.held())
    return replace(
        consumer,
        members=with_newer(consumer.members, {after.member_id: after}),
        holders=with_holders(
            consumer.holders, after.member_id, held=by_topic(held - holds), gained=by_topic(holds - held)
        ),
        behind_target=behind_target(consumer, before, after),
    )


def behind_target(consumer: ConsumerGroup, before: ConsumerMember | None, after: ConsumerMember | None) -> int:
    """How many members have not reached the target, after one member has changed from `before` to `after`. `before` is
    None for a member that has joined, `after` for one that was removed."""
    epoch = consumer.assignment_epoch
    was = before is not None and not before.has_reached(epoch)
    is_now = after is not None and not after.has_reached(epoch)
    return consumer.behind_target - was + is_now


def by_topic(partitions: frozenset[tuple[TopicId, int]]) -> PartitionEpochs:
    """The partitions as indexes by topic id, sorted, each with epoch 0."""
    grouped: PartitionEpochs = {}
    for topic_id, index in sorted(partitions):
        grouped.setdefault(topic_id, {})[index] = 0
    return grouped


def with_holders(
    holders: Mapping[TopicId, dict[int, str]],
    member_id: str,
    *,
    held: PartitionEpochs | None = None,
    gained: PartitionEpochs | None = None,
) -> dict[TopicId, dict[int, str]]:
    """The member id of the holder of each partition, by topic id and index, after the member `member_id` has lost the
    partitions `held` and got the partitions `gained`."""
    changed = dict(holders)
    for topic_id, epochs in (held or {}).items():
        left = changed.pop(topic_id).copy()  # a topic may have hundreds of thousands of partitions
        for index in epochs:
            left.pop(index, None)
        if left:
            changed[topic_id] = left
    for topic_id, epochs in (gained or {}).items():
        changed[topic_id] = changed.get(topic_id, {}) | dict.fromkeys(epochs, member_id)
    return changed


def with_subscriptions(
    consumer: ConsumerGroup, old: ConsumerProfile | None, new: ConsumerProfile | None
) -> ConsumerGroup:
    """The group with the counts of topics, patterns and assignor votes after one member's description has changed from
    `old` to `new` (None: not a member). The result of a pattern that no member has any more is dropped."""
    names = counted(consumer.subscriptions, old.subscribed_topics if old else (), new.subscribed_topics if new else ())
    regexes = counted(consumer.regex_subscriptions, regex_of(old), regex_of(new))
    votes = counted(consumer.assignor_votes, vote_of(old), vote_of(new))
    if (names, regexes, votes) == (consumer.subscriptions, consumer.regex_subscriptions, consumer.assignor_votes):
        return consumer
    topics_may_change = (
        names.keys() != consumer.subscriptions.keys() or regexes.keys() != consumer.regex_subscriptions.keys()
    )
    consumer = replace(consumer, subscriptions=names, regex_subscriptions=regexes, assignor_votes=votes)
    if not topics_may_change:
        return consumer
    resolved = {regex: each for regex, each in consumer.resolved_regexes.items() if regex in regexes}
    return with_subscribed_topics(replace(consumer, resolved_regexes=resolved))


def with_subscribed_topics(consumer: ConsumerGroup) -> ConsumerGroup:
    found = {topic for each in consumer.resolved_regexes.values() for topic in each.topics}
    return replace(consumer, subscribed_topics=tuple(sorted(found.union(consumer.subscriptions))))


def regex_of(profile: ConsumerProfile | None) -> tuple[str, ...]:
    return (profile.subscribed_regex,) if profile and profile.subscribed_regex else ()


def vote_of(profile: ConsumerProfile | None) -> tuple[str, ...]:
    return (profile.server_assignor,) if profile and profile.server_assignor is not None else ()


def counted(counts: dict[str, int], old: tuple[str, ...], new: tuple[str, ...]) -> dict[str, int]:
    """The counts by name, after one member has replaced the names `old` by the names `new`; a name with the count 0 is
    removed."""
    if old == new:
        return counts
    changed = dict(counts)
    for name in old:
        changed[name] -= 1
        if not changed[name]:
            del changed[name]
    for name in new:
        changed[name] = changed.get(name, 0) + 1
    return changed
