"""What became of the partitions since a moment: which got an owner, and how long each had none."""

from collections.abc import Mapping
from typing import Any

from regroup.protocol.consumer.subscription import TopicPartition


class OwnershipWindow:
    """Records, since the last call of `begin`, how partitions of one group got owners and how long they had none."""

    def __init__(self, deleted_ms: Mapping[str, int]) -> None:
        self._deleted_ms = deleted_ms
        """When topics were deleted: from then on their partitions need no owner."""
        self._lost_ms: dict[TopicPartition, int] = {}
        """The partitions that have lost their owner and have none, with the time at which they did."""
        self._ownerless_ms: dict[TopicPartition, int] = {}
        """Of partitions that got an owner again, how long they had none within the window."""
        self._began_ms = 0
        self.movements: dict[TopicPartition, str] = {}
        """How each partition that got an owner got it last: new, moved, or revoked_and_returned."""

    def begin(self, at_ms: int) -> None:
        """Discard what was recorded, and record from this time on."""
        self._began_ms = at_ms
        self._ownerless_ms, self.movements = {}, {}

    def lost(self, partition: TopicPartition, at_ms: int) -> None:
        """Note that a partition has no owner from this time on."""
        self._lost_ms[partition] = at_ms

    def topic_replaced(self, topic: str, topic_id: str) -> None:
        """Let the id of a deleted topic stand for it from now on: a new topic has got its name."""
        replace_topic(self._lost_ms, topic, topic_id)
        replace_topic(self.movements, topic, topic_id)

    def gained(self, partition: TopicPartition, last_owner: str | None, owner: str, at_ms: int) -> None:
        """Note that a partition has got an owner. `last_owner` is its owner before, None if it never had one."""
        kind = "new" if last_owner is None else "moved" if last_owner != owner else "revoked_and_returned"
        self.movements[partition] = kind
        if (lost_ms := self._lost_ms.pop(partition, None)) is not None:
            self._add(self._ownerless_ms, partition, lost_ms, at_ms)

    def ownerless_ms(self, at_ms: int) -> dict[TopicPartition, int]:
        """How long each partition had no owner between `begin` and `at_ms`; those that always had one are left out."""
        found = dict(self._ownerless_ms)
        for partition, lost_ms in self._lost_ms.items():
            self._add(found, partition, lost_ms, min(at_ms, self._deleted_ms.get(partition.topic, at_ms)))
        return found

    def _add(self, sums: dict[TopicPartition, int], partition: TopicPartition, from_ms: int, to_ms: int) -> None:
        duration_ms = to_ms - max(from_ms, self._began_ms)
        if duration_ms > 0:
            sums[partition] = sums.get(partition, 0) + duration_ms


def replace_topic(partitions: dict[TopicPartition, Any], topic: str, replacement: str) -> None:
    """Name another topic in the keys that are partitions of `topic`."""
    for partition in [each for each in partitions if each.topic == topic]:
        partitions[TopicPartition(replacement, partition.partition)] = partitions.pop(partition)
