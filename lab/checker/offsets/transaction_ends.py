"""Why and when a transaction ends: as its own producer asks, for a newer producer, or at its timeout.

    ends = TransactionEnds()
    ends.on_request(message)                                     # a producer sends it
    ends.on_response(message, response)                          # what is wrong with the response
    ends.on_stored(record, event, now_ms)                        # what is wrong with a record that is durable
    ends.on_disturbance(now_ms)                                  # a coordinator has crashed, begun, or loaded groups
    ends.overdue(now_ms)                                         # at the end of a run

What producers want is taken from what their clients send: their timeouts, and how they end their transactions. That a
transaction began and ended is taken from the store. An abort may not come too early by the brokers' clock, which plans
put forward, and not too late by the run's clock, by which timers run.
"""

from collections import Counter
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from regroup.coordinator.events import CoordinatorLoaded, Event
from regroup.lab.checker.offsets.fenced_producers import ProducerEpoch, named_producer
from regroup.protocol.message import Message
from regroup.protocol.messages.transactions import EndTxnRequest, InitProducerIdRequest
from regroup.server.cluster.events import (
    PartitionsAddedToTransaction,
    ProducerInitialized,
    TransactionPrepared,
    decode_cluster_event,
)
from regroup.storage.records import NewRecord

ENDS_AS_ASKED: Final = (
    "A transaction is committed only if its own producer asks for it, and aborted only if that one asks for it, a "
    "newer one begins, or its timeout has passed; its outcome is the one that an acknowledged EndTxn names."
)
TIMES_OUT: Final = (
    "A transaction that stays open is aborted within 5 s after its timeout, which is counted again if its coordinator "
    "was down."
)
GRACE_MS: Final = 5_000
"""How long after its timeout an abort may be stored, in milliseconds: a slow disk takes 2 s for each of two writes."""
_CLUSTER_EVENTS: Final = ("producer-initialized", "partitions-added-to-transaction", "transaction-prepared")


class _Open(NamedTuple):
    """When a transaction began: in epoch milliseconds by the brokers' clock, and by the run's clock when stored."""

    at_ms: int
    stored_ms: int


