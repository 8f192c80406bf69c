"""Messages about records and offsets of partitions: Produce, Fetch, ListOffsets, OffsetForLeaderEpoch."""

from typing import Annotated

from regroup.protocol.fields import (
    NO_UUID,
    Int8,
    Int16,
    Int32,
    Int64,
    Records,
    Text,
    Uuid,
    ignorable,
    only,
    since,
    tagged,
    until,
)
from regroup.protocol.message import Message, Structure

__all__ = [
    "PartitionProduceData",
    "TopicProduceData",
    "ProduceRequest",
    "LeaderIdAndEpoch",
    "NodeEndpoint",
    "BatchIndexAndErrorMessage",
    "PartitionProduceResponse",
    "TopicProduceResponse",
    "ProduceResponse",
    "ReplicaState",
    "FetchPartition",
    "FetchTopic",
    "ForgottenTopic",
    "FetchRequest",
    "EpochEndOffset",
    "SnapshotId",
    "AbortedTransaction",
    "PartitionData",
    "FetchableTopicResponse",
    "FetchResponse",
    "ListOffsetsPartition",
    "ListOffsetsTopic",
    "ListOffsetsRequest",
    "ListOffsetsPartitionResponse",
    "ListOffsetsTopicResponse",
    "ListOffsetsResponse",
    "OffsetForLeaderPartition",
    "OffsetForLeaderTopic",
    "OffsetForLeaderEpochRequest",
    "OffsetForLeaderPartitionResult",
    "OffsetForLeaderTopicResult",
    "OffsetForLeaderEpochResponse",
]


class PartitionProduceData(Structure):
    """Record batches for one partition; up to v2 a message set."""

    index: Int32
    records: Records | None


class TopicProduceData(Structure):
    """The record batches for one topic, which is given by name, since v13 by id (KIP-516)."""

    name: Annotated[Text, until(12), ignorable] = ""
    topic_id: Annotated[Uuid, since(13), ignorable] = NO_UUID
    partition_data: list[PartitionProduceData]


class ProduceRequest(Message, api_key=0, versions="0-13", flexible="9+"):
    """Appends records to partitions. `acks` says when the response is sent: 0 never, 1 after the leader has appended
    the records, -1 after all in-sync replicas have."""

    transactional_id: Annotated[Text | None, since(3)] = None
    acks: Int16
    timeout_ms: Int32
    topic_data: list[TopicProduceData]


class LeaderIdAndEpoch(Structure):
    """The current leader of a partition and its leader epoch; -1 if they are unknown."""

    leader_id: Int32 = -1
    leader_epoch: Int32 = -1


class NodeEndpoint(Structure):
    """The address of a leader (KIP-951)."""

    node_id: Int32
    host: Text
    port: Int32
    rack: Text | None = None


class BatchIndexAndErrorMessage(Structure):
    """A record that was rejected, and why (KIP-467)."""

    batch_index: Int32
    batch_index_error_message: Text | None = None


class PartitionProduceResponse(Structure):
    """The result for one partition; `base_offset` is the offset of the first record."""

    index: Int32
    error_code: Int16 = 0
    base_offset: Int64
    log_append_time_ms: Annotated[Int64, since(2), ignorable] = -1
    log_start_offset: Annotated[Int64, since(5), ignorable] = -1
    record_errors: Annotated[list[BatchIndexAndErrorMessage], since(8), ignorable] = []
    error_message: Annotated[Text | None, since(8), ignorable] = None
    current_leader: Annotated[LeaderIdAndEpoch, since(10), tagged(0)] = LeaderIdAndEpoch()


class TopicProduceResponse(Structure):
    """The results for one topic, which is given by name, since v13 by id (KIP-516)."""

    name: Annotated[Text, until(12), ignorable] = ""
    topic_id: Annotated[Uuid, since(13), ignorable] = NO_UUID
    partition_responses: list[PartitionProduceResponse]


class ProduceResponse(Message, api_key=0, versions="0-13", flexible="9+"):
    """The result for each partition. v10 adds the addresses of new leaders (KIP-951)."""

    responses: list[TopicProduceResponse]
    throttle_time_ms: Annotated[Int32, since(1), ignorable] = 0
    node_endpoints: Annotated[list[NodeEndpoint], since(10), tagged(0)] = []


