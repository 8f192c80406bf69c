"""Who owned each partition, and when none did: spans built while a group's events are folded.

Ownership means what it means in the tables of `pipeline`. Beside it stands the assignment that the coordinator has.
Which events change them is in `holdings.py`.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from msgspec.structs import replace

from regroup.classroom.points import Point
from regroup.classroom.timeline import PartitionSpan
from regroup.coordinator.group import MemberId
from regroup.protocol.consumer.subscription import TopicPartition


class Holders(NamedTuple):
    """The members to which a partition is assigned, those that own it, and those owners that have to give it up."""

    assigned_to: tuple[MemberId, ...] = ()
    owners: tuple[MemberId, ...] = ()
    revoking: tuple[MemberId, ...] = ()


class OwnershipBuilder:
    """Builds, for each partition of one group, the spans during which its assignment and its owners stay the same."""

    def __init__(self) -> None:
        self.topic_names: dict[str, str] = {}
        """The names of topics by their ids."""
        self._assigned_to: dict[MemberId, tuple[TopicPartition, ...]] = {}
        self._assigned: dict[TopicPartition, dict[MemberId, None]] = {}
        self._owned: dict[MemberId, dict[TopicPartition, None]] = {}
        self._owners: dict[TopicPartition, dict[MemberId, None]] = {}
        self._revoked: dict[MemberId, tuple[TopicPartition, ...]] = {}
        self._revoking: dict[TopicPartition, dict[MemberId, None]] = {}
        self._subscriptions: dict[MemberId, tuple[str, ...]] = {}
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

    def on_topic(self, topic: str, partitions: int, point: Point, event_type: str, topic_id: str = "") -> None:
        """Note the new number of partitions of a topic that was created, got more, or was deleted (then it is 0)."""
        self._partition_counts[topic] = partitions
        if topic_id:
            self.topic_names[topic_id] = topic
        if topic in self._subscribed:
            self._show_partitions()
        self.update(point, event_type)

    def spans(self) -> dict[TopicPartition, tuple[PartitionSpan, ...]]:
        """The spans of each partition, in order; a span that has not ended yet comes last."""
        partitions = sorted(self._spans.keys() | self._open.keys(), key=lambda each: (each.topic, each.partition))
        return {each: (*self._spans.get(each, ()), *filter(None, [self._open.get(each)])) for each in partitions}

    def assign(self, member_id: MemberId, partitions: tuple[TopicPartition, ...]) -> None:
        """Replace the partitions that the coordinator has assigned to a member by these."""
        self._replace(self._assigned_to, self._assigned, member_id, partitions)

    def revoke(self, member_id: MemberId, partitions: tuple[TopicPartition, ...]) -> None:
        """Replace the partitions that a member has to give up by these."""
        self._replace(self._revoked, self._revoking, member_id, partitions)

    def _replace(
        self,
        by_member: dict[MemberId, tuple[TopicPartition, ...]],
        by_partition: dict[TopicPartition, dict[MemberId, None]],
        member_id: MemberId,
        partitions: tuple[TopicPartition, ...],
    ) -> None:
        former = by_member.get(member_id, ())
        if partitions == former:
            return
        by_member[member_id] = partitions
        before, after = dict.fromkeys(former), dict.fromkeys(partitions)
        for partition in before.keys() - after.keys():
            del by_partition[partition][member_id]
            self._changed[partition] = None
        for partition in after.keys() - before.keys():
            by_partition.setdefault(partition, {})[member_id] = None
            self._changed[partition] = None

    def subscribe(self, member_id: MemberId, topics: tuple[str, ...]) -> None:
        """Replace the topics to which a member subscribes by these."""
        former = self._subscriptions.get(member_id, ())
        if topics != former:
            self._subscriptions[member_id] = topics
            self._has_other_topics = True
            self._subscribers.subtract(former)
            self._subscribers.update(topics)

    def show_subscribed(self) -> None:
        """Take the topics to which members subscribe now as those whose partitions get spans also without an owner."""
        if not self._has_other_topics:
            return
        self._has_other_topics = False
        if (topics := frozenset(+self._subscribers)) != self._subscribed:
            self._subscribed = topics
            self._show_partitions()

    def owned_by(self, member_id: MemberId) -> tuple[TopicPartition, ...]:
        return tuple(self._owned.get(member_id, ()))

    def owners(self) -> tuple[MemberId, ...]:
        """The members that own partitions, or have owned some."""
        return tuple(self._owned)

    def own(self, member_id: MemberId, partitions: Iterable[TopicPartition]) -> None:
        """Add these partitions to those that the member owns."""
        owned = self._owned.setdefault(member_id, {})
        for partition in partitions:
            if partition not in owned:
                owned[partition] = None
                self._owners.setdefault(partition, {})[member_id] = None
                self._changed[partition] = None

    def keep(self, member_id: MemberId, kept: Iterable[TopicPartition]) -> None:
        """End the member's ownership of all its partitions except those in `kept`."""
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
        """Yield every partition of the subscribed topics.

        If no stored event says how many partitions a topic has, only those that ever had an owner are known and
        yielded.
        """
        for topic in self._subscribed:
            for index in range(self._partition_counts.get(topic, 0)):
                yield TopicPartition(topic, index)
        for partition in self._owners:
            if self._is_known_by_owner(partition):
                yield partition

    def _is_known_by_owner(self, partition: TopicPartition) -> bool:
        return partition.topic in self._subscribed and partition.topic not in self._partition_counts

    def update(self, point: Point, event_type: str) -> None:
        """End the spans of the partitions whose holders have changed, at this point, and begin their next spans."""
        changed, self._changed = self._changed, {}
        for partition in changed:
            holders = self._holders(partition)
            if self._owners.get(partition) and self._is_known_by_owner(partition):
                self._shown.add(partition)
            is_shown = partition in self._shown or any(holders)
            open_span = self._open.get(partition)
            if open_span is not None:
                if is_shown and (open_span.assigned_to, open_span.owners, open_span.revoking) == holders:
                    continue
                self._close(open_span, point, event_type)
            if is_shown:
                self._open[partition] = PartitionSpan(
                    partition=partition,
                    assigned_to=holders.assigned_to,
                    owners=holders.owners,
                    revoking=holders.revoking,
                    began=point,
                    began_by=event_type,
                )

    def _holders(self, partition: TopicPartition) -> Holders:
        holders = (self._assigned, self._owners, self._revoking)
        return Holders(*(tuple(each.get(partition, ())) for each in holders))

    def _close(self, span: PartitionSpan, point: Point, event_type: str) -> None:
        del self._open[span.partition]
        closed = replace(span, ended=point, ended_by=event_type)
        self._spans.setdefault(span.partition, []).append(closed)
