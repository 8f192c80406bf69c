"""Folding the events of groups that change their protocol, and of members of the classic protocol in them."""

from collections import Counter

from msgspec.structs import replace

from regroup.coordinator.classic.evolve_group import metadata_of
from regroup.coordinator.classic.protocol_vote import CONSUMER_PROTOCOL_TYPE
from regroup.coordinator.consumer.evolve_group import consumer_of, with_consumer, with_offsets_only
from regroup.coordinator.consumer.migration import events as me
from regroup.coordinator.consumer_group import (
    ConsumerGroup,
    ConsumerMember,
    PartitionEpochs,
    Partitions,
    TopicId,
    every_partition,
)
from regroup.coordinator.group import Group, GroupState, LogRecordKind
from regroup.coordinator.layered_mapping import with_newer


def group_upgraded(group: Group, event: me.GroupUpgraded) -> Group:
    """The group of the consumer protocol that a classic group has become. Of the records that the emulated Kafka log
    has not committed yet, only those of offsets are kept."""
    epoch, names, left = event.group_epoch, Counter[str](), group.left_deadlines_ms
    holders: dict[TopicId, dict[int, str]] = {}
    for profile in event.profiles.values():
        names.update(profile.subscribed_topics)
    for member_id, target in event.targets.items():
        for topic_id, index in every_partition(target):
            holders.setdefault(topic_id, {})[index] = member_id
    consumer = ConsumerGroup(
        group_epoch=epoch,
        bumped_at_ms=event.at_ms,
        metadata_hash=event.metadata_hash,
        hashed_topics=event.hashed_topics,
        assignment_epoch=epoch,
        targets={member_id: event.targets.get(member_id, {}) for member_id in event.profiles},
        members={
            member_id: ConsumerMember(
                member_id=member_id,
                profile=profile,
                epoch=epoch,
                previous_epoch=epoch,
                assigned=since_epoch(event.targets.get(member_id, {}), epoch),
                join_deadline_ms=later_than(event.at_ms, left[member_id][0]) if member_id in left else None,
                sync_deadline_ms=later_than(event.at_ms, left[member_id][1]) if member_id in left else None,
            )
            for member_id, profile in event.profiles.items()
        },
        static_members={
            profile.instance_id: member_id
            for member_id, profile in event.profiles.items()
            if profile.instance_id is not None
        },
        holders=holders,
        subscriptions=dict(names),
        subscribed_topics=tuple(sorted(names)),
    )
    group = with_offsets_only(group)
    of_offsets = {each: it for each, it in group.pending_appends.items() if it.kind is LogRecordKind.OFFSETS}
    return replace(group, consumer=consumer, pending_appends=of_offsets)


def later_than(at_ms: int, deadline_ms: int | None) -> int | None:
    """`deadline_ms` if it is later than `at_ms`, otherwise None: a deadline that passed while the group was a classic
    one has no effect."""
    return deadline_ms if deadline_ms is not None and deadline_ms > at_ms else None


def since_epoch(partitions: Partitions, epoch: int) -> PartitionEpochs:
    return {topic_id: dict.fromkeys(indexes, epoch) for topic_id, indexes in partitions.items()}


def upgrade_refused(group: Group, event: me.UpgradeRefused) -> Group:
    members = {member_id: replace(member, awaiting=None) for member_id, member in group.members.items()}
    return replace(group, members=members)


def group_downgraded(group: Group, event: me.GroupDowngraded) -> Group:
    """The Stable classic group that a group of the consumer protocol has become. Kafka's log has its metadata at once,
    so a failover restores it."""
    left = {
        member_id: (member.join_deadline_ms, member.sync_deadline_ms)
        for member_id, member in consumer_of(group).members.items()
        if member.join_deadline_ms is not None or member.sync_deadline_ms is not None
    }
    group = replace(
        with_offsets_only(group),
        state=GroupState.STABLE,
        state_since_ms=event.at_ms,
        generation_id=event.generation_id,
        protocol_type=CONSUMER_PROTOCOL_TYPE,
        protocol_name=event.protocol_name,
        leader_id=event.leader_id,
        members={member.member_id: member for member in event.members},
        static_members={each.instance_id: each.member_id for each in event.members if each.instance_id is not None},
        subscribed_topics=event.subscribed_topics,
        left_deadlines_ms=left,
    )
    return replace(group, group_metadata=metadata_of(group))


def classic_member_joined(group: Group, event: me.ClassicMemberJoined) -> Group:
    return with_deadlines(group, event.member_id, join_ms=None, sync_ms=event.sync_deadline_ms)


def rejoin_requested(group: Group, event: me.RejoinRequested) -> Group:
    member = consumer_of(group).members[event.member_id]
    return with_deadlines(group, event.member_id, join_ms=event.join_deadline_ms, sync_ms=member.sync_deadline_ms)


def classic_member_synced(group: Group, event: me.ClassicMemberSynced) -> Group:
    member = consumer_of(group).members[event.member_id]
    return with_deadlines(group, event.member_id, join_ms=member.join_deadline_ms, sync_ms=None)


def with_deadlines(group: Group, member_id: str, *, join_ms: int | None, sync_ms: int | None) -> Group:
    consumer = consumer_of(group)
    member = replace(consumer.members[member_id], join_deadline_ms=join_ms, sync_deadline_ms=sync_ms)
    return with_consumer(group, replace(consumer, members=with_newer(consumer.members, {member_id: member})))