class ReplicaState(Structure):
    """The replica that fetches; -1 for a consumer (KIP-903)."""

    replica_id: Int32 = -1
    replica_epoch: Int64 = -1


class FetchPartition(Structure):
    """The offset to fetch from in one partition, and the byte limit."""

    partition: Int32
    current_leader_epoch: Annotated[Int32, since(9), ignorable] = -1
    fetch_offset: Int64
    last_fetched_epoch: Annotated[Int32, since(12)] = -1
    log_start_offset: Annotated[Int64, since(5), ignorable] = -1
    partition_max_bytes: Int32
    replica_directory_id: Annotated[Uuid, since(17), tagged(0), ignorable] = NO_UUID
    high_watermark: Annotated[Int64, since(18), tagged(1), ignorable] = 2**63 - 1


class FetchTopic(Structure):
    """The partitions to fetch of one topic, which is given by name, since v13 by id (KIP-516)."""

    topic: Annotated[Text, until(12), ignorable] = ""
    topic_id: Annotated[Uuid, since(13), ignorable] = NO_UUID
    partitions: list[FetchPartition]


class ForgottenTopic(Structure):
    """Partitions to remove from the fetch session."""

    topic: Annotated[Text, until(12), ignorable] = ""
    topic_id: Annotated[Uuid, since(13), ignorable] = NO_UUID
    partitions: list[Int32]


class FetchRequest(Message, api_key=1, versions="0-18", flexible="12+"):
    """Fetches records; waits up to `max_wait_ms` for `min_bytes`. v7 adds fetch sessions (KIP-227), v11 the consumer's
    rack (KIP-392)."""

    cluster_id: Annotated[Text | None, since(12), tagged(0), ignorable] = None
    replica_id: Annotated[Int32, until(14)] = -1
    replica_state: Annotated[ReplicaState, since(15), tagged(1)] = ReplicaState()
    max_wait_ms: Int32
    min_bytes: Int32
    max_bytes: Annotated[Int32, since(3), ignorable] = 0x7FFFFFFF
    isolation_level: Annotated[Int8, since(4), ignorable] = 0
    session_id: Annotated[Int32, since(7), ignorable] = 0
    session_epoch: Annotated[Int32, since(7), ignorable] = -1
    topics: list[FetchTopic]
    forgotten_topics_data: Annotated[list[ForgottenTopic], since(7)] = []
    rack_id: Annotated[Text, since(11), ignorable] = ""


class EpochEndOffset(Structure):
    """The offset at which the follower's log diverges from the leader's (KIP-595)."""

    epoch: Int32 = -1
    end_offset: Int64 = -1


class SnapshotId(Structure):
    """A snapshot to fetch instead of deleted records (KIP-630)."""

    end_offset: Int64 = -1
    epoch: Int32 = -1


class AbortedTransaction(Structure):
    """An aborted transaction; a read-committed consumer skips its records."""

    producer_id: Int64
    first_offset: Int64


class PartitionData(Structure):
    """The fetched records of one partition, and its offsets, such as the high watermark."""

    partition_index: Int32
    error_code: Int16 = 0
    high_watermark: Int64
    last_stable_offset: Annotated[Int64, since(4), ignorable] = -1
    log_start_offset: Annotated[Int64, since(5), ignorable] = -1
    diverging_epoch: Annotated[EpochEndOffset, since(12), tagged(0)] = EpochEndOffset()
    current_leader: Annotated[LeaderIdAndEpoch, since(12), tagged(1)] = LeaderIdAndEpoch()
    snapshot_id: Annotated[SnapshotId, since(12), tagged(2)] = SnapshotId()
    aborted_transactions: Annotated[list[AbortedTransaction] | None, since(4), ignorable] = []
    preferred_read_replica: Annotated[Int32, since(11)] = -1
    records: Records | None = b""


class FetchableTopicResponse(Structure):
    """The fetched partitions of one topic, which is given by name, since v13 by id (KIP-516)."""

    topic: Annotated[Text, until(12), ignorable] = ""
    topic_id: Annotated[Uuid, since(13), ignorable] = NO_UUID
    partitions: list[PartitionData]


