"""The producers of a partition: their last sequence numbers (KIP-98), and their open and aborted transactions."""

from bisect import bisect_left
from dataclasses import dataclass, field
from itertools import islice
from typing import NamedTuple

from regroup.protocol.errors import ErrorCode
from regroup.protocol.record_batch import BatchHeader
from regroup.server.errors import RequestError

_MAX_BATCHES = 5
"""How many of its last batches are kept for each producer: as many as it may have in flight in Kafka, since it may send
any of them again."""
_MAX_PRODUCERS = 10_000
"""How many producers are kept, the last active ones. Kafka instead removes them after `producer.id.expiration.ms`."""


class WrittenBatch(NamedTuple):
    """A batch that was appended: its sequence numbers and its first offset."""

    first_sequence: int
    last_sequence: int
    base_offset: int


class AbortedSpan(NamedTuple):
    """An aborted transaction: the offsets of its first record and of its abort marker."""

    producer_id: int
    first_offset: int
    last_offset: int


@dataclass(slots=True)
class _Producer:
    epoch: int
    batches: list[WrittenBatch] = field(default_factory=list)


class ProducerStates:
    """The producers of one partition and their open and aborted transactions."""

    def __init__(self) -> None:
        self._producers: dict[int, _Producer] = {}
        self._open: dict[int, int] = {}
        """The first offset of each producer's open transaction, by producer id."""
        self._aborted: list[AbortedSpan] = []

    def check(self, batch: BatchHeader) -> WrittenBatch | None:
        """Check the epoch and the sequence number of a batch that is to be appended. Returns None for a new batch, or
        the earlier append for a duplicate. Raises RequestError if the epoch or the sequence number is not the expected
        one."""
        producer = self._producers.get(batch.producer_id)
        if producer is None:
            return None  # unknown, perhaps because of a restart: Kafka then accepts any sequence
        if batch.producer_epoch < producer.epoch:
            text = f"Producer epoch {batch.producer_epoch} is older than the current epoch {producer.epoch}"
            raise RequestError(ErrorCode.INVALID_PRODUCER_EPOCH, text)
        first, expected = batch.base_sequence, 0
        if batch.producer_epoch == producer.epoch:
            last = _add(first, batch.last_offset_delta)
            for written in producer.batches:
                if (written.first_sequence, written.last_sequence) == (first, last):
                    return written
            if not producer.batches:
                return None
            expected = _add(producer.batches[-1].last_sequence, 1)
        if first != expected:
            text = f"Expected sequence {expected}, got {first}"
            raise RequestError(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, text)
        return None

    def record_batch(self, batch: BatchHeader, base_offset: int) -> None:
        """Store the sequence numbers of a batch that was appended at offset `base_offset`, as the last of its
        producer."""
        producer = self._touch(batch.producer_id, batch.producer_epoch)
        last = _add(batch.base_sequence, batch.last_offset_delta)
        producer.batches.append(WrittenBatch(batch.base_sequence, last, base_offset))
        del producer.batches[:-_MAX_BATCHES]
        if batch.is_transactional:
            self._open.setdefault(batch.producer_id, base_offset)

    def end_transaction(self, producer_id: int, epoch: int, marker_offset: int, *, committed: bool) -> None:
        """End the producer's open transaction in this partition, whose marker was appended at `marker_offset`. If the
        transaction was aborted, its offsets are added to the aborted transactions."""
        self._touch(producer_id, epoch)
        first_offset = self._open.pop(producer_id, None)
        if first_offset is not None and not committed:
            self._aborted.append(AbortedSpan(producer_id, first_offset, marker_offset))

    def _touch(self, producer_id: int, epoch: int) -> _Producer:
        """Return the state of a producer, and note that it was active last, since the one that was inactive longest is
        dropped if there are too many. For a new epoch the state has no batches."""
        producer = self._producers.pop(producer_id, None)
        if producer is None or producer.epoch != epoch:
            producer = _Producer(epoch)
        self._producers[producer_id] = producer
        if len(self._producers) > _MAX_PRODUCERS:
            del self._producers[next(iter(self._producers))]
        return producer

    def open_epoch(self, producer_id: int) -> int | None:
        """The epoch of the producer's open transaction in this partition; None if it has none."""
        producer = self._producers.get(producer_id)
        return producer.epoch if producer is not None and producer_id in self._open else None

    def first_open_transaction_offset(self) -> int | None:
        """The first offset of the oldest open transaction; None if there is none."""
        return min(self._open.values(), default=None)

    def aborted_transactions(self, start: int, stop: int) -> list[AbortedSpan]:
        """The aborted transactions that have records in start <= offset < stop."""
        first = bisect_left(self._aborted, start, key=_last_offset)  # in the order of their markers
        return [span for span in islice(self._aborted, first, None) if span.first_offset < stop]

    def delete_before(self, offset: int) -> None:
        """Drop the aborted transactions whose records all lie below `offset`, at which the log now starts."""
        self._aborted = [span for span in self._aborted if span.last_offset >= offset]


def _last_offset(span: AbortedSpan) -> int:
    return span.last_offset


def _add(sequence: int, count: int) -> int:
    """The sequence number that comes `count` numbers after `sequence`; after 2³¹-1 the numbers begin at 0 again."""
    return (sequence + count) & 0x7FFFFFFF