class TransactionEnds:
    """The open transactions of a run by transactional id, and what may end each of them.

    Only transactional ids are judged for which a client has asked for a producer.
    """

    def __init__(self) -> None:
        self._timeouts_ms: dict[str, int] = {}
        self._asked: set[tuple[str, ProducerEpoch, bool]] = set()
        """Transactional id, producer, and whether it is to be committed, of each EndTxn that was sent."""
        self._on_their_way: Counter[str] = Counter()
        """How many InitProducerId requests are sent and not answered, by transactional id."""
        self._lost: Counter[str] = Counter()
        """How many InitProducerId requests have failed, and may still arrive, by transactional id."""
        self._producers: dict[str, ProducerEpoch] = {}
        self._open: dict[str, _Open] = {}
        self._outcomes: dict[tuple[str, ProducerEpoch], bool] = {}
        """Whether the last transaction of a producer was committed."""
        self._disturbed_ms = 0

    # Clients

    def on_request(self, message: Message) -> None:
        """Note a request that a client of a producer sends."""
        match message:
            case InitProducerIdRequest(transactional_id=str() as name):
                self._timeouts_ms[name] = message.transaction_timeout_ms
                self._on_their_way[name] += 1
            case EndTxnRequest():
                if named := named_producer(message):
                    self._asked.add((*named, message.committed))

    def on_response(self, message: Message, response: Any) -> Iterator[tuple[str, str]]:
        """Yield what is wrong with the response to such a request: an acknowledged EndTxn without its outcome in the
        store. None is a request without a response."""
        match message:
            case InitProducerIdRequest(transactional_id=str() as name):
                self._on_their_way[name] -= 1
                self._lost[name] += response is None
            case EndTxnRequest() if response is not None and not response.error_code:
                producer = ProducerEpoch(message.producer_id, message.producer_epoch)
                outcome = self._outcomes.get((message.transactional_id, producer))
                if outcome is not message.committed:
                    stored = "open" if outcome is None else _ending(outcome)
                    asked = "commit" if message.committed else "abort"
                    detail = f"{message.transactional_id} was acknowledged its {asked}, and its transaction is {stored}"
                    yield ENDS_AS_ASKED, detail

    # The store

    def on_disturbance(self, now_ms: int) -> None:
        """Note that a coordinator has crashed, begun or loaded a group.

        An open transaction may have its whole timeout again, since the next process may begin with an earlier clock.
        """
        self._disturbed_ms = now_ms

    def on_stored(self, record: NewRecord, event: Event | None, now_ms: int) -> Iterator[tuple[str, str]]:
        """Yield what is wrong with a stored record: an outcome that no client has asked for, or that comes too late.

        `event` is that of a group, None for a record of the cluster.
        """
        if isinstance(event, CoordinatorLoaded):
            self.on_disturbance(now_ms)
        elif record.group is None and record.type in _CLUSTER_EVENTS:
            match decode_cluster_event(record):
                case ProducerInitialized(transactional_id=name, producer_id=producer_id, epoch=epoch):
                    self._producers[name] = ProducerEpoch(producer_id, epoch)
                case PartitionsAddedToTransaction(transactional_id=name):
                    self._open.setdefault(name, _Open(record.at_ms, now_ms))
                case TransactionPrepared() as prepared:
                    yield from self._on_prepared(prepared, record.at_ms, now_ms)

    def _on_prepared(self, prepared: TransactionPrepared, at_ms: int, now_ms: int) -> Iterator[tuple[str, str]]:
        name = prepared.transactional_id
        producer, began = self._producers.get(name), self._open.pop(name, None)
        if producer is None or began is None or name not in self._timeouts_ms:
            return
        self._outcomes[name, producer] = prepared.committed
        self._producers[name] = ProducerEpoch(producer.producer_id, prepared.epoch)
        lasted_ms = at_ms - began.at_ms
        if not self._may_end(name, producer, committed=prepared.committed, lasted_ms=lasted_ms):
            ending = _ending(prepared.committed)
            detail = (
                f"the transaction of {name} with epoch {producer.epoch} was {ending} after {lasted_ms} ms, without a "
                f"request for that; its timeout is {self._timeouts_ms[name]} ms"
            )
            yield ENDS_AS_ASKED, detail
        yield from self._too_late(name, began, now_ms)

    def _may_end(self, name: str, producer: ProducerEpoch, *, committed: bool, lasted_ms: int) -> bool:
        """Whether there is a reason for which a transaction ends like this.

        A request of a newer producer that has failed is the reason for one abort at most.
        """
        if (name, producer, committed) in self._asked:
            return True
        if committed:
            return False
        if lasted_ms >= self._timeouts_ms[name] or self._on_their_way[name]:
            return True
        if not self._lost[name]:
            return False
        self._lost[name] -= 1
        return True

    def _too_late(self, name: str, began: _Open, now_ms: int) -> Iterator[tuple[str, str]]:
        waited_ms = now_ms - max(began.stored_ms, self._disturbed_ms)
        if waited_ms > self._timeouts_ms[name] + GRACE_MS:
            detail = (
                f"the transaction of {name} was open for {waited_ms} ms; its timeout is {self._timeouts_ms[name]} ms"
            )
            yield TIMES_OUT, detail

    def overdue(self, now_ms: int) -> Iterator[tuple[str, str]]:
        """Yield each transaction that is still open at the end of a run, though its timeout has passed."""
        for name, began in self._open.items():
            if name in self._timeouts_ms:
                yield from self._too_late(name, began, now_ms)


def _ending(committed: bool) -> str:
    return "committed" if committed else "aborted"
