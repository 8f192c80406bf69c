"""The committed and transactional offsets that the stored events of a group add up to, folded without `evolve`."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from regroup.coordinator import events as e
from regroup.coordinator.events import Event
from regroup.coordinator.group import CommittedOffset, Group, OffsetsByPartition

TopicIndex: TypeAlias = tuple[str, int]
WrittenOffsets: TypeAlias = dict[TopicIndex, tuple[CommittedOffset, int]]
"""Offsets by topic and partition, each with the number of the event that wrote it."""
PendingOffsets: TypeAlias = dict[TopicIndex, tuple[CommittedOffset, int, bool]]
"""Offsets of an open transaction by topic and partition, each with the number of the event that wrote it, and whether a
newer offset has been committed since."""
_CHANGING_EVENTS: Final = frozenset(
    {
        e.OffsetsCommitted,
        e.OffsetsWritten,
        e.AppendCommitted,
        e.AppendFailed,
        e.TransactionalOffsetsWritten,
        e.TransactionEnded,
        e.OffsetsDeleted,
        e.GroupDeleted,
        e.GroupCreated,
        e.CoordinatorLoaded,
    }
)


@dataclass(slots=True)
class StoredOffsets:
    """The offsets of one group, of either protocol."""

    committed: dict[TopicIndex, CommittedOffset] = field(default_factory=dict)
    committed_by: dict[TopicIndex, int] = field(default_factory=dict)
    """The number of the newest event whose offset was committed; what a transaction wrote before it is lost to it."""
    transactions: dict[int, WrittenOffsets] = field(default_factory=dict)
    """By producer id, what its open transaction has written."""
    appends: dict[int, WrittenOffsets] = field(default_factory=dict)
    """By event number, commits that Kafka's log has written and not committed."""
    _compared: object = None
    _has_changed: bool = True

    @property
    def has_any(self) -> bool:
        """Whether an offset is committed, or a transaction is open."""
        return bool(self.committed or self.transactions)

    def apply(self, event: Event, event_number: int) -> None:
        """Apply one stored event; events about anything but offsets change nothing."""
        if type(event) not in _CHANGING_EVENTS:
            return
        match event:
            case e.OffsetsCommitted(offsets=offsets):
                self._commit(_flat(offsets, event_number))
            case e.OffsetsWritten(offsets=offsets):
                self.appends[event_number] = _flat(offsets, event_number)
            case e.AppendCommitted(append_number=number):
                self._commit(self.appends.pop(number, {}))
            case e.AppendFailed(append_number=number):
                self.appends.pop(number, None)
            case e.TransactionalOffsetsWritten(producer_id=producer_id, offsets=offsets):
                self.transactions.setdefault(producer_id, {}).update(_flat(offsets, event_number))
            case e.TransactionEnded(producer_id=producer_id, committed=is_committed):
                ended = self.transactions.pop(producer_id)
                if is_committed:
                    self._commit({each: w for each, w in ended.items() if w[1] >= self.committed_by.get(each, 0)})
            case e.OffsetsDeleted(partitions=partitions):
                self._delete({(topic, index) for topic, indexes in partitions.items() for index in indexes})
            case e.GroupDeleted() | e.GroupCreated():
                self.clear()
            case e.CoordinatorLoaded():
                self.appends = {}
        self._has_changed = True

    def clear(self) -> None:
        """Forget every offset: the group is gone."""
        self.committed, self.committed_by, self.transactions, self.appends = {}, {}, {}, {}
        self._has_changed = True

    def _commit(self, written: WrittenOffsets) -> None:
        for key, (offset, number) in written.items():
            self.committed[key] = offset
            self.committed_by[key] = max(number, self.committed_by.get(key, 0))

    def _delete(self, deleted: set[TopicIndex]) -> None:
        for key in deleted:
            self.committed.pop(key, None)
            for written in (*self.transactions.values(), *self.appends.values()):
                written.pop(key, None)

    def differences(self, other: Group) -> Iterator[str]:
        """What the product's own fold of the same events has otherwise; `other` is its result."""
        if not self._has_changed and other.committed_offsets is self._compared:
            return
        self._has_changed, self._compared = False, other.committed_offsets
        if self.committed != {
            (topic, index): offset
            for topic, partitions in other.committed_offsets.items()
            for index, offset in partitions.items()
        }:
            yield "the committed offsets"
        if self.transactions.keys() != other.pending_transactional_offsets.keys():
            yield "the open transactions"
        elif self.transactions and self._pending() != _pending_of(other):
            yield "the offsets of open transactions"

    def _pending(self) -> dict[int, PendingOffsets]:
        """What open transactions have written, and whether it is lost to a newer offset."""
        return {
            producer_id: {
                key: (offset, number, number < self.committed_by.get(key, 0))
                for key, (offset, number) in written.items()
            }
            for producer_id, written in self.transactions.items()
        }


def _pending_of(group: Group) -> dict[int, PendingOffsets]:
    return {
        producer_id: {
            (topic, index): (each.offset, each.event_number, each.is_superseded)
            for topic, partitions in pending.items()
            for index, each in partitions.items()
        }
        for producer_id, pending in group.pending_transactional_offsets.items()
    }


def _flat(offsets: OffsetsByPartition, number: int) -> WrittenOffsets:
    return {
        (topic, index): (each, number) for topic, partitions in offsets.items() for index, each in partitions.items()
    }
