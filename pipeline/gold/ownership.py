"""Builds the tables `ownership` (the owners of each partition) and `gaps` (the times without an owner).

Ownership is derived from the coordinator's events. A member owns its assignment from its SyncGroup response on. It
loses what its next JoinGroup does not list as owned (an eager member: everything), what a new assignment leaves out,
and everything when it leaves or is removed. What a process does without a request, such as reading on as a zombie, is
in no event.
"""

from collections.abc import Collection, Iterable, Iterator
from typing import Any, Final

from regroup.coordinator import events as e
from regroup.coordinator.group import AwaitedResponse, Group, GroupState, Member, MemberId
from regroup.pipeline.gold.table_builder import (
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
"""Why no member owns a partition, by the group's state; see `gap_reasons` for one exception."""


class Ownership:
    """Builds `ownership` and `gaps` of one group."""

    def __init__(self) -> None:
        self.trigger = ""
        """The trigger of the present rebalance, or of the last one. `Rebalances` sets it."""
        self.last_owner: dict[TopicPartition, str] = {}
        """The identity of each partition's present owner, or else of its last one."""
        self._owners: dict[TopicPartition, dict[MemberId, dict[str, Any]]] = {}
        """The rows of `ownership` whose time has not ended, by partition and member id."""
        self._partitions: dict[MemberId, dict[TopicPartition, dict[str, Any]]] = {}
        """The same rows by member id and partition."""
        self._has_changed = True
        """Whether owners, subscriptions or topics have changed since the gaps were last updated."""
        self._gaps: dict[TopicPartition, dict[str, Any]] = {}
        """The rows of `gaps` whose time has not ended, by partition."""
        self._partition_counts: dict[str, int] = {}
        self._subscribed: dict[str, None] = {}
        self._group: Group | None = None

    def on_snapshot(self, group: Group, at_ms: int) -> None:
        """Begin with a snapshot, which stands in place of trimmed events: each member owns its assignment."""
        self._group = group
        self._subscribe(group)
        if group.state in (GroupState.STABLE, GroupState.PREPARING_REBALANCE):
            for member in group.members.values():
                for partition in assigned_partitions(member.assignment):
                    self._add_owner(partition, member, at_ms, group.generation_id)

    def owns(self, member_id: MemberId, partition: TopicPartition) -> bool:
        return partition in self._partitions.get(member_id, ())

    def on_topic(self, topic: str, partitions: int, at_ms: int) -> Iterator[TableRow]:
        """Take a topic's new number of partitions: it was created, got more or, with 0, was deleted."""
        self._partition_counts[topic] = partitions
        self._has_changed = True
        if self._group is not None:
            yield from self._update_gaps(at_ms, self._group)

    def on_commit(self, member_id: MemberId, topic: str, index: int, at_ms: int) -> None:
        """Count a commit of a member for its time as owner of the partition."""
        owned = self._partitions.get(member_id)
        row = owned.get((topic, index)) if owned else None  # type: ignore[call-overload]  # equal to a TopicPartition
        if row is not None:
            row["last_commit_ms"] = at_ms

    def on_event(self, transition: Transition) -> Iterator[TableRow]:
        before, after = transition.before, transition.after
        if isinstance(transition.event, e.OFFSET_EVENTS):
            return
        yield from self._update_owners(transition)
        if before.members is not after.members:
            self._subscribe(after)
        self._group = after
        assignments_may_differ = after.state is GroupState.STABLE and before.members is not after.members
        if self._has_changed or before.state is not after.state or assignments_may_differ:
            yield from self._update_gaps(transition.at_ms, after)

    def on_end(self) -> Iterator[TableRow]:
        for owners in self._owners.values():
            for row in owners.values():
                yield "ownership", row | {"to_ms": None, "ended_by": "open", "last_seen_ms": None}
        for gap in self._gaps.values():
            yield "gaps", gap

    def _update_owners(self, transition: Transition) -> Iterator[TableRow]:
        event, after = transition.event, transition.after
        match event:
            case e.AssignmentCommitted():
                for member in transition.before.members_awaiting(AwaitedResponse.SYNC):
                    yield from self._assign(transition, after.members[member.member_id])
            case e.MemberSynced(awaits_assignment=False):
                yield from self._assign(transition, after.members[event.member_id])
            case e.MemberRejoined():
                protocols = event.profile.supported_protocols
                kept = owned_partitions(protocols[0].metadata) if protocols else ()
                yield from self._remove_owner(transition, event.member_id, "revoked", kept=kept)
            case e.StaticMemberReplaced():
                # In Stable the new process gets the old one's assignment without a rebalance.
                inherited = () if event.awaits_join else tuple(self._partitions.get(event.replaced_member_id, ()))
                yield from self._remove_owner(transition, event.replaced_member_id, "replaced")
                for partition in inherited:
                    member = after.members[event.member_id]
                    self._add_owner(partition, member, transition.at_ms, after.generation_id)
            case e.MemberLeft():
                yield from self._remove_owner(transition, event.member_id, "left")
            case e.MemberRemoved():
                yield from self._session_expiry_gaps(event)
                yield from self._remove_owner(transition, event.member_id, "removed", event.last_seen_ms)
            case e.CoordinatorLoaded() | e.GroupDeleted() | e.AppendFailed():
                for member_id in [each for each in self._partitions if each not in after.members]:
                    yield from self._remove_owner(transition, member_id, "lost")

    def _subscribe(self, group: Group) -> None:
        """Take the subscribed topics of the group's members. A group without members keeps the last ones."""
        if group.members:
            subscribed: dict[str, None] = {
                topic: None
                for member in group.members.values()
                if member.profile.supported_protocols
                for topic in subscribed_topics(member.profile.supported_protocols[0].metadata)
            }
            self._has_changed |= subscribed != self._subscribed
            self._subscribed = subscribed

    def _assign(self, transition: Transition, member: Member) -> Iterator[TableRow]:
        """Give a member the partitions of its assignment, and end its ownership of all others."""
        assigned = assigned_partitions(member.assignment)
        yield from self._remove_owner(transition, member.member_id, "revoked", kept=assigned)
        for partition in assigned:
            if not self.owns(member.member_id, partition):
                self._add_owner(partition, member, transition.at_ms, transition.after.generation_id)

    def _add_owner(self, partition: TopicPartition, member: Member, at_ms: int, generation_id: int) -> None:
        row: dict[str, Any] = {
            "topic": partition.topic,
            "partition": partition.partition,
            "member_id": member.member_id,
            "identity": member_identity(member),
            "generation_id": generation_id,
            "from_ms": at_ms,
            "last_commit_ms": None,
        }
        self._owners.setdefault(partition, {})[member.member_id] = row
        self._partitions.setdefault(member.member_id, {})[partition] = row
        self._has_changed = True
        self.last_owner[partition] = member_identity(member)

    def _remove_owner(
        self,
        transition: Transition,
        member_id: MemberId,
        ended_by: str,
        last_seen_ms: int | None = None,
        kept: Iterable[TopicPartition] = (),
    ) -> Iterator[TableRow]:
        """End a member's ownership of its partitions, except of those in `kept`."""
        kept = dict.fromkeys(kept)
        for partition in [each for each in self._partitions.get(member_id, ()) if each not in kept]:
            row = self._owners[partition].pop(member_id)
            self._has_changed = True
            del self._partitions[member_id][partition]
            end = {"to_ms": transition.at_ms, "ended_by": ended_by, "last_seen_ms": last_seen_ms}
            yield "ownership", row | end
        if not self._partitions.get(member_id):
            self._partitions.pop(member_id, None)

    def _session_expiry_gaps(self, event: e.MemberRemoved) -> Iterator[TableRow]:
        """Yield the gaps of a member that was removed by its session timeout.

        A gap begins when the member was last seen: since then its partitions had no live owner.

        A partition that another member owns too is not without one from then on.
        """
        if event.last_seen_ms is None:
            return
        for partition, row in self._partitions.get(event.member_id, {}).items():
            others = [each["from_ms"] for each in self._owners[partition].values() if each is not row]
            gap = open_gap(partition, max(event.last_seen_ms, row["from_ms"]), "session-expiry", "removed")
            yield from closed_gap(gap | {"owner_id": event.member_id}, min([event.at_ms, *others]))

    def _update_gaps(self, at_ms: int, group: Group) -> Iterator[TableRow]:
        self._has_changed = False
        unowned = {each: None for each in self._subscribed_partitions() if not self._owners.get(each)}
        for partition in [each for each in self._gaps if each not in unowned]:
            yield from closed_gap(self._gaps.pop(partition), at_ms)
        for partition, reason in gap_reasons(group, unowned):
            gap = self._gaps.get(partition)
            if gap is None or gap["reason"] != reason:
                if gap is not None:
                    yield from closed_gap(gap, at_ms)
                self._gaps[partition] = open_gap(partition, at_ms, reason, self.trigger)

    def _subscribed_partitions(self) -> Iterator[TopicPartition]:
        """Every partition of the subscribed topics; of topics without a stored event those that ever had an owner."""
        for topic in self._subscribed:
            for index in range(self._partition_counts.get(topic, 0)):
                yield TopicPartition(topic, index)
        for partition in self._owners:
            if partition.topic in self._subscribed and partition.topic not in self._partition_counts:
                yield partition


def gap_reasons(group: Group, unowned: Collection[TopicPartition]) -> Iterator[tuple[TopicPartition, str]]:
    """Yield each of the partitions with the reason why it has no owner.

    In Stable a partition can be assigned to a member that has not received its assignment yet.
    """
    assigned: set[TopicPartition] = set()
    if unowned and group.state is GroupState.STABLE:
        assigned.update(*(assigned_partitions(member.assignment) for member in group.members.values()))
    for partition in unowned:
        yield partition, "sync" if partition in assigned else GAP_REASONS[group.state]


def open_gap(partition: TopicPartition, from_ms: int, reason: str, trigger: str) -> dict[str, Any]:
    return {
        "topic": partition.topic,
        "partition": partition.partition,
        "from_ms": from_ms,
        "to_ms": None,
        "reason": reason,
        "trigger": trigger,
    }


def closed_gap(gap: dict[str, Any], to_ms: int) -> Iterator[TableRow]:
    """The row of a gap that ends at `to_ms`.

    There is none if the gap took no time, as between events of one command.
    """
    if to_ms > gap["from_ms"]:
        yield "gaps", gap | {"to_ms": to_ms}
