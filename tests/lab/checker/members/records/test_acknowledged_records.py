"""A Fetch response leaves out no record whose Produce request was acknowledged."""

from typing import Any

import pytest

from regroup.lab.checker.members.records.acknowledged_records import FETCH_IS_COMPLETE, AcknowledgedRecords
from regroup.protocol.errors import ErrorCode
from regroup.protocol.messages.records import (
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from regroup.protocol.record_batch import CONTROL, TRANSACTIONAL, BatchRecord, write_batch
from regroup.server.log.partition_log import PartitionLog


def batch(base_offset: int, count: int = 1, attributes: int = 0) -> bytes:
    records = [BatchRecord(value=b"0")] * count
    return write_batch(records, base_timestamp_ms=0, base_offset=base_offset, attributes=attributes)


def produce_request(count: int) -> ProduceRequest:
    data = PartitionProduceData(index=0, records=batch(0, count))
    return ProduceRequest(acks=1, timeout_ms=1, topic_data=[TopicProduceData(name="orders", partition_data=[data])])


def produce_response(base_offset: int, code: int = 0) -> ProduceResponse:
    row = PartitionProduceResponse(index=0, error_code=code, base_offset=base_offset)
    return ProduceResponse(responses=[TopicProduceResponse(name="orders", partition_responses=[row])])


def fetch_request(offset: int) -> FetchRequest:
    row = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1_000)
    return FetchRequest(max_wait_ms=1, min_bytes=1, topics=[FetchTopic(topic="orders", partitions=[row])])


def fetch_response(*batches: bytes, **fields: Any) -> FetchResponse:
    data = PartitionData(partition_index=0, high_watermark=9, records=b"".join(batches), **fields)
    return FetchResponse(responses=[FetchableTopicResponse(topic="orders", partitions=[data])])


class Lab:
    """What producers get acknowledged, and what members are sent."""

    def __init__(self) -> None:
        self.records = AcknowledgedRecords()

    def produce(self, base_offset: int, count: int = 1, code: int = 0) -> None:
        request = produce_request(count)
        self.records.on_request(request)
        self.records.on_produced(request, produce_response(base_offset, code))

    def fetch(self, offset: int, *batches: bytes, **fields: Any) -> str | None:
        request = fetch_request(offset)
        self.records.on_request(request)
        found = self.records.on_fetched("anna", request, fetch_response(*batches, **fields))
        return found.sentence if found else None


@pytest.fixture
def lab() -> Lab:
    """A partition with the acknowledged records 0 to 2, 3 and 4."""
    lab = Lab()
    for base_offset, count in ((0, 3), (3, 1), (4, 1)):
        lab.produce(base_offset, count)
    return lab


def test_a_response_with_every_record_is_complete(lab: Lab) -> None:
    assert lab.fetch(0, batch(0, 3), batch(3), batch(4)) is None
    assert lab.fetch(2, batch(0, 3), batch(3)) is None, "the first batch begins before the fetch offset"
    assert lab.fetch(3, batch(3)) is None, "the next Fetch gets the rest"
    assert lab.fetch(0) is None


@pytest.mark.parametrize("batches", [(batch(3),), (batch(0, 3), batch(4)), (batch(1, 2), batch(3))])
def test_a_response_that_leaves_an_acknowledged_record_out_is_found(lab: Lab, batches: tuple[bytes, ...]) -> None:
    assert lab.fetch(0, *batches) == FETCH_IS_COMPLETE


def test_records_below_the_fetch_offset_and_below_the_start_of_the_log_need_not_be_there(lab: Lab) -> None:
    assert lab.fetch(3, batch(3)) is None
    assert lab.fetch(0, batch(3), log_start_offset=3) is None
    assert lab.fetch(0, batch(3), log_start_offset=2) == FETCH_IS_COMPLETE


def test_a_marker_takes_an_offset_of_which_no_record_was_acknowledged() -> None:
    lab = Lab()
    lab.produce(0)
    lab.produce(2)
    assert lab.fetch(0, batch(0), batch(1, attributes=TRANSACTIONAL | CONTROL), batch(2)) is None
    assert lab.fetch(0, batch(0), batch(2)) is None


def test_a_record_that_was_refused_or_whose_response_was_lost_need_not_be_there() -> None:
    lab = Lab()
    lab.produce(0, code=ErrorCode.NOT_LEADER_OR_FOLLOWER)
    request = produce_request(1)
    lab.records.on_request(request)
    lab.records.on_produced(request, None)
    lab.produce(1)
    assert lab.fetch(0, batch(1)) is None


def test_a_crash_loses_all_records_and_later_ones_are_judged(lab: Lab) -> None:
    lab.records.on_crash()
    log = PartitionLog(leader_epoch=1, retention_bytes=-1, log_end_offset=5)
    empty = log.read(0, before=5, max_bytes=1_000, at_least_one=True)
    lab.produce(5)
    lab.produce(6)
    assert lab.fetch(0, *empty, batch(5)) is None
    assert lab.fetch(0, *empty, batch(6)) == FETCH_IS_COMPLETE


def test_responses_that_a_crash_has_overtaken_say_nothing_of_the_new_log(lab: Lab) -> None:
    produced, fetched = produce_request(1), fetch_request(6)
    lab.records.on_request(produced)
    lab.records.on_request(fetched)
    lab.records.on_crash()
    lab.records.on_produced(produced, produce_response(5))
    assert lab.fetch(5, batch(6)) is None
    lab.produce(6)
    assert lab.records.on_fetched("anna", fetched, fetch_response(batch(7))) is None


def test_an_offset_that_a_batch_without_records_has_is_left_out(lab: Lab) -> None:
    log = PartitionLog(leader_epoch=1, retention_bytes=-1, log_end_offset=3)
    assert lab.fetch(0, *log.read(0, before=3, max_bytes=1_000, at_least_one=True)) == FETCH_IS_COMPLETE


def test_a_deleted_topic_is_not_judged_any_more(lab: Lab) -> None:
    lab.records.on_topic_deleted("clicks")
    assert lab.fetch(0, batch(3)) == FETCH_IS_COMPLETE
    lab.records.on_topic_deleted("orders")
    lab.produce(0)
    lab.produce(1)
    assert lab.fetch(0, batch(1)) is None


def test_a_partition_with_an_error_is_not_judged(lab: Lab) -> None:
    assert lab.fetch(0, batch(3), error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER) is None
