"""What simulated applications and producers do, and the ledger of the records that a group has processed.

    ledger = RecordLedger(late_after_ms=10_000)
    ledger.record_processed(partition, offset, produced_ms, now_ms)
    ledger.record_committed(partition, offset)
    ledger.counts        RecordCounts(processed=…, duplicates=…, late=…, skipped=…)

Duplicate: processed again, by any member, because no commit came through before the partition moved. Late: processed
for the first time, but long after it was produced. Skipped: below a committed offset, and never processed.
"""

import math
from dataclasses import dataclass, field
from typing import Final

from regroup.members.partitioners import PartitionerSettings
from regroup.protocol.consumer.subscription import TopicPartition

__all__ = ["Workload", "RecordCounts", "RecordLedger"]

DEFAULT_PARTITIONER: Final = PartitionerSettings()
MAX_RECORDS_PER_S: Final = 100_000
MAX_INTEGER: Final = 2**31 - 1
"""The largest number and the largest size in Kafka's protocol."""


@dataclass(frozen=True, slots=True)
class Workload:
    """What producers write and how consumers process it. Raises ValueError for negative values, for `inf` and `nan`,
    for more than MAX_RECORDS_PER_S, and for integers above MAX_INTEGER.

    Producers write `records_per_s` into each topic, with `keys` different keys (0: none) of at least `key_bytes`, to
    the partitions that `partitioner` chooses. A consumer takes `process_ms` for each record, and gets at most
    `max_poll_records` from one poll. A record is late `late_after_ms` after it was produced.
    """

    records_per_s: float = 0.0
    """How many records are written into each topic in a second."""
    keys: int = 0
    """How many different keys the records have; 0 for records without a key."""
    key_bytes: int = 0
    """The least size of each key in bytes: shorter ones are filled up."""
    value_bytes: int = 64
    """The size of each record's value in bytes."""
    process_ms: float = 0.0
    """The time that a consumer takes to process one record."""
    max_poll_records: int = 500
    """Kafka's `max.poll.records`."""
    late_after_ms: int = 10_000
    """A record that is processed later than this after it was written counts as late."""
    partitioner: PartitionerSettings = DEFAULT_PARTITIONER
    """How producers choose the partition of a record; see the guide to members."""

    def __post_init__(self) -> None:
        for name in ("records_per_s", "process_ms", "keys", "key_bytes", "value_bytes"):
            value = getattr(self, name)
            if value < 0:
                raise ValueError(f"{name} must be at least 0, not {value}")
            if isinstance(value, float) and not math.isfinite(value):
                raise ValueError(f"{name} must be a finite number, not {value}")
        if self.records_per_s > MAX_RECORDS_PER_S:
            raise ValueError(f"records_per_s must be at most {MAX_RECORDS_PER_S}, not {self.records_per_s}")
        if self.max_poll_records < 1:
            raise ValueError(f"max_poll_records must be at least 1, not {self.max_poll_records}")
        for name in ("process_ms", "keys", "key_bytes", "value_bytes", "max_poll_records", "late_after_ms"):
            value = getattr(self, name)
            if isinstance(value, int) and value > MAX_INTEGER:
                raise ValueError(f"{name} must be at most {MAX_INTEGER}, not {value}")

    def key(self, number: int) -> bytes | None:
        """The key of the record with this number, counted from 0; None if the records have none."""
        return (b"key-%d" % (number % self.keys)).ljust(self.key_bytes, b".") if self.keys else None


@dataclass(frozen=True, slots=True)
class RecordCounts:
    """Counts of records. `duplicates` has every processing of a record after its first."""

    processed: int = 0
    duplicates: int = 0
    late: int = 0
    skipped: int = 0


@dataclass(slots=True)
class _Partition:
    """The processed offsets of one partition: those with start <= offset < end, except for the ranges in `gaps`.

    A gap is its first offset, and the offset after its last.
    """

    start: int
    end: int
    committed: int = 0
    gaps: list[tuple[int, int]] = field(default_factory=list)

    def add(self, offset: int) -> bool:
        """Add a processed offset. Returns whether it was processed for the first time."""
        if offset >= self.end:
            if offset > self.end:
                self.gaps.append((self.end, offset))
            self.end = offset + 1
            return True
        if offset < self.start:
            self.gaps.append((offset, self.start))
            self.start = offset
        for index, (first, stop) in enumerate(self.gaps):
            if first <= offset < stop:
                split = ((first, offset), (offset + 1, stop))
                self.gaps[index : index + 1] = [each for each in split if each[0] < each[1]]
                return True
        return False

    def skip(self, first: int, stop: int) -> None:
        """Note that the log has no records with first <= offset < stop, so that these offsets do not count as
        skipped."""
        if first > self.end:
            self.gaps.append((self.end, first))
        before = [(start, min(end, first)) for start, end in self.gaps]
        after = [(max(start, stop), end) for start, end in self.gaps]
        self.gaps = sorted(each for each in before + after if each[0] < each[1])
        self.end = max(self.end, stop)

    @property
    def skipped(self) -> int:
        """How many records below the committed offset were not processed."""
        beyond = max(0, self.committed - self.end)
        return beyond + sum(max(0, min(stop, self.committed) - first) for first, stop in self.gaps)


class RecordLedger:
    """The ledger of one group: which records its members have processed and committed."""

    def __init__(self, late_after_ms: int = 10_000) -> None:
        self._late_after_ms = late_after_ms
        self._partitions: dict[TopicPartition, _Partition] = {}
        self._processed = 0
        self._duplicates = 0
        self._late = 0

    def start_partition(self, partition: TopicPartition, offset: int) -> None:
        """Start to count at this offset, unless the partition was started by another member.

        Lower offsets do not count.
        """
        self._partitions.setdefault(partition, _Partition(offset, offset))

    def record_processed(self, partition: TopicPartition, offset: int, produced_ms: int, now_ms: int) -> bool:
        """Enter a processed record. Returns whether it was processed for the first time.

        `produced_ms` is when it was written and `now_ms` when it was processed, which decide whether it is late.
        """
        self.start_partition(partition, offset)
        is_first = self._partitions[partition].add(offset)
        self._processed += 1
        self._duplicates += not is_first
        self._late += is_first and now_ms - produced_ms > self._late_after_ms
        return is_first

    def skip_offsets(self, partition: TopicPartition, first: int, stop: int) -> None:
        """Enter offsets that have no records: transaction markers, or records that a broker has lost.

        They are those with first <= offset < stop.
        """
        if partition in self._partitions:
            self._partitions[partition].skip(first, stop)

    def record_committed(self, partition: TopicPartition, offset: int) -> None:
        """Enter a committed offset. It may be lower than the last one: the group then reads again from there."""
        if partition in self._partitions:
            self._partitions[partition].committed = offset

    @property
    def counts(self) -> RecordCounts:
        skipped = sum(partition.skipped for partition in self._partitions.values())
        return RecordCounts(self._processed, self._duplicates, self._late, skipped)
