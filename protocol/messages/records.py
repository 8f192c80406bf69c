"""Records on their way in and out: produce, fetch, and the offsets that a log has."""

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


class PartitionProduceData(Structure):
    """Record batches for one partition; up to v2 an old message set."""

    index: Int32
    records: Records | None


class TopicProduceData(Structure):
    """A topic by its name, since v13 by its id (KIP-516)."""

    name: Annotated[Text, until(12), ignorable] = ""
    topic_id: Annotated[Uuid, since(13), ignorable] = NO_UUID
    partition_data: list[PartitionProduceData]


class ProduceRequest(Message, api_key=0, versions="0-13", flexible="9+"):
    """Write these. `acks` 0 wants no response at all, 1 the leader's word, -1 that of all copies in sync."""

    transactional_id: Annotated[Text | None, since(3)] = None
    acks: Int16
    timeout_ms: Int32
    topic_data: list[TopicProduceData]


class LeaderIdAndEpoch(Structure):
    """Who leads by now; -1 if that is not known."""

    leader_id: Int32 = -1
    leader_epoch: Int32 = -1


class NodeEndpoint(Structure):
    """Where a leader listens (KIP-951)."""

    node_id: Int32
    host: Text
    port: Int32
    rack: Text | None = None


class BatchIndexAndErrorMessage(Structure):
    """The record that was refused, and why (KIP-467)."""

    batch_index: Int32
    batch_index_error_message: Text | None = None


class PartitionProduceResponse(Structure):
    """`base_offset` is what the first record got."""

    index: Int32
    error_code: Int16 = 0
    base_offset: Int64
    log_append_time_ms: Annotated[Int64, since(2), ignorable] = -1
    log_start_offset: Annotated[Int64, since(5), ignorable] = -1
    record_errors: Annotated[list[BatchIndexAndErrorMessage], since(8), ignorable] = []
    error_message: Annotated[Text | None, since(8), ignorable] = None
    current_leader: Annotated[LeaderIdAndEpoch, since(10), tagged(0)] = LeaderIdAndEpoch()


class TopicProduceResponse(Structure):
    """The partitions of one topic."""

    name: Annotated[Text, until(12), ignorable] = ""
    topic_id: Annotated[Uuid, since(13), ignorable] = NO_UUID
    partition_responses: list[PartitionProduceResponse]


class ProduceResponse(Message, api_key=0, versions="0-13", flexible="9+"):
    """Each partition has its own code."""

    responses: list[TopicProduceResponse]
    throttle_time_ms: Annotated[Int32, since(1), ignorable] = 0
    node_endpoints: Annotated[list[NodeEndpoint], since(10), tagged(0)] = []


class ReplicaState(Structure):
    """The broker that copies; -1 for a consumer (KIP-903)."""

    replica_id: Int32 = -1
    replica_epoch: Int64 = -1


class FetchPartition(Structure):
    """From where, and at most how much."""

    partition: Int32
    current_leader_epoch: Annotated[Int32, since(9), ignorable] = -1
    fetch_offset: Int64
    last_fetched_epoch: Annotated[Int32, since(12)] = -1
    log_start_offset: Annotated[Int64, since(5), ignorable] = -1
    partition_max_bytes: Int32
    replica_directory_id: Annotated[Uuid, since(17), tagged(0), ignorable] = NO_UUID
    high_watermark: Annotated[Int64, since(18), tagged(1), ignorable] = 2**63 - 1


class FetchTopic(Structure):
    """A topic by its name, since v13 by its id (KIP-516)."""

    topic: Annotated[Text, until(12), ignorable] = ""
    topic_id: Annotated[Uuid, since(13), ignorable] = NO_UUID
    partitions: list[FetchPartition]


class ForgottenTopic(Structure):
    """Partitions to take out of the fetch session."""

    topic: Annotated[Text, until(12), ignorable] = ""
    topic_id: Annotated[Uuid, since(13), ignorable] = NO_UUID
    partitions: list[Int32]


class FetchRequest(Message, api_key=1, versions="0-18", flexible="12+"):
    """What comes next? Wait up to `max_wait_ms` for `min_bytes`. v7 sessions (KIP-227), v11 racks (KIP-392)."""

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
    """Where the log of the follower parted from the leader's (KIP-595)."""

    epoch: Int32 = -1
    end_offset: Int64 = -1


