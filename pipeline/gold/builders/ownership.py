"""Builds the tables `ownership` (the owners of each partition) and `gaps` (the times without an owner).

Which events change the owners is in `owners.py`. What a process does without a request, such as reading on as a
zombie, is in no event.
"""

from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Any, TypeAlias

from regroup.coordinator.group import GroupKind, MemberId
from regroup.pipeline.gold.builders.ownership_window import OwnershipWindow
from regroup.pipeline.gold.builders.table_builder import TableRow
from regroup.protocol.consumer.subscription import TopicPartition

GapReasons: TypeAlias = Callable[[Collection[TopicPartition]], Iterable[tuple[TopicPartition, str]]]
"""A function that gives each of some partitions with the reason why it has no owner."""


class Ownership:
    """Builds the rows of `ownership` and `gaps` for one group of either kind."""

    def __init__(self) -> None:
        self.trigger = ""
        """The trigger of the present rebalance or reconciliation, or of the last one. Their builders set it."""
        self.group_epoch: int | None = None
        """The group epoch; None for a classic group."""
        self.last_owner: dict[TopicPartition, str] = {}
        """The identity of each partition's present owner, or else of its last one."""
        self.topic_names: dict[str, str] = {}
        """The names of topics by their ids."""
        self.window = OwnershipWindow()
        self.has_changed = True
        """Whether owners, subscriptions or topics have changed since the gaps were last updated."""
        self._owners: dict[TopicPartition, dict[MemberId, dict[str, Any]]] = {}
        """The rows of `ownership` whose time has not ended, by partition and member id."""
        self._partitions: dict[MemberId, dict[TopicPartition, dict[str, Any]]] = {}
        """The same rows by member id and partition."""
        self._gaps: dict[TopicPartition, dict[str, Any]] = {}
        """The rows of `gaps` whose time has not ended, by partition."""
        self._partition_counts: dict[str, int] = {}
        self._subscribed: dict[str, None] = {}

    def owns(self, member_id: MemberId, partition: TopicPartition) -> bool:
        return partition in self._partitions.get(member_id, ())

    def owned_by(self, member_id: MemberId) -> tuple[TopicPartition, ...]:
        return tuple(self._partitions.get(member_id, ()))

    def owners(self) -> tuple[MemberId, ...]:
        """The members that own partitions."""
        return tuple(self._partitions)

    def owned(self) -> list[TopicPartition]:
        """The partitions that have an owner."""
        return [partition for partition, owners in self._owners.items() if owners]

    def on_topic(self, topic: str, partitions: int, topic_id: str) -> None:
        """Set a topic's number of partitions after it was created, got more, or was deleted (0)."""
        self._partition_counts[topic] = partitions
        if topic_id:
            self.topic_names[topic_id] = topic
        self.has_changed = True

    def on_commit(self, member_id: MemberId, topic: str, index: int, at_ms: int) -> None:
        """Count a commit in the open row of the member as owner of the partition."""
        owned = self._partitions.get(member_id)
        row = owned.get((topic, index)) if owned else None  # type: ignore[call-overload]  # equal to a TopicPartition
        if row is not None:
            row["last_commit_ms"] = at_ms

    def on_end(self) -> Iterator[TableRow]:
        for owners in self._owners.values():
            for row in owners.values():
                yield "ownership", row | {"to_ms": None, "ended_by": "open", "last_seen_ms": None}
        for gap in self._gaps.values():
            yield "gaps", gap

    def subscribe(self, topics: Iterable[str]) -> None:
        """Set the topics to which the group's members subscribe; only their partitions can have gaps."""
        subscribed: dict[str, None] = dict.fromkeys(topics)
        self.has_changed |= subscribed != self._subscribed
        self._subscribed = subscribed

    def add(
        self,
        partition: TopicPartition,
        member_id: MemberId,
        identity: str,
        at_ms: int,
        *,
        kind: GroupKind,
        generation_id: int,
    ) -> None:
        """Begin a row: the member owns the partition from `at_ms` on. `identity` names it across restarts."""
        row: dict[str, Any] = {
            "topic": partition.topic,
            "partition": partition.partition,
            "member_id": member_id,
            "identity": identity,
            "protocol": kind.value,
            "generation_id": generation_id,
            "from_ms": at_ms,
            "last_commit_ms": None,
        }
        self._owners.setdefault(partition, {})[member_id] = row
        self._partitions.setdefault(member_id, {})[partition] = row
        self.has_changed = True
        self.window.gained(partition, self.last_owner.get(partition), identity, at_ms)
        self.last_owner[partition] = identity

    def remove(
        self,
        member_id: MemberId,
        at_ms: int,
        ended_by: str,
        last_seen_ms: int | None = None,
        kept: Iterable[TopicPartition] = (),
    ) -> Iterator[TableRow]:
        """End a member's ownership of its partitions, except of those in `kept`."""
        kept = dict.fromkeys(kept)
        for partition in [each for each in self._partitions.get(member_id, ()) if each not in kept]:
            row = self._owners[partition].pop(member_id)
            self.has_changed = True
            del self._partitions[member_id][partition]
            if not self._owners[partition]:
                self.window.lost(partition, at_ms)
            end = {"to_ms": at_ms, "ended_by": ended_by, "last_seen_ms": last_seen_ms}
            yield "ownership", row | end
        if not self._partitions.get(member_id):
            self._partitions.pop(member_id, None)

    def session_expiry_gaps(
        self, member_id: MemberId, last_seen_ms: int | None, at_ms: int, kind: GroupKind
    ) -> Iterator[TableRow]:
        """Yield the gaps of a member that was removed by its session timeout.

        A gap begins when the member was last seen: since then its partitions had no live owner.

        A partition that another member owns too is not without one from then on.
        """
        if last_seen_ms is None:
            return
        for partition, row in self._partitions.get(member_id, {}).items():
            others = [each["from_ms"] for each in self._owners[partition].values() if each is not row]
            gap = self._open_gap(partition, max(last_seen_ms, row["from_ms"]), "session-expiry", "removed", kind)
            yield from closed_gap(gap | {"owner_id": member_id}, min([at_ms, *others]))

    def update_gaps(self, at_ms: int, kind: GroupKind, reasons: GapReasons) -> Iterator[TableRow]:
        """At `at_ms` end the gaps of partitions that have an owner or another reason now, and begin new gaps.

        `reasons` gives for each partition without an owner the reason. Yields the rows of ended gaps.
        """
        self.has_changed = False
        unowned = {each: None for each in self._subscribed_partitions() if not self._owners.get(each)}
        for partition in [each for each in self._gaps if each not in unowned]:
            yield from closed_gap(self._gaps.pop(partition), at_ms)
        for partition, reason in reasons(unowned):
            gap = self._gaps.get(partition)
            if gap is None or (gap["reason"], gap["protocol"]) != (reason, kind.value):
                if gap is not None:
                    yield from closed_gap(gap, at_ms)
                self._gaps[partition] = self._open_gap(partition, at_ms, reason, self.trigger, kind)

    def _open_gap(
        self, partition: TopicPartition, from_ms: int, reason: str, trigger: str, kind: GroupKind
    ) -> dict[str, Any]:
        return {
            "topic": partition.topic,
            "partition": partition.partition,
            "protocol": kind.value,
            "from_ms": from_ms,
            "to_ms": None,
            "reason": reason,
            "trigger": trigger,
            "group_epoch": self.group_epoch,
        }

    def _subscribed_partitions(self) -> Iterator[TopicPartition]:
        """Yield every partition of the subscribed topics.

        If no stored event says how many partitions a topic has, only those that ever had an owner are known and
        yielded.
        """
        for topic in self._subscribed:
            for index in range(self._partition_counts.get(topic, 0)):
                yield TopicPartition(topic, index)
        for partition in self._owners:
            if partition.topic in self._subscribed and partition.topic not in self._partition_counts:
                yield partition


def closed_gap(gap: dict[str, Any], to_ms: int) -> Iterator[TableRow]:
    """Yield the row of a gap that ends at `to_ms`; nothing if it began at the same time."""
    if to_ms > gap["from_ms"]:
        yield "gaps", gap | {"to_ms": to_ms}
