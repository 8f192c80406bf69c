"""Transactions as values: what is known of each transactional id, and what a request of its producer leads to.

    Empty → Ongoing → PrepareCommit → CompleteCommit → Ongoing …
                    → PrepareAbort  → CompleteAbort  → Ongoing …

Nothing here looks at a clock, writes, or waits: a request gets an error code, or an event.
"""

from collections.abc import Mapping
from enum import StrEnum

import msgspec
from msgspec.structs import replace

from regroup.protocol.errors import ErrorCode
from regroup.server.cluster.events import (
    ClusterEvent,
    ProducerBegan,
    TransactionCompleted,
    TransactionGrew,
    TransactionPrepared,
)

LAST_EPOCH = 32_767
"""No producer ever has it, so that whoever has the one before can still be fenced."""


class TransactionState(StrEnum):
    """Kafka's names."""

    EMPTY = "Empty"
    ONGOING = "Ongoing"
    PREPARE_COMMIT = "PrepareCommit"
    PREPARE_ABORT = "PrepareAbort"
    COMPLETE_COMMIT = "CompleteCommit"
    COMPLETE_ABORT = "CompleteAbort"


class Transaction(msgspec.Struct, frozen=True, kw_only=True):
    """One transactional id: its producer, and the transaction that is open or was the last."""

    transactional_id: str
    producer_id: int
    epoch: int
    timeout_ms: int
    state: TransactionState = TransactionState.EMPTY
    partitions: dict[str, tuple[int, ...]] = {}  # msgspec gives each value its own copy
    began_at_ms: int = -1
    replaces: tuple[int, int] = (-1, -1)
    """Id and epoch that the producer gave up when it asked for these, or before its transaction was settled."""
    next_producer_id: int = -1

    @property
    def is_ongoing(self) -> bool:
        return self.state is TransactionState.ONGOING

    @property
    def is_prepared(self) -> bool:
        """Settled, and not everybody has been told yet."""
        return self.state in (TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT)

    @property
    def is_committed(self) -> bool:
        return self.state in (TransactionState.PREPARE_COMMIT, TransactionState.COMPLETE_COMMIT)

    @property
    def deadline_ms(self) -> int:
        """When an open transaction is aborted."""
        return self.began_at_ms + self.timeout_ms

    @property
    def epochs_are_used_up(self) -> bool:
        return self.epoch + 1 >= LAST_EPOCH

    def holds(self, topic: str, partition: int) -> bool:
        return self.is_ongoing and partition in self.partitions.get(topic, ())


Transactions = Mapping[str, Transaction]
"""By transactional id."""


def evolve(transactions: Transactions, event: ClusterEvent) -> dict[str, Transaction]:
    """The transactions after this event. It cannot refuse: the event has happened."""
    match event:
        case ProducerBegan():
            changed = Transaction(
                transactional_id=event.transactional_id,
                producer_id=event.producer_id,
                epoch=event.epoch,
                timeout_ms=event.timeout_ms,
                replaces=event.replaces,
            )
        case TransactionGrew():
            changed = grown(transactions[event.transactional_id], event)
        case TransactionPrepared():
            changed = prepared(transactions[event.transactional_id], event)
        case TransactionCompleted():
            changed = completed(transactions[event.transactional_id])
        case _:
            raise TypeError(f"{type(event).__name__} is no event that this version can fold")
    return {**transactions, changed.transactional_id: changed}


def grown(transaction: Transaction, event: TransactionGrew) -> Transaction:
    partitions = dict(transaction.partitions)
    for topic, more in event.partitions.items():
        partitions[topic] = tuple(dict.fromkeys(partitions.get(topic, ()) + more))
    began_at_ms = transaction.began_at_ms if transaction.is_ongoing else event.at_ms
    return replace(transaction, state=TransactionState.ONGOING, partitions=partitions, began_at_ms=began_at_ms)


