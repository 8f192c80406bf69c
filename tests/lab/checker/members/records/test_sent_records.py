"""What members process and pass over is compared with the records in the responses that brokers have sent them."""

from regroup.lab.checker.members.member_invariants import MemberViolation
from regroup.lab.checker.members.records.sent_records import (
    PASSES_NOTHING_OVER,
    PROCESSES_WHAT_WAS_SENT,
    SentRecords,
)
from regroup.protocol.consumer.subscription import TopicPartition
from regroup.protocol.messages.records import FetchableTopicResponse, FetchResponse, PartitionData
from regroup.protocol.record_batch import CONTROL, BatchRecord, write_batch
from regroup.server.log.partition_log import PartitionLog

ORDERS_0 = TopicPartition("orders", 0)
RECORD = BatchRecord(key=None, value=b"0")


def fetched(*batches: bytes) -> FetchResponse:
    data = PartitionData(partition_index=0, high_watermark=9, records=b"".join(batches))
    return FetchResponse(responses=[FetchableTopicResponse(topic="orders", partitions=[data])])


def sentence(found: MemberViolation | None) -> str | None:
    return found.sentence if found else None


def reading(*batches: bytes, reads_committed: bool = False) -> SentRecords:
    """Anna has got these batches."""
    sent = SentRecords()
    sent.add_member("anna", reads_committed=reads_committed)
    sent.on_response("anna", fetched(*batches))
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
    sent.on_response("anna", fetched())
    assert sent.on_skip("anna", ORDERS_0, 0, 4) is None, "the log begins at a later offset now"
