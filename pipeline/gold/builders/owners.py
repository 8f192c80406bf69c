"""Follows the events that change the owners of partitions, and the reasons why partitions have none.

In a classic group a member owns its assignment from its SyncGroup response on. It loses what its next JoinGroup does
not list as owned (an eager member: everything), what a new assignment leaves out, and everything when it leaves or is
removed. In a group of the consumer protocol it owns what the coordinator has assigned it and what it has yet to give
up, except while it is away.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import partial
from typing import Final

from regroup.coordinator import events as e
from regroup.coordinator.consumer import events as ce
from regroup.coordinator.consumer.evolve_group import consumer_of
from regroup.coordinator.consumer.migration.events import GroupDowngraded, GroupUpgraded
from regroup.coordinator.consumer_group import ConsumerGroup, ConsumerMember, every_partition
from regroup.coordinator.group import AwaitedResponse, Group, GroupKind, GroupState, Member
from regroup.pipeline.gold.builders.ownership import Ownership
from regroup.pipeline.gold.builders.table_builder import (
    TableBuilder,
    TableRow,
    Transition,
    member_identity,
    owned_partitions,
    subscribed_topics,
)
from regroup.protocol.consumer.subscription import TopicPartition, assigned_partitions

GAP_REASONS: Final[dict[GroupState, str]] = {
    GroupState.DEAD: "empty",
    GroupState.EMPTY: "empty",
    GroupState.PREPARING_REBALANCE: "join",
    GroupState.COMPLETING_REBALANCE: "sync",
    GroupState.STABLE: "unassigned",
}
"""Why no member owns a partition of a classic group, by its state; see `classic_reasons` for one exception."""


class ClassicOwners(TableBuilder):
    """Passes to `ownership` which partitions the members of a classic group own after each event."""

    def __init__(self, ownership: Ownership) -> None:
        self._ownership = ownership

    def on_snapshot(self, group: Group, at_ms: int) -> None:
        """Begin with a snapshot, which replaces trimmed events: each member owns its assignment."""
        self._subscribe(group)
        if group.state in (GroupState.STABLE, GroupState.PREPARING_REBALANCE):
            for member in group.members.values():
                for partition in assigned_partitions(member.assignment):
                    self._add(partition, member, at_ms, group)

    def on_event(self, transition: Transition) -> Iterator[TableRow]:
        before, after = transition.before, transition.after
        yield from self._update_owners(transition)
        if after.kind is not GroupKind.CLASSIC:
            return
        if before.members is not after.members:
            self._subscribe(after)
        assignments_may_differ = after.state is GroupState.STABLE and before.members is not after.members
        if self._ownership.has_changed or before.state is not after.state or assignments_may_differ:
            yield from self.update_gaps(after, transition.at_ms)

    def update_gaps(self, group: Group, at_ms: int) -> Iterator[TableRow]:
        yield from self._ownership.update_gaps(at_ms, GroupKind.CLASSIC, partial(classic_reasons, group))

    def _update_owners(self, transition: Transition) -> Iterator[TableRow]:
        event, after, at_ms, ownership = transition.event, transition.after, transition.at_ms, self._ownership
        match event:
            case e.AssignmentCommitted():
                for member in transition.before.members_awaiting(AwaitedResponse.SYNC):
                    yield from self._assign(transition, after.members[member.member_id])
            case e.MemberSynced(awaits_assignment=False):
                yield from self._assign(transition, after.members[event.member_id])
            case e.MemberRejoined():
                protocols = event.profile.supported_protocols
                kept = owned_partitions(protocols[0].metadata) if protocols else ()
                yield from ownership.remove(event.member_id, at_ms, "revoked", kept=kept)
            case e.StaticMemberReplaced():
                # In Stable the new process gets the old one's assignment without a rebalance.
                inherited = () if event.awaits_join else ownership.owned_by(event.replaced_member_id)
                yield from ownership.remove(event.replaced_member_id, at_ms, "replaced")
                for partition in inherited:
                    self._add(partition, after.members[event.member_id], at_ms, after)
            case e.MemberLeft():
                yield from ownership.remove(event.member_id, at_ms, "left")
            case e.MemberRemoved():
                yield from removed(ownership, event, GroupKind.CLASSIC)
            case e.CoordinatorLoaded() | e.GroupDeleted() | e.AppendFailed() | GroupDowngraded():
                yield from lost_members(ownership, after, at_ms)

    def _subscribe(self, group: Group) -> None:
        """Pass on the topics to which the members subscribe; a group without members keeps its last ones."""
        if group.members:
            self._ownership.subscribe(
                topic
                for member in group.members.values()
                if member.profile.supported_protocols
                for topic in subscribed_topics(member.profile.supported_protocols[0].metadata)
            )

    def _assign(self, transition: Transition, member: Member) -> Iterator[TableRow]:
        """Make a member the owner of the partitions of its assignment, and of no others."""
        assigned = assigned_partitions(member.assignment)
        yield from self._ownership.remove(member.member_id, transition.at_ms, "revoked", kept=assigned)
        for partition in assigned:
            if not self._ownership.owns(member.member_id, partition):
                self._add(partition, member, transition.at_ms, transition.after)

    def _add(self, partition: TopicPartition, member: Member, at_ms: int, group: Group) -> None:
        identity = member_identity(member)
        self._ownership.add(
            partition, member.member_id, identity, at_ms, kind=GroupKind.CLASSIC, generation_id=group.generation_id
        )


class ConsumerOwners(TableBuilder):
    """Passes to `ownership` which partitions the members of a consumer protocol's group own after each event."""

    def __init__(self, ownership: Ownership) -> None:
        self._ownership = ownership

    def on_snapshot(self, group: Group, at_ms: int) -> None:
        """Begin with a snapshot: each member owns the partitions that are assigned to it or that it has to give up."""
        consumer = consumer_of(group)
        self._ownership.group_epoch = consumer.group_epoch
        self._ownership.subscribe(consumer.subscribed_topics)
        for member in consumer.members.values():
            self._gain(member, at_ms)

    def on_event(self, transition: Transition) -> Iterator[TableRow]:
        after, event, at_ms = transition.after, transition.event, transition.at_ms
        yield from self._update_owners(transition)
        if after.kind is GroupKind.CONSUMER:
            consumer = consumer_of(after)
            if consumer.members:
                self._ownership.subscribe(consumer.subscribed_topics)
            if self._ownership.has_changed or not isinstance(event, ce.MemberReconciled):
                yield from self.update_gaps(after, at_ms)

    def update_gaps(self, group: Group, at_ms: int) -> Iterator[TableRow]:
        reasons = partial(consumer_reasons, consumer_of(group), self._ownership.topic_names)
        yield from self._ownership.update_gaps(at_ms, GroupKind.CONSUMER, reasons)

    def _update_owners(self, transition: Transition) -> Iterator[TableRow]:
        event, after, at_ms, ownership = transition.event, transition.after, transition.at_ms, self._ownership
        match event:
            case GroupUpgraded():
                yield from lost_members(ownership, after, at_ms)
                for member in consumer_of(after).members.values():
                    yield from self._hold(member, at_ms, "revoked")
            case ce.MemberReconciled():
                yield from self._hold(consumer_of(after).members[event.member_id], at_ms, "revoked")
            case ce.StaticMemberAway():
                yield from ownership.remove(event.member_id, at_ms, "away")
            case ce.StaticConsumerReplaced():
                yield from ownership.remove(event.replaced_member_id, at_ms, "replaced")
                yield from self._hold(consumer_of(after).members[event.member_id], at_ms, "replaced")
            case e.MemberLeft():
                yield from ownership.remove(event.member_id, at_ms, "left")
            case e.MemberRemoved():
                yield from removed(ownership, event, GroupKind.CONSUMER)
            case e.GroupDeleted() | ce.ConsumerGroupEnded():
                yield from lost_members(ownership, after, at_ms)

    def _hold(self, member: ConsumerMember, at_ms: int, ended_by: str) -> Iterator[TableRow]:
        """Make a member the owner of the partitions that it holds by the coordinator's state, and of no others."""
        yield from self._ownership.remove(member.member_id, at_ms, ended_by, kept=self._named(member.held()))
        self._gain(member, at_ms)

    def _gain(self, member: ConsumerMember, at_ms: int) -> None:
        if member.is_away:
            return
        identity = member.instance_id or member.member_id
        for topic_id, index in member.held():
            [partition] = self._named([(topic_id, index)])
            if not self._ownership.owns(member.member_id, partition):
                epoch = member.assignment_epoch_of(topic_id, index) or 0
                self._ownership.add(
                    partition, member.member_id, identity, at_ms, kind=GroupKind.CONSUMER, generation_id=epoch
                )

    def _named(self, partitions: Iterable[tuple[str, int]]) -> Iterator[TopicPartition]:
        return named_partitions(partitions, self._ownership.topic_names)


