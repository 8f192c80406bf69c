"""Messages of administrators about topics, and about the configuration of topics, brokers and groups."""

from typing import Annotated

from regroup.protocol.fields import (
    NO_UUID,
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

__all__ = [
    "CreatableReplicaAssignment",
    "CreatableTopicConfig",
    "CreatableTopic",
    "CreateTopicsRequest",
    "CreatableTopicConfigs",
    "CreatableTopicResult",
    "CreateTopicsResponse",
    "DeleteTopicState",
    "DeleteTopicsRequest",
    "DeletableTopicResult",
    "DeleteTopicsResponse",
    "CreatePartitionsAssignment",
    "CreatePartitionsTopic",
    "CreatePartitionsRequest",
    "CreatePartitionsTopicResult",
    "CreatePartitionsResponse",
    "DeleteRecordsPartition",
    "DeleteRecordsTopic",
    "DeleteRecordsRequest",
    "DeleteRecordsPartitionResult",
    "DeleteRecordsTopicResult",
    "DeleteRecordsResponse",
    "DescribeConfigsResource",
    "DescribeConfigsRequest",
    "DescribeConfigsSynonym",
    "DescribeConfigsResourceResult",
    "DescribeConfigsResult",
    "DescribeConfigsResponse",
    "AlterConfigsEntry",
    "AlterConfigsResource",
    "AlterConfigsRequest",
    "AlterConfigsResourceResponse",
    "AlterConfigsResponse",
    "IncrementalAlterConfigsEntry",
    "IncrementalAlterConfigsResource",
    "IncrementalAlterConfigsRequest",
    "IncrementalAlterConfigsResponse",
]


class CreatableReplicaAssignment(Structure):
    """The brokers that hold the replicas of one partition."""

    partition_index: Int32
    broker_ids: list[Int32]


class CreatableTopicConfig(Structure):
    """One topic configuration; null means the broker's default."""

    name: Text
    value: Text | None


class CreatableTopic(Structure):
    """A topic to create. Since v4 the numbers of partitions and of replicas may be -1, which means the broker's default
    (KIP-464)."""

    name: Text
    num_partitions: Int32
    replication_factor: Int16
    assignments: list[CreatableReplicaAssignment] = []
    configs: list[CreatableTopicConfig] = []


class CreateTopicsRequest(Message, api_key=19, versions="0-7", flexible="5+"):
    """Creates topics; since v1 `validate_only` checks the request without creating them."""

    topics: list[CreatableTopic]
    timeout_ms: Int32 = 60_000
    validate_only: Annotated[Bool, since(1)] = False


class CreatableTopicConfigs(Structure):
    """One configuration of a created topic."""

    name: Text
    value: Text | None
    read_only: Bool
    config_source: Annotated[Int8, ignorable] = -1
    is_sensitive: Bool


class CreatableTopicResult(Structure):
    """The result for one topic; v5 adds its configuration (KIP-525), v7 its id (KIP-516)."""

    name: Text
    topic_id: Annotated[Uuid, since(7), ignorable] = NO_UUID
    error_code: Int16 = 0
    error_message: Annotated[Text | None, since(1), ignorable] = ""
    topic_config_error_code: Annotated[Int16, since(5), tagged(0), ignorable] = 0
    num_partitions: Annotated[Int32, since(5), ignorable] = -1
    replication_factor: Annotated[Int16, since(5), ignorable] = -1
    configs: Annotated[list[CreatableTopicConfigs] | None, since(5), ignorable] = []


class CreateTopicsResponse(Message, api_key=19, versions="0-7", flexible="5+"):
    """The result for each topic that was to be created."""

    throttle_time_ms: Annotated[Int32, since(2), ignorable] = 0
    topics: list[CreatableTopicResult]


class DeleteTopicState(Structure):
    """A topic to delete, by name or by id."""

    name: Text | None = None
    topic_id: Uuid = NO_UUID


class DeleteTopicsRequest(Message, api_key=20, versions="0-6", flexible="4+"):
    """Deletes topics: by name up to v5, by name or id since v6 (KIP-516)."""

    topics: Annotated[list[DeleteTopicState], since(6)] = []
    topic_names: Annotated[list[Text], until(5), ignorable] = []
    timeout_ms: Int32


class DeletableTopicResult(Structure):
    """The error code of one topic that was to be deleted, which is given by name or by id."""

    name: Annotated[Text | None, nullable(6)]
    topic_id: Annotated[Uuid, since(6), ignorable] = NO_UUID
    error_code: Int16 = 0
    error_message: Annotated[Text | None, since(5), ignorable] = None


class DeleteTopicsResponse(Message, api_key=20, versions="0-6", flexible="4+"):
    """The result for each topic that was to be deleted."""

    throttle_time_ms: Annotated[Int32, since(1), ignorable] = 0
    responses: list[DeletableTopicResult]


class CreatePartitionsAssignment(Structure):
    """The brokers that hold the replicas of one new partition."""

    broker_ids: list[Int32]


class CreatePartitionsTopic(Structure):
    """A topic, and the total number of partitions it is to have."""

    name: Text
    count: Int32
    assignments: list[CreatePartitionsAssignment] | None = None


class CreatePartitionsRequest(Message, api_key=37, versions="0-3", flexible="2+"):
    """Adds partitions to topics."""

    topics: list[CreatePartitionsTopic]
    timeout_ms: Int32
    validate_only: Bool = False


class CreatePartitionsTopicResult(Structure):
    """The error code of one topic to which partitions were to be added."""

    name: Text
    error_code: Int16 = 0
    error_message: Text | None = None


class CreatePartitionsResponse(Message, api_key=37, versions="0-3", flexible="2+"):
    """The result for each topic to which partitions were to be added."""

    throttle_time_ms: Int32 = 0
    results: list[CreatePartitionsTopicResult]


class DeleteRecordsPartition(Structure):
    """The new log start offset of a partition; -1 means the high watermark."""

    partition_index: Int32
    offset: Int64


class DeleteRecordsTopic(Structure):
    """The partitions of one topic whose oldest records are to be deleted."""

    name: Text
    partitions: list[DeleteRecordsPartition]


class DeleteRecordsRequest(Message, api_key=21, versions="0-2", flexible="2+"):
    """Deletes the oldest records of partitions (KIP-107)."""

    topics: list[DeleteRecordsTopic]
    timeout_ms: Int32


class DeleteRecordsPartitionResult(Structure):
    """The log start offset of one partition after the deletion."""

    partition_index: Int32
    low_watermark: Int64
    error_code: Int16 = 0


class DeleteRecordsTopicResult(Structure):
    """The results of deleting records from the partitions of one topic."""

    name: Text
    partitions: list[DeleteRecordsPartitionResult]


class DeleteRecordsResponse(Message, api_key=21, versions="0-2", flexible="2+"):
    """The result for each partition whose oldest records were to be deleted."""

    throttle_time_ms: Int32 = 0
    topics: list[DeleteRecordsTopicResult]


class DescribeConfigsResource(Structure):
    """A resource whose settings are wanted. Types: 2 topic, 4 broker, 8 broker logger, 16 client metrics, 32 group. If
    `configuration_keys` is null, all settings are wanted."""

    resource_type: Int8
    resource_name: Text
    configuration_keys: list[Text] | None = None


class DescribeConfigsRequest(Message, api_key=32, versions="0-4", flexible="4+"):
    """Asks for the configurations of topics, brokers or groups."""

    resources: list[DescribeConfigsResource]
    include_synonyms: Annotated[Bool, since(1)] = False
    include_documentation: Annotated[Bool, since(3)] = False


class DescribeConfigsSynonym(Structure):
    """Another source of a configuration's value; synonyms are listed by precedence."""

    name: Text
    value: Text | None
    source: Int8


class DescribeConfigsResourceResult(Structure):
    """One configuration. Its source is 1 topic, 2 dynamic broker, 3 dynamic default broker, 4 static broker, 5 default,
    or 8 group."""

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
    """The configurations of one resource."""

    error_code: Int16 = 0
    error_message: Text | None = ""
    resource_type: Int8
    resource_name: Text
    configs: list[DescribeConfigsResourceResult] = []


class DescribeConfigsResponse(Message, api_key=32, versions="0-4", flexible="4+"):
    """The configurations of the resources, in the order of the request."""

    throttle_time_ms: Int32 = 0
    results: list[DescribeConfigsResult]


class AlterConfigsEntry(Structure):
    """The new value of one configuration."""

    name: Text
    value: Text | None


class AlterConfigsResource(Structure):
    """All configurations that one resource is to have; those left out are reset to their defaults."""

    resource_type: Int8
    resource_name: Text
    configs: list[AlterConfigsEntry]


class AlterConfigsRequest(Message, api_key=33, versions="0-2", flexible="2+"):
    """Replaces all configurations of resources (superseded by IncrementalAlterConfigs)."""

    resources: list[AlterConfigsResource]
    validate_only: Bool = False


class AlterConfigsResourceResponse(Structure):
    """The error code of one resource whose configurations were to be changed."""

    error_code: Int16 = 0
    error_message: Text | None = ""
    resource_type: Int8
    resource_name: Text


class AlterConfigsResponse(Message, api_key=33, versions="0-2", flexible="2+"):
    """The result for each resource whose configurations were to be replaced."""

    throttle_time_ms: Int32 = 0
    responses: list[AlterConfigsResourceResponse]


class IncrementalAlterConfigsEntry(Structure):
    """One change of a configuration. Operations: 0 set, 1 delete, 2 append to a list, 3 subtract from a list."""

    name: Text
    config_operation: Int8
    value: Text | None


class IncrementalAlterConfigsResource(Structure):
    """The changes to one resource."""

    resource_type: Int8
    resource_name: Text
    configs: list[IncrementalAlterConfigsEntry]


class IncrementalAlterConfigsRequest(Message, api_key=44, versions="0-1", flexible="1+"):
    """Changes single configurations; those left out keep their values (KIP-339)."""

    resources: list[IncrementalAlterConfigsResource]
    validate_only: Bool = False


class IncrementalAlterConfigsResponse(Message, api_key=44, versions="0-1", flexible="1+"):
    """The result for each resource whose configurations were to be changed."""

    throttle_time_ms: Int32 = 0
    responses: list[AlterConfigsResourceResponse]
