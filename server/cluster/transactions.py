"""Transactions as values: the state of each transactional id, and the checks that Kafka makes of a producer's request.

    Empty → Ongoing → PrepareCommit → CompleteCommit → Ongoing …
                    → PrepareAbort  → CompleteAbort  → Ongoing …

These functions read no clock, store nothing and never wait: a check returns an error code, or None.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import TypeAlias

import msgspec
from msgspec.structs import replace

from regroup.coordinator.layered_mapping import with_newer
from regroup.protocol.errors import ErrorCode
from regroup.server.cluster.events import (
    ClusterEvent,
    PartitionsAddedToTransaction,
    ProducerInitialized,
    TransactionCompleted,
    TransactionPrepared,
)

MAX_PRODUCER_EPOCH = 32_767
"""The last producer epoch. Kafka gives it to no producer, so that a producer with the epoch before it can still be
fenced."""


class TransactionState(StrEnum):
    """The states of a transactional id, by Kafka's names."""

    EMPTY = "Empty"
    ONGOING = "Ongoing"
    PREPARE_COMMIT = "PrepareCommit"
    PREPARE_ABORT = "PrepareAbort"
    COMPLETE_COMMIT = "CompleteCommit"
    COMPLETE_ABORT = "CompleteAbort"


class Transaction(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The state of one transactional id: its producer, and its open or last transaction."""

    transactional_id: str
    producer_id: int
    epoch: int
    timeout_ms: int
    state: TransactionState = TransactionState.EMPTY
    partitions: dict[str, tuple[int, ...]] = {}  # msgspec gives each value its own copy
    started_at_ms: int = -1
    """When the open transaction began, in epoch milliseconds; -1 if none is open."""
    previous_producer: tuple[int, int] = (-1, -1)
    """Producer id and epoch before the present ones, so that a repeated request can be recognized (KIP-360)."""
    next_producer_id: int = -1

    @property
    def is_ongoing(self) -> bool:
        return self.state is TransactionState.ONGOING

    @property
    def is_prepared(self) -> bool:
        """Whether commit or abort has been decided for the transaction, while some of its markers may not be written
        yet."""
        return self.state in (TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT)

    @property
    def is_completed(self) -> bool:
        """Whether the transaction was committed or aborted and all its markers are written."""
        return self.state in (TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT)

    @property
    def is_committed(self) -> bool:
        return self.state in (TransactionState.PREPARE_COMMIT, TransactionState.COMPLETE_COMMIT)

    @property
    def deadline_ms(self) -> int:
        """When the coordinator aborts the open transaction because of its timeout, in epoch milliseconds."""
        return self.started_at_ms + self.timeout_ms

    @property
    def is_epoch_exhausted(self) -> bool:
        return self.epoch + 1 >= MAX_PRODUCER_EPOCH

    @property
    def open_partitions(self) -> dict[str, frozenset[int]]:
        """The partitions of the open transaction by topic; empty if no transaction is open."""
        return {topic: frozenset(indexes) for topic, indexes in self.partitions.items()} if self.is_ongoing else {}


TransactionsById: TypeAlias = Mapping[str, Transaction]
"""Transactions by transactional id."""


def evolve_transactions(transactions: TransactionsById, event: ClusterEvent) -> TransactionsById:
    """Return the transactions, by transactional id, as they are after this event. The event is not checked, because it
    has happened."""
    match event:
        case ProducerInitialized():
            changed = Transaction(
                transactional_id=event.transactional_id,
                producer_id=event.producer_id,
                epoch=event.epoch,
                timeout_ms=event.timeout_ms,
                previous_producer=event.previous_producer,
            )
        case PartitionsAddedToTransaction():
            changed = _with_partitions(transactions[event.transactional_id], event)
        case TransactionPrepared():
            changed = _prepared(transactions[event.transactional_id], event)
        case TransactionCompleted():
            changed = _completed(transactions[event.transactional_id])
        case _:
            raise TypeError(f"unexpected cluster event: {type(event).__name__}")
    return with_newer(transactions, {changed.transactional_id: changed})


def _with_partitions(transaction: Transaction, event: PartitionsAddedToTransaction) -> Transaction:
    partitions = dict(transaction.partitions)
    for topic, added in event.partitions.items():
        partitions[topic] = tuple(dict.fromkeys(partitions.get(topic, ()) + added))
    started_at_ms = transaction.started_at_ms if transaction.is_ongoing else event.at_ms
    return replace(transaction, state=TransactionState.ONGOING, partitions=partitions, started_at_ms=started_at_ms)


def _prepared(transaction: Transaction, event: TransactionPrepared) -> Transaction:
    previous = transaction.previous_producer
    if event.epoch != transaction.epoch:
        previous = (-1, -1) if event.fences_producer else (transaction.producer_id, transaction.epoch)
    return replace(
        transaction,
        state=TransactionState.PREPARE_COMMIT if event.committed else TransactionState.PREPARE_ABORT,
        epoch=event.epoch,
        previous_producer=previous,
        next_producer_id=event.next_producer_id,
    )


def _completed(transaction: Transaction) -> Transaction:
    state = TransactionState.COMPLETE_COMMIT if transaction.is_committed else TransactionState.COMPLETE_ABORT
    completed = replace(transaction, state=state, partitions={}, started_at_ms=-1, next_producer_id=-1)
    if transaction.next_producer_id < 0:
        return completed
    return replace(completed, producer_id=transaction.next_producer_id, epoch=0)


def check_init_producer(transaction: Transaction | None, producer_id: int, epoch: int) -> ErrorCode | None:
    """The error code of an InitProducerId request, or None. A producer that names no producer id (-1) always gets a new
    epoch, unless it must wait for its last transaction to complete."""
    if transaction is None:
        return None
    current = (transaction.producer_id, transaction.epoch)
    if producer_id >= 0 and (producer_id, epoch) not in (current, transaction.previous_producer):
        return ErrorCode.PRODUCER_FENCED
    return ErrorCode.CONCURRENT_TRANSACTIONS if transaction.is_prepared else None


def is_repeated_init(transaction: Transaction | None, producer_id: int, epoch: int) -> bool:
    """Whether this InitProducerId was handled before and its response was lost, so that it is answered in the same way
    (KIP-360)."""
    return transaction is not None and producer_id >= 0 and (producer_id, epoch) == transaction.previous_producer


def check_producer(transaction: Transaction | None, producer_id: int, epoch: int) -> ErrorCode | None:
    """The error code of a request whose producer is not the current one, or whose transaction is being completed;
    otherwise None."""
    if transaction is None or transaction.producer_id != producer_id:
        return ErrorCode.INVALID_PRODUCER_ID_MAPPING
    if transaction.epoch != epoch:
        return ErrorCode.PRODUCER_FENCED
    return ErrorCode.CONCURRENT_TRANSACTIONS if transaction.is_prepared else None


def check_unverified_write(open_epoch: int | None, epoch: int) -> ErrorCode:
    """The error code of a transactional write, NONE if it is accepted, for a transactional id that does not belong to
    the producer id.

    `open_epoch` is the epoch of the producer's open transaction in the partition, None if it has none there.

    As in Kafka, the first write of a transaction into a partition is verified with its coordinator, and no later one:
    those need only the producer's id and epoch.
    """
    if open_epoch is None or epoch > open_epoch:
        return ErrorCode.INVALID_PRODUCER_ID_MAPPING
    return ErrorCode.NONE if epoch == open_epoch else ErrorCode.INVALID_PRODUCER_EPOCH


def is_repeated_end(
    transaction: Transaction | None, producer_id: int, epoch: int, *, committed: bool, bumps_epoch: bool
) -> bool:
    """Whether an EndTxn is repeated because its response was lost: the transaction has ended in the same way. With
    `bumps_epoch` (KIP-890) a repeated request names the epoch before the present one."""
    outcome = TransactionState.COMPLETE_COMMIT if committed else TransactionState.COMPLETE_ABORT
    if transaction is None or transaction.state is not outcome:
        return False
    if bumps_epoch:
        return _has_previous_epoch(transaction, producer_id, epoch)
    return (producer_id, epoch) == (transaction.producer_id, transaction.epoch)


def _has_previous_epoch(transaction: Transaction, producer_id: int, epoch: int) -> bool:
    """Whether the producer id and epoch of a request are those that the producer had before its present epoch.

    Kafka compares only the epochs (`endTxnEpochBumped`). So a producer that was fenced while its transaction was open,
    and aborts it with EndTxn v5, is taken for one that repeats its request, and gets the epoch that fenced it.
    """
    previous = (transaction.producer_id, transaction.epoch - 1)
    return (producer_id, epoch) in (previous, transaction.previous_producer)


def check_end(
    transaction: Transaction | None, producer_id: int, epoch: int, *, committed: bool, bumps_epoch: bool
) -> ErrorCode | None:
    """The error code of an EndTxn request, None if it is valid. With `bumps_epoch` (KIP-890, since EndTxn v5) the
    producer gets a new epoch at the end of each transaction.

    Such a producer may also abort a transaction that has not begun, since it cannot know whether its first write
    arrived.
    """
    repeats = bumps_epoch and transaction is not None and _has_previous_epoch(transaction, producer_id, epoch)
    if repeats and transaction and transaction.is_completed:
        return ErrorCode.INVALID_TXN_STATE  # a request with the same outcome is a repeated one
    if repeats and transaction and transaction.is_prepared:
        error: ErrorCode | None = ErrorCode.CONCURRENT_TRANSACTIONS
    else:
        error = check_producer(transaction, producer_id, epoch)
    if error is ErrorCode.CONCURRENT_TRANSACTIONS and transaction and transaction.is_committed != committed:
        return ErrorCode.INVALID_TXN_STATE
    if error is not None or transaction is None or transaction.is_ongoing:
        return error
    return None if bumps_epoch and not committed else ErrorCode.INVALID_TXN_STATE


def fencing_abort(transaction: Transaction, reason: str) -> TransactionPrepared:
    """The event that aborts the transaction and fences its producer."""
    return TransactionPrepared(
        transactional_id=transaction.transactional_id,
        committed=False,
        epoch=min(transaction.epoch + 1, MAX_PRODUCER_EPOCH),
        fences_producer=True,
        reason=reason,
    )