class SnapshotId(Structure):
    """A snapshot to read in place of records that are gone (KIP-630)."""

    end_offset: Int64 = -1
    epoch: Int32 = -1


class AbortedTransaction(Structure):
    """A transaction whose records the reader must skip."""

    producer_id: Int64
    first_offset: Int64


class PartitionData(Structure):
    """What one partition has to give."""

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
    """The partitions of one topic."""

    topic: Annotated[Text, until(12), ignorable] = ""
    topic_id: Annotated[Uuid, since(13), ignorable] = NO_UUID
    partitions: list[PartitionData]


class FetchResponse(Message, api_key=1, versions="0-18", flexible="12+"):
    """Records as they lie in the log; the last batch may be cut off."""

    throttle_time_ms: Annotated[Int32, since(1), ignorable] = 0
    error_code: Annotated[Int16, since(7), ignorable] = 0
    session_id: Annotated[Int32, since(7)] = 0
    responses: list[FetchableTopicResponse]
    node_endpoints: Annotated[list[NodeEndpoint], since(16), tagged(0)] = []


class ListOffsetsPartition(Structure):
    """The first offset at or after a time; -1 the end, -2 the beginning, -3 the newest time, -4 local, -5 tiered."""

    partition_index: Int32
    current_leader_epoch: Annotated[Int32, since(4), ignorable] = -1
    timestamp: Int64
    max_num_offsets: Annotated[Int32, only(0)] = 1


class ListOffsetsTopic(Structure):
    """The partitions of one topic."""

    name: Text
    partitions: list[ListOffsetsPartition]


class ListOffsetsRequest(Message, api_key=2, versions="0-11", flexible="6+"):
    """Where do these logs begin and end?"""

    replica_id: Int32 = -1
    isolation_level: Annotated[Int8, since(2)] = 0
    topics: list[ListOffsetsTopic]
    timeout_ms: Annotated[Int32, since(10), ignorable] = 0


class ListOffsetsPartitionResponse(Structure):
    """v0 lists several offsets, later versions give one with its time."""

    partition_index: Int32
    error_code: Int16 = 0
    old_style_offsets: Annotated[list[Int64], only(0)] = []
    timestamp: Annotated[Int64, since(1)] = -1
    offset: Annotated[Int64, since(1)] = -1
    leader_epoch: Annotated[Int32, since(4)] = -1


class ListOffsetsTopicResponse(Structure):
    """The partitions of one topic."""

    name: Text
    partitions: list[ListOffsetsPartitionResponse]


class ListOffsetsResponse(Message, api_key=2, versions="0-11", flexible="6+"):
    """Each partition has its own code."""

    throttle_time_ms: Annotated[Int32, since(2), ignorable] = 0
    topics: list[ListOffsetsTopicResponse]


class OffsetForLeaderPartition(Structure):
    """The epoch whose end is asked for."""

    partition: Int32
    current_leader_epoch: Annotated[Int32, since(2), ignorable] = -1
    leader_epoch: Int32


class OffsetForLeaderTopic(Structure):
    """The partitions of one topic."""

    topic: Text
    partitions: list[OffsetForLeaderPartition]


class OffsetForLeaderEpochRequest(Message, api_key=23, versions="0-4", flexible="4+"):
    """Where did this leader's records end (KIP-101, KIP-320)? `replica_id` -1 is a consumer, -2 a debugging one."""

    replica_id: Annotated[Int32, since(3), ignorable] = -2
    topics: list[OffsetForLeaderTopic]


class OffsetForLeaderPartitionResult(Structure):
    """The end of the epoch; Kafka calls this EpochEndOffset too."""

    error_code: Int16 = 0
    partition: Int32
    leader_epoch: Annotated[Int32, since(1), ignorable] = -1
    end_offset: Int64 = -1


class OffsetForLeaderTopicResult(Structure):
    """The partitions of one topic."""

    topic: Text
    partitions: list[OffsetForLeaderPartitionResult]


class OffsetForLeaderEpochResponse(Message, api_key=23, versions="0-4", flexible="4+"):
    """Each partition has its own code."""

    throttle_time_ms: Annotated[Int32, since(2), ignorable] = 0
    topics: list[OffsetForLeaderTopicResult]
