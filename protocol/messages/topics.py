"""Making, changing and describing topics, and the settings of topics, brokers and groups."""

from typing import Annotated

from regroup.protocol.fields import (
    NO_UUID,
    UNKNOWN_OPERATIONS,
    Bool,
    Int8,
    Int16,
    Int32,
    Int64,
    Text,
    Uuid,
    ignorable,
    nullable,
    only,
    since,
    tagged,
    until,
)
from regroup.protocol.message import Message, Structure


class CreatableReplicaAssignment(Structure):
    """Which brokers hold one partition."""

    partition_index: Int32
    broker_ids: list[Int32]


class CreatableTopicConfig(Structure):
    """One setting; a null value means the broker's default."""

    name: Text
    value: Text | None


class CreatableTopic(Structure):
    """A topic to make; since v4 -1 leaves a number to the broker (KIP-464)."""

    name: Text
    num_partitions: Int32
    replication_factor: Int16
    assignments: list[CreatableReplicaAssignment] = []
    configs: list[CreatableTopicConfig] = []


class CreateTopicsRequest(Message, api_key=19, versions="0-7", flexible="5+"):
    """Make these topics, or only say whether they could be made (v1)."""

    topics: list[CreatableTopic]
    timeout_ms: Int32 = 60_000
    validate_only: Annotated[Bool, since(1)] = False


class CreatableTopicConfigs(Structure):
    """One setting that the new topic has."""

    name: Text
    value: Text | None
    read_only: Bool
    config_source: Annotated[Int8, ignorable] = -1
    is_sensitive: Bool


class CreatableTopicResult(Structure):
    """What became of one topic; v5 shows what it was made with (KIP-525), v7 its id (KIP-516)."""

    name: Text
    topic_id: Annotated[Uuid, since(7), ignorable] = NO_UUID
    error_code: Int16 = 0
    error_message: Annotated[Text | None, since(1), ignorable] = ""
    topic_config_error_code: Annotated[Int16, since(5), tagged(0), ignorable] = 0
    num_partitions: Annotated[Int32, since(5), ignorable] = -1
    replication_factor: Annotated[Int16, since(5), ignorable] = -1
    configs: Annotated[list[CreatableTopicConfigs] | None, since(5), ignorable] = []


class CreateTopicsResponse(Message, api_key=19, versions="0-7", flexible="5+"):
    """Each topic has its own code."""

    throttle_time_ms: Annotated[Int32, since(2), ignorable] = 0
    topics: list[CreatableTopicResult]


class DeleteTopicState(Structure):
    """A topic to delete, by name or by id."""

    name: Text | None = None
    topic_id: Uuid = NO_UUID


class DeleteTopicsRequest(Message, api_key=20, versions="0-6", flexible="4+"):
    """Up to v5 names only, since v6 names or ids (KIP-516)."""

    topics: Annotated[list[DeleteTopicState], since(6)] = []
    topic_names: Annotated[list[Text], until(5), ignorable] = []
    timeout_ms: Int32


class DeletableTopicResult(Structure):
    """What became of one topic."""

    name: Annotated[Text | None, nullable(6)]
    topic_id: Annotated[Uuid, since(6), ignorable] = NO_UUID
    error_code: Int16 = 0
    error_message: Annotated[Text | None, since(5), ignorable] = None


class DeleteTopicsResponse(Message, api_key=20, versions="0-6", flexible="4+"):
    """Each topic has its own code."""

    throttle_time_ms: Annotated[Int32, since(1), ignorable] = 0
    responses: list[DeletableTopicResult]


class CreatePartitionsAssignment(Structure):
    """Which brokers hold one new partition."""

    broker_ids: list[Int32]


class CreatePartitionsTopic(Structure):
    """`count` is how many partitions the topic shall have in all."""

    name: Text
    count: Int32
    assignments: list[CreatePartitionsAssignment] | None = None


class CreatePartitionsRequest(Message, api_key=37, versions="0-3", flexible="2+"):
    """Let these topics grow."""

    topics: list[CreatePartitionsTopic]
    timeout_ms: Int32
    validate_only: Bool = False


class CreatePartitionsTopicResult(Structure):
    """What became of one topic."""

    name: Text
    error_code: Int16 = 0
    error_message: Text | None = None


class CreatePartitionsResponse(Message, api_key=37, versions="0-3", flexible="2+"):
    """Each topic has its own code."""

    throttle_time_ms: Int32 = 0
    results: list[CreatePartitionsTopicResult]


class DeleteRecordsPartition(Structure):
    """Everything before `offset` goes; -1 means up to the high watermark."""

    partition_index: Int32
    offset: Int64


class DeleteRecordsTopic(Structure):
    """The partitions of one topic."""

    name: Text
    partitions: list[DeleteRecordsPartition]


class DeleteRecordsRequest(Message, api_key=21, versions="0-2", flexible="2+"):
    """Forget the oldest records (KIP-107)."""

    topics: list[DeleteRecordsTopic]
    timeout_ms: Int32


class DeleteRecordsPartitionResult(Structure):
    """Where the partition begins now."""

    partition_index: Int32
    low_watermark: Int64
    error_code: Int16 = 0


class DeleteRecordsTopicResult(Structure):
    """The partitions of one topic."""

    name: Text
    partitions: list[DeleteRecordsPartitionResult]


class DeleteRecordsResponse(Message, api_key=21, versions="0-2", flexible="2+"):
    """Each partition has its own code."""

    throttle_time_ms: Int32 = 0
    topics: list[DeleteRecordsTopicResult]


