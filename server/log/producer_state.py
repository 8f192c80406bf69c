"""What a partition remembers of its producers: sequences (KIP-98) and transactions."""

from dataclasses import dataclass, field
from typing import NamedTuple

from regroup.protocol.errors import ErrorCode
from regroup.protocol.record_batch import BatchHeader
from regroup.server.log.record_validation import Refusal

_BATCHES_REMEMBERED = 5
"""As many as a producer may have in flight: any of them may come twice."""
_PRODUCERS_REMEMBERED = 10_000
"""Whoever was silent longest is forgotten first; Kafka forgets by time (`producer.id.expiration.ms`)."""


class WrittenBatch(NamedTuple):
    """Sequence numbers of a batch, and where it went."""

    first_sequence: int
    last_sequence: int
    base_offset: int


class AbortedSpan(NamedTuple):
    """Records of this producer from the first offset to the last one, its abort marker, count for nothing."""

    producer_id: int
    first_offset: int
    last_offset: int


@dataclass(slots=True)
class _Producer:
    epoch: int
    batches: list[WrittenBatch] = field(default_factory=list)


class Producers:
    """The producers of one partition, and which transactions are open in it."""

    def __init__(self) -> None:
        self._known: dict[int, _Producer] = {}
        self._open: dict[int, int] = {}
        self._aborted: list[AbortedSpan] = []

    def check(self, batch: BatchHeader) -> Refusal | WrittenBatch | None:
        """None: write it. A batch that was written before is not written again; its first place is returned."""
        producer = self._known.get(batch.producer_id)
        if producer is None:
            return None  # nothing is known of it, perhaps after a restart: Kafka takes any sequence then
        if batch.producer_epoch < producer.epoch:
            text = f"Epoch {batch.producer_epoch} is over: the producer is in epoch {producer.epoch}"
            return Refusal(ErrorCode.INVALID_PRODUCER_EPOCH, text)
        if batch.producer_epoch > producer.epoch:
            return self._in_order(batch.base_sequence, 0)
        first, last = batch.base_sequence, _after(batch.base_sequence, batch.last_offset_delta)
        for written in producer.batches:
            if (written.first_sequence, written.last_sequence) == (first, last):
                return written
        if not producer.batches:
            return None
        return self._in_order(first, _after(producer.batches[-1].last_sequence, 1))

    @staticmethod
    def _in_order(sequence: int, expected: int) -> Refusal | None:
        if sequence == expected:
            return None
        text = f"Sequence {sequence} came where {expected} was expected"
        return Refusal(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, text)

    def note(self, batch: BatchHeader, base_offset: int) -> None:
        """Remember that this batch was written there."""
        producer = self._of_epoch(batch.producer_id, batch.producer_epoch)
        last = _after(batch.base_sequence, batch.last_offset_delta)
        producer.batches.append(WrittenBatch(batch.base_sequence, last, base_offset))
        del producer.batches[:-_BATCHES_REMEMBERED]
        if batch.is_transactional:
            self._open.setdefault(batch.producer_id, base_offset)

    def end_transaction(self, producer_id: int, epoch: int, marker_offset: int, *, committed: bool) -> None:
        """The marker at this offset ends what the producer had open."""
        self._of_epoch(producer_id, epoch)
        first_offset = self._open.pop(producer_id, None)
        if first_offset is not None and not committed:
            self._aborted.append(AbortedSpan(producer_id, first_offset, marker_offset))

    def _of_epoch(self, producer_id: int, epoch: int) -> _Producer:
        producer = self._known.pop(producer_id, None)
        if producer is None or producer.epoch != epoch:
            producer = _Producer(epoch)
        self._known[producer_id] = producer  # now the one that was heard last
        if len(self._known) > _PRODUCERS_REMEMBERED:
            del self._known[next(iter(self._known))]
        return producer

    def first_open_offset(self) -> int | None:
        """Where the oldest open transaction begins."""
        return min(self._open.values(), default=None)

    def aborted_between(self, start: int, stop: int) -> list[AbortedSpan]:
        """Aborted transactions with records at start <= offset < stop."""
        return [span for span in self._aborted if span.first_offset < stop and span.last_offset >= start]

    def forget_before(self, offset: int) -> None:
        """The log begins here now."""
        self._aborted = [span for span in self._aborted if span.last_offset >= offset]


def _after(sequence: int, count: int) -> int:
    """Sequences go on at 0 after 2³¹-1."""
    return (sequence + count) & 0x7FFFFFFF
