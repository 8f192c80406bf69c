"""One partition's records, in memory and up to a limit: batches as they came, at offsets of their own.

    0 … log_start_offset … last_stable_offset … high_watermark … log_end_offset
          oldest batch      readers of committed    readers of all   next record

The high watermark stops where offsets are not durably reserved yet, so nobody reads an offset that could be given
again after a restart.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Callable
from dataclasses import dataclass
from struct import Struct

from crc32c import crc32c

from regroup.protocol.record_batch import (
    CONTROL,
    HEADER_BYTES,
    TRANSACTIONAL,
    Record,
    read_header,
    read_records,
    write_batch,
)
from regroup.server.log.producer_state import AbortedSpan, Producers, WrittenBatch
from regroup.server.log.record_validation import Incoming, Refusal

_LARGEST_DELTA = 2**31 - 1
_LENGTH_ENDS_AT = 12
_BEFORE_CHECKED = Struct(">qiibI")
_CHECKED = Struct(">hiqqqhii")
_MARKER_KEY = Struct(">hh")
_MARKER_VALUE = Struct(">hi")
_COMMIT_KEY = _MARKER_KEY.pack(0, 1)
_FORMAT_AT = 16


@dataclass(frozen=True, slots=True)
class StoredBatch:
    """A batch, or an old message, at its place."""

    base_offset: int
    last_offset: int
    max_timestamp_ms: int
    leader_epoch: int
    data: bytes


@dataclass(frozen=True, slots=True)
class Appended:
    """Where the records went. `is_duplicate`: they had gone there before."""

    base_offset: int
    is_duplicate: bool = False


class PartitionLog:
    """Append at the end, read anywhere, lose the oldest. `retention_bytes` -1 keeps everything."""

    def __init__(self, *, leader_epoch: int, retention_bytes: int, log_end_offset: int = 0) -> None:
        self.leader_epoch = leader_epoch
        self.retention_bytes = retention_bytes
        self.log_start_offset = 0
        self.log_end_offset = log_end_offset
        self.reserved_before = log_end_offset
        self.producers = Producers()
        self._watchers: dict[Callable[[], None], None] = {}
        self._epoch_starts = [(leader_epoch, log_end_offset)]
        self._batches = _emptied(log_end_offset, leader_epoch - 1)
        self._size_bytes = sum(len(batch.data) for batch in self._batches)

    @property
    def high_watermark(self) -> int:
        """Records before this offset may be read."""
        return min(self.log_end_offset, self.reserved_before)

    @property
    def last_stable_offset(self) -> int:
        """Records before this offset belong to no open transaction."""
        first_open = self.producers.first_open_offset()
        return self.high_watermark if first_open is None else min(first_open, self.high_watermark)

    def reserve(self, before: int) -> None:
        """Offsets before this one are durably ours: what lies there may be read now."""
        if before > self.reserved_before:
            self.reserved_before = before
            self.wake()

    def append(self, batches: list[Incoming]) -> Appended | Refusal:
        """Write at the end. A producer's batch that came before is answered with its first place."""
        header = batches[0].header
        if header is not None and header.producer_id >= 0:
            known = self.producers.check(header)
            if isinstance(known, WrittenBatch):
                return Appended(known.base_offset, is_duplicate=True)
            if known is not None:
                return known
            self.producers.note(header, self.log_end_offset)
        base_offset = self.log_end_offset
        for batch in batches:
            self._store(
                batch.placed_at(self.log_end_offset, self.leader_epoch), batch.record_count, batch.max_timestamp_ms
            )
        self._keep_within_limit()
        self.wake()
        return Appended(base_offset)

    def append_marker(
        self, producer_id: int, epoch: int, *, committed: bool, at_ms: int, coordinator_epoch: int = 0
    ) -> int:
        """End the producer's transaction here; the marker's offset is returned."""
        offset = self.log_end_offset
        record = Record(key=_MARKER_KEY.pack(0, committed), value=_MARKER_VALUE.pack(0, coordinator_epoch))
        data = write_batch(
            [record],
            base_timestamp_ms=at_ms,
            base_offset=offset,
            leader_epoch=self.leader_epoch,
            producer_id=producer_id,
            producer_epoch=epoch,
            attributes=TRANSACTIONAL | CONTROL,
        )
        self.producers.end_transaction(producer_id, epoch, offset, committed=committed)
        self._store(data, 1, at_ms)
        self.wake()
        return offset

    def _store(self, data: bytes, record_count: int, max_timestamp_ms: int) -> None:
        base_offset = self.log_end_offset
        self.log_end_offset += record_count
        self._batches.append(
            StoredBatch(base_offset, self.log_end_offset - 1, max_timestamp_ms, self.leader_epoch, data)
        )
        self._size_bytes += len(data)

    def _keep_within_limit(self) -> None:
        """The newest batch always stays."""
        if self._size_bytes <= self.retention_bytes or self.retention_bytes < 0:
            return
        size, count = self._size_bytes, 0
        while size > self.retention_bytes and count < len(self._batches) - 1:
            size -= len(self._batches[count].data)
            count += 1
        if count:
            self.forget_before(self._batches[count].base_offset)

    def forget_before(self, offset: int) -> None:
        """The log begins at this offset now. A batch that straddles it stays; its first records are not read."""
        self.log_start_offset = max(self.log_start_offset, offset)
        count = bisect_left(self._batches, self.log_start_offset, key=_last_offset)
        self._size_bytes -= sum(len(batch.data) for batch in self._batches[:count])
        del self._batches[:count]
        self.producers.forget_before(self.log_start_offset)

    def begin_epoch(self, leader_epoch: int, reserved_before: int) -> None:
        """A new leader takes over: what was never durably reserved has not happened."""
        count = bisect_left(self._batches, reserved_before, key=_last_offset)
        self._size_bytes -= sum(len(batch.data) for batch in self._batches[count:])
        del self._batches[count:]
        end = self._batches[-1].last_offset + 1 if self._batches else min(self.log_end_offset, reserved_before)
        self.log_end_offset, self.reserved_before, self.leader_epoch = end, reserved_before, leader_epoch
        self.producers = self._known_from_batches()
        self._epoch_starts.append((leader_epoch, end))
        self.wake()

    def lead_anew(self, leader_epoch: int) -> None:
        """Another node leads now; nothing is lost."""
        self.leader_epoch = leader_epoch
        self._epoch_starts.append((leader_epoch, self.log_end_offset))
        self.wake()

    def _known_from_batches(self) -> Producers:
        """What the batches that are left tell of their producers."""
        producers = Producers()
        for batch in self._batches:
            if batch.data[_FORMAT_AT] != 2:
                continue
            header = read_header(batch.data)
            if header.is_control:
                committed = read_records(batch.data)[0].key == _COMMIT_KEY
                producers.end_transaction(
                    header.producer_id, header.producer_epoch, batch.base_offset, committed=committed
                )
            elif header.producer_id >= 0:
                producers.note(header, batch.base_offset)
        return producers

    def read(self, offset: int, *, before: int, max_bytes: int, at_least_one: bool) -> list[bytes]:
        """Whole batches from the one that holds `offset` on, up to `before` and `max_bytes`, or one larger batch."""
        chosen: list[bytes] = []
        position = bisect_left(self._batches, offset, key=_last_offset)
        while position < len(self._batches):
            batch = self._batches[position]
            max_bytes -= len(batch.data)
            if batch.last_offset >= before or (max_bytes < 0 and (chosen or not at_least_one)):
                break
            chosen.append(batch.data)
            position += 1
        return chosen

    def aborted_within(self, offset: int, before: int) -> list[AbortedSpan]:
        """What a reader of committed records must skip between these offsets."""
        return self.producers.aborted_between(offset, before)

    def first_at_or_after(self, timestamp_ms: int, before: int) -> StoredBatch | None:
        """The first batch that holds a record of this time or later."""
        return next(
            (batch for batch in self._batches if batch.max_timestamp_ms >= timestamp_ms and batch.last_offset < before),
            None,
        )

    def newest(self, before: int) -> StoredBatch | None:
        """The first of the batches with the largest time."""
        readable = [batch for batch in self._batches if batch.last_offset < before and batch.max_timestamp_ms >= 0]
        return max(readable, key=lambda batch: batch.max_timestamp_ms, default=None)

    def end_of_epoch(self, epoch: int) -> tuple[int, int]:
        """The largest epoch up to this one, and where its records end (KIP-101); (-1, -1) for one still to come."""
        count = bisect_right(self._epoch_starts, epoch, key=lambda start: start[0])
        if count == len(self._epoch_starts):
            return (epoch, self.high_watermark) if epoch == self.leader_epoch else (-1, -1)
        end = self._epoch_starts[count][1]
        return (self._epoch_starts[count - 1][0] if count else epoch), end

    def watch(self, callback: Callable[[], None]) -> None:
        """Call back whenever there may be more to read, until `unwatch`."""
        self._watchers[callback] = None

    def unwatch(self, callback: Callable[[], None]) -> None:
        self._watchers.pop(callback, None)

    def wake(self) -> None:
        for callback in list(self._watchers):
            callback()


def _last_offset(batch: StoredBatch) -> int:
    return batch.last_offset


def _emptied(end: int, leader_epoch: int) -> list[StoredBatch]:
    """Batches without records in place of those that a restart lost, as compaction leaves them: readers pass over."""
    return [
        _empty_batch(base, min(end, base + _LARGEST_DELTA) - 1, leader_epoch) for base in range(0, end, _LARGEST_DELTA)
    ]


def _empty_batch(base_offset: int, last_offset: int, leader_epoch: int) -> StoredBatch:
    # Behind the checksum: attributes, last delta, two times, producer id and epoch, sequence, number of records.
    checked = _CHECKED.pack(0, last_offset - base_offset, -1, -1, -1, -1, -1, 0)
    length = HEADER_BYTES - _LENGTH_ENDS_AT
    start = _BEFORE_CHECKED.pack(base_offset, length, leader_epoch, 2, crc32c(checked))
    return StoredBatch(base_offset, last_offset, -1, leader_epoch, start + checked)
