"""Follows the events that change the owners of partitions, and the reasons why partitions have none.

In a classic group a member owns its assignment from its SyncGroup response on. It loses what its next JoinGroup does
not list as owned (an eager member: everything), what a new assignment leaves out, and everything when it leaves or is
removed. A static member's new process owns what the former one did; of what that never got, it owns what its own next
JoinGroup lists. In a group of the consumer protocol a member owns what the coordinator has assigned it and what it has
yet to give up, except while it is away.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from functools import partial
from itertools import chain
from typing import Final

from regroup.coordinator import events as e
from regroup.coordinator.consumer import events as ce
from regroup.coordinator.consumer.evolve_group import consumer_of
from regroup.coordinator.consumer.migration.events import GroupDowngraded, GroupUpgraded
from regroup.coordinator.consumer_group import ConsumerGroup, ConsumerMember, Partitions, every_partition
from regroup.coordinator.group import AwaitedResponse, Group, GroupKind, GroupState, Member
from regroup.pipeline.gold.builders.ownership import Ownership
from regroup.pipeline.gold.builders.table_builder import (
    TableBuilder,
    Transition,
    member_identity,
    owned_partitions,
    subscribed_topics,
)
from regroup.pipeline.gold.folded_rows import FoldedRows
from regroup.protocol.consumer.subscription import TopicPartition, assigned_partitions

GAP_REASONS: Final[dict[GroupState, str]] = {
    GroupState.DEAD: "empty",
    GroupState.EMPTY: "empty",
    GroupState.PREPARING_REBALANCE: "join",
    GroupState.COMPLETING_REBALANCE: "sync",
    GroupState.STABLE: "unassigned",
}
"""Why no member owns a partition of a classic group, by its state; see `classic_reasons` for one exception."""


CHANGE_OWNERS: Final = frozenset(
    {
        e.AssignmentCommitted,
        e.MemberSynced,
        e.MemberRejoined,
        e.StaticMemberReplaced,
        e.MemberLeft,
        e.MemberRemoved,
        e.CoordinatorLoaded,
        e.GroupDeleted,
        e.AppendFailed,
        GroupDowngraded,
    }
)
"""The events that can change the owners of partitions in a classic group."""
KEEP_SUBSCRIPTIONS: Final = frozenset({e.MemberSynced, e.AssignmentWritten, e.AssignmentCommitted})
"""Frequent events that change members, but not the topics to which these subscribe."""


class ClassicOwners(TableBuilder):
    """Passes to `ownership` which partitions the members of a classic group own after each event."""

    def __init__(self, ownership: Ownership) -> None:
        self._ownership = ownership

    def on_snapshot(self, group: Group, at_ms: int) -> None:
        """Begin with a snapshot, which replaces trimmed events: each member owns its assignment."""
        self._subscribe(group)
        if group.state in (GroupState.STABLE, GroupState.PREPARING_REBALANCE):
            for member in group.members.values():
                self._add(assigned_partitions(member.assignment), member, at_ms, group)

    def on_event(self, transition: Transition, rows: FoldedRows) -> None:
        before, after, kind = transition.before, transition.after, type(transition.event)
        if kind in CHANGE_OWNERS:
            self._update_owners(transition, rows)
        if after.consumer is not None:
            return
        members_differ = before.members is not after.members
        if members_differ and kind not in KEEP_SUBSCRIPTIONS:
            self._subscribe(after)
        assignments_may_differ = members_differ and after.state is GroupState.STABLE
        if self._ownership.has_changed or before.state is not after.state or assignments_may_differ:
            self.update_gaps(after, transition.at_ms, rows)

    def update_gaps(self, group: Group, at_ms: int, rows: FoldedRows) -> None:
        self._ownership.update_gaps(at_ms, GroupKind.CLASSIC, partial(classic_reasons, group), rows)

    def _update_owners(self, transition: Transition, rows: FoldedRows) -> None:
        event, after, at_ms, ownership = transition.event, transition.after, transition.at_ms, self._ownership
        match event:
            case e.AssignmentCommitted():
                for member in transition.before.members_awaiting(AwaitedResponse.SYNC):
                    self._assign(transition, rows, after.members[member.member_id])
            case e.MemberSynced(awaits_assignment=False):
                self._assign(transition, rows, after.members[event.member_id])
            case e.MemberRejoined():
                protocols = event.profile.supported_protocols
                kept = owned_partitions(protocols[0].metadata) if protocols else ()
                ownership.remove(rows, event.member_id, at_ms, "revoked", kept=kept)
                self._add_shown(transition, transition.before.members[event.member_id], kept)
            case e.StaticMemberReplaced():
                # In Stable the new process gets the old one's assignment without a rebalance.
                inherited = () if event.awaits_join else ownership.owned_by(event.replaced_member_id)
                ownership.remove(rows, event.replaced_member_id, at_ms, "replaced")
                if inherited:
                    self._add(inherited, after.members[event.member_id], at_ms, after)
            case e.MemberLeft():
                ownership.remove(rows, event.member_id, at_ms, "left")
            case e.MemberRemoved():
                removed(ownership, rows, event, GroupKind.CLASSIC)
            case e.AppendFailed():
                self._lose_append(transition, event, rows)
            case e.CoordinatorLoaded() | e.GroupDeleted() | GroupDowngraded():
                lost_members(ownership, rows, after, at_ms)

    def _lose_append(self, transition: Transition, event: e.AppendFailed, rows: FoldedRows) -> None:
        """End the ownership of members that the log has lost. A static member whose replacement is one of them is
        back, and owns what that had."""
        after, append = transition.after, transition.before.pending_appends[event.append_number]
        inherited, old = self._ownership.owned_by(append.member_id), append.replaced_member
        lost_members(self._ownership, rows, after, transition.at_ms)
        if old and old.member_id in after.members:
            self._add(inherited, after.members[old.member_id], transition.at_ms, after)

    def _add_shown(self, transition: Transition, before: Member, listed: Iterable[TopicPartition]) -> None:
        """Make a static member's new process the owner of what its JoinGroup lists as owned and it was assigned.

        If its predecessor had not sent SyncGroup, it got the assignment with a SyncGroup that left no event.
        """
        if before.replaced_at_ms:
            assigned = frozenset(assigned_partitions(before.assignment))
            self._add([each for each in listed if each in assigned], before, transition.at_ms, transition.before)

    def _subscribe(self, group: Group) -> None:
        """Pass on the topics to which the members subscribe; a group without members keeps its last ones."""
        if group.members:
            self._ownership.subscribe(
                topic
                for member in group.members.values()
                if member.profile.supported_protocols
                for topic in subscribed_topics(member.profile.supported_protocols[0].metadata)
            )

    def _assign(self, transition: Transition, rows: FoldedRows, member: Member) -> None:
        """Make a member the owner of the partitions of its assignment, and of no others."""
        assigned = assigned_partitions(member.assignment)
        self._ownership.remove(rows, member.member_id, transition.at_ms, "revoked", kept=assigned)
        self._add(assigned, member, transition.at_ms, transition.after)

    def _add(self, partitions: Iterable[TopicPartition], member: Member, at_ms: int, group: Group) -> None:
        self._ownership.add(
            partitions,
            member.member_id,
            member_identity(member),
            at_ms,
            kind=GroupKind.CLASSIC,
            generation_id=group.generation_id,
        )


class ConsumerOwners(TableBuilder):
    """Passes to `ownership` which partitions the members of a consumer protocol's group own after each event."""

    _target: tuple[Mapping[str, Partitions], Mapping[str, str]] = ({}, {})
    """The target and the names of topics for which `_target_partitions` was computed last."""
    _target_partitions: frozenset[TopicPartition] = frozenset()

    def __init__(self, ownership: Ownership) -> None:
        self._ownership = ownership

    def __getstate__(self) -> dict[str, object]:
        """What another fold needs: the partitions of the target are computed again."""
        return {"_ownership": self._ownership}

    def on_snapshot(self, group: Group, at_ms: int) -> None:
        """Begin with a snapshot: each member owns the partitions that are assigned to it or that it has to give up."""
        consumer = consumer_of(group)
        self._ownership.group_epoch, self._ownership.knows_topic_ids = consumer.group_epoch, True
        self._ownership.subscribe(consumer.subscribed_topics)
        for member in consumer.members.values():
            self._gain(member, at_ms)

    def on_event(self, transition: Transition, rows: FoldedRows) -> None:
        after, event, at_ms = transition.after, transition.event, transition.at_ms
        self._update_owners(transition, rows)
        if after.kind is GroupKind.CONSUMER:
            consumer = consumer_of(after)
            if consumer.members:
                self._ownership.subscribe(consumer.subscribed_topics)
            if self._ownership.has_changed or not isinstance(event, ce.MemberReconciled):
                self.update_gaps(after, at_ms, rows)

    def update_gaps(self, group: Group, at_ms: int, rows: FoldedRows) -> None:
        reasons = partial(self._reasons, consumer_of(group))
        self._ownership.update_gaps(at_ms, GroupKind.CONSUMER, reasons, rows)

    def _reasons(self, consumer: ConsumerGroup, unowned: Sequence[TopicPartition]) -> list[str]:
        """The reasons why these partitions have no owner. A group of thousands changes often before its target does."""
        names = self._ownership.topic_keys
        if consumer.targets is not self._target[0] or names != self._target[1]:
            self._target = consumer.targets, dict(names)
            shares = (named_partitions(every_partition(target), names) for target in consumer.targets.values())
            self._target_partitions = frozenset(chain.from_iterable(shares))
        return consumer_reasons(consumer, names, self._target_partitions, unowned)

    def _update_owners(self, transition: Transition, rows: FoldedRows) -> None:
        event, after, at_ms, ownership = transition.event, transition.after, transition.at_ms, self._ownership
        match event:
            case GroupUpgraded():
                lost_members(ownership, rows, after, at_ms)
                for member in consumer_of(after).members.values():
                    self._hold(rows, member, at_ms, "revoked")
            case ce.MemberReconciled():
                self._hold(rows, consumer_of(after).members[event.member_id], at_ms, "revoked")
            case ce.StaticMemberAway():
                ownership.remove(rows, event.member_id, at_ms, "away")
            case ce.StaticConsumerReplaced():
                ownership.remove(rows, event.replaced_member_id, at_ms, "replaced")
                self._hold(rows, consumer_of(after).members[event.member_id], at_ms, "replaced")
            case e.MemberLeft():
                ownership.remove(rows, event.member_id, at_ms, "left")
            case e.MemberRemoved():
                removed(ownership, rows, event, GroupKind.CONSUMER)
            case e.GroupDeleted() | ce.ConsumerGroupEnded():
                lost_members(ownership, rows, after, at_ms)

    def _hold(self, rows: FoldedRows, member: ConsumerMember, at_ms: int, ended_by: str) -> None:
        """Make a member the owner of the partitions that it holds by the coordinator's state, and of no others."""
        self._ownership.remove(rows, member.member_id, at_ms, ended_by, kept=self._named(member.held()))
        self._gain(member, at_ms)

    def _gain(self, member: ConsumerMember, at_ms: int) -> None:
        if member.is_away:
            return
        identity = member.instance_id or member.member_id
        for topic_id, index in member.held():
            [partition] = self._named([(topic_id, index)])
            epoch = member.assignment_epoch_of(topic_id, index) or 0
            self._ownership.add(
                [partition], member.member_id, identity, at_ms, kind=GroupKind.CONSUMER, generation_id=epoch
            )

    def _named(self, partitions: Iterable[tuple[str, int]]) -> Iterator[TopicPartition]:
        return named_partitions(partitions, self._ownership.topic_keys)


