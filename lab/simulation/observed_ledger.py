"""A ledger of processed records that reports what a member enters in it.

ledger = ObservedLedger(ledger, on_start, on_record, on_committed)
"""

from collections.abc import Callable

from regroup.members.runtime.workload import RecordCounts, RecordLedger
from regroup.protocol.consumer.subscription import TopicPartition


class ObservedLedger(RecordLedger):
    """A ledger of processed records.

    It calls `on_start` with each partition that its member starts to read, and `on_record` with partition and offset of
    each processed record, and whether it is processed for the first time. It calls `on_committed` with each offset that
    the member has committed.
    """

    def __init__(
        self,
        ledger: RecordLedger,
        on_start: Callable[[TopicPartition], None],
        on_record: Callable[[TopicPartition, int, bool], None],
        on_committed: Callable[[], None],
    ) -> None:
        super().__init__()
        self._ledger = ledger
        self._on_start, self._on_record, self._on_committed = on_start, on_record, on_committed

    def start_partition(self, partition: TopicPartition, offset: int) -> None:
        self._on_start(partition)
        self._ledger.start_partition(partition, offset)

    def record_processed(self, partition: TopicPartition, offset: int, produced_ms: int, now_ms: int) -> bool:
        is_first = self._ledger.record_processed(partition, offset, produced_ms, now_ms)
        self._on_record(partition, offset, is_first)
        return is_first

    def skip_offsets(self, partition: TopicPartition, first: int, stop: int) -> None:
        self._ledger.skip_offsets(partition, first, stop)

    def record_committed(self, partition: TopicPartition, offset: int) -> None:
        self._on_committed()
        self._ledger.record_committed(partition, offset)

    @property
    def counts(self) -> RecordCounts:
        return self._ledger.counts
