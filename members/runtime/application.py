"""A simulated application, which buffers and processes records, and the view of a member for a table."""

from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from regroup.members.consumer.state import MemberState
from regroup.members.runtime.workload import RecordLedger, Workload
from regroup.protocol.consumer.subscription import TopicPartition


@dataclass(frozen=True, slots=True)
class MemberView:
    """A member as a row of a table shows it.

    `condition` is empty while the member runs; it says how the member is paused or has ended.
    """

    name: str
    member_id: str
    generation_id: int
    state: MemberState
    is_leader: bool
    partitions: tuple[TopicPartition, ...]
    condition: str
    last_error: str
    processed_count: int
    duplicate_count: int


class FetchedRecord(NamedTuple):
    """The partition, offset and time of a fetched record. `produced_ms` is the base timestamp of its batch."""

    partition: TopicPartition
    offset: int
    produced_ms: int


class PollStay(NamedTuple):
    """A stay of an application outside poll(): when it left and when it came back, in milliseconds of the loop's clock.

    `back_ms` is None while it is outside.
    """

    left_ms: int
    back_ms: int | None = None


class SimulatedApplication:
    """Buffers fetched records until poll() returns them, and enters processed ones into the ledger.

    Without a workload it reads no records. `epoch_ms` is added to the loop's time to get the time with which records
    are stamped. `on_positions` is called with new positions, `on_fetched` when poll() has something to do:
    records have arrived, or a position is out of range.
    """

    def __init__(
        self,
        workload: Workload | None,
        ledger: RecordLedger,
        *,
        epoch_ms: int = 0,
        on_positions: Callable[[dict[TopicPartition, int]], None] = lambda positions: None,
        on_fetched: Callable[[], None] = lambda: None,
    ) -> None:
        self.reads_records = workload is not None
        self._workload = workload or Workload()
        self._ledger = ledger
        self._epoch_ms = epoch_ms
        self.on_positions = on_positions
        self.on_fetched = on_fetched
        self._buffer: deque[FetchedRecord] = deque()
        self._buffered: Counter[TopicPartition] = Counter()
        """How many records of each partition are in the buffer."""
        self._open_partition: TopicPartition | None = None
        """The partition of the last record of a poll that returned as many as it may."""
        self.processed_count = 0
        self.duplicate_count = 0

    def buffers(self, partition: TopicPartition) -> bool:
        """Whether records of this partition are buffered, and whether poll() would look for some: a poll that returns
        `max_poll_records` does not see that its last record was the last one that is buffered."""
        return self._buffered[partition] > 0 or partition == self._open_partition

    def start_partition(self, partition: TopicPartition, offset: int) -> None:
        """Start to read a partition at this offset."""
        self._ledger.start_partition(partition, offset)
        self.on_positions({partition: offset})

    def skip_offsets(self, partition: TopicPartition, first: int, stop: int) -> None:
        """Note that the log has no records with first <= offset < stop. Reading continues at `stop`."""
        self._ledger.skip_offsets(partition, first, stop)

    def add_records(self, records: Sequence[FetchedRecord]) -> None:
        """Buffer fetched records, which are in order within each partition."""
        self._buffer.extend(records)
        self._buffered.update(each.partition for each in records)

    def drop(self, partitions: Sequence[TopicPartition]) -> None:
        """Drop the buffered records of partitions that the member no longer owns."""
        dropped = frozenset(partitions)
        self._buffer = deque(each for each in self._buffer if each.partition not in dropped)
        for each in dropped:
            del self._buffered[each]
        if self._open_partition in dropped:
            self._open_partition = None

    def clear(self) -> None:
        """Drop all buffered records."""
        self._buffer.clear()
        self._buffered.clear()
        self._open_partition = None

    def take_poll_batch(self) -> list[FetchedRecord]:
        """Remove from the buffer the records that one poll returns, and return them."""
        count = min(len(self._buffer), self._workload.max_poll_records)
        batch = [self._buffer.popleft() for _ in range(count)]
        self._buffered.subtract(each.partition for each in batch)
        self._open_partition = batch[-1].partition if count == self._workload.max_poll_records else None
        return batch

    def processing_ms(self, records: Sequence[FetchedRecord]) -> float:
        """Milliseconds that it takes to process these records."""
        return self._workload.process_ms * len(records)

    def complete_batch(self, records: Sequence[FetchedRecord], now_ms: int) -> None:
        """Enter these records in the ledger as processed, at a time of the loop in milliseconds."""
        for partition, offset, produced_ms in records:
            self.processed_count += 1
            self.duplicate_count += not self._ledger.record_processed(
                partition, offset, produced_ms, now_ms + self._epoch_ms
            )
        self.on_positions({partition: offset + 1 for partition, offset, _ in records})

    def record_committed(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Enter these committed offsets in the ledger."""
        for partition, offset in offsets.items():
            self._ledger.record_committed(partition, offset)
