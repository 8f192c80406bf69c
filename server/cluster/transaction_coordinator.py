"""The transaction coordinator: checks the requests of transactional producers, and writes the markers that end their
transactions (KIP-98).

The partitions of a transaction are stored before anything is written to them, and its outcome before the first marker.
So after a restart, or after the store has failed, the missing markers are written.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import NamedTuple, Protocol

from regroup.coordinator.runtime.logger import get_logger
from regroup.coordinator.serialization import Cause
from regroup.protocol.errors import ErrorCode
from regroup.protocol.internal_topics import OFFSETS_TOPIC
from regroup.server.cluster.events import (
    TRANSACTION_END,
    TRANSACTION_TIMEOUT,
    ClusterEvent,
    PartitionsAddedToTransaction,
    ProducerInitialized,
    TransactionCompleted,
    TransactionPrepared,
)
from regroup.server.cluster.state import ClusterState
from regroup.server.cluster.transactions import (
    Transaction,
    check_end,
    check_init_producer,
    check_producer,
    fencing_abort,
    is_repeated_end,
    is_repeated_init,
)
from regroup.server.net.turns import LongWork, TurnQueue, Turns
from regroup.storage.errors import StoreError

_STEPS_PER_MARKER = 5
GROUP_LOAD_RETRY_DELAY_S = 0.05
"""The delay, in seconds, before markers are written again because a group of the transaction was being loaded."""

log = get_logger("transactions")


class ProducerIdentity(NamedTuple):
    """A producer as its requests name it: transactional id, producer id, producer epoch."""

    transactional_id: str
    producer_id: int
    epoch: int


class TransactionalOffsets(Protocol):
    """The operations on group coordinators that the transaction coordinator uses: groups keep the offsets of a
    transaction until it ends."""

    def are_loaded(self, partitions: Iterable[int]) -> bool:
        """Whether the groups of these partitions of `__consumer_offsets` are loaded."""

    def end_transaction(self, partitions: Iterable[int], producer_id: int, *, committed: bool) -> None:
        """Commit or drop the offsets of this producer in the groups of these partitions."""


class TransactionCoordinator:
    """Handles the requests of transactional producers, and aborts transactions that exceed their timeout.

    A result may rest on events that are not durable yet: wait with `ClusterState.when_durable` before it is sent.
    Requests raise StoreError if the journal has failed.
    """

    def __init__(self, state: ClusterState, offsets: TransactionalOffsets, turns: TurnQueue | None = None) -> None:
        self._state = state
        self._offsets = offsets
        self._turns = turns or TurnQueue()
        self._completing: dict[str, LongWork] = {}
        """The work of writing markers, by the transactional id of the transaction that it ends."""
        self._timers: dict[str, asyncio.TimerHandle] = {}
        state.event_listeners.append(self._on_events)

    def start(self) -> None:
        """Continue with the transactions that the store contains, after a restart or a failure of the store: begin
        their timeouts again, and write the markers that are missing."""
        self.stop()
        for transaction in list(self._state.image.transactions.values()):
            if transaction.is_ongoing:
                self._start_timeout(transaction)
            elif transaction.is_prepared:
                self._complete_when_durable(transaction.transactional_id)

    def stop(self) -> None:
        """Cancel the timeouts of all transactions, and write no more markers."""
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()
        for work in self._completing.values():
            work.cancel()
        self._completing.clear()

    def _find(self, transactional_id: str) -> Transaction | None:
        return self._state.image.transactions.get(transactional_id)

    # Requests

    def init_producer(self, claim: ProducerIdentity, timeout_ms: int, cause: Cause) -> ProducerIdentity | ErrorCode:
        """Give the producer a new epoch, which fences earlier processes with its transactional id; returns its new
        identity, or an error code. If a transaction is open, it is aborted and the code is CONCURRENT_TRANSACTIONS: the
        producer must ask again."""
        transactional_id, producer_id, epoch = claim
        transaction = self._find(transactional_id)
        if error := check_init_producer(transaction, producer_id, epoch):
            return error
        if transaction and transaction.is_ongoing:
            self._prepare(fencing_abort(transaction, "its producer was initialized again"), cause)
            return ErrorCode.CONCURRENT_TRANSACTIONS
        if transaction and is_repeated_init(transaction, producer_id, epoch):
            return ProducerIdentity(transactional_id, transaction.producer_id, transaction.epoch)
        if transaction is None or transaction.is_epoch_exhausted:
            producer = ProducerIdentity(transactional_id, self._state.new_producer_id(cause), 0)
        else:
            producer = ProducerIdentity(transactional_id, transaction.producer_id, transaction.epoch + 1)
        event = ProducerInitialized(
            transactional_id=transactional_id,
            producer_id=producer.producer_id,
            epoch=producer.epoch,
            timeout_ms=timeout_ms,
            previous_producer=(producer_id, epoch),
        )
        self._state.record_event(event, cause)
        return producer

    def add_partitions(
        self, producer: ProducerIdentity, partitions: Mapping[str, Iterable[int]], cause: Cause
    ) -> ErrorCode:
        """Add partitions to the producer's transaction, which begins with the first ones. Returns an error code, NONE
        if they were added."""
        transaction = self._find(producer.transactional_id)
        error = check_producer(transaction, producer.producer_id, producer.epoch)
        if error is not None or transaction is None:
            return error or ErrorCode.INVALID_PRODUCER_ID_MAPPING
        present = transaction.open_partitions
        added = {
            topic: new
            for topic, indexes in partitions.items()
            if (new := tuple(index for index in dict.fromkeys(indexes) if index not in present.get(topic, ())))
        }
        if added:
            event = PartitionsAddedToTransaction(
                transactional_id=producer.transactional_id, partitions=added, at_ms=self._state.now_ms()
            )
            self._state.record_event(event, cause)
        return ErrorCode.NONE

    def partition_count(self, transactional_id: str) -> int:
        """The number of partitions in the open or last transaction of this transactional id. Every change of a
        transaction copies them."""
        transaction = self._find(transactional_id)
        return sum(map(len, transaction.partitions.values())) if transaction else 0

    def check_write(self, producer: ProducerIdentity, topic: str, partition: int) -> ErrorCode | None:
        """The error code of a producer's write to this partition if the partition is not part of its open transaction;
        None if the write is valid (KIP-890)."""
        return self.write_checker(producer)(topic, partition)

    def write_checker(self, producer: ProducerIdentity) -> Callable[[str, int], ErrorCode | None]:
        """Return a function that does for a topic and a partition what `check_write` does for this producer, faster for
        many partitions. The function is valid until the transaction changes."""
        transaction = self._find(producer.transactional_id)
        error = check_producer(transaction, producer.producer_id, producer.epoch)
        present = transaction.open_partitions if transaction is not None and error is None else {}

        def check(topic: str, partition: int) -> ErrorCode | None:
            return error or (None if partition in present.get(topic, ()) else ErrorCode.INVALID_TXN_STATE)

        return check

    def epoch_of_open_transaction(self, producer_id: int, topic: str, partition: int) -> int | None:
        """The epoch of the producer's open transaction if that contains the partition; otherwise None."""
        transactions = self._state.image.transactions.values()
        return next(
            (
                each.epoch
                for each in transactions
                if each.producer_id == producer_id and each.is_ongoing and partition in each.partitions.get(topic, ())
            ),
            None,
        )

    def end_transaction(
        self, producer: ProducerIdentity, *, committed: bool, bumps_epoch: bool, cause: Cause
    ) -> ProducerIdentity | ErrorCode:
        """Record that the producer's transaction ends with commit or abort. Its markers are written once that event is
        durable.

        Returns the producer's identity, which has a new epoch if `bumps_epoch` is True (KIP-890), or an error code.
        """
        transactional_id, producer_id, epoch = producer
        transaction = self._find(transactional_id)
        if transaction and is_repeated_end(
            transaction, producer_id, epoch, committed=committed, bumps_epoch=bumps_epoch
        ):
            return ProducerIdentity(transactional_id, transaction.producer_id, transaction.epoch)
        error = check_end(transaction, producer_id, epoch, committed=committed, bumps_epoch=bumps_epoch)
        if error is not None or transaction is None:
            return error or ErrorCode.INVALID_PRODUCER_ID_MAPPING
        next_producer_id = -1
        if bumps_epoch and transaction.is_epoch_exhausted:
            next_producer_id = self._state.new_producer_id(cause)
        event = TransactionPrepared(
            transactional_id=transactional_id,
            committed=committed,
            epoch=epoch + bumps_epoch,
            next_producer_id=next_producer_id,
        )
        self._prepare(event, cause)
        if next_producer_id >= 0:
            return ProducerIdentity(transactional_id, next_producer_id, 0)
        return ProducerIdentity(transactional_id, producer_id, event.epoch)

    # Markers

    def _prepare(self, event: TransactionPrepared, cause: Cause) -> None:
        self._state.record_event(event, cause)
        self._complete_when_durable(event.transactional_id)

    def _complete_when_durable(self, transactional_id: str) -> None:
        """Write the markers of a transaction once its outcome is stored.

        A request may have ended it between the load of the store and `start`. If the store fails instead, `start`
        continues from what it has stored.
        """
        self._state.when_durable(lambda: self._complete(transactional_id), lambda: None)

    def _complete(self, transactional_id: str) -> None:
        """Write the markers of a transaction whose outcome is final, and end it in the groups of which it has offsets.
        If one of these groups is being loaded, do all this again later."""
        transaction = self._find(transactional_id)
        if transaction is None or not transaction.is_prepared:
            return
        if not self._has_loaded_groups(transaction):
            self._set_timer(transactional_id, GROUP_LOAD_RETRY_DELAY_S, self._complete)
            return
        work = self._completing.get(transactional_id)
        if work is None or work.is_done:
            self._completing[transactional_id] = self._turns.run(self._complete_in_turns(transaction), self._on_error)
            self._completing = {each: work for each, work in self._completing.items() if not work.is_done}

    def _complete_in_turns(self, transaction: Transaction) -> Turns:
        """Do the work of `_complete` in turns, because a transaction may have thousands of partitions. It stays
        prepared until the last marker is written."""
        with suppress(StoreError):  # `start` writes them once the store is reopened
            yield from self._write_markers(transaction)
            self._end(transaction.transactional_id)

    def _end(self, transactional_id: str) -> None:
        """End a transaction whose markers are written, in the groups of which it has offsets and in the history. If one
        of these groups is being loaded, do this again later, because it would not take the end."""
        transaction = self._find(transactional_id)
        if transaction is None or not transaction.is_prepared:
            return
        if not self._has_loaded_groups(transaction):
            self._set_timer(transactional_id, GROUP_LOAD_RETRY_DELAY_S, self._end)
            return
        offsets = transaction.partitions.get(OFFSETS_TOPIC, ())
        self._offsets.end_transaction(offsets, transaction.producer_id, committed=transaction.is_committed)
        with suppress(StoreError):  # `start` ends it once the store is reopened
            self._state.record_event(TransactionCompleted(transactional_id=transactional_id), TRANSACTION_END)

    def _has_loaded_groups(self, transaction: Transaction) -> bool:
        return self._offsets.are_loaded(transaction.partitions.get(OFFSETS_TOPIC, ()))

    def _on_error(self, error: Exception) -> None:
        log.error("transaction could not be completed", exc_info=error)

    def _write_markers(self, transaction: Transaction) -> Turns:
        producer_id, epoch, committed = transaction.producer_id, transaction.epoch, transaction.is_committed
        for name, partitions in transaction.partitions.items():
            topic = self._state.topics.get(name)
            if topic is not None and name != OFFSETS_TOPIC:
                for index in partitions:
                    if name in self._state.topics:  # it may be deleted during a pause
                        self._state.append_marker(topic, index, producer_id, epoch, committed=committed)
                    yield _STEPS_PER_MARKER + self._state.steps_of_event

    # Timeouts

    def _on_events(self, events: Sequence[ClusterEvent]) -> None:
        for event in events:
            self._on_event(event)

    def _on_event(self, event: ClusterEvent) -> None:
        if isinstance(event, PartitionsAddedToTransaction) and event.transactional_id not in self._timers:
            self._start_timeout(self._state.image.transactions[event.transactional_id])
        elif isinstance(event, (TransactionPrepared, TransactionCompleted)):
            self._cancel_timer(event.transactional_id)

    def _start_timeout(self, transaction: Transaction) -> None:
        delay_s = max(0, transaction.deadline_ms - self._state.now_ms()) / 1000
        self._set_timer(transaction.transactional_id, delay_s, self._check_timeout)

    def _check_timeout(self, transactional_id: str) -> None:
        transaction = self._find(transactional_id)
        if transaction is None or not transaction.is_ongoing:
            return
        if self._state.now_ms() < transaction.deadline_ms:
            self._start_timeout(transaction)
            return
        with suppress(StoreError):  # `start` aborts it once the store is reopened
            reason = f"it exceeded its timeout of {transaction.timeout_ms} ms"
            self._prepare(fencing_abort(transaction, reason), TRANSACTION_TIMEOUT)

    def _set_timer(self, transactional_id: str, delay_s: float, call: Callable[[str], None]) -> None:
        """Call a function with this transactional id after a delay, in place of the call that its timer waits for."""

        def run() -> None:
            del self._timers[transactional_id]
            try:
                call(transactional_id)
            except Exception as error:  # noqa: BLE001  # logged there
                self._on_error(error)

        self._cancel_timer(transactional_id)
        self._timers[transactional_id] = asyncio.get_running_loop().call_later(delay_s, run)

    def _cancel_timer(self, transactional_id: str) -> None:
        timer = self._timers.pop(transactional_id, None)
        if timer is not None:
            timer.cancel()
