"""A transaction ends as its own producer asks, for a newer producer, or at its timeout, and not otherwise."""

import pytest

from regroup.coordinator import events as e
from regroup.coordinator.serialization import Cause, encode_event
from regroup.lab.checker.offsets.transaction_ends import ENDS_AS_ASKED, GRACE_MS, TIMES_OUT, TransactionEnds
from regroup.protocol.errors import ErrorCode
from regroup.protocol.messages.transactions import (
    EndTxnRequest,
    EndTxnResponse,
    InitProducerIdRequest,
    InitProducerIdResponse,
)
from regroup.server.cluster.events import (
    ClusterEvent,
    PartitionsAddedToTransaction,
    ProducerInitialized,
    TransactionPrepared,
    encode_cluster_event,
)

TIMEOUT_MS = 10_000
EARLY_MS = TIMEOUT_MS - 1


class Run:
    """A run with one transactional id, whose producer 7 has epoch 0 and begins a transaction at time 0."""

    def __init__(self) -> None:
        self.ends = TransactionEnds()
        self.answer(self.ask(), 0)
        self.store(ProducerInitialized(transactional_id="t", producer_id=7, epoch=0, timeout_ms=TIMEOUT_MS))
        self.store(PartitionsAddedToTransaction(transactional_id="t", partitions={"orders": (0,)}, at_ms=0))

    def ask(self) -> InitProducerIdRequest:
        """A client asks for a newer producer."""
        request = InitProducerIdRequest(transactional_id="t", transaction_timeout_ms=TIMEOUT_MS)
        self.ends.on_request(request)
        return request

    def answer(self, request: InitProducerIdRequest, epoch: int | None) -> None:
        """The client gets this epoch, or None for a request that has failed."""
        response = None if epoch is None else InitProducerIdResponse(producer_id=7, producer_epoch=epoch)
        assert list(self.ends.on_response(request, response)) == []

    def end(self, epoch: int = 0, *, committed: bool) -> EndTxnRequest:
        request = EndTxnRequest(transactional_id="t", producer_id=7, producer_epoch=epoch, committed=committed)
        self.ends.on_request(request)
        return request

    def is_answered(self, request: EndTxnRequest, code: ErrorCode) -> list[tuple[str, str]]:
        return list(self.ends.on_response(request, EndTxnResponse(error_code=code)))

    def store(self, event: ClusterEvent, at_ms: int = 0, now_ms: int | None = None) -> list[tuple[str, str]]:
        """What is found in an event at this time of the brokers' clock, and at the same or another one of the run's."""
        cause = Cause(internal="test")
        record = encode_cluster_event(event, event_number=1, coordinator_epoch=1, at_ms=at_ms, cause=cause)
        return list(self.ends.on_stored(record, None, at_ms if now_ms is None else now_ms))

    def prepare(
        self, *, committed: bool, at_ms: int, now_ms: int | None = None, epoch: int = 0
    ) -> list[tuple[str, str]]:
        event = TransactionPrepared(transactional_id="t", committed=committed, epoch=epoch)
        return self.store(event, at_ms, now_ms)


@pytest.mark.parametrize("committed", [True, False])
def test_a_transaction_may_end_at_any_time_as_its_own_producer_asks(committed: bool) -> None:
    run = Run()
    request = run.end(committed=committed)
    assert run.prepare(committed=committed, at_ms=5) == []
    assert run.is_answered(request, ErrorCode.NONE) == []


@pytest.mark.parametrize(("committed", "ending"), [(True, "committed"), (False, "aborted")])
def test_an_end_that_no_client_has_asked_for_is_found(committed: bool, ending: str) -> None:
    for asked_epoch, asked in ((0, not committed), (3, committed)):
        run = Run()
        run.end(asked_epoch, committed=asked)
        detail = (
            f"the transaction of t with epoch 0 was {ending} after 5 ms, without a request for that; its timeout is"
        )
        assert run.prepare(committed=committed, at_ms=5) == [(ENDS_AS_ASKED, f"{detail} 10000 ms")]


def test_an_abort_at_the_timeout_is_in_order_and_a_commit_is_not() -> None:
    assert Run().prepare(committed=False, at_ms=TIMEOUT_MS, epoch=1) == []
    assert Run().prepare(committed=False, at_ms=EARLY_MS, epoch=1)
    assert Run().prepare(committed=True, at_ms=TIMEOUT_MS)


