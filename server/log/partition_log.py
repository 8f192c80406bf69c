"""The log of one partition, in memory and limited in size: batches as they were produced, with their offsets.

    0 … log_start_offset … last_stable_offset … high_watermark … log_end_offset
          oldest batch      read_committed end   read_uncommitted end   next record

The high watermark is never beyond the offsets that are durably reserved, so no consumer reads an offset that could be
used again after a restart.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Callable
from struct import Struct

import msgspec
from crc32c import crc32c

from regroup.protocol.record_batch import (
    CONTROL,
    HEADER_BYTES,
    TRANSACTIONAL,
    BatchRecord,
    read_batch_header,
    read_records,
    write_batch,
)
from regroup.server.log.producer_state import ProducerStates
from regroup.server.log.record_validation import ValidatedBatch

_MAX_OFFSET_DELTA = 2**31 - 1
_LENGTH_END = 12
_BEFORE_CHECKSUMMED = Struct(">qiibI")
_CHECKSUMMED = Struct(">hiqqqhii")
_MARKER_KEY = Struct(">hh")
_MARKER_VALUE = Struct(">hi")
_COMMIT_KEY = _MARKER_KEY.pack(0, 1)
_MAGIC_OFFSET = 16
_BATCH_OVERHEAD_BYTES = 200
"""Estimated memory of a batch besides its bytes. It matters for legacy messages, which are stored one by one and may
have only 26 bytes."""


class StoredBatch(msgspec.Struct, frozen=True, gc=False):
    """A record batch (format 2), or a legacy message, with its offsets."""

    base_offset: int
    last_offset: int
    max_timestamp_ms: int
    leader_epoch: int
    data: bytes


def is_record_batch(data: bytes) -> bool:
    """Whether these bytes are a record batch (format 2); False for a legacy message."""
    return data[_MAGIC_OFFSET] == 2


class PartitionLog:
    """The log of one partition: batches in the order of their offsets. Beyond `retention_bytes` (-1 for no limit) the
    oldest are deleted."""

    def __init__(self, *, leader_epoch: int, retention_bytes: int, log_end_offset: int = 0) -> None:
        self.leader_epoch = leader_epoch
        self.retention_bytes = retention_bytes
        self.log_start_offset = 0
        self.log_end_offset = log_end_offset
        self.reserved_before = log_end_offset
        self.producers = ProducerStates()
        self._listeners: dict[Callable[[], None], None] = {}
        self._epoch_starts = [(leader_epoch, log_end_offset)]
        self._batches = _empty_batches(log_end_offset, leader_epoch - 1)
        self._size_bytes = sum(map(_memory_of, self._batches))

    @property
    def high_watermark(self) -> int:
        """The end offset (exclusive) for consumers with isolation level read_uncommitted."""
        return min(self.log_end_offset, self.reserved_before)

    @property
    def batch_count(self) -> int:
        return len(self._batches)

    @property
    def last_stable_offset(self) -> int:
        """The end offset (exclusive) for consumers with isolation level read_committed: no record below it belongs to
        an open transaction."""
        first_open = self.producers.first_open_transaction_offset()
        return self.high_watermark if first_open is None else min(first_open, self.high_watermark)

    def readable_end(self, *, read_committed: bool) -> int:
        """The end offset (exclusive) for consumers of this isolation level."""
        return self.last_stable_offset if read_committed else self.high_watermark

    def reserve(self, before: int) -> None:
        """Note that all offsets below `before` (exclusive) are durably reserved, so that consumers may read the records
        there."""
        if before > self.reserved_before:
            self.reserved_before = before
            self.notify_listeners()

    def append(self, batches: list[ValidatedBatch]) -> int:
        """Append batches, and return the offset of the first record. A batch that is a duplicate is not appended again;
        its first offset is returned.

        Raises RequestError if a producer's sequence number or epoch is invalid.
        """
        header = batches[0].header
        if header is not None and header.producer_id >= 0:
            duplicate = self.producers.check(header)
            if duplicate is not None:
                return duplicate.base_offset
            self.producers.record_batch(header, self.log_end_offset)
        base_offset = self.log_end_offset
        for batch in batches:
            data = batch.encode_at(self.log_end_offset, self.leader_epoch)
            self._store(data, batch.record_count, batch.max_timestamp_ms)
        self._apply_retention()
        self.notify_listeners()
        return base_offset

    def append_marker(self, producer_id: int, epoch: int, *, committed: bool, at_ms: int) -> int:
        """Append the marker that ends the producer's transaction, and return its offset."""
        offset = self.log_end_offset
        record = BatchRecord(key=_MARKER_KEY.pack(0, committed), value=_MARKER_VALUE.pack(0, 0))
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
        self._apply_retention()
        self.notify_listeners()
        return offset

    def _store(self, data: bytes, record_count: int, max_timestamp_ms: int) -> None:
        base_offset = self.log_end_offset
        self.log_end_offset += record_count
        batch = StoredBatch(base_offset, self.log_end_offset - 1, max_timestamp_ms, self.leader_epoch, data)
        self._batches.append(batch)
        self._size_bytes += _memory_of(batch)

    def _apply_retention(self) -> None:
        """Delete the oldest batches beyond `retention_bytes`, but never the newest batch."""
        if self._size_bytes <= self.retention_bytes or self.retention_bytes < 0:
            return
        size, count = self._size_bytes, 0
        while size > self.retention_bytes and count < len(self._batches) - 1:
            size -= _memory_of(self._batches[count])
            count += 1
        if count:
            self.delete_before(self._batches[count].base_offset)

    def delete_before(self, offset: int) -> None:
        """Let the log start at this offset, and delete the batches whose records all lie below it. A batch that
        contains the offset stays whole."""
        self.log_start_offset = max(self.log_start_offset, offset)
        count = bisect_left(self._batches, self.log_start_offset, key=_last_offset)
        self._size_bytes -= sum(map(_memory_of, self._batches[:count]))
        del self._batches[:count]
        self.producers.delete_before(self.log_start_offset)

    def start_leader_epoch(self, leader_epoch: int, reserved_before: int) -> None:
        """Begin a leader epoch after the store was reopened. Batches with an offset of `reserved_before` or above are
        dropped, because these offsets are not durably reserved."""
        count = bisect_left(self._batches, reserved_before, key=_last_offset)
        self._size_bytes -= sum(map(_memory_of, self._batches[count:]))
        del self._batches[count:]
        end = self._batches[-1].last_offset + 1 if self._batches else min(self.log_end_offset, reserved_before)
        self.log_end_offset, self.reserved_before, self.leader_epoch = end, reserved_before, leader_epoch
        self.producers = self._producers_of_batches()
        self._epoch_starts.append((leader_epoch, end))
        self.notify_listeners()

    def bump_leader_epoch(self, leader_epoch: int) -> None:
        """Begin a leader epoch because the leader has changed; all records stay."""
        self.leader_epoch = leader_epoch
        self._epoch_starts.append((leader_epoch, self.log_end_offset))
        self.notify_listeners()

    def _producers_of_batches(self) -> ProducerStates:
        """The producer states that follow from the batches in the log."""
        producers = ProducerStates()
        for batch in self._batches:
            if not is_record_batch(batch.data):
                continue
            header = read_batch_header(batch.data)
            if header.is_control:
                committed = read_records(batch.data)[0].key == _COMMIT_KEY
                producers.end_transaction(
                    header.producer_id, header.producer_epoch, batch.base_offset, committed=committed
                )
            elif header.producer_id >= 0:
                producers.record_batch(header, batch.base_offset)
        return producers

    def read(self, offset: int, *, before: int, max_bytes: int, at_least_one: bool) -> list[bytes]:
        """The batches from the one that contains `offset` on, whole, that end below offset `before` and have at most
        `max_bytes` in all.

        With `at_least_one` the first batch is returned even if it is larger.
        """
        found: list[bytes] = []
        if offset >= before:  # as for most waiting fetches: nothing to search for
            return found
        for position in range(bisect_left(self._batches, offset, key=_last_offset), len(self._batches)):
            batch = self._batches[position]
            max_bytes -= len(batch.data)
            if batch.last_offset >= before or (max_bytes < 0 and (found or not at_least_one)):
                break
            found.append(batch.data)
        return found

    def end_of_read(self, offset: int, batch_count: int) -> int:
        """The offset behind the last of `batch_count` batches from `offset` on: the next one to read after `read` has
        returned so many batches."""
        if not batch_count:
            return offset
        return self._batches[bisect_left(self._batches, offset, key=_last_offset) + batch_count - 1].last_offset + 1

    def first_batch_at_or_after(self, timestamp_ms: int, before: int) -> StoredBatch | None:
        """The first batch with a record at `timestamp_ms` or later, among the batches that end below offset
        `before`."""
        return next(
            (batch for batch in self._batches if batch.max_timestamp_ms >= timestamp_ms and batch.last_offset < before),
            None,
        )

    def batch_with_max_timestamp(self, before: int) -> StoredBatch | None:
        """The batch with the largest timestamp among those that end below offset `before`; of several, the first."""
        readable = [batch for batch in self._batches if batch.last_offset < before and batch.max_timestamp_ms >= 0]
        return max(readable, key=lambda batch: batch.max_timestamp_ms, default=None)

    def leader_epoch_end(self, epoch: int) -> tuple[int, int]:
        """The largest leader epoch that is not above `epoch`, and its end offset (KIP-101). (-1, -1) if `epoch` is
        later than the current one."""
        count = bisect_right(self._epoch_starts, epoch, key=lambda start: start[0])
        if count == len(self._epoch_starts):
            return (epoch, self.high_watermark) if epoch == self.leader_epoch else (-1, -1)
        end = self._epoch_starts[count][1]
        return (self._epoch_starts[count - 1][0] if count else epoch), end

    def add_listener(self, callback: Callable[[], None]) -> None:
        """Call `callback` whenever more records may be readable or the log's leadership changes, until
        `remove_listener`."""
        self._listeners[callback] = None

    def remove_listener(self, callback: Callable[[], None]) -> None:
        self._listeners.pop(callback, None)

    def notify_listeners(self) -> None:
        for callback in list(self._listeners):
            callback()


def _memory_of(batch: StoredBatch) -> int:
    return len(batch.data) + _BATCH_OVERHEAD_BYTES


def _last_offset(batch: StoredBatch) -> int:
    return batch.last_offset


def _empty_batches(end: int, leader_epoch: int) -> list[StoredBatch]:
    """Batches without records for the offsets below `end` that a restart has lost, as log compaction leaves them."""
    return [
        _empty_batch(base, min(end, base + _MAX_OFFSET_DELTA) - 1, leader_epoch)
        for base in range(0, end, _MAX_OFFSET_DELTA)
    ]


def _empty_batch(base_offset: int, last_offset: int, leader_epoch: int) -> StoredBatch:
    # After the checksum: attributes, last delta, two timestamps, producer id and epoch, sequence, number of records.
    checksummed = _CHECKSUMMED.pack(0, last_offset - base_offset, -1, -1, -1, -1, -1, 0)
    length = HEADER_BYTES - _LENGTH_END
    start = _BEFORE_CHECKSUMMED.pack(base_offset, length, leader_epoch, 2, crc32c(checksummed))
    return StoredBatch(base_offset, last_offset, -1, leader_epoch, start + checksummed)