def named_partitions(partitions: Iterable[tuple[str, int]], names: Mapping[str, str]) -> Iterator[TopicPartition]:
    """Yield partitions with topic names in place of topic ids; an id without a known name stays."""
    return (TopicPartition(names.get(topic_id, topic_id), index) for topic_id, index in partitions)


def removed(ownership: Ownership, event: e.MemberRemoved, kind: GroupKind) -> Iterator[TableRow]:
    yield from ownership.session_expiry_gaps(event.member_id, event.last_seen_ms, event.at_ms, kind)
    yield from ownership.remove(event.member_id, event.at_ms, "removed", event.last_seen_ms)


def lost_members(ownership: Ownership, group: Group, at_ms: int) -> Iterator[TableRow]:
    """End the ownership of all partitions by members that are no longer in the group."""
    for member_id in ownership.owners():
        if member_id not in group.member_ids:
            yield from ownership.remove(member_id, at_ms, "lost")


def classic_reasons(group: Group, unowned: Collection[TopicPartition]) -> Iterator[tuple[TopicPartition, str]]:
    """Yield each of these partitions with the reason why it has no owner, in a classic group.

    While the group is Stable, a partition can be assigned to a member that has not received its assignment yet: `sync`.
    """
    assigned: set[TopicPartition] = set()
    if unowned and group.state is GroupState.STABLE:
        assigned.update(*(assigned_partitions(member.assignment) for member in group.members.values()))
    for partition in unowned:
        yield partition, "sync" if partition in assigned else GAP_REASONS[group.state]


