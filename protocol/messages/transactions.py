"""Messages of transactional and idempotent producers: producer ids, partitions and offsets of a transaction, its end,
and lists of transactions.
"""

from typing import Annotated

from regroup.protocol.fields import NO_UUID, Bool, Int16, Int32, Int64, Text, Uuid, ignorable, since, until
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
    "DescribeTransactionsRequest",
    "TransactionTopic",
    "DescribedTransaction",
    "DescribeTransactionsResponse",
    "ListTransactionsRequest",
    "ListedTransaction",
    "ListTransactionsResponse",
]


class InitProducerIdRequest(Message, api_key=22, versions="0-5", flexible="2+"):
    """Asks for a producer id, or for a new epoch of one (v3, KIP-360).

    Kafka has a v6 for two-phase commit (KIP-939), which it does not serve either: the version is not stable.
    """

    transactional_id: Text | None
    transaction_timeout_ms: Int32
    producer_id: Annotated[Int64, since(3)] = -1
    producer_epoch: Annotated[Int16, since(3)] = -1


class InitProducerIdResponse(Message, api_key=22, versions="0-5", flexible="2+"):
    """The producer id and producer epoch that the producer is to use from now on, or an error code."""

    throttle_time_ms: Annotated[Int32, ignorable] = 0
    error_code: Int16 = 0
    producer_id: Int64 = -1
    producer_epoch: Int16 = 0


class AddPartitionsToTxnTopic(Structure):
    """The partitions of one topic that are to be added to a transaction."""

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
    """The error code of one partition that was to be added to a transaction."""

    partition_index: Int32
    partition_error_code: Int16 = 0


class AddPartitionsToTxnTopicResult(Structure):
    """The error codes of the partitions of one topic that were to be added to a transaction."""

    name: Text
    results_by_partition: list[AddPartitionsToTxnPartitionResult]


class AddPartitionsToTxnResult(Structure):
    """The error codes of the partitions that were to be added to one transaction."""

    transactional_id: Text
    topic_results: list[AddPartitionsToTxnTopicResult]


class AddPartitionsToTxnResponse(Message, api_key=24, versions="0-5", flexible="3+"):
    """The result for each partition: of one transaction up to v3, of several since v4."""

    throttle_time_ms: Int32 = 0
    error_code: Annotated[Int16, since(4), ignorable] = 0
    results_by_transaction: Annotated[list[AddPartitionsToTxnResult], since(4)] = []
    results_by_topic_v3_and_below: Annotated[list[AddPartitionsToTxnTopicResult], until(3)] = []


class AddOffsetsToTxnRequest(Message, api_key=25, versions="0-4", flexible="3+"):
    """Announces that offsets of a group will be committed as part of a transaction."""

    transactional_id: Text
    producer_id: Int64
    producer_epoch: Int16
    group_id: Text


class AddOffsetsToTxnResponse(Message, api_key=25, versions="0-4", flexible="3+"):
    """The error code of an AddOffsetsToTxn request."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0


class EndTxnRequest(Message, api_key=26, versions="0-5", flexible="3+"):
    """Ends a transaction: commits it if `committed` is true, and aborts it otherwise."""

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
    """The offsets to commit in one topic, which is given by name, since v6 by id (KIP-1319)."""

    name: Annotated[Text, until(5), ignorable] = ""
    topic_id: Annotated[Uuid, since(6), ignorable] = NO_UUID
    partitions: list[TxnOffsetCommitRequestPartition]


class TxnOffsetCommitRequest(Message, api_key=28, versions="0-6", flexible="3+"):
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
    """The error code of one partition in which an offset was to be committed."""

    partition_index: Int32
    error_code: Int16 = 0


class TxnOffsetCommitResponseTopic(Structure):
    """The error codes of one topic, which is given by name, since v6 by id."""

    name: Annotated[Text, until(5), ignorable] = ""
    topic_id: Annotated[Uuid, since(6), ignorable] = NO_UUID
    partitions: list[TxnOffsetCommitResponsePartition]


class TxnOffsetCommitResponse(Message, api_key=28, versions="0-6", flexible="3+"):
    """An error code for each partition whose offset was to be committed."""

    throttle_time_ms: Int32 = 0
    topics: list[TxnOffsetCommitResponseTopic]


class DescribeTransactionsRequest(Message, api_key=65, versions="0", flexible="0+"):
    """Asks the coordinator of these transactional ids for their transactions (KIP-664)."""

    transactional_ids: list[Text]


class TransactionTopic(Structure):
    """Partitions of one topic in a transaction."""

    topic: Text
    partitions: list[Int32]


class DescribedTransaction(Structure):
    """One transactional id; `transaction_state` is Kafka's name (`Ongoing`), `topics` those of an open transaction."""

    error_code: Int16 = 0
    transactional_id: Text
    transaction_state: Text = ""
    transaction_timeout_ms: Int32 = 0
    transaction_start_time_ms: Int64 = 0
    producer_id: Int64 = 0
    producer_epoch: Int16 = 0
    topics: list[TransactionTopic] = []


class DescribeTransactionsResponse(Message, api_key=65, versions="0", flexible="0+"):
    """The transactions, in the order of the request."""

    throttle_time_ms: Int32 = 0
    transaction_states: list[DescribedTransaction]


class ListTransactionsRequest(Message, api_key=66, versions="0-2", flexible="0+"):
    """Asks for the transactional ids of this coordinator (KIP-664). Filters: states, producer ids, v1 duration in
    milliseconds (KIP-994), v2 a regular expression for the transactional id (KIP-1152)."""

    state_filters: list[Text] = []
    producer_id_filters: list[Int64] = []
    duration_filter: Annotated[Int64, since(1)] = -1
    transactional_id_pattern: Annotated[Text | None, since(2)] = None


class ListedTransaction(Structure):
    """One transactional id with its producer and Kafka's name of its state."""

    transactional_id: Text
    producer_id: Int64
    transaction_state: Text


class ListTransactionsResponse(Message, api_key=66, versions="0-2", flexible="0+"):
    """The transactional ids that match, and the state filters that name no state."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    unknown_state_filters: list[Text] = []
    transaction_states: list[ListedTransaction] = []
