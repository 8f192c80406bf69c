"""Who owned each partition, and when none did: spans built while a group's events are folded.

Ownership means what it means in the tables of `pipeline`: a member owns its assignment from its SyncGroup response on,
and loses what its next JoinGroup does not list as owned. Beside it stands the assignment that the coordinator has.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import NamedTuple

from msgspec.structs import replace

from regroup.classroom.timeline import PartitionSpan, Point
from regroup.coordinator import events as e
from regroup.coordinator.group import AwaitedResponse, Group, GroupState, Member, MemberId
from regroup.protocol.consumer.subscription import (
    MalformedConsumerProtocol,
    TopicPartition,
    assigned_partitions,
    decode_subscribed_topics,
    decode_subscription,
)


class Holders(NamedTuple):
    """The members to which a partition is assigned, and those that own it."""

    assigned_to: tuple[MemberId, ...] = ()
    owners: tuple[MemberId, ...] = ()


class OwnershipBuilder:
    """Builds the spans of all partitions of one group."""

    def __init__(self) -> None:
        self._assignments: dict[MemberId, bytes] = {}
        self._assigned: dict[TopicPartition, dict[MemberId, None]] = {}
        self._owned: dict[MemberId, dict[TopicPartition, None]] = {}
        self._owners: dict[TopicPartition, dict[MemberId, None]] = {}
        self._metadata: dict[MemberId, bytes] = {}
        self._subscribers: Counter[str] = Counter()
        self._has_other_topics = False
        """Whether a subscription has changed since `_subscribed` was taken from all of them."""
        self._subscribed: frozenset[str] = frozenset()
        """The topics of the members; a group without members keeps its last ones."""
        self._partition_counts: dict[str, int] = {}
        self._shown: set[TopicPartition] = set()
        """Partitions of subscribed topics: a span without owner is shown of these alone."""
        self._changed: dict[TopicPartition, None] = {}
        self._open: dict[TopicPartition, PartitionSpan] = {}
        self._spans: dict[TopicPartition, list[PartitionSpan]] = {}

    def on_topic(self, topic: str, partitions: int, point: Point, event_type: str) -> None:
        """A topic was created, got more partitions, or (with 0) was deleted."""
        self._partition_counts[topic] = partitions
        if topic in self._subscribed:
            self._show_partitions()
        self._update(point, event_type)

    def begin_with(self, group: Group, point: Point, event_type: str) -> None:
        """Begin with a group in the middle of its history: members own what they are assigned."""
        self._on_members(group, group.members)
        if group.state in (GroupState.STABLE, GroupState.PREPARING_REBALANCE):
            for member in group.members.values():
                self._receive(member)
        self._update(point, event_type)

    def on_event(
        self, event: e.Event, before: Group, after: Group, changed: Iterable[MemberId], point: Point, event_type: str
    ) -> None:
        """Take in an event; `changed` names the members that it may have changed."""
        self._on_members(after, changed)
        self._on_ownership(event, before, after)
        self._update(point, event_type)

    def spans(self) -> dict[TopicPartition, tuple[PartitionSpan, ...]]:
        """The spans of each partition, the open ones at the end."""
        partitions = sorted(self._spans.keys() | self._open.keys(), key=lambda each: (each.topic, each.partition))
        return {each: (*self._spans.get(each, ()), *filter(None, [self._open.get(each)])) for each in partitions}

    def _on_members(self, group: Group, changed: Iterable[MemberId]) -> None:
        """Take over assignments and subscriptions of the members that may have changed."""
        for member_id in changed:
            member = group.members.get(member_id)
            self._assign(member_id, b"" if member is None else member.assignment)
            self._subscribe(member_id, _first_metadata(member))
        if group.members and self._has_other_topics:
            self._has_other_topics = False
            if (topics := frozenset(+self._subscribers)) != self._subscribed:
                self._subscribed = topics
                self._show_partitions()

    def _assign(self, member_id: MemberId, assignment: bytes) -> None:
        former = self._assignments.get(member_id, b"")
        if assignment == former:
            return
        self._assignments[member_id] = assignment
        before, after = (dict.fromkeys(assigned_partitions(each)) for each in (former, assignment))
        for partition in before.keys() - after.keys():
            del self._assigned[partition][member_id]
            self._changed[partition] = None
        for partition in after.keys() - before.keys():
            self._assigned.setdefault(partition, {})[member_id] = None
            self._changed[partition] = None

    def _subscribe(self, member_id: MemberId, metadata: bytes) -> None:
        former = self._metadata.get(member_id, b"")
        if metadata != former:
            self._metadata[member_id] = metadata
            self._has_other_topics = True
            self._subscribers.subtract(_topics(former))
            self._subscribers.update(_topics(metadata))

    def _on_ownership(self, event: e.Event, before: Group, after: Group) -> None:
        match event:
            case e.AssignmentCommitted():
                for member in before.members_awaiting(AwaitedResponse.SYNC):
                    self._receive(after.members[member.member_id])
            case e.MemberSynced(awaits_assignment=False):
                self._receive(after.members[event.member_id])
            case e.MemberRejoined():
                self._keep(event.member_id, _owned_partitions(_first_metadata(after.members[event.member_id])))
            case e.StaticMemberReplaced():
                # In Stable the new process gets the old one's assignment without a rebalance.
                inherited = () if event.awaits_join else tuple(self._owned.get(event.replaced_member_id, ()))
                self._keep(event.replaced_member_id, ())
                self._own(event.member_id, inherited)
            case e.MemberLeft() | e.MemberRemoved():
                self._keep(event.member_id, ())
            case e.CoordinatorLoaded() | e.GroupDeleted() | e.AppendFailed():
                for member_id in [each for each in self._owned if each not in after.members]:
                    self._keep(member_id, ())

    def _receive(self, member: Member) -> None:
        """The member has received its assignment: it owns that, and nothing else."""
        assigned = assigned_partitions(member.assignment)
        self._keep(member.member_id, assigned)
        self._own(member.member_id, assigned)

    def _own(self, member_id: MemberId, partitions: Iterable[TopicPartition]) -> None:
        for partition in partitions:
            self._owned.setdefault(member_id, {})[partition] = None
            self._owners.setdefault(partition, {})[member_id] = None
            self._changed[partition] = None

    def _keep(self, member_id: MemberId, kept: Iterable[TopicPartition]) -> None:
        """The member loses its partitions, except the kept ones."""
        kept = set(kept)
        for partition in [each for each in self._owned.get(member_id, ()) if each not in kept]:
            del self._owned[member_id][partition]
            del self._owners[partition][member_id]
            self._changed[partition] = None

    def _show_partitions(self) -> None:
        shown = set(self._subscribed_partitions())
        self._changed |= dict.fromkeys(shown ^ self._shown)
        self._shown = shown

    def _subscribed_partitions(self) -> Iterator[TopicPartition]:
        """Every partition of the subscribed topics; of topics without a stored event those that ever had an owner."""
        for topic in self._subscribed:
            for index in range(self._partition_counts.get(topic, 0)):
                yield TopicPartition(topic, index)
        for partition in self._owners:
            if self._is_known_by_owner(partition):
                yield partition

    def _is_known_by_owner(self, partition: TopicPartition) -> bool:
        return partition.topic in self._subscribed and partition.topic not in self._partition_counts

    def _update(self, point: Point, event_type: str) -> None:
        """Close the spans of the partitions that have changed, and open the next ones."""
        changed, self._changed = self._changed, {}
        for partition in changed:
            holders = self._holders(partition)
            if self._owners.get(partition) and self._is_known_by_owner(partition):
                self._shown.add(partition)
            is_shown = partition in self._shown or any(holders)
            open_span = self._open.get(partition)
            if open_span is not None:
                if is_shown and (open_span.assigned_to, open_span.owners) == holders:
                    continue
                self._close(open_span, point, event_type)
            if is_shown:
                self._open[partition] = PartitionSpan(
                    partition=partition,
                    assigned_to=holders.assigned_to,
                    owners=holders.owners,
                    began=point,
                    began_by=event_type,
                )

    def _holders(self, partition: TopicPartition) -> Holders:
        return Holders(tuple(self._assigned.get(partition, ())), tuple(self._owners.get(partition, ())))

    def _close(self, span: PartitionSpan, point: Point, event_type: str) -> None:
        del self._open[span.partition]
        closed = replace(span, ended=point, ended_by=event_type)
        self._spans.setdefault(span.partition, []).append(closed)


def _first_metadata(member: Member | None) -> bytes:
    """The subscription that a member lists first; its topics are the same for each assignor."""
    protocols = member.profile.supported_protocols if member else ()
    return protocols[0].metadata if protocols else b""


@lru_cache(maxsize=4096)
def _topics(metadata: bytes) -> tuple[str, ...]:
    """The topics of a subscription, each once; none if the bytes are not of the consumer protocol."""
    try:
        return tuple(dict.fromkeys(decode_subscribed_topics(metadata))) if metadata else ()
    except MalformedConsumerProtocol:
        return ()


@lru_cache(maxsize=4096)
def _owned_partitions(metadata: bytes) -> tuple[TopicPartition, ...]:
    """The partitions that a rejoining member still owns. An eager member revokes all of them first (KIP-429)."""
    try:
        return decode_subscription(metadata).owned_partitions
    except MalformedConsumerProtocol:
        return ()
