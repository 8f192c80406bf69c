"""Producers with a memory: ids, epochs, transactions, and offsets committed within them."""

from typing import Annotated

from regroup.protocol.fields import Bool, Int8, Int16, Int32, Int64, Text, ignorable, since, until
from regroup.protocol.message import Message, Structure


class InitProducerIdRequest(Message, api_key=22, versions="0-6", flexible="2+"):
    """Give me an id, or a new epoch for the one I have (v3, KIP-360). v6 two-phase commit (KIP-939)."""

    transactional_id: Text | None
    transaction_timeout_ms: Int32
    producer_id: Annotated[Int64, since(3)] = -1
    producer_epoch: Annotated[Int16, since(3)] = -1
    enable2_pc: Annotated[Bool, since(6)] = False
    keep_prepared_txn: Annotated[Bool, since(6)] = False


class InitProducerIdResponse(Message, api_key=22, versions="0-6", flexible="2+"):
    """Id and epoch, which stand in every batch from now on."""

    throttle_time_ms: Annotated[Int32, ignorable] = 0
    error_code: Int16 = 0
    producer_id: Int64 = -1
    producer_epoch: Int16 = 0
    ongoing_txn_producer_id: Annotated[Int64, since(6)] = -1
    ongoing_txn_producer_epoch: Annotated[Int16, since(6)] = -1


class AddPartitionsToTxnTopic(Structure):
    """Some partitions of one topic."""

    name: Text
    partitions: list[Int32]


class AddPartitionsToTxnTransaction(Structure):
    """One transaction of a broker's request (KIP-890)."""

    transactional_id: Text
    producer_id: Int64
    producer_epoch: Int16
    verify_only: Bool = False
    topics: list[AddPartitionsToTxnTopic]


class AddPartitionsToTxnRequest(Message, api_key=24, versions="0-5", flexible="3+"):
    """I am about to write here. Up to v3 from a producer, from v4 on between brokers and for several at once."""

    transactions: Annotated[list[AddPartitionsToTxnTransaction], since(4)] = []
    v3_and_below_transactional_id: Annotated[Text, until(3)] = ""
    v3_and_below_producer_id: Annotated[Int64, until(3)] = 0
    v3_and_below_producer_epoch: Annotated[Int16, until(3)] = 0
    v3_and_below_topics: Annotated[list[AddPartitionsToTxnTopic], until(3)] = []


class AddPartitionsToTxnPartitionResult(Structure):
    """What became of one partition."""

    partition_index: Int32
    partition_error_code: Int16 = 0


class AddPartitionsToTxnTopicResult(Structure):
    """The partitions of one topic."""

    name: Text
    results_by_partition: list[AddPartitionsToTxnPartitionResult]


class AddPartitionsToTxnResult(Structure):
    """The topics of one transaction."""

    transactional_id: Text
    topic_results: list[AddPartitionsToTxnTopicResult]


class AddPartitionsToTxnResponse(Message, api_key=24, versions="0-5", flexible="3+"):
    """Each partition has its own code."""

    throttle_time_ms: Int32 = 0
    error_code: Annotated[Int16, since(4), ignorable] = 0
    results_by_transaction: Annotated[list[AddPartitionsToTxnResult], since(4)] = []
    results_by_topic_v3_and_below: Annotated[list[AddPartitionsToTxnTopicResult], until(3)] = []


class AddOffsetsToTxnRequest(Message, api_key=25, versions="0-4", flexible="3+"):
    """I am about to commit offsets of this group."""

    transactional_id: Text
    producer_id: Int64
    producer_epoch: Int16
    group_id: Text


class AddOffsetsToTxnResponse(Message, api_key=25, versions="0-4", flexible="3+"):
    """Yes or no."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0


class EndTxnRequest(Message, api_key=26, versions="0-5", flexible="3+"):
    """All of it (`committed`) or nothing."""

    transactional_id: Text
    producer_id: Int64
    producer_epoch: Int16
    committed: Bool


class EndTxnResponse(Message, api_key=26, versions="0-5", flexible="3+"):
    """v5 gives the epoch of the next transaction (KIP-890)."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    producer_id: Annotated[Int64, since(5), ignorable] = -1
    producer_epoch: Annotated[Int16, since(5), ignorable] = -1


class WritableTxnMarkerTopic(Structure):
    """Some partitions of one topic."""

    name: Text
    partition_indexes: list[Int32]


class WritableTxnMarker(Structure):
    """The end of one transaction; `transaction_result` is true for a commit."""

    producer_id: Int64
    producer_epoch: Int16
    transaction_result: Bool
    topics: list[WritableTxnMarkerTopic]
    coordinator_epoch: Int32
    transaction_version: Annotated[Int8, since(2), ignorable] = 0


class WriteTxnMarkersRequest(Message, api_key=27, versions="0-2", flexible="1+"):
    """From the transaction coordinator to the leaders of the partitions."""

    markers: list[WritableTxnMarker]


class WritableTxnMarkerPartitionResult(Structure):
    """What became of one partition."""

    partition_index: Int32
    error_code: Int16 = 0


class WritableTxnMarkerTopicResult(Structure):
    """The partitions of one topic."""

    name: Text
    partitions: list[WritableTxnMarkerPartitionResult]


class WritableTxnMarkerResult(Structure):
    """The topics of one marker."""

    producer_id: Int64
    topics: list[WritableTxnMarkerTopicResult]


class WriteTxnMarkersResponse(Message, api_key=27, versions="0-2", flexible="1+"):
    """Each partition has its own code."""

    markers: list[WritableTxnMarkerResult]


class TxnOffsetCommitRequestPartition(Structure):
    """`committed_offset` is that of the next record to read."""

    partition_index: Int32
    committed_offset: Int64
    committed_leader_epoch: Annotated[Int32, since(2), ignorable] = -1
    committed_metadata: Text | None = ""


class TxnOffsetCommitRequestTopic(Structure):
    """The partitions of one topic."""

    name: Text
    partitions: list[TxnOffsetCommitRequestPartition]


class TxnOffsetCommitRequest(Message, api_key=28, versions="0-5", flexible="3+"):
    """Remember where we are, if the transaction commits. v3 also names the member (KIP-447)."""

    transactional_id: Text
    group_id: Text
    producer_id: Int64
    producer_epoch: Int16
    generation_id: Annotated[Int32, since(3)] = -1
    member_id: Annotated[Text, since(3)] = ""
    group_instance_id: Annotated[Text | None, since(3)] = None
    topics: list[TxnOffsetCommitRequestTopic]


class TxnOffsetCommitResponsePartition(Structure):
    """What became of one offset."""

    partition_index: Int32
    error_code: Int16 = 0


class TxnOffsetCommitResponseTopic(Structure):
    """The partitions of one topic."""

    name: Text
    partitions: list[TxnOffsetCommitResponsePartition]


class TxnOffsetCommitResponse(Message, api_key=28, versions="0-5", flexible="3+"):
    """Each partition has its own code."""

    throttle_time_ms: Int32 = 0
    topics: list[TxnOffsetCommitResponseTopic]