def prepared(transaction: Transaction, event: TransactionPrepared) -> Transaction:
    state = TransactionState.PREPARE_COMMIT if event.committed else TransactionState.PREPARE_ABORT
    replaces = transaction.replaces
    if event.epoch != transaction.epoch:
        replaces = (-1, -1) if event.fences else (transaction.producer_id, transaction.epoch)
    return replace(
        transaction, state=state, epoch=event.epoch, replaces=replaces, next_producer_id=event.next_producer_id
    )


def completed(transaction: Transaction) -> Transaction:
    state = TransactionState.COMPLETE_COMMIT if transaction.is_committed else TransactionState.COMPLETE_ABORT
    over = replace(transaction, state=state, partitions={}, began_at_ms=-1, next_producer_id=-1)
    if transaction.next_producer_id < 0:
        return over
    return replace(over, producer_id=transaction.next_producer_id, epoch=0)


def refuse_to_begin(transaction: Transaction | None, producer_id: int, epoch: int) -> ErrorCode | None:
    """May this producer ask for a new epoch? One that names none starts afresh and may, unless it must wait."""
    if transaction is None:
        return None
    claims = (producer_id, epoch)
    own = (transaction.producer_id, transaction.epoch)
    if producer_id >= 0 and claims not in (own, transaction.replaces):
        return ErrorCode.PRODUCER_FENCED
    return ErrorCode.CONCURRENT_TRANSACTIONS if transaction.is_prepared else None


def has_begun_already(transaction: Transaction | None, producer_id: int, epoch: int) -> bool:
    """The answer to the same request was lost: what it asked for has been done (KIP-360)."""
    return transaction is not None and producer_id >= 0 and (producer_id, epoch) == transaction.replaces


def refuse_producer(transaction: Transaction | None, producer_id: int, epoch: int) -> ErrorCode | None:
    """Is this the producer that the id belongs to now?"""
    if transaction is None or transaction.producer_id != producer_id:
        return ErrorCode.INVALID_PRODUCER_ID_MAPPING
    if transaction.epoch != epoch:
        return ErrorCode.PRODUCER_FENCED
    return ErrorCode.CONCURRENT_TRANSACTIONS if transaction.is_prepared else None


def has_ended_so(
    transaction: Transaction | None, producer_id: int, epoch: int, *, committed: bool, bumps: bool
) -> bool:
    """The answer to the same EndTxn was lost: nothing is left to do. One that `bumps` came in the epoch before."""
    ended_so = TransactionState.COMPLETE_COMMIT if committed else TransactionState.COMPLETE_ABORT
    if transaction is None or transaction.state is not ended_so:
        return False
    own = (transaction.producer_id, transaction.epoch)
    return (producer_id, epoch) == (transaction.replaces if bumps else own)


def refuse_end(
    transaction: Transaction | None, producer_id: int, epoch: int, *, committed: bool, bumps: bool
) -> ErrorCode | None:
    """May the producer end its transaction in this way? `bumps`: its epoch ends with the transaction (KIP-890).

    Then it may also abort what never began, since it cannot know whether its first write arrived.
    """
    if bumps and transaction and transaction.is_prepared and (producer_id, epoch) == transaction.replaces:
        refused: ErrorCode | None = ErrorCode.CONCURRENT_TRANSACTIONS
    else:
        refused = refuse_producer(transaction, producer_id, epoch)
    if refused is ErrorCode.CONCURRENT_TRANSACTIONS and transaction and transaction.is_committed != committed:
        return ErrorCode.INVALID_TXN_STATE
    if refused is not None or transaction is None or transaction.is_ongoing:
        return refused
    return None if bumps and not committed else ErrorCode.INVALID_TXN_STATE


def fence(transaction: Transaction, reason: str) -> TransactionPrepared:
    """Abort, and shut out whoever believes to be its producer."""
    epoch = min(transaction.epoch + 1, LAST_EPOCH)
    return TransactionPrepared(
        transactional_id=transaction.transactional_id, committed=False, epoch=epoch, fences=True, reason=reason
    )
