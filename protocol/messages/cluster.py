"""What a client asks first: which versions, which brokers, which topics, which coordinator."""

from typing import Annotated

from regroup.protocol.fields import (
    NO_UUID,
    UNKNOWN_OPERATIONS,
    Bool,
    Bytes,
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


class ApiVersionsRequest(Message, api_key=18, versions="0-4", flexible="3+"):
    """Which APIs do you speak? v3 tells who asks (KIP-511)."""

    client_software_name: Annotated[Text, since(3), ignorable] = ""
    client_software_version: Annotated[Text, since(3), ignorable] = ""


class ApiVersion(Structure):
    """One API and the range of its versions, both ends included."""

    api_key: Int16
    min_version: Int16
    max_version: Int16


class SupportedFeatureKey(Structure):
    """A feature of the cluster that this broker could run (KIP-584)."""

    name: Text
    min_version: Int16
    max_version: Int16


class FinalizedFeatureKey(Structure):
    """A feature level that the whole cluster has agreed on (KIP-584)."""

    name: Text
    max_version_level: Int16
    min_version_level: Int16


class ApiVersionsResponse(Message, api_key=18, versions="0-4", flexible="3+"):
    """Code 35 with the v0 body tells a client that asked in an unknown version what it may use instead."""

    error_code: Int16 = 0
    api_keys: list[ApiVersion]
    throttle_time_ms: Annotated[Int32, since(1), ignorable] = 0
    supported_features: Annotated[list[SupportedFeatureKey], since(3), tagged(0), ignorable] = []
    finalized_features_epoch: Annotated[Int64, since(3), tagged(1), ignorable] = -1
    finalized_features: Annotated[list[FinalizedFeatureKey], since(3), tagged(2), ignorable] = []
    zk_migration_ready: Annotated[Bool, since(3), tagged(3), ignorable] = False


class MetadataRequestTopic(Structure):
    """A topic by its name, or since v10 by its id (KIP-516)."""

    topic_id: Annotated[Uuid, since(10), ignorable] = NO_UUID
    name: Annotated[Text | None, nullable(10)] = ""


class MetadataRequest(Message, api_key=3, versions="0-13", flexible="9+"):
    """Brokers and topics, please. Since v1 `topics=None` means all of them; in v0 the empty list does."""

    topics: Annotated[list[MetadataRequestTopic] | None, nullable(1)]
    allow_auto_topic_creation: Annotated[Bool, since(4)] = True
    include_cluster_authorized_operations: Annotated[Bool, between(8, 10)] = False
    include_topic_authorized_operations: Annotated[Bool, since(8)] = False


class MetadataResponseBroker(Structure):
    """Where a broker listens."""

    node_id: Int32
    host: Text
    port: Int32
    rack: Annotated[Text | None, since(1), ignorable] = None


class MetadataResponsePartition(Structure):
    """Who leads a partition and who follows."""

    error_code: Int16 = 0
    partition_index: Int32
    leader_id: Int32
    leader_epoch: Annotated[Int32, since(7), ignorable] = -1
    replica_nodes: list[Int32]
    isr_nodes: list[Int32]
    offline_replicas: Annotated[list[Int32], since(5), ignorable] = []


class MetadataResponseTopic(Structure):
    """One topic; since v12 the name may be unknown when it was asked for by id."""

    error_code: Int16 = 0
    name: Annotated[Text | None, nullable(12)]
    topic_id: Annotated[Uuid, since(10), ignorable] = NO_UUID
    is_internal: Annotated[Bool, since(1), ignorable] = False
    partitions: list[MetadataResponsePartition] = []
    topic_authorized_operations: Annotated[Int32, since(8)] = UNKNOWN_OPERATIONS


class MetadataResponse(Message, api_key=3, versions="0-13", flexible="9+"):
    """The cluster as this broker sees it."""

    throttle_time_ms: Annotated[Int32, since(3), ignorable] = 0
    brokers: list[MetadataResponseBroker]
    cluster_id: Annotated[Text | None, since(2), ignorable] = None
    controller_id: Annotated[Int32, since(1), ignorable] = -1
    topics: list[MetadataResponseTopic]
    cluster_authorized_operations: Annotated[Int32, between(8, 10)] = UNKNOWN_OPERATIONS
    error_code: Annotated[Int16, since(13), ignorable] = 0


class FindCoordinatorRequest(Message, api_key=10, versions="0-6", flexible="3+"):
    """Who coordinates this? Key type 0 is a group, 1 a transactional id, 2 a share group. v4 KIP-699."""

    key: Annotated[Text, until(3)] = ""
    key_type: Annotated[Int8, since(1)] = 0
    coordinator_keys: Annotated[list[Text], since(4)] = []


class Coordinator(Structure):
    """The answer for one key."""

    key: Text
    node_id: Int32
    host: Text
    port: Int32
    error_code: Int16 = 0
    error_message: Annotated[Text | None, ignorable] = None


class FindCoordinatorResponse(Message, api_key=10, versions="0-6", flexible="3+"):
    """Up to v3 one coordinator stands in the message itself, since v4 one in `coordinators` for each key."""

    throttle_time_ms: Annotated[Int32, since(1), ignorable] = 0
    error_code: Annotated[Int16, until(3)] = 0
    error_message: Annotated[Text | None, between(1, 3), ignorable] = None
    node_id: Annotated[Int32, until(3)] = 0
    host: Annotated[Text, until(3)] = ""
    port: Annotated[Int32, until(3)] = 0
    coordinators: Annotated[list[Coordinator], since(4)] = []


class DescribeClusterRequest(Message, api_key=60, versions="0-2", flexible="0+"):
    """Endpoint type 1 asks for brokers, 2 for controllers (KIP-919); v2 may show fenced brokers too (KIP-1073)."""

    include_cluster_authorized_operations: Bool = False
    endpoint_type: Annotated[Int8, since(1)] = 1
    include_fenced_brokers: Annotated[Bool, since(2)] = False


class DescribeClusterBroker(Structure):
    """Where a broker listens."""

    broker_id: Int32
    host: Text
    port: Int32
    rack: Text | None = None
    is_fenced: Annotated[Bool, since(2)] = False


class DescribeClusterResponse(Message, api_key=60, versions="0-2", flexible="0+"):
    """The brokers, and which of them is the controller."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: Text | None = None
    endpoint_type: Annotated[Int8, since(1)] = 1
    cluster_id: Text
    controller_id: Int32 = -1
    brokers: list[DescribeClusterBroker]
    cluster_authorized_operations: Int32 = UNKNOWN_OPERATIONS


class SaslHandshakeRequest(Message, api_key=17, versions="0-1"):
    """May I log in this way? After v0 raw tokens follow, after v1 SaslAuthenticate."""

    mechanism: Text


class SaslHandshakeResponse(Message, api_key=17, versions="0-1"):
    """The mechanisms that the broker offers."""

    error_code: Int16 = 0
    mechanisms: list[Text]


class SaslAuthenticateRequest(Message, api_key=36, versions="0-2", flexible="2+"):
    """One token of the mechanism."""

    auth_bytes: Bytes


class SaslAuthenticateResponse(Message, api_key=36, versions="0-2", flexible="2+"):
    """The broker's token; v1 tells how long the login holds (KIP-368)."""

    error_code: Int16 = 0
    error_message: Text | None = None
    auth_bytes: Bytes = b""
    session_lifetime_ms: Annotated[Int64, since(1), ignorable] = 0