class DescribeTopicPartitionsRequestTopic(Structure):
    """A topic by its name."""

    name: Text


class TopicPartitionsCursor(Structure):
    """Where to go on."""

    topic_name: Text
    partition_index: Int32


class DescribeTopicPartitionsRequest(Message, api_key=75, versions="0", flexible="0+"):
    """Metadata of topics in pages (KIP-966)."""

    topics: list[DescribeTopicPartitionsRequestTopic]
    response_partition_limit: Int32 = 2000
    cursor: TopicPartitionsCursor | None = None


class DescribeTopicPartitionsResponsePartition(Structure):
    """Who leads a partition, who follows, and who could lead (KIP-966)."""

    error_code: Int16 = 0
    partition_index: Int32
    leader_id: Int32
    leader_epoch: Annotated[Int32, ignorable] = -1
    replica_nodes: list[Int32]
    isr_nodes: list[Int32]
    eligible_leader_replicas: list[Int32] | None = None
    last_known_elr: list[Int32] | None = None
    offline_replicas: Annotated[list[Int32], ignorable] = []


class DescribeTopicPartitionsResponseTopic(Structure):
    """One topic of the page."""

    error_code: Int16 = 0
    name: Text | None
    topic_id: Annotated[Uuid, ignorable] = NO_UUID
    is_internal: Annotated[Bool, ignorable] = False
    partitions: list[DescribeTopicPartitionsResponsePartition] = []
    topic_authorized_operations: Int32 = UNKNOWN_OPERATIONS


class DescribeTopicPartitionsResponse(Message, api_key=75, versions="0", flexible="0+"):
    """One page; `next_cursor` asks for the next."""

    throttle_time_ms: Annotated[Int32, ignorable] = 0
    topics: list[DescribeTopicPartitionsResponseTopic]
    next_cursor: TopicPartitionsCursor | None = None


class DescribeConfigsResource(Structure):
    """What is asked about. Types: 2 topic, 4 broker, 8 broker logger, 16 client metrics, 32 group. No keys: all."""

    resource_type: Int8
    resource_name: Text
    configuration_keys: list[Text] | None = None


class DescribeConfigsRequest(Message, api_key=32, versions="0-4", flexible="4+"):
    """Which settings hold?"""

    resources: list[DescribeConfigsResource]
    include_synonyms: Annotated[Bool, since(1)] = False
    include_documentation: Annotated[Bool, since(3)] = False


class DescribeConfigsSynonym(Structure):
    """Another place where the value could come from, in the order in which they are asked."""

    name: Text
    value: Text | None
    source: Int8


class DescribeConfigsResourceResult(Structure):
    """One setting. Sources: 1 topic, 2 dynamic broker, 3 dynamic default broker, 4 static, 5 default, 8 group."""

    name: Text
    value: Text | None
    read_only: Bool
    is_default: Annotated[Bool, only(0)] = False
    config_source: Annotated[Int8, since(1), ignorable] = -1
    is_sensitive: Bool
    synonyms: Annotated[list[DescribeConfigsSynonym], since(1), ignorable] = []
    config_type: Annotated[Int8, since(3), ignorable] = 0
    documentation: Annotated[Text | None, since(3), ignorable] = ""


class DescribeConfigsResult(Structure):
    """The settings of one resource."""

    error_code: Int16 = 0
    error_message: Text | None = ""
    resource_type: Int8
    resource_name: Text
    configs: list[DescribeConfigsResourceResult] = []


class DescribeConfigsResponse(Message, api_key=32, versions="0-4", flexible="4+"):
    """In the order in which they were asked for."""

    throttle_time_ms: Int32 = 0
    results: list[DescribeConfigsResult]


class AlterConfigsEntry(Structure):
    """The new value of one setting."""

    name: Text
    value: Text | None


class AlterConfigsResource(Structure):
    """All settings of one resource: those that are not named fall back to their defaults."""

    resource_type: Int8
    resource_name: Text
    configs: list[AlterConfigsEntry]


class AlterConfigsRequest(Message, api_key=33, versions="0-2", flexible="2+"):
    """The older way, which replaces everything."""

    resources: list[AlterConfigsResource]
    validate_only: Bool = False


class AlterConfigsResourceResponse(Structure):
    """What became of one resource."""

    error_code: Int16 = 0
    error_message: Text | None = ""
    resource_type: Int8
    resource_name: Text


class AlterConfigsResponse(Message, api_key=33, versions="0-2", flexible="2+"):
    """Each resource has its own code."""

    throttle_time_ms: Int32 = 0
    responses: list[AlterConfigsResourceResponse]


class IncrementalAlterConfigsEntry(Structure):
    """One change. Operations: 0 set, 1 delete, 2 append to a list, 3 take out of a list."""

    name: Text
    config_operation: Int8
    value: Text | None


class IncrementalAlterConfigsResource(Structure):
    """The changes of one resource."""

    resource_type: Int8
    resource_name: Text
    configs: list[IncrementalAlterConfigsEntry]


class IncrementalAlterConfigsRequest(Message, api_key=44, versions="0-1", flexible="1+"):
    """The newer way, which leaves alone what is not named (KIP-339)."""

    resources: list[IncrementalAlterConfigsResource]
    validate_only: Bool = False


class IncrementalAlterConfigsResponse(Message, api_key=44, versions="0-1", flexible="1+"):
    """Each resource has its own code."""

    throttle_time_ms: Int32 = 0
    responses: list[AlterConfigsResourceResponse]