class FetchResponse(Message, api_key=1, versions="0-18", flexible="12+"):
    """The fetched record batches of each partition, as they are in the log; the last batch of a partition may be
    truncated."""

    throttle_time_ms: Annotated[Int32, since(1), ignorable] = 0
    error_code: Annotated[Int16, since(7), ignorable] = 0
    session_id: Annotated[Int32, since(7)] = 0
    responses: list[FetchableTopicResponse]
    node_endpoints: Annotated[list[NodeEndpoint], since(16), tagged(0)] = []


class ListOffsetsPartition(Structure):
    """A partition and the timestamp to look up in it, in milliseconds. Special values: -1 end, -2 start, -3 largest
    timestamp, -4 local log start, -5 tiered storage."""

    partition_index: Int32
    current_leader_epoch: Annotated[Int32, since(4), ignorable] = -1
    timestamp: Int64
    max_num_offsets: Annotated[Int32, only(0)] = 1


class ListOffsetsTopic(Structure):
    """The partitions of one topic in which timestamps are to be looked up."""

    name: Text
    partitions: list[ListOffsetsPartition]


class ListOffsetsRequest(Message, api_key=2, versions="0-11", flexible="6+"):
    """Asks for the offset of the first record at or after a timestamp, in each of the named partitions."""

    replica_id: Int32 = -1
    isolation_level: Annotated[Int8, since(2)] = 0
    topics: list[ListOffsetsTopic]
    timeout_ms: Annotated[Int32, since(10), ignorable] = 0


class ListOffsetsPartitionResponse(Structure):
    """The offset that was found: a list of offsets in v0, one offset with its timestamp since v1."""

    partition_index: Int32
    error_code: Int16 = 0
    old_style_offsets: Annotated[list[Int64], only(0)] = []
    timestamp: Annotated[Int64, since(1)] = -1
    offset: Annotated[Int64, since(1)] = -1
    leader_epoch: Annotated[Int32, since(4)] = -1


class ListOffsetsTopicResponse(Structure):
    """The offsets that were found in the partitions of one topic."""

    name: Text
    partitions: list[ListOffsetsPartitionResponse]


class ListOffsetsResponse(Message, api_key=2, versions="0-11", flexible="6+"):
    """The offset that was found in each partition."""

    throttle_time_ms: Annotated[Int32, since(2), ignorable] = 0
    topics: list[ListOffsetsTopicResponse]


class OffsetForLeaderPartition(Structure):
    """A partition and the leader epoch whose end offset is asked for."""

    partition: Int32
    current_leader_epoch: Annotated[Int32, since(2), ignorable] = -1
    leader_epoch: Int32


class OffsetForLeaderTopic(Structure):
    """The partitions of one topic whose leader epochs are asked for."""

    topic: Text
    partitions: list[OffsetForLeaderPartition]


class OffsetForLeaderEpochRequest(Message, api_key=23, versions="0-4", flexible="4+"):
    """Asks for the end offset of a leader epoch in each of the named partitions (KIP-101, KIP-320). `replica_id` is -1
    for a consumer, -2 for a debugging consumer."""

    replica_id: Annotated[Int32, since(3), ignorable] = -2
    topics: list[OffsetForLeaderTopic]


class OffsetForLeaderPartitionResult(Structure):
    """The end offset of a leader epoch. Kafka calls this structure EpochEndOffset, like the one in the response to
    Fetch."""

    error_code: Int16 = 0
    partition: Int32
    leader_epoch: Annotated[Int32, since(1), ignorable] = -1
    end_offset: Int64 = -1


class OffsetForLeaderTopicResult(Structure):
    """The end offsets of leader epochs in the partitions of one topic."""

    topic: Text
    partitions: list[OffsetForLeaderPartitionResult]


class OffsetForLeaderEpochResponse(Message, api_key=23, versions="0-4", flexible="4+"):
    """The end offset of the leader epoch in each partition."""

    throttle_time_ms: Annotated[Int32, since(2), ignorable] = 0
    topics: list[OffsetForLeaderTopicResult]
