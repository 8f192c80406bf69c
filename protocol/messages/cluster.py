"""Messages about the cluster itself: ApiVersions, Metadata, FindCoordinator, DescribeCluster."""

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
    between,
    ignorable,
    nullable,
    since,
    tagged,
    until,
)
from regroup.protocol.message import Message, Structure

__all__ = [
    "ApiVersionsRequest",
    "ApiVersion",
    "SupportedFeatureKey",
    "FinalizedFeatureKey",
    "ApiVersionsResponse",
    "MetadataRequestTopic",
    "MetadataRequest",
    "MetadataResponseBroker",
    "MetadataResponsePartition",
    "MetadataResponseTopic",
    "MetadataResponse",
    "FindCoordinatorRequest",
    "Coordinator",
    "FindCoordinatorResponse",
    "DescribeClusterRequest",
    "DescribeClusterBroker",
    "DescribeClusterResponse",
]


class ApiVersionsRequest(Message, api_key=18, versions="0-5", flexible="3+"):
    """Asks which APIs and versions the broker supports. Since v3 it names the client software (KIP-511).

    Since v5 it may name the broker that the client wants to reach, by cluster id and node id (KIP-1242).
    """

    client_software_name: Annotated[Text, since(3), ignorable] = ""
    client_software_version: Annotated[Text, since(3), ignorable] = ""
    cluster_id: Annotated[Text | None, since(5), ignorable] = None
    node_id: Annotated[Int32, since(5), ignorable] = -1


class ApiVersion(Structure):
    """One API and the range of its supported versions, both ends included."""

    api_key: Int16
    min_version: Int16
    max_version: Int16


class SupportedFeatureKey(Structure):
    """A feature that this broker supports, with its range of levels (KIP-584)."""

    name: Text
    min_version: Int16
    max_version: Int16


class FinalizedFeatureKey(Structure):
    """A feature level that the whole cluster has finalized (KIP-584)."""

    name: Text
    max_version_level: Int16
    min_version_level: Int16


class ApiVersionsResponse(Message, api_key=18, versions="0-5", flexible="3+"):
    """The APIs that the broker supports, with their versions. A request in an unsupported version gets error code 35
    and a response in version 0."""

    error_code: Int16 = 0
    api_keys: list[ApiVersion]
    throttle_time_ms: Annotated[Int32, since(1), ignorable] = 0
    supported_features: Annotated[list[SupportedFeatureKey], since(3), tagged(0), ignorable] = []
    finalized_features_epoch: Annotated[Int64, since(3), tagged(1), ignorable] = -1
    finalized_features: Annotated[list[FinalizedFeatureKey], since(3), tagged(2), ignorable] = []
    zk_migration_ready: Annotated[Bool, since(3), tagged(3), ignorable] = False


class MetadataRequestTopic(Structure):
    """A topic about which a Metadata request asks: by name, or since v10 by id (KIP-516)."""

    topic_id: Annotated[Uuid, since(10), ignorable] = NO_UUID
    name: Annotated[Text | None, nullable(10)] = ""


class MetadataRequest(Message, api_key=3, versions="0-13", flexible="9+"):
    """Asks for the brokers and for topics. To ask for all topics, `topics` is None since v1, and the empty list in
    v0."""

    topics: Annotated[list[MetadataRequestTopic] | None, nullable(1)]
    allow_auto_topic_creation: Annotated[Bool, since(4)] = True
    include_cluster_authorized_operations: Annotated[Bool, between(8, 10)] = False
    include_topic_authorized_operations: Annotated[Bool, since(8)] = False


class MetadataResponseBroker(Structure):
    """The address of one broker."""

    node_id: Int32
    host: Text
    port: Int32
    rack: Annotated[Text | None, since(1), ignorable] = None


class MetadataResponsePartition(Structure):
    """The leader and the replicas of one partition."""

    error_code: Int16 = 0
    partition_index: Int32
    leader_id: Int32
    leader_epoch: Annotated[Int32, since(7), ignorable] = -1
    replica_nodes: list[Int32]
    isr_nodes: list[Int32]
    offline_replicas: Annotated[list[Int32], since(5), ignorable] = []


class MetadataResponseTopic(Structure):
    """The error code and the partitions of one topic; since v12 `name` is null for an unknown topic id."""

    error_code: Int16 = 0
    name: Annotated[Text | None, nullable(12)]
    topic_id: Annotated[Uuid, since(10), ignorable] = NO_UUID
    is_internal: Annotated[Bool, since(1), ignorable] = False
    partitions: list[MetadataResponsePartition] = []
    topic_authorized_operations: Annotated[Int32, since(8)] = UNKNOWN_OPERATIONS


class MetadataResponse(Message, api_key=3, versions="0-13", flexible="9+"):
    """The brokers and topics of the cluster, as this broker knows them."""

    throttle_time_ms: Annotated[Int32, since(3), ignorable] = 0
    brokers: list[MetadataResponseBroker]
    cluster_id: Annotated[Text | None, since(2), ignorable] = None
    controller_id: Annotated[Int32, since(1), ignorable] = -1
    topics: list[MetadataResponseTopic]
    cluster_authorized_operations: Annotated[Int32, between(8, 10)] = UNKNOWN_OPERATIONS
    error_code: Annotated[Int16, since(13), ignorable] = 0


class FindCoordinatorRequest(Message, api_key=10, versions="0-6", flexible="3+"):
    """Asks for the coordinator of a key, or of several since v4 (KIP-699). Key types: 0 group, 1 transactional id, 2
    share group."""

    key: Annotated[Text, until(3)] = ""
    key_type: Annotated[Int8, since(1)] = 0
    coordinator_keys: Annotated[list[Text], since(4)] = []


class Coordinator(Structure):
    """The broker that coordinates one key, or an error code."""

    key: Text
    node_id: Int32
    host: Text
    port: Int32
    error_code: Int16 = 0
    error_message: Annotated[Text | None, ignorable] = None


class FindCoordinatorResponse(Message, api_key=10, versions="0-6", flexible="3+"):
    """The coordinators. Up to v3 the fields of the message hold one, since v4 `coordinators` has one for each key."""

    throttle_time_ms: Annotated[Int32, since(1), ignorable] = 0
    error_code: Annotated[Int16, until(3)] = 0
    error_message: Annotated[Text | None, between(1, 3), ignorable] = None
    node_id: Annotated[Int32, until(3)] = 0
    host: Annotated[Text, until(3)] = ""
    port: Annotated[Int32, until(3)] = 0
    coordinators: Annotated[list[Coordinator], since(4)] = []


class DescribeClusterRequest(Message, api_key=60, versions="0-2", flexible="0+"):
    """Asks for brokers (endpoint type 1) or controllers (2, KIP-919); v2 may include fenced brokers (KIP-1073)."""

    include_cluster_authorized_operations: Bool = False
    endpoint_type: Annotated[Int8, since(1)] = 1
    include_fenced_brokers: Annotated[Bool, since(2)] = False


class DescribeClusterBroker(Structure):
    """The address of one broker, and whether it is fenced (KIP-1073)."""

    broker_id: Int32
    host: Text
    port: Int32
    rack: Text | None = None
    is_fenced: Annotated[Bool, since(2)] = False


class DescribeClusterResponse(Message, api_key=60, versions="0-2", flexible="0+"):
    """The brokers of the cluster, and which of them is the controller."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: Text | None = None
    endpoint_type: Annotated[Int8, since(1)] = 1
    cluster_id: Text
    controller_id: Int32 = -1
    brokers: list[DescribeClusterBroker]
    cluster_authorized_operations: Int32 = UNKNOWN_OPERATIONS
