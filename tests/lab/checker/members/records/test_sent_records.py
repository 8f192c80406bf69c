"""What members process and pass over is compared with the records in the responses that brokers have sent them."""

from regroup.lab.checker.members.member_invariants import MemberViolation
from regroup.lab.checker.members.records.sent_records import (
    PASSES_NOTHING_OVER,
    PASSES_OVER_WHAT_IT_ASKED_FOR,
    PROCESSES_WHAT_WAS_SENT,
    SentRecords,
)
from regroup.protocol.consumer.subscription import TopicPartition
from regroup.protocol.messages.records import (
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
    PartitionData,
)
from regroup.protocol.record_batch import CONTROL, BatchRecord, write_batch
from regroup.server.log.partition_log import PartitionLog

ORDERS_0 = TopicPartition("orders", 0)
RECORD = BatchRecord(key=None, value=b"0")


def fetching_from(offset: int) -> FetchRequest:
    rows = [FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1_000)]
    return FetchRequest(max_wait_ms=0, min_bytes=1, topics=[FetchTopic(topic="orders", partitions=rows)])


def fetched(*batches: bytes) -> FetchResponse:
    data = PartitionData(partition_index=0, high_watermark=9, records=b"".join(batches))
    return FetchResponse(responses=[FetchableTopicResponse(topic="orders", partitions=[data])])


def sentence(found: MemberViolation | None) -> str | None:
    return found.sentence if found else None


def reading(*batches: bytes, reads_committed: bool = False) -> SentRecords:
    """Anna has got these batches."""
    sent = SentRecords()
    sent.add_member("anna", reads_committed=reads_committed)
    sent.on_response("anna", fetching_from(0), fetched(*batches))
    return sent


def test_a_record_that_no_broker_has_sent_is_found() -> None:
    sent = reading(write_batch([RECORD, RECORD], base_timestamp_ms=0, base_offset=3))
    assert [sentence(sent.on_record("anna", ORDERS_0, each)) for each in (3, 4)] == [None, None]
    for partition, offset in ((ORDERS_0, 2), (ORDERS_0, 5), (TopicPartition("orders", 1), 3)):
        assert sentence(sent.on_record("anna", partition, offset)) == PROCESSES_WHAT_WAS_SENT
    assert sentence(sent.on_record("ben", ORDERS_0, 3)) == PROCESSES_WHAT_WAS_SENT


def test_a_new_process_was_sent_nothing() -> None:
    sent = reading(write_batch([RECORD], base_timestamp_ms=0))
    sent.on_new_life("anna")
    assert sentence(sent.on_record("anna", ORDERS_0, 0)) == PROCESSES_WHAT_WAS_SENT


def test_transaction_markers_and_batches_without_records_are_no_records() -> None:
    """A log that has lost its records has a batch without any in their place, as one that was compacted."""
    marker = write_batch([RECORD], base_timestamp_ms=0, base_offset=3, attributes=CONTROL)
    (empty,) = PartitionLog(leader_epoch=1, retention_bytes=-1, log_end_offset=3).read(
        0, before=3, max_bytes=1_000, at_least_one=True
    )
    sent = reading(empty, marker)
    for offset in (0, 2, 3):
        assert sentence(sent.on_record("anna", ORDERS_0, offset)) == PROCESSES_WHAT_WAS_SENT
    assert sent.on_skip("anna", ORDERS_0, 0, 4) is None


def test_a_record_that_a_member_passes_over_is_found() -> None:
    batch = write_batch([RECORD, RECORD], base_timestamp_ms=0, base_offset=3)
    assert sentence(reading(batch).on_skip("anna", ORDERS_0, 0, 4)) == PASSES_NOTHING_OVER
    for first, stop in ((0, 3), (5, 9)):
        assert reading(batch).on_skip("anna", ORDERS_0, first, stop) is None
    assert reading(batch, reads_committed=True).on_skip("anna", ORDERS_0, 0, 4) is None
    sent = reading(batch)
    sent.on_response("anna", fetching_from(0), fetched())
    assert sent.on_skip("anna", ORDERS_0, 0, 4) is None, "the log begins at a later offset now"


def test_offsets_that_a_member_passes_over_without_having_asked_for_them_are_found() -> None:
    """The response to a Fetch that began at offset 5 says nothing of what is before."""
    sent = SentRecords()
    sent.add_member("anna", reads_committed=True)
    sent.on_response("anna", fetching_from(5), fetched())
    assert sent.on_skip("anna", ORDERS_0, 5, 7) is None
    assert sentence(sent.on_skip("anna", ORDERS_0, 4, 7)) == PASSES_OVER_WHAT_IT_ASKED_FOR
    assert sent.on_skip("ben", ORDERS_0, 4, 7) is None


def test_a_member_that_looks_for_the_first_offset_of_a_log_passes_over_all_before_it() -> None:
    sent = SentRecords()
    sent.add_member("anna", reads_committed=False)
    sent.on_response("anna", fetching_from(5), fetched())
    rows = [ListOffsetsPartition(partition_index=0, timestamp=-2)]
    request = ListOffsetsRequest(topics=[ListOffsetsTopic(name="orders", partitions=rows)])
    sent.on_response("anna", request, ListOffsetsResponse(topics=[]))
    assert sent.on_skip("anna", ORDERS_0, 0, 7) is None
