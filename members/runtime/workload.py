"""Records on their way through a group, and what became of each of them.

    ledger = Ledger(late_after_ms=10_000)
    ledger.processed(partition, offset, produced_ms, now_ms)
    ledger.committed(partition, offset)
    ledger.tally        Tally(processed=…, twice=…, late=…, skipped=…)

Twice: processed again, by whichever member, since a commit did not come through before the partition moved. Late:
processed for the first time, but long after it was produced. Skipped: somebody committed beyond it, and nobody has
processed it.
"""

from dataclasses import dataclass, field

from regroup.protocol.consumer.subscription import TopicPartition


@dataclass(frozen=True, slots=True)
class Workload:
    """What the simulated applications do.

    Producers write `records_per_s` with `keys` different keys (0: none), spread as `partitioner` says. A consumer
    takes `process_ms` for each record, and gets at most `max_poll_records` from one poll.
    """

    records_per_s: float = 0.0
    keys: int = 0
    value_bytes: int = 64
    process_ms: float = 0.0
    max_poll_records: int = 500
    late_after_ms: int = 10_000

    def __post_init__(self) -> None:
        if self.records_per_s < 0 or self.process_ms < 0 or self.keys < 0 or self.value_bytes < 0:
            raise ValueError("a workload counts nothing below zero")
        if self.max_poll_records < 1:
            raise ValueError("max_poll_records must be at least 1")


@dataclass(frozen=True, slots=True)
class Tally:
    """Counts of records. `twice` counts every processing after the first."""

    processed: int = 0
    twice: int = 0
    late: int = 0
    skipped: int = 0


@dataclass(slots=True)
class _Partition:
    """Offsets below `end` were processed, but for the runs in `gaps`; offsets below `start` were never our business."""

    start: int
    end: int
    committed: int = 0
    gaps: list[tuple[int, int]] = field(default_factory=list)

    def take(self, offset: int) -> bool:
        """Note an offset. Whether it is processed for the first time."""
        if offset >= self.end:
            if offset > self.end:
                self.gaps.append((self.end, offset))
            self.end = offset + 1
            return True
        if offset < self.start:
            self.gaps.insert(0, (offset, self.start))
            self.start = offset
        for index, (first, stop) in enumerate(self.gaps):
            if first <= offset < stop:
                self.gaps[index : index + 1] = [run for run in ((first, offset), (offset + 1, stop)) if run[0] < run[1]]
                return True
        return False

    def pass_over(self, first: int, stop: int) -> None:
        """There are no records here, so none of them is missing."""
        if first > self.end:
            self.gaps.append((self.end, first))
        before = [(start, min(end, first)) for start, end in self.gaps]
        behind = [(max(start, stop), end) for start, end in self.gaps]
        self.gaps = sorted(run for run in before + behind if run[0] < run[1])
        self.end = max(self.end, stop)

    @property
    def skipped(self) -> int:
        """Records that nobody will come back to, since a later offset was committed."""
        beyond = max(0, self.committed - self.end)
        return beyond + sum(max(0, min(stop, self.committed) - first) for first, stop in self.gaps)


class Ledger:
    """The books of one run, over all its members."""

    def __init__(self, late_after_ms: int = 10_000) -> None:
        self._late_after_ms = late_after_ms
        self._partitions: dict[TopicPartition, _Partition] = {}
        self._processed = 0
        self._twice = 0
        self._late = 0

    def begins(self, partition: TopicPartition, offset: int) -> None:
        """The first member that reads a partition begins here; what lies before is not part of the run."""
        self._partitions.setdefault(partition, _Partition(offset, offset))

    def processed(self, partition: TopicPartition, offset: int, produced_ms: int, now_ms: int) -> bool:
        """A record was processed. Whether that was its first time."""
        self.begins(partition, offset)
        first_time = self._partitions[partition].take(offset)
        self._processed += 1
        self._twice += not first_time
        self._late += first_time and now_ms - produced_ms > self._late_after_ms
        return first_time

    def holds_nothing(self, partition: TopicPartition, first: int, stop: int) -> None:
        """A reader found no records from `first` up to `stop`: markers of transactions, or what a broker has lost."""
        if partition in self._partitions:
            self._partitions[partition].pass_over(first, stop)

    def committed(self, partition: TopicPartition, offset: int) -> None:
        """The group will read on from here. An offset that goes back counts too: it is read again from there."""
        if partition in self._partitions:
            self._partitions[partition].committed = offset

    @property
    def tally(self) -> Tally:
        skipped = sum(partition.skipped for partition in self._partitions.values())
        return Tally(self._processed, self._twice, self._late, skipped)