def consumer_reasons(
    consumer: ConsumerGroup, names: Mapping[str, str], unowned: Collection[TopicPartition]
) -> Iterator[tuple[TopicPartition, str]]:
    """Yield each of the partitions with the reason why it has no owner, in a group of the consumer protocol."""
    kept: frozenset[TopicPartition] = frozenset()
    targets: frozenset[TopicPartition] = frozenset()
    if unowned:
        kept = frozenset(each for member in away_members(consumer) for each in named_partitions(member.held(), names))
        targets = frozenset(
            each for target in consumer.targets.values() for each in named_partitions(every_partition(target), names)
        )
    is_assigning = consumer.group_epoch > consumer.assignment_epoch
    for partition in unowned:
        if not consumer.members:
            yield partition, "empty"
        elif partition in kept:
            yield partition, "away"
        elif is_assigning:
            yield partition, "assigning"
        else:
            yield partition, "reconciling" if partition in targets else "unassigned"


def away_members(consumer: ConsumerGroup) -> Iterator[ConsumerMember]:
    return (member for member in consumer.members.values() if member.is_away)


def owners_of(ownership: Ownership) -> Mapping[GroupKind, ClassicOwners | ConsumerOwners]:
    """For each kind of group the object that takes its events and passes changes of owners to `ownership`."""
    return {GroupKind.CLASSIC: ClassicOwners(ownership), GroupKind.CONSUMER: ConsumerOwners(ownership)}
