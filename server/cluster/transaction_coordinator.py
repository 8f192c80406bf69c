"""The transaction coordinator: transactional producers, and the end of their transactions everywhere at once (KIP-98).

What a transaction has touched is written down before anything is written there, and how it ends before anybody is
told. So after a restart, or after the store has failed, whoever was not told yet is told then.
"""

import asyncio
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import NamedTuple, Protocol

from regroup.protocol.errors import ErrorCode
from regroup.server.cluster.causes import TRANSACTION_ENDS, TRANSACTION_TIMEOUT
from regroup.server.cluster.events import (
    ClusterEvent,
    ProducerBegan,
    TransactionCompleted,
    TransactionGrew,
    TransactionPrepared,
)
from regroup.server.cluster.state import Cluster
from regroup.server.cluster.topics import OFFSETS_TOPIC
from regroup.server.cluster.transactions import (
    Transaction,
    fence,
    has_begun_already,
    has_ended_so,
    refuse_end,
    refuse_producer,
    refuse_to_begin,
)
from regroup.storage.errors import StoreError

RETRY_S = 0.05
"""How long to wait before a group that is being loaded is told again."""


class Producer(NamedTuple):
    """What a transactional producer names itself with in each request."""

    transactional_id: str
    producer_id: int
    epoch: int


class PendingOffsets(Protocol):
    """Offsets that groups hold back until a transaction ends."""

    def can_settle(self, partitions: Iterable[int]) -> bool:
        """Are the groups of these partitions of `__consumer_offsets` loaded?"""

    def settle(self, partitions: Iterable[int], producer_id: int, *, committed: bool) -> None:
        """The producer's transaction has ended."""