def named_partitions(partitions: Iterable[tuple[str, int]], names: Mapping[str, str]) -> Iterator[TopicPartition]:
    """Yield partitions with topic names in place of topic ids; an id without a known name stays."""
    return (TopicPartition(names.get(topic_id, topic_id), index) for topic_id, index in partitions)


def removed(ownership: Ownership, rows: FoldedRows, event: e.MemberRemoved, kind: GroupKind) -> None:
    ownership.session_expiry_gaps(rows, event.member_id, event.last_seen_ms, event.at_ms, kind)
    ownership.remove(rows, event.member_id, event.at_ms, "removed", event.last_seen_ms)


def lost_members(ownership: Ownership, rows: FoldedRows, group: Group, at_ms: int) -> None:
    """End the ownership of all partitions by members that are no longer in the group."""
    for member_id in ownership.owners():
        if member_id not in group.member_ids:
            ownership.remove(rows, member_id, at_ms, "lost")


def classic_reasons(group: Group, unowned: Sequence[TopicPartition]) -> list[str]:
    """The reason why each of these partitions has no owner, in a classic group.

    While the group is Stable, a partition can be assigned to a member that has not received its assignment yet: `sync`.
    """
    reason = GAP_REASONS[group.state]
    if group.state is not GroupState.STABLE:
        return [reason] * len(unowned)
    assigned: set[TopicPartition] = set()
    assigned.update(*(assigned_partitions(member.assignment) for member in group.members.values()))
    return ["sync" if partition in assigned else reason for partition in unowned]


def consumer_reasons(
    consumer: ConsumerGroup,
    names: Mapping[str, str],
    target: Set[TopicPartition],
    unowned: Sequence[TopicPartition],
) -> list[str]:
    """The reason why each of the partitions has no owner, in a group of the consumer protocol.

    `names` are those of topics by their ids, and `target` has all partitions of the target.
    """
    if not consumer.members:
        return ["empty"] * len(unowned)
    kept = frozenset(each for member in away_members(consumer) for each in named_partitions(member.held(), names))
    if consumer.group_epoch > consumer.assignment_epoch:
        return ["away" if partition in kept else "assigning" for partition in unowned]
    return [
        "away" if partition in kept else "reconciling" if partition in target else "unassigned" for partition in unowned
    ]


def away_members(consumer: ConsumerGroup) -> Iterator[ConsumerMember]:
    return (member for member in consumer.members.values() if member.is_away)


def owners_of(ownership: Ownership) -> Mapping[GroupKind, ClassicOwners | ConsumerOwners]:
    """For each kind of group the object that takes its events and passes changes of owners to `ownership`."""
    return {GroupKind.CLASSIC: ClassicOwners(ownership), GroupKind.CONSUMER: ConsumerOwners(ownership)}