def test_a_clock_that_was_put_forward_brings_the_timeout_forward() -> None:
    assert Run().prepare(committed=False, at_ms=TIMEOUT_MS, now_ms=1_000, epoch=1) == []


def test_an_abort_for_a_newer_producer_is_in_order_while_its_request_is_on_its_way() -> None:
    run = Run()
    request = run.ask()
    assert run.prepare(committed=False, at_ms=5, epoch=1) == []
    run.answer(request, 2)

    late = Run()
    late.answer(late.ask(), 1)
    assert late.prepare(committed=False, at_ms=5, epoch=1)


def test_a_request_of_a_newer_producer_that_has_failed_may_arrive_once() -> None:
    run = Run()
    run.answer(run.ask(), None)
    assert run.prepare(committed=False, at_ms=5, epoch=1) == []
    run.store(PartitionsAddedToTransaction(transactional_id="t", partitions={"orders": (0,)}, at_ms=6), 6)
    assert run.prepare(committed=False, at_ms=7, epoch=2)


def test_the_producer_that_a_newer_one_has_fenced_cannot_ask() -> None:
    run = Run()
    request = run.ask()
    run.prepare(committed=False, at_ms=5, epoch=1)
    run.store(ProducerInitialized(transactional_id="t", producer_id=7, epoch=2, timeout_ms=TIMEOUT_MS))
    run.answer(request, 2)
    run.store(PartitionsAddedToTransaction(transactional_id="t", partitions={"orders": (0,)}, at_ms=6), 6)
    run.end(0, committed=True)
    assert run.prepare(committed=True, at_ms=7, epoch=2)


def test_an_acknowledged_end_that_is_not_stored_is_found() -> None:
    run = Run()
    detail = "t was acknowledged its commit, and its transaction is"
    assert run.is_answered(run.end(committed=True), ErrorCode.INVALID_TXN_STATE) == []
    assert run.is_answered(run.end(committed=True), ErrorCode.NONE) == [(ENDS_AS_ASKED, f"{detail} open")]
    run.end(committed=False)
    run.prepare(committed=False, at_ms=5)
    assert run.is_answered(run.end(committed=True), ErrorCode.NONE) == [(ENDS_AS_ASKED, f"{detail} aborted")]


def test_a_transaction_that_outlives_its_timeout_is_found_when_it_ends_and_at_the_end_of_the_run() -> None:
    last_ms = TIMEOUT_MS + GRACE_MS
    assert Run().prepare(committed=False, at_ms=last_ms, epoch=1) == []
    assert list(Run().ends.overdue(last_ms)) == []
    found = [(TIMES_OUT, "the transaction of t was open for 15001 ms; its timeout is 10000 ms")]
    assert Run().prepare(committed=False, at_ms=last_ms + 1, epoch=1) == found
    assert list(Run().ends.overdue(last_ms + 1)) == found


def test_a_transaction_whose_coordinator_was_down_has_its_timeout_again() -> None:
    run = Run()
    run.ends.on_disturbance(9_000)
    assert list(run.ends.overdue(9_000 + TIMEOUT_MS + GRACE_MS)) == []
    loaded = e.CoordinatorLoaded(at_ms=0, subscribed_topics=None)
    assert list(run.ends.on_stored(encode_event("payments", 1, 1, loaded, None), loaded, 20_000)) == []
    assert list(run.ends.overdue(20_000 + TIMEOUT_MS + GRACE_MS)) == []
    assert list(run.ends.overdue(20_001 + TIMEOUT_MS + GRACE_MS))


def test_a_transactional_id_that_no_client_of_the_run_has_is_not_judged() -> None:
    run = Run()
    run.store(ProducerInitialized(transactional_id="u", producer_id=8, epoch=0, timeout_ms=TIMEOUT_MS))
    run.store(PartitionsAddedToTransaction(transactional_id="u", partitions={"orders": (0,)}, at_ms=0))
    assert not any("of u" in detail for _, detail in run.ends.overdue(60_000))
    assert run.store(TransactionPrepared(transactional_id="u", committed=True, epoch=0), 60_000) == []