class TransactionCoordinator:
    """Every request has an answer at once, but what an answer rests on may not be on disk yet: wait with
    `Cluster.when_durable` before it leaves. StoreError if the store takes nothing any more.
    """

    def __init__(self, cluster: Cluster, offsets: PendingOffsets) -> None:
        self._cluster = cluster
        self._offsets = offsets
        self._timers: dict[str, asyncio.TimerHandle] = {}
        cluster.watchers.append(self._follow)

    def start(self) -> None:
        """Go on with what a restart, or a failure of the store, has interrupted."""
        self.stop()
        for transaction in list(self._cluster.topics.transactions.values()):
            if transaction.is_ongoing:
                self._wait_for_end(transaction)
            elif transaction.is_prepared:
                self._complete(transaction.transactional_id)

    def stop(self) -> None:
        """Let no time run out any more."""
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()

    def _of(self, transactional_id: str) -> Transaction | None:
        return self._cluster.topics.transactions.get(transactional_id)

    def begin(self, claim: Producer, timeout_ms: int, cause: bytes) -> Producer | ErrorCode:
        """A new epoch, so that whoever had the id before is fenced. What that one has left open is aborted first."""
        transactional_id, producer_id, epoch = claim
        transaction = self._of(transactional_id)
        refused = refuse_to_begin(transaction, producer_id, epoch)
        if refused is not None:
            return refused
        if transaction and transaction.is_ongoing:
            self._abort(transaction, "its producer began again", cause)
            return ErrorCode.CONCURRENT_TRANSACTIONS
        if transaction and has_begun_already(transaction, producer_id, epoch):
            return Producer(transactional_id, transaction.producer_id, transaction.epoch)
        if transaction is None or transaction.epochs_are_used_up:
            given = Producer(transactional_id, self._cluster.new_producer_id(cause), 0)
        else:
            given = Producer(transactional_id, transaction.producer_id, transaction.epoch + 1)
        began = ProducerBegan(
            transactional_id=transactional_id,
            producer_id=given.producer_id,
            epoch=given.epoch,
            timeout_ms=timeout_ms,
            replaces=(producer_id, epoch),
        )
        self._cluster.happen(began, cause)
        return given

    def add(self, producer: Producer, partitions: Mapping[str, Iterable[int]], cause: bytes) -> ErrorCode:
        """The producer is about to write to these partitions. The first ones begin a transaction."""
        transaction = self._of(producer.transactional_id)
        refused = refuse_producer(transaction, producer.producer_id, producer.epoch)
        if refused is not None or transaction is None:
            return refused or ErrorCode.INVALID_PRODUCER_ID_MAPPING
        added = {
            topic: new
            for topic, numbers in partitions.items()
            if (new := tuple(number for number in numbers if not transaction.holds(topic, number)))
        }
        if added:
            now_ms = self._cluster.now_ms()
            grew = TransactionGrew(transactional_id=producer.transactional_id, partitions=added, at_ms=now_ms)
            self._cluster.happen(grew, cause)
        return ErrorCode.NONE

    def refuse_write(self, producer: Producer, topic: str, partition: int) -> ErrorCode | None:
        """May this producer write there, because its transaction holds the partition (KIP-890)?"""
        transaction = self._of(producer.transactional_id)
        refused = refuse_producer(transaction, producer.producer_id, producer.epoch)
        if refused is not None or transaction is None:
            return refused
        return None if transaction.holds(topic, partition) else ErrorCode.INVALID_TXN_STATE

    def end(self, producer: Producer, *, committed: bool, bumps: bool, cause: bytes) -> Producer | ErrorCode:
        """Settle the transaction; whoever took part is told as soon as that is on disk.

        With `bumps` the producer goes on with another epoch, the one that is returned (KIP-890).
        """
        transactional_id, producer_id, epoch = producer
        transaction = self._of(transactional_id)
        is_again = has_ended_so(transaction, producer_id, epoch, committed=committed, bumps=bumps)
        if transaction and is_again:
            return Producer(transactional_id, transaction.producer_id, transaction.epoch)
        refused = refuse_end(transaction, producer_id, epoch, committed=committed, bumps=bumps)
        if refused is not None or transaction is None:
            return refused or ErrorCode.INVALID_PRODUCER_ID_MAPPING
        next_producer_id = -1
        if bumps and transaction.epochs_are_used_up:
            next_producer_id = self._cluster.new_producer_id(cause)
        prepared = TransactionPrepared(
            transactional_id=transactional_id,
            committed=committed,
            epoch=epoch + bumps,
            next_producer_id=next_producer_id,
        )
        self._prepare(prepared, cause)
        if next_producer_id >= 0:
            return Producer(transactional_id, next_producer_id, 0)
        return Producer(transactional_id, producer_id, prepared.epoch)

    def _abort(self, transaction: Transaction, reason: str, cause: bytes) -> None:
        self._prepare(fence(transaction, reason), cause)

    def _prepare(self, event: TransactionPrepared, cause: bytes) -> None:
        self._cluster.happen(event, cause)
        self._cluster.when_durable(lambda: self._complete(event.transactional_id), _nothing)

    def _complete(self, transactional_id: str) -> None:
        """Tell every partition and every group how the transaction has ended; later, if a group is being loaded."""
        self._timers.pop(transactional_id, None)
        transaction = self._of(transactional_id)
        if transaction is None or not transaction.is_prepared:
            return
        offsets = transaction.partitions.get(OFFSETS_TOPIC, ())
        if not self._offsets.can_settle(offsets):
            loop = asyncio.get_running_loop()
            self._timers[transactional_id] = loop.call_later(RETRY_S, self._complete, transactional_id)
            return
        with suppress(StoreError):  # then `start` tells them, once the store is back
            self._write_markers(transaction)
            self._offsets.settle(offsets, transaction.producer_id, committed=transaction.is_committed)
            self._cluster.happen(TransactionCompleted(transactional_id=transactional_id), TRANSACTION_ENDS)

    def _write_markers(self, transaction: Transaction) -> None:
        for name, partitions in transaction.partitions.items():
            topic = self._cluster.topics.by_name.get(name)
            if topic is not None and name != OFFSETS_TOPIC:
                for index in partitions:
                    self._cluster.append_marker(
                        topic, index, transaction.producer_id, transaction.epoch, committed=transaction.is_committed
                    )

    # A transaction that takes too long

    def _follow(self, event: ClusterEvent) -> None:
        if isinstance(event, TransactionGrew) and event.transactional_id not in self._timers:
            transaction = self._of(event.transactional_id)
            if transaction is not None:
                self._wait_for_end(transaction)
        elif isinstance(event, TransactionPrepared):
            timer = self._timers.pop(event.transactional_id, None)
            if timer is not None:
                timer.cancel()

    def _wait_for_end(self, transaction: Transaction) -> None:
        delay_s = max(0, transaction.deadline_ms - self._cluster.now_ms()) / 1000
        timer = asyncio.get_running_loop().call_later(delay_s, self._time_is_up, transaction.transactional_id)
        self._timers[transaction.transactional_id] = timer

    def _time_is_up(self, transactional_id: str) -> None:
        self._timers.pop(transactional_id, None)
        transaction = self._of(transactional_id)
        if transaction is None or not transaction.is_ongoing:
            return
        if self._cluster.now_ms() < transaction.deadline_ms:
            self._wait_for_end(transaction)
            return
        with suppress(StoreError):  # then `start` sees to it
            self._abort(transaction, f"it lasted longer than {transaction.timeout_ms} ms", TRANSACTION_TIMEOUT)


def _nothing() -> None:
    """The store has failed; once it is back, `start` goes on from what is on disk."""
