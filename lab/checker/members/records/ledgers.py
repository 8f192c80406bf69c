"""Which records a group has processed and committed, as the checker counts them.

ledger = GroupLedger()
of_anna = MemberLedger(ledger, on_record, on_start, on_skip)     # what anna writes in it
of_anna.record_processed(partition, 5, produced_ms, now_ms)
ledger.skipped_below(partition, 10)
"""

from collections.abc import Callable, Iterator

from regroup.coordinator.group import OffsetsByPartition
from regroup.lab.checker.members.records.processed_records import (
    OffsetRange,
    ProcessedRecords,
    first_difference,
    merged,
    without,
)
from regroup.members.runtime.workload import RecordLedger
from regroup.protocol.consumer.subscription import TopicPartition


class GroupLedger(RecordLedger):
    """The processed and committed records of one group.

    A commit counts when the coordinator accepts it, not when the member receives the response.
    """

    def __init__(self, late_after_ms: int = 10_000) -> None:
        super().__init__(late_after_ms)
        self._start_offsets: dict[TopicPartition, int] = {}
        """The highest offset at which a member has started to read a partition."""
        self._ignored_below: dict[TopicPartition, int] = {}
        self._former_ends: dict[TopicPartition, int] = {}
        """How far members have come in the partitions of deleted topics."""
        self._excused: dict[TopicPartition, list[OffsetRange]] = {}
        """What members have skipped because of a position in a deleted topic."""
        self._deleted_at_ms: dict[str, int] = {}
        self._own = ProcessedRecords()
        """The same without the code of the members, with which the ledger is compared."""

    def start_partition(self, partition: TopicPartition, offset: int) -> None:
        super().start_partition(partition, offset)
        self._own.start(partition, offset)
        if offset > self._start_offsets.get(partition, -1):
            self._start_offsets[partition] = offset

    def record_committed(self, partition: TopicPartition, offset: int) -> None:
        """Do nothing with an offset that a member reports as committed: its view may be outdated.

        `skipped_below` gets the offsets that are stored.
        """

    def record_processed(self, partition: TopicPartition, offset: int, produced_ms: int, now_ms: int) -> bool:
        # The base class starts the partition here; that would allow a commit of every processed offset.
        if partition not in self._partitions:
            self.start_partition(partition, offset)
        is_first = super().record_processed(partition, offset, produced_ms, now_ms)
        self._own.add(partition, offset, is_first=is_first)
        return is_first

    def skip_offsets(self, partition: TopicPartition, first: int, stop: int) -> None:
        super().skip_offsets(partition, first, stop)
        self._own.skip(partition, first, stop)

    def is_ahead(self, partition: TopicPartition, offset: int) -> bool:
        """Whether this offset is beyond all processed records and beyond every offset where reading started.

        Members may commit positions of a deleted topic in one that was created with its name, as Kafka's consumer does.
        """
        known = self._partitions.get(partition)
        return known is not None and offset > max(known.end, self._reached(partition))

    def _reached(self, partition: TopicPartition) -> int:
        """The highest offset at which reading has started, or at which a deleted topic of this name has ended."""
        return max(self._start_offsets.get(partition, 0), self._former_ends.get(partition, 0))

    def excuse_position_of_deleted_topic(self, partition: TopicPartition, offset: int) -> None:
        """Expect no records between what members have read of a topic and a committed offset beyond it, if that can be
        a position in a deleted topic of the same name: the next owner skips them, as with Kafka."""
        known = self._partitions.get(partition)
        reached = max(known.end, self._start_offsets.get(partition, 0)) if known is not None else 0
        if reached < offset <= self._former_ends.get(partition, 0):
            self._excused.setdefault(partition, []).append((reached, offset))

    def ignore_below(self, partition: TopicPartition, offset: int) -> None:
        """Do not expect records below this offset to be processed: an administrator or a command-line tool has set the
        offset."""
        self._ignored_below[partition] = max(offset, self._ignored_below.get(partition, 0))

    def deleted_at_ms(self, topic: str) -> int | None:
        """When a topic of this name was deleted last, in milliseconds of the run; None if none was."""
        return self._deleted_at_ms.get(topic)

    def remove_topic(self, topic: str, at_ms: int) -> None:
        """Drop all that is kept of a deleted topic: if one of the same name is created, its offsets begin at 0."""
        self._deleted_at_ms[topic] = at_ms
        for partition, known in self._partitions.items():
            if partition.topic == topic:
                self._former_ends[partition] = max(known.end, self._reached(partition))
        for table in (self._partitions, self._start_offsets, self._ignored_below, self._excused):
            for partition in [each for each in table if each.topic == topic]:
                del table[partition]
        self._own.remove_topic(topic)

    def on_record_of_deleted_topic(self, partition: TopicPartition, offset: int) -> None:
        """Note that a member has processed a record that it had fetched before the topic was deleted: such a record
        counts for no topic that was created with its name."""
        self._former_ends[partition] = max(offset + 1, self._former_ends.get(partition, 0))

    def number_skipped(self, committed_offsets: OffsetsByPartition) -> int:
        """How many records below these offsets were never processed."""
        return sum(
            stop - first
            for topic, partitions in committed_offsets.items()
            for number, committed in partitions.items()
            for first, stop in self.skipped_below(TopicPartition(topic, number), committed.offset)
        )

    def skipped_below(self, partition: TopicPartition, committed: int) -> Iterator[tuple[int, int]]:
        """Ranges of unprocessed records below the committed offset: first offset, and offset after the last."""
        known = self._partitions.get(partition)
        if known is None:
            return
        ignored_below = self._ignored_below.get(partition, 0)
        unread = [
            (max(first, ignored_below), min(stop, committed)) for first, stop in (*known.gaps, (known.end, committed))
        ]
        yield from without((each for each in unread if each[0] < each[1]), self._excused.get(partition, ()))

    def miscounted(self, committed_offsets: OffsetsByPartition) -> Iterator[str]:
        """What this ledger counts as something else than it was, with these committed offsets."""
        yield from self._own.miscounted
        for topic, partitions in committed_offsets.items():
            for number, committed in partitions.items():
                partition = TopicPartition(topic, number)
                skipped = merged(self.skipped_below(partition, committed.offset))
                missing = self._own.missing(partition, self._ignored_below.get(partition, 0), committed.offset)
                missing = without(missing, self._excused.get(partition, ()))
                if (different := first_difference(skipped, missing)) is not None:
                    is_skipped = any(first <= different < stop for first, stop in skipped)
                    yield f"the ledger counts {partition}@{different} {'' if is_skipped else 'not '}as skipped"


