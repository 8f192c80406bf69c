"""Builds the tables `ownership` (the owners of each partition) and `gaps` (the times without an owner).

Which events change the owners is in `owners.py`. What a process does without a request, such as reading on as a
zombie, is in no event.
"""

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import NamedTuple, TypeAlias

from regroup.coordinator.group import GroupKind, MemberId
from regroup.pipeline.gold.builders.ownership_window import OwnershipWindow, replace_topic
from regroup.pipeline.gold.folded_rows import FoldedRows
from regroup.protocol.consumer.subscription import TopicPartition, topic_partitions

GapReasons: TypeAlias = Callable[[Sequence[TopicPartition]], Iterable[str]]
"""A function that returns for each of some partitions the reason why it has no owner."""


class OwnedPeriod(NamedTuple):
    """A period that has not ended in which a member owns a partition: columns of `ownership`."""

    identity: str
    protocol: str
    generation_id: int
    from_ms: int


class OpenGap(NamedTuple):
    """A period that has not ended in which a partition has no owner: columns of `gaps`."""

    protocol: str
    from_ms: int
    reason: str
    trigger: str
    group_epoch: int | None
    was_owned: bool


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
        self.topic_keys: dict[str, str] = {}
        """What stands for each topic in the partitions here, by topic id: its name, or its id if it was deleted and
        another topic has its name."""
        self._topic_ids: dict[str, str] = {}
        """The ids of topics by their names, of deleted ones too until one of the same name is created."""
        self.knows_topic_ids = False
        """Whether the group was one of the consumer protocol when a member was last assigned partitions."""
        self._deleted_ms: dict[str, int] = {}
        """When topics were deleted, by what stands for them in the partitions here."""
        self.window = OwnershipWindow(self._deleted_ms)
        self.has_changed = True
        """Whether owners, subscriptions or topics have changed since the gaps were last updated."""
        self._owners: dict[TopicPartition, dict[MemberId, OwnedPeriod]] = {}
        """The periods of ownership that have not ended, by partition and member id."""
        self._partitions: dict[MemberId, dict[TopicPartition, OwnedPeriod]] = {}
        """The same periods by member id and partition."""
        self._commits_ms: dict[MemberId, dict[str, dict[int, int]]] = {}
        """The time of the last commit of each member that owns partitions, by topic and number of the partition."""
        self._gaps: dict[TopicPartition, OpenGap] = {}
        """The gaps that have not ended, by partition."""
        self._unowned: Sequence[TopicPartition] = ()
        """The partitions without an owner when the gaps were last updated."""
        self._partition_counts: dict[str, int] = {}
        self._subscribed: dict[str, None] = {}
        self._counted_partitions: list[TopicPartition] | None = None
        """The partitions of the subscribed topics whose number is known; None if it has to be found again."""
        self._uncounted: frozenset[str] = frozenset()
        """The subscribed topics whose number of partitions no event says."""

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

    def on_topic(self, topic: str, partitions: int, topic_id: str, at_ms: int) -> None:
        """Set a topic's number of partitions after it was created, got more, or was deleted (0)."""
        former_id = self._topic_ids.get(topic, topic_id)
        if former_id != topic_id and topic_id and self.knows_topic_ids:
            self._replace(topic, former_id)
        self._partition_counts[topic] = partitions
        if topic_id:
            self.topic_names[topic_id] = self.topic_keys[topic_id] = topic
            self._topic_ids[topic] = topic_id
        if partitions:
            self._deleted_ms.pop(topic, None)
        else:
            self._deleted_ms[topic] = at_ms
        self._counted_partitions = None
        self.has_changed = True

    def on_commit(self, member_id: MemberId, topic: str, partitions: Iterable[int], at_ms: int) -> None:
        """Note the time of a member's commit, if it owns partitions."""
        if member_id in self._partitions:
            times_ms = self._commits_ms.setdefault(member_id, {}).setdefault(topic, {})
            times_ms.update(dict.fromkeys(partitions, at_ms))

    def on_end(self, rows: FoldedRows) -> None:
        for member_id, owned in self._partitions.items():
            for partition, period in owned.items():
                self._add_period(rows, member_id, partition, period, None, "open", None)
        for partition, gap in self._gaps.items():
            rows.gaps.append(gap_row(partition, gap, None, None))

    def subscribe(self, topics: Iterable[str]) -> None:
        """Set the topics to which the group's members subscribe; only their partitions can have gaps."""
        subscribed: dict[str, None] = dict.fromkeys(topics)
        if subscribed != self._subscribed:
            self.has_changed, self._counted_partitions = True, None
        self._subscribed = subscribed

    def add(
        self,
        partitions: Iterable[TopicPartition],
        member_id: MemberId,
        identity: str,
        at_ms: int,
        *,
        kind: GroupKind,
        generation_id: int,
    ) -> None:
        """Begin periods: the member owns these partitions from `at_ms` on, if it does not own them already.

        `identity` names the member across restarts.
        """
        self.knows_topic_ids = kind is GroupKind.CONSUMER
        period = OwnedPeriod(identity, kind.value, generation_id, at_ms)
        owned, commits_ms = self._partitions.get(member_id, {}), self._commits_ms.get(member_id)
        owners, last_owner, gained = self._owners, self.last_owner, self.window.gained
        for partition in partitions:
            if partition in owned:
                continue
            if partition in owners:
                owners[partition][member_id] = period
            else:
                owners[partition] = {member_id: period}
            owned[partition] = period
            if commits_ms:
                commits_ms.get(partition.topic, {}).pop(partition.partition, None)
            gained(partition, last_owner.get(partition), identity, at_ms)
            last_owner[partition] = identity
        if owned:
            self._partitions[member_id] = owned
            self.has_changed = True

    def remove(
        self,
        rows: FoldedRows,
        member_id: MemberId,
        at_ms: int,
        ended_by: str,
        last_seen_ms: int | None = None,
        kept: Iterable[TopicPartition] = (),
    ) -> None:
        """End a member's ownership of its partitions, except of those in `kept`."""
        owned = self._partitions.get(member_id)
        if not owned:
            return
        kept, lost = frozenset(kept), self.window.lost
        for partition in [each for each in owned if each not in kept]:
            owners = self._owners[partition]
            del owners[member_id]
            self._add_period(rows, member_id, partition, owned.pop(partition), at_ms, ended_by, last_seen_ms)
            self.has_changed = True
            if not owners:
                lost(partition, at_ms)
        if not owned:
            del self._partitions[member_id]
            self._commits_ms.pop(member_id, None)

    def session_expiry_gaps(
        self, rows: FoldedRows, member_id: MemberId, last_seen_ms: int | None, at_ms: int, kind: GroupKind
    ) -> None:
        """Add the gaps of a member that was removed by its session timeout.

        A gap begins when the member was last seen: since then its partitions had no live owner.

        A partition that another member owns too is not without one from then on, and one of a deleted topic needs none.
        """
        if last_seen_ms is None:
            return
        for partition, period in self._partitions.get(member_id, {}).items():
            others = [each.from_ms for other, each in self._owners[partition].items() if other != member_id]
            from_ms = max(last_seen_ms, period.from_ms)
            to_ms = min([at_ms, self._deleted_ms.get(partition.topic, at_ms), *others])
            if to_ms > from_ms:
                gap = OpenGap(kind.value, from_ms, "session-expiry", "removed", self.group_epoch, was_owned=True)
                named = TopicPartition(self.topic_names.get(partition.topic, partition.topic), partition.partition)
                rows.gaps.append(gap_row(named, gap, to_ms, member_id))

    def update_gaps(self, at_ms: int, kind: GroupKind, reasons: GapReasons, rows: FoldedRows) -> None:
        """At `at_ms` end the gaps of partitions that have an owner or another reason now, and begin new gaps.

        `reasons` gives for each partition without an owner the reason. Adds the rows of ended gaps.
        """
        if self.has_changed:
            self.find_unowned(at_ms, rows)
        if not self._unowned:
            return
        gaps, protocol, add = self._gaps, kind.value, rows.gaps.append
        opened: dict[tuple[str, bool], OpenGap] = {}
        last_owner = self.last_owner
        for partition, reason in zip(self._unowned, reasons(self._unowned), strict=True):
            gap = gaps.get(partition)
            if gap is not None:
                former_protocol, from_ms, former_reason, trigger, group_epoch, was_owned = gap
                if former_reason == reason and former_protocol == protocol:
                    continue
                if at_ms > from_ms:
                    topic, number = partition
                    columns = former_protocol, from_ms, at_ms, former_reason, trigger, group_epoch, None, was_owned
                    add((topic, number, *columns))
            key = reason, partition in last_owner
            if key not in opened:
                opened[key] = OpenGap(protocol, at_ms, reason, self.trigger, self.group_epoch, key[1])
            gaps[partition] = opened[key]

    def _replace(self, topic: str, topic_id: str) -> None:
        """Let the id of a deleted topic stand for it from now on: a new topic has got its name.

        Members of a consumer protocol's group may hold partitions of both. A classic group knows topics by name alone.
        """
        self.topic_keys[topic_id] = topic_id
        if topic in self._deleted_ms:
            self._deleted_ms[topic_id] = self._deleted_ms.pop(topic)
        self.window.topic_replaced(topic, topic_id)
        replace_topic(self.last_owner, topic, topic_id)
        replace_topic(self._owners, topic, topic_id)
        for partitions in self._partitions.values():
            replace_topic(partitions, topic, topic_id)
        for times_ms in self._commits_ms.values():
            if topic in times_ms:
                times_ms[topic_id] = times_ms.pop(topic)

    def find_unowned(self, at_ms: int, rows: FoldedRows) -> None:
        """Find the partitions without an owner, and end the gaps of others."""
        owners, gaps, topics_differ = self._owners, self._gaps, self._counted_partitions is None
        self._unowned = [each for each in self._subscribed_partitions() if not owners.get(each)]
        self.has_changed = False
        if topics_differ:
            unowned = set(self._unowned)
            ended = [each for each in gaps if each not in unowned]
        else:
            ended = [each for each in gaps if owners.get(each)]
        for partition in ended:
            gap = gaps.pop(partition)
            if at_ms > gap.from_ms:
                rows.gaps.append(gap_row(partition, gap, at_ms, None))

    def _add_period(
        self,
        rows: FoldedRows,
        member_id: MemberId,
        partition: TopicPartition,
        period: OwnedPeriod,
        to_ms: int | None,
        ended_by: str,
        last_seen_ms: int | None,
    ) -> None:
        topic, number = partition
        commits_ms = self._commits_ms.get(member_id)
        last_commit_ms = commits_ms.get(topic, {}).get(number) if commits_ms else None
        name = self.topic_names.get(topic, topic)
        rows.ownership.append((name, number, member_id, *period, to_ms, ended_by, last_seen_ms, last_commit_ms))

    def _subscribed_partitions(self) -> Collection[TopicPartition]:
        """Every partition of the subscribed topics.

        If no stored event says how many partitions a topic has, only those that ever had an owner are known.
        """
        if self._counted_partitions is None:
            counts = self._partition_counts
            of_topics = (topic_partitions(topic, range(counts.get(topic, 0))) for topic in self._subscribed)
            self._counted_partitions = [partition for partitions in of_topics for partition in partitions]
            self._uncounted = frozenset(self._subscribed.keys() - counts.keys())
        if not self._uncounted:
            return self._counted_partitions
        return [*self._counted_partitions, *(each for each in self._owners if each.topic in self._uncounted)]


def gap_row(
    partition: TopicPartition, gap: OpenGap, to_ms: int | None, owner_id: MemberId | None
) -> tuple[str | int | None, ...]:
    """The row of `gaps`, with all columns in order."""
    protocol, from_ms, reason, trigger, group_epoch, was_owned = gap
    return (*partition, protocol, from_ms, to_ms, reason, trigger, group_epoch, owner_id, was_owned)
