"""A producer that a newer one has fenced is refused whatever it asks for, with the code of the API and version."""

from typing import Any

import pytest

from regroup.lab.checker.offsets.fenced_producers import FENCED_IS_REFUSED, FencedProducers
from regroup.protocol.errors import ErrorCode
from regroup.protocol.message import Message
from regroup.protocol.messages import records as r
from regroup.protocol.messages import transactions as t
from regroup.protocol.record_batch import TRANSACTIONAL, BatchRecord, write_batch

FENCED, OLD_EPOCH = ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH


def initialized(fenced: FencedProducers, epoch: int, error: ErrorCode = ErrorCode.NONE) -> None:
    """A client gets this epoch for the producer with the id 7, or an error."""
    request = t.InitProducerIdRequest(transactional_id="t", transaction_timeout_ms=1_000)
    fenced.on_request(request)
    given = (7, epoch) if not error else (-1, -1)
    response = t.InitProducerIdResponse(error_code=error, producer_id=given[0], producer_epoch=given[1])
    assert list(fenced.on_response(request, response)) == []


def add_offsets(epoch: int) -> Message:
    return t.AddOffsetsToTxnRequest(transactional_id="t", producer_id=7, producer_epoch=epoch, group_id="payments")


def add_partitions(epoch: int) -> Message:
    return t.AddPartitionsToTxnRequest(
        v3_and_below_transactional_id="t", v3_and_below_producer_id=7, v3_and_below_producer_epoch=epoch
    )


def commit_offsets(epoch: int) -> Message:
    return t.TxnOffsetCommitRequest(
        transactional_id="t", group_id="payments", producer_id=7, producer_epoch=epoch, topics=[]
    )


def end(epoch: int) -> Message:
    return t.EndTxnRequest(transactional_id="t", producer_id=7, producer_epoch=epoch, committed=True)


def produce(epoch: int, transactional_id: str | None = "t") -> Message:
    batch = write_batch(
        [BatchRecord(value=b"5")],
        base_timestamp_ms=0,
        producer_id=7,
        producer_epoch=epoch,
        base_sequence=0,
        attributes=TRANSACTIONAL,
    )
    data = r.TopicProduceData(name="orders", partition_data=[r.PartitionProduceData(index=0, records=batch)])
    return r.ProduceRequest(transactional_id=transactional_id, acks=-1, timeout_ms=1_000, topic_data=[data])


def response_to(message: Message, code: ErrorCode) -> Any:
    """The response with this error code to one of the requests above."""
    match message:
        case t.AddOffsetsToTxnRequest():
            return t.AddOffsetsToTxnResponse(error_code=code)
        case t.EndTxnRequest():
            return t.EndTxnResponse(error_code=code)
        case t.AddPartitionsToTxnRequest():
            result = t.AddPartitionsToTxnPartitionResult(partition_index=0, partition_error_code=code)
            topic = t.AddPartitionsToTxnTopicResult(name="orders", results_by_partition=[result])
            return t.AddPartitionsToTxnResponse(results_by_topic_v3_and_below=[topic])
        case t.TxnOffsetCommitRequest():
            partition = t.TxnOffsetCommitResponsePartition(partition_index=0, error_code=code)
            return t.TxnOffsetCommitResponse(
                topics=[t.TxnOffsetCommitResponseTopic(name="orders", partitions=[partition])]
            )
    row = r.PartitionProduceResponse(index=0, error_code=code, base_offset=-1)
    return r.ProduceResponse(responses=[r.TopicProduceResponse(name="orders", partition_responses=[row])])


def found(fenced: FencedProducers, message: Message, code: ErrorCode) -> list[str]:
    """What is found when a client sends this request and gets this error code."""
    fenced.on_request(message)
    violations = list(fenced.on_response(message, response_to(message, code)))
    assert {sentence for sentence, _ in violations} <= {FENCED_IS_REFUSED}
    return [detail for _, detail in violations]


REQUESTS = [
    (add_offsets, FENCED),
    (add_partitions, FENCED),
    (end, FENCED),
    (commit_offsets, OLD_EPOCH),
    (produce, OLD_EPOCH),
]


@pytest.mark.parametrize(("request_of", "expected"), REQUESTS)
def test_each_request_of_a_fenced_producer_has_the_error_code_of_its_api(request_of: Any, expected: ErrorCode) -> None:
    fenced = FencedProducers()
    initialized(fenced, 0)
    initialized(fenced, 1)
    assert found(fenced, request_of(0), expected) == []
    for wrong in (ErrorCode.NONE, ErrorCode.INVALID_TXN_STATE, OLD_EPOCH if expected is FENCED else FENCED):
        name = type(request_of(0)).__name__.removesuffix("Request")
        detail = f"{name} of t with epoch 0 got {wrong.name}, not {expected.name}; its newest epoch is 1"
        assert found(fenced, request_of(0), wrong) == [detail]


@pytest.mark.parametrize("request_of", [each for each, _ in REQUESTS])
def test_a_producer_that_is_not_fenced_may_get_anything(request_of: Any) -> None:
    fenced = FencedProducers()
    assert found(fenced, request_of(0), ErrorCode.NONE) == [], "no epoch is known yet"
    initialized(fenced, 1)
    initialized(fenced, 2, ErrorCode.CONCURRENT_TRANSACTIONS)
    for code in (ErrorCode.NONE, FENCED, OLD_EPOCH):
        assert found(fenced, request_of(1), code) == []


def test_a_request_that_was_sent_before_the_newer_producer_began_is_not_judged_until_it_is_repeated() -> None:
    fenced, message = FencedProducers(), end(0)
    initialized(fenced, 0)
    fenced.on_request(message)
    initialized(fenced, 1)
    assert list(fenced.on_response(message, response_to(message, ErrorCode.NONE))) == []
    assert found(fenced, message, ErrorCode.NONE)


def test_a_request_without_a_response_or_at_a_broker_that_cannot_judge_it_is_in_order() -> None:
    fenced, message = FencedProducers(), end(0)
    initialized(fenced, 1)
    fenced.on_request(message)
    assert list(fenced.on_response(message, None)) == []
    for code in (ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS):
        assert found(fenced, message, code) == []


def test_a_late_response_with_an_older_epoch_leaves_the_newer_producer_as_it_is() -> None:
    fenced = FencedProducers()
    initialized(fenced, 2)
    initialized(fenced, 1)
    assert found(fenced, end(2), ErrorCode.NONE) == []
    assert found(fenced, end(1), ErrorCode.NONE)


def test_before_version_2_a_coordinator_has_one_error_code_for_old_epochs() -> None:
    fenced = FencedProducers({t.EndTxnRequest.api_key: (0, 1)})
    initialized(fenced, 1)
    assert found(fenced, end(0), OLD_EPOCH) == []
    assert found(fenced, end(0), FENCED)


def test_a_producer_without_a_transactional_id_is_not_judged() -> None:
    fenced = FencedProducers()
    initialized(fenced, 1)
    assert found(fenced, produce(0, transactional_id=None), ErrorCode.NONE) == []
