"""Transactional and idempotent producers: producer ids, partitions and offsets of a transaction, its end."""

from typing import Annotated

from regroup.protocol.fields import Bool, Int16, Int32, Int64, Text, ignorable, since, until
from regroup.protocol.message import Message, Structure

__all__ = [
    "InitProducerIdRequest",
    "InitProducerIdResponse",
    "AddPartitionsToTxnTopic",
    "AddPartitionsToTxnTransaction",
    "AddPartitionsToTxnRequest",
    "AddPartitionsToTxnPartitionResult",
    "AddPartitionsToTxnTopicResult",
    "AddPartitionsToTxnResult",
    "AddPartitionsToTxnResponse",
    "AddOffsetsToTxnRequest",
    "AddOffsetsToTxnResponse",
    "EndTxnRequest",
    "EndTxnResponse",
    "TxnOffsetCommitRequestPartition",
    "TxnOffsetCommitRequestTopic",
    "TxnOffsetCommitRequest",
    "TxnOffsetCommitResponsePartition",
    "TxnOffsetCommitResponseTopic",
    "TxnOffsetCommitResponse",
]


class InitProducerIdRequest(Message, api_key=22, versions="0-6", flexible="2+"):
    """Asks for a producer id, or for a new epoch of one (v3, KIP-360). v6 adds two-phase commit (KIP-939)."""

    transactional_id: Text | None
    transaction_timeout_ms: Int32
    producer_id: Annotated[Int64, since(3)] = -1
    producer_epoch: Annotated[Int16, since(3)] = -1
    enable2_pc: Annotated[Bool, since(6)] = False
    keep_prepared_txn: Annotated[Bool, since(6)] = False


class InitProducerIdResponse(Message, api_key=22, versions="0-6", flexible="2+"):
    """The producer id and epoch for all further batches."""

    throttle_time_ms: Annotated[Int32, ignorable] = 0
    error_code: Int16 = 0
    producer_id: Int64 = -1
    producer_epoch: Int16 = 0
    ongoing_txn_producer_id: Annotated[Int64, since(6)] = -1
    ongoing_txn_producer_epoch: Annotated[Int16, since(6)] = -1


class AddPartitionsToTxnTopic(Structure):
    """Partitions of one topic."""

    name: Text
    partitions: list[Int32]


class AddPartitionsToTxnTransaction(Structure):
    """One transaction in a request between brokers (KIP-890)."""

    transactional_id: Text
    producer_id: Int64
    producer_epoch: Int16
    verify_only: Bool = False
    topics: list[AddPartitionsToTxnTopic]


class AddPartitionsToTxnRequest(Message, api_key=24, versions="0-5", flexible="3+"):
    """Adds partitions to a transaction: sent by producers up to v3, by brokers for several transactions since v4."""

    transactions: Annotated[list[AddPartitionsToTxnTransaction], since(4)] = []
    v3_and_below_transactional_id: Annotated[Text, until(3)] = ""
    v3_and_below_producer_id: Annotated[Int64, until(3)] = 0
    v3_and_below_producer_epoch: Annotated[Int16, until(3)] = 0
    v3_and_below_topics: Annotated[list[AddPartitionsToTxnTopic], until(3)] = []


class AddPartitionsToTxnPartitionResult(Structure):
    """The error code of one partition."""

    partition_index: Int32
    partition_error_code: Int16 = 0


class AddPartitionsToTxnTopicResult(Structure):
    """Partitions of one topic."""

    name: Text
    results_by_partition: list[AddPartitionsToTxnPartitionResult]


class AddPartitionsToTxnResult(Structure):
    """The result for one transaction."""

    transactional_id: Text
    topic_results: list[AddPartitionsToTxnTopicResult]


class AddPartitionsToTxnResponse(Message, api_key=24, versions="0-5", flexible="3+"):
    """The result for each partition: of one transaction up to v3, of several since v4."""

    throttle_time_ms: Int32 = 0
    error_code: Annotated[Int16, since(4), ignorable] = 0
    results_by_transaction: Annotated[list[AddPartitionsToTxnResult], since(4)] = []
    results_by_topic_v3_and_below: Annotated[list[AddPartitionsToTxnTopicResult], until(3)] = []


class AddOffsetsToTxnRequest(Message, api_key=25, versions="0-4", flexible="3+"):
    """Adds the offsets of a group to a transaction."""

    transactional_id: Text
    producer_id: Int64
    producer_epoch: Int16
    group_id: Text


class AddOffsetsToTxnResponse(Message, api_key=25, versions="0-4", flexible="3+"):
    """The error code of the request."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0


class EndTxnRequest(Message, api_key=26, versions="0-5", flexible="3+"):
    """Commits (`committed`) or aborts a transaction."""

    transactional_id: Text
    producer_id: Int64
    producer_epoch: Int16
    committed: Bool


class EndTxnResponse(Message, api_key=26, versions="0-5", flexible="3+"):
    """An error code; v5 adds the producer epoch of the next transaction (KIP-890)."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    producer_id: Annotated[Int64, since(5), ignorable] = -1
    producer_epoch: Annotated[Int16, since(5), ignorable] = -1


class TxnOffsetCommitRequestPartition(Structure):
    """The offset to commit for one partition: that of the next record to consume."""

    partition_index: Int32
    committed_offset: Int64
    committed_leader_epoch: Annotated[Int32, since(2), ignorable] = -1
    committed_metadata: Text | None = ""


class TxnOffsetCommitRequestTopic(Structure):
    """Partitions of one topic."""

    name: Text
    partitions: list[TxnOffsetCommitRequestPartition]


class TxnOffsetCommitRequest(Message, api_key=28, versions="0-5", flexible="3+"):
    """Commits offsets as part of a transaction. v3 also names the member (KIP-447)."""

    transactional_id: Text
    group_id: Text
    producer_id: Int64
    producer_epoch: Int16
    generation_id: Annotated[Int32, since(3)] = -1
    member_id: Annotated[Text, since(3)] = ""
    group_instance_id: Annotated[Text | None, since(3)] = None
    topics: list[TxnOffsetCommitRequestTopic]


class TxnOffsetCommitResponsePartition(Structure):
    """The error code of one partition."""

    partition_index: Int32
    error_code: Int16 = 0


class TxnOffsetCommitResponseTopic(Structure):
    """Partitions of one topic."""

    name: Text
    partitions: list[TxnOffsetCommitResponsePartition]


class TxnOffsetCommitResponse(Message, api_key=28, versions="0-5", flexible="3+"):
    """An error code for each partition."""

    throttle_time_ms: Int32 = 0
    topics: list[TxnOffsetCommitResponseTopic]