class MemberLedger(RecordLedger):
    """The ledger of a group as one member writes it, which also reports what this member does.

    `on_record` gets the partition and offset of every processed record, `on_start` those at which the member starts,
    `on_skip` a partition with the first of some offsets that have no records for it, and the offset after the last.
    `epoch_ms` is the time of the beginning of the run, as records are stamped with it: one that was stamped before its
    topic was deleted counts for the deleted topic, also if it arrives after that.
    """

    def __init__(
        self,
        ledger: GroupLedger,
        on_record: Callable[[TopicPartition, int], None],
        on_start: Callable[[TopicPartition, int], None],
        on_skip: Callable[[TopicPartition, int, int], None],
        *,
        epoch_ms: int = 0,
    ) -> None:
        super().__init__()
        self._ledger = ledger
        self._on_record, self._on_start, self._on_skip = on_record, on_start, on_skip
        self._epoch_ms = epoch_ms
        self._last_deletions: dict[TopicPartition, int | None] = {}
        """When the last topic of its name had been deleted, as the member started to read a partition."""

    def _reads_deleted_topic(self, partition: TopicPartition) -> bool:
        deleted_at_ms = self._ledger.deleted_at_ms(partition.topic)
        return self._last_deletions.get(partition, deleted_at_ms) != deleted_at_ms

    def _start(self, partition: TopicPartition, offset: int) -> None:
        self._last_deletions[partition] = self._ledger.deleted_at_ms(partition.topic)
        self._ledger.start_partition(partition, offset)

    def start_partition(self, partition: TopicPartition, offset: int) -> None:
        self._on_start(partition, offset)
        self._start(partition, offset)

    def record_processed(self, partition: TopicPartition, offset: int, produced_ms: int, now_ms: int) -> bool:
        self._on_record(partition, offset)
        if self._reads_deleted_topic(partition):
            deleted_at_ms = self._ledger.deleted_at_ms(partition.topic)
            if deleted_at_ms is not None and produced_ms - self._epoch_ms < deleted_at_ms:
                self._ledger.on_record_of_deleted_topic(partition, offset)
                return True
            self._start(partition, offset)  # the new log is longer than the old one was, so the member has read on
        return self._ledger.record_processed(partition, offset, produced_ms, now_ms)

    def skip_offsets(self, partition: TopicPartition, first: int, stop: int) -> None:
        self._on_skip(partition, first, stop)
        if not self._reads_deleted_topic(partition):
            self._ledger.skip_offsets(partition, first, stop)

    def record_committed(self, partition: TopicPartition, offset: int) -> None:
        self._ledger.record_committed(partition, offset)
