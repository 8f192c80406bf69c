"""Sticky assignment where all subscriptions are equal (KAFKA-9987): by quotas, without a search.

With p partitions and n members the minimum quota is p // n, and p % n members get one partition more.

1. Every member keeps what it had, up to the minimum quota. As long as fewer than p % n members are over it, a member
   that had more keeps one more. Where racks matter, a partition without a replica in the member's rack is not kept.
2. Where racks matter, unassigned partitions go in turn to members below the quota in a rack with a replica, partitions
   with the fewest such members first.
3. The rest goes in turn to the members below the quota, in the order of their names, until each has it; then one
   each to members at the quota.

Step 3 does not go partition by partition: until the next member reaches the quota every member gets every n-th
partition of a block, which is a slice. So it takes one pass over the partitions.
"""

from collections.abc import Sequence
from itertools import chain

from regroup.assignors.interface import Assignments, AssignorError, ClusterMetadata
from regroup.assignors.sticky.previous_ownership import PreviousOwnership, RackInfo, unassigned_partitions
from regroup.protocol.consumer.subscription import TopicPartition
from regroup.protocol.java_order import utf16_order


class ConstrainedAssignmentBuilder:
    """Computes one assignment; `topics` are sorted by name. `build` fills `assignments` and `transferring_ownership`.

    `under_quota` and `at_quota` are members that may get more, `over_quota` is the number of members over the minimum
    quota. `released` has the previous owners of partitions that they do not keep, `transferring_ownership` the new
    owners of partitions that another member owned.
    """

    def __init__(
        self, cluster: ClusterMetadata, topics: Sequence[str], previous: PreviousOwnership, racks: RackInfo
    ) -> None:
        self.cluster = cluster
        self.topics = topics
        self.previous = previous
        self.racks = racks
        total = sum(cluster.partitions_per_topic[topic] for topic in topics)
        self.min_quota, self.max_over_quota = divmod(total, len(previous.owned))
        self.max_quota = self.min_quota + (self.max_over_quota > 0)
        self.over_quota = 0
        self.under_quota: list[str] = []
        self.at_quota: list[str] = []
        self.released: dict[TopicPartition, str] = {}
        self.assignments: Assignments = {}
        self.transferring_ownership: dict[TopicPartition, str] = {}

    def build(self) -> None:
        """Do the three steps that the module describes, and fill `assignments`. Raises `AssignorError` if Kafka's
        quotas cannot be met."""
        self._keep()
        can_transfer = self.released or self.previous.multiple_owners
        kept = {name: len(partitions) for name, partitions in self.assignments.items()} if can_transfer else {}
        unassigned = unassigned_partitions([*chain.from_iterable(self.assignments.values())], self.topics, self.cluster)
        self.under_quota.sort(key=utf16_order)
        self.at_quota.sort(key=utf16_order)
        if self.racks.of_member:
            unassigned = self._assign_within_racks(self.racks.fewest_candidates_first(unassigned))
        self._assign_in_turn(unassigned)
        if self.under_quota:
            first = self.under_quota[0]
            raise self._quota_error(f"member {first} stays below the quota of {self.min_quota} partitions")
        for name, count in kept.items():
            for partition in self.assignments[name][count:]:
                if self.released.get(partition, name) != name or partition in self.previous.multiple_owners:
                    self.transferring_ownership[partition] = name

    def _keep(self) -> None:
        """Let every member keep its previous partitions as far as quotas and racks allow, lowest partition numbers
        first."""
        topic_index = {topic: index for index, topic in enumerate(self.topics)}
        topic_count = len(topic_index)
        for name, owned in self.previous.owned.items():
            may_keep = owned
            if self.racks.of_member:
                self.released.update((each, name) for each in owned if self.racks.is_mismatch(name, each))
                may_keep = [each for each in owned if not self.racks.is_mismatch(name, each)]
            if self.previous.multiple_owners:
                may_keep = [each for each in may_keep if each not in self.previous.multiple_owners]
            keeps = self._number_to_keep(name, len(may_keep))
            kept = sorted(may_keep, key=lambda each: each[1] * topic_count + topic_index[each[0]])
            self.assignments[name] = kept
            if keeps < len(kept):
                self.released.update(dict.fromkeys(kept[keeps:], name))
                del kept[keeps:]

    def _number_to_keep(self, name: str, count: int) -> int:
        if count < self.min_quota:
            self.under_quota.append(name)
            return count
        if count >= self.max_quota and self.over_quota < self.max_over_quota:
            self._count_over_quota()
            return self.max_quota
        if self.over_quota < self.max_over_quota:
            self.at_quota.append(name)
        return self.min_quota

    def _count_over_quota(self) -> None:
        self.over_quota += 1
        if self.over_quota == self.max_over_quota:
            self.at_quota.clear()

    def _assign_within_racks(self, unassigned: list[TopicPartition]) -> list[TopicPartition]:
        """Assign partitions to members in whose rack they have a replica; returns the partitions without such a
        member."""
        rest: list[TopicPartition] = []
        turn = 0
        for partition in unassigned:
            index = self._index_in_rack(partition, self.under_quota, turn)
            if index is not None:
                turn = self._assign_to_member_under_quota(index, partition)
            elif (index := self._index_in_rack(partition, self.at_quota, 0)) is not None:
                name = self.at_quota[index]
                self.assignments[name].append(partition)
                if len(self.assignments[name]) == self.max_quota:
                    del self.at_quota[index]
                    self._count_over_quota()
            else:
                rest.append(partition)
        return rest

    def _index_in_rack(self, partition: TopicPartition, names: list[str], first: int) -> int | None:
        replica_racks = self.racks.of_replicas[partition]
        for step in range(len(names)):
            index = (first + step) % len(names)
            if self.racks.of_member.get(names[index]) in replica_racks:
                return index
        return None

    def _assign_to_member_under_quota(self, index: int, partition: TopicPartition) -> int:
        """Assign the partition to a member below the quota. `index` is the member's place in `under_quota`; returns the
        place at which the next search begins."""
        name = self.under_quota[index]
        self.assignments[name].append(partition)
        if (count := len(self.assignments[name])) >= self.min_quota:
            del self.under_quota[index]
            if count < self.max_quota and self.over_quota < self.max_over_quota:
                self.at_quota.append(name)
        else:
            index += 1
        return index % len(self.under_quota) if self.under_quota else 0

    def _assign_in_turn(self, unassigned: list[TopicPartition]) -> None:
        start = 0
        while self.under_quota and start < len(unassigned):
            rounds = min(self.min_quota - len(self.assignments[name]) for name in self.under_quota)
            end = start + rounds * len(self.under_quota)
            for offset, name in enumerate(self.under_quota, start):
                self.assignments[name] += unassigned[offset : end : len(self.under_quota)]
            start = end
            self.at_quota += [name for name in self.under_quota if len(self.assignments[name]) == self.min_quota]
            self.under_quota = [name for name in self.under_quota if len(self.assignments[name]) < self.min_quota]
        remainder = unassigned[start:]
        for name, partition in zip(self.at_quota, remainder, strict=False):
            self.assignments[name].append(partition)
        if len(remainder) > len(self.at_quota):
            topic, number = remainder[len(self.at_quota)]
            raise self._quota_error(f"partition {number} of topic {topic} finds no member below its quota", topic)

    def _quota_error(self, problem: str, topic: str | None = None) -> AssignorError:
        """The error for quotas that cannot be met, with `problem` as its text. If a member claims a partition that no
        longer exists, the error names that claim, because it is the usual reason."""
        problem = f"the quotas cannot be met: {problem}"
        for name, partitions in self.previous.owned.items():
            for claimed, number in partitions:
                count = self.cluster.partitions_per_topic.get(claimed, 0)
                if not 0 <= number < count:
                    reason = f"member {name} still claims partition {number} of topic {claimed}, which has only {count}"
                    return AssignorError(f"{problem}, because {reason}", member=name, topic=claimed)
        return AssignorError(problem, member=next(iter(self.under_quota), None), topic=topic)
