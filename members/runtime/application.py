"""What a simulated application does with its records, and how a member looks from outside."""

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from regroup.members.consumer.state import Phase
from regroup.members.runtime.fetcher import Fetched
from regroup.members.runtime.workload import Ledger, Workload
from regroup.protocol.consumer.subscription import TopicPartition


@dataclass(frozen=True, slots=True)
class MemberView:
    """One row of a live table. `condition` is empty for a member that is well."""

    name: str
    member_id: str
    generation: int
    phase: Phase
    is_leader: bool
    partitions: tuple[TopicPartition, ...]
    condition: str
    last_error: str
    processed: int
    twice: int


class Application:
    """Keeps what the reader brings until poll() returns it, and the books of what was processed.

    `stands` is told where it stands in its partitions, `wakes` that there is something to do.
    """

    def __init__(
        self,
        workload: Workload,
        ledger: Ledger,
        *,
        stands: Callable[[dict[TopicPartition, int]], None],
        wakes: Callable[[], None],
    ) -> None:
        self._workload = workload
        self._ledger = ledger
        self._stands = stands
        self._wakes = wakes
        self._buffer: deque[Fetched] = deque()
        self.processed = 0
        self.twice = 0

    @property
    def is_hungry(self) -> bool:
        """One more poll's worth of records is kept ready."""
        return len(self._buffer) < 2 * self._workload.max_poll_records

    def begins(self, partition: TopicPartition, offset: int) -> None:
        """Reading of a partition begins here."""
        self._ledger.begins(partition, offset)
        self._stands({partition: offset})

    def finds_nothing(self, partition: TopicPartition, first: int, stop: int) -> None:
        """The log holds no records here."""
        self._ledger.holds_nothing(partition, first, stop)

    def fetched(self, records: Sequence[Fetched]) -> None:
        """Records came."""
        self._buffer.extend(records)
        self._wakes()

    def drop(self, partitions: Sequence[TopicPartition]) -> None:
        """Records of these partitions are somebody else's now."""
        gone = frozenset(partitions)
        self._buffer = deque(each for each in self._buffer if each.partition not in gone)

    def clear(self) -> None:
        self._buffer.clear()

    def take(self) -> list[Fetched]:
        """What one poll returns."""
        count = min(len(self._buffer), self._workload.max_poll_records)
        return [self._buffer.popleft() for _ in range(count)]

    def worked(self, records: Sequence[Fetched], now_ms: int) -> None:
        """These are done. `now_ms` is of the same clock as the time that records bear."""
        for partition, offset, produced_ms in records:
            self.processed += 1
            self.twice += not self._ledger.processed(partition, offset, produced_ms, now_ms)
        self._stands({partition: offset + 1 for partition, offset, _ in records})
