"""Handlers of requests about the cluster itself: ApiVersions, Metadata, FindCoordinator, DescribeCluster."""

import re
from collections.abc import Mapping

from msgspec.structs import replace

from regroup.protocol.errors import ErrorCode
from regroup.protocol.fields import NO_UUID, UNKNOWN_OPERATIONS, Versions
from regroup.protocol.internal_topics import INTERNAL_TOPICS, OFFSETS_TOPIC
from regroup.protocol.messages.cluster import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
    Coordinator,
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
    FinalizedFeatureKey,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
    SupportedFeatureKey,
)
from regroup.server.cluster.events import TopicCreated
from regroup.server.cluster.image import Topic, metric_name_of
from regroup.server.cluster.state import ClusterState
from regroup.server.limits import MAX_CREATION_RECORDS, STEPS_PER_TURN
from regroup.server.net.exchange import Exchange, RequestHandler
from regroup.server.net.turns import Turns

_SOFTWARE_NAME = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")
_GROUP, _TRANSACTION, _SHARE = 0, 1, 2
_BROKERS, _CONTROLLERS = 1, 2
_NO_NODE = -1
_TOPICS_PER_PORTION = 250
_PARTITIONS_PER_TURN = STEPS_PER_TURN
_MAX_PARTITION_COUNTS = 100
"""How many lists of partition descriptions are cached, one for each number of partitions that a topic may have."""


def _bits(*operations: int) -> int:
    return sum(1 << operation for operation in operations)


# There is no authorization here, so every operation is allowed that a resource has. The numbers are Kafka's:
# 3 read, 4 write, 5 create, 6 delete, 7 alter, 8 describe, 9 cluster action, 10 and 11 configs, 12 idempotent write.
_TOPIC_OPERATIONS = _bits(3, 4, 5, 6, 7, 8, 10, 11)
_CLUSTER_OPERATIONS = _bits(5, 7, 8, 9, 10, 11, 12)


class ClusterApis:
    """Handles ApiVersions, Metadata, FindCoordinator and DescribeCluster.

    `served` are the broker's versions by API key; `features` are the finalized levels by name, 0 for none.
    """

    def __init__(
        self, state: ClusterState, node_id: int, served: Mapping[int, Versions], features: Mapping[str, int]
    ) -> None:
        self._state = state
        self._node_id = node_id
        self._served = served
        self._features = {name: level for name, level in features.items() if level}
        self._leadership: object = None
        self._partitions: list[MetadataResponsePartition] = []
        """Descriptions of partitions 0, 1, 2 …, as many as the largest topic described so far has. A partition's
        description depends only on its index, so smaller topics use the beginning of this list."""
        self._first_partitions: dict[int, list[MetadataResponsePartition]] = {}
        """For each number of partitions, the beginning of `_partitions` with that length."""
        self._replicas: dict[tuple[int, ...], tuple[list[int], list[int], list[int]]] = {}

    def handlers(self) -> dict[int, RequestHandler]:
        return {
            ApiVersionsRequest.api_key: self.api_versions,
            MetadataRequest.api_key: self.metadata,
            FindCoordinatorRequest.api_key: self.find_coordinator,
            DescribeClusterRequest.api_key: self.describe_cluster,
        }

    def api_versions(self, request: ApiVersionsRequest, exchange: Exchange) -> None:
        if error := self._refuse_client(request, exchange.version):
            exchange.respond(ApiVersionsResponse(error_code=error, api_keys=[]))
            return
        api_keys = [
            ApiVersion(api_key=key, min_version=versions.first, max_version=versions.last)
            for key, versions in sorted(self._served.items())
        ]
        if not self._features:
            exchange.respond(ApiVersionsResponse(api_keys=api_keys))
            return
        supported = [
            SupportedFeatureKey(name=name, min_version=0, max_version=level) for name, level in self._features.items()
        ]
        finalized = [
            FinalizedFeatureKey(name=name, min_version_level=level, max_version_level=level)
            for name, level in self._features.items()
        ]
        exchange.respond(
            ApiVersionsResponse(
                api_keys=api_keys,
                # Clients up to v3 cannot decode a feature that begins at 0.
                supported_features=supported if exchange.version >= 4 else [],
                finalized_features_epoch=0,
                finalized_features=finalized,
            )
        )

    def _refuse_client(self, request: ApiVersionsRequest, version: int) -> ErrorCode | None:
        """The error of an ApiVersions request, or None. Refused are a client software name or version that Kafka does
        not allow, and a cluster id or node id of another broker (KIP-1242).

        Cluster id and node id must be given together, or not at all.
        """
        names = (request.client_software_name, request.client_software_version)
        if version >= 3 and not all(_SOFTWARE_NAME.fullmatch(name) for name in names):
            return ErrorCode.INVALID_REQUEST
        if (request.cluster_id is None) != (request.node_id == _NO_NODE):
            return ErrorCode.INVALID_REQUEST
        is_meant = (request.cluster_id, request.node_id) in (
            (None, _NO_NODE),
            (self._state.cluster_id, self._node_id),
        )
        return None if is_meant else ErrorCode.REBOOTSTRAP_REQUIRED

    def metadata(self, request: MetadataRequest, exchange: Exchange) -> Turns:
        """Answer a Metadata request. Unknown topics are created if settings and request allow it; the response waits
        until their creation is durable.

        A topic that is named twice is returned once, as in Kafka.
        """
        topics: list[MetadataResponseTopic] = []
        if request.topics is None or (exchange.version == 0 and not request.topics):
            for topic in list(self._state.topics.values()):
                yield from self._prepare_partitions(topic.partitions)
                topics.append(self._describe(topic))
                yield 1
        else:
            wanted = list(dict.fromkeys(request.topics))
            # Beside a topic that is named by its id, Kafka leaves out those that are not.
            wanted = [each for each in wanted if each.topic_id != NO_UUID] or wanted
            may_create = self._may_create(wanted, request)
            for start in range(0, len(wanted), _TOPICS_PER_PORTION):
                portion = wanted[start : start + _TOPICS_PER_PORTION]
                if may_create:
                    self._create_missing(portion, exchange)
                for each in portion:
                    known = self._state.find_topic(each.name or "", each.topic_id)
                    yield from self._prepare_partitions(known.partitions if known else 0)
                    topics.append(self._find(each, exchange))
                yield len(portion) + self._state.steps_of_event
            topics.sort(key=_place_in_metadata)
        if request.include_topic_authorized_operations:
            topics = [
                topic if topic.error_code else replace(topic, topic_authorized_operations=_TOPIC_OPERATIONS)
                for topic in topics
            ]
        operations = _CLUSTER_OPERATIONS if request.include_cluster_authorized_operations else UNKNOWN_OPERATIONS
        response = MetadataResponse(
            brokers=[
                MetadataResponseBroker(node_id=node.node_id, host=node.host, port=node.port)
                for node in self._state.nodes.values()
            ],
            cluster_id=self._state.cluster_id,
            controller_id=self._state.controller_id,
            topics=topics,
            cluster_authorized_operations=operations,
        )
        exchange.respond_when_durable(response, self._state.when_durable)

    def _may_create(self, wanted: list[MetadataRequestTopic], request: MetadataRequest) -> bool:
        """Whether missing topics may be created; False for all of them if the request names too many."""
        settings = self._state.settings
        if not (request.allow_auto_topic_creation and settings.auto_create_topics_enable):
            return False
        missing = sum(each.topic_id == NO_UUID and each.name not in self._state.topics for each in wanted)
        return missing <= 1 or missing * (1 + settings.num_partitions) <= MAX_CREATION_RECORDS

    def _create_missing(self, wanted: list[MetadataRequestTopic], exchange: Exchange) -> None:
        """Create those of the wanted topics that do not exist, if the request and the settings allow it."""
        events: dict[str, TopicCreated] = {}
        for name in [each.name for each in wanted if each.name is not None and each.topic_id == NO_UUID]:
            is_new = name not in self._state.topics and metric_name_of(name) not in events
            if is_new and not self._state.topic_name_error(name):
                is_offsets_topic = name == OFFSETS_TOPIC
                partitions = (
                    self._state.offsets_topic_partitions if is_offsets_topic else self._state.settings.num_partitions
                )
                events[metric_name_of(name)] = self._state.topic_to_create(name, partitions)
        self._state.record_events(list(events.values()), exchange.cause)

    def _find(self, wanted: MetadataRequestTopic, exchange: Exchange) -> MetadataResponseTopic:
        name, topic_id = wanted.name, wanted.topic_id
        topic = self._state.find_topic(name or "", topic_id)
        if topic is not None:
            return self._describe(topic)
        if topic_id != NO_UUID:
            name = None if exchange.version >= 12 else ""
            return MetadataResponseTopic(error_code=ErrorCode.UNKNOWN_TOPIC_ID, name=name, topic_id=topic_id)
        if name is None or self._state.topic_name_error(name):
            return MetadataResponseTopic(error_code=ErrorCode.INVALID_TOPIC_EXCEPTION, name=name or "")
        return MetadataResponseTopic(
            error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, name=name, is_internal=name in INTERNAL_TOPICS
        )

    def _describe(self, topic: Topic) -> MetadataResponseTopic:
        return MetadataResponseTopic(
            name=topic.name,
            topic_id=topic.id_bytes,
            is_internal=topic.is_internal,
            partitions=self._describe_partitions(topic.partitions),
        )

    def _describe_partitions(self, count: int) -> list[MetadataResponsePartition]:
        """Descriptions of partitions 0 to `count` - 1, equal for all topics. They are cached until leaders change,
        because clients with many topics poll them."""
        self._forget_if_leaders_changed()
        if count not in self._first_partitions:
            self._extend_partitions(count)
            self._first_partitions[count] = self._partitions[:count]
        return self._first_partitions[count]

    def _prepare_partitions(self, count: int) -> Turns:
        """Extend the cache that `_describe_partitions` uses to `count` partitions, in turns, for a topic with many
        partitions."""
        while True:
            self._forget_if_leaders_changed()
            begin = len(self._partitions)
            if begin + _PARTITIONS_PER_TURN >= count:
                return
            self._extend_partitions(begin + _PARTITIONS_PER_TURN)
            yield _PARTITIONS_PER_TURN

    def _forget_if_leaders_changed(self) -> None:
        leadership = self._state.leadership
        if leadership != self._leadership or len(self._first_partitions) > _MAX_PARTITION_COUNTS:
            self._leadership, self._partitions, self._first_partitions = leadership, [], {}
            self._replicas = {}

    def _extend_partitions(self, count: int) -> None:
        self._partitions += map(self._describe_partition, range(len(self._partitions), count))

    def _describe_partition(self, index: int) -> MetadataResponsePartition:
        replicas, in_sync, offline = self._replicas_of(self._state.replicas_of(index))
        return MetadataResponsePartition(
            partition_index=index,
            leader_id=self._state.leader_of(index),
            leader_epoch=self._state.leader_epoch(index),
            replica_nodes=replicas,
            isr_nodes=in_sync,
            offline_replicas=offline,
        )

    def _replicas_of(self, replicas: tuple[int, ...]) -> tuple[list[int], list[int], list[int]]:
        """The lists of replicas, in-sync replicas and offline replicas of a partition. Partitions with equal replicas
        share the same list objects."""
        if replicas not in self._replicas:
            self._replicas[replicas] = (
                list(replicas),
                [node_id for node_id in replicas if node_id in self._state.nodes],
                [node_id for node_id in replicas if node_id not in self._state.nodes],
            )
        return self._replicas[replicas]

    def find_coordinator(self, request: FindCoordinatorRequest, exchange: Exchange) -> Turns:
        keys = request.coordinator_keys if exchange.version >= 4 else [request.key]
        coordinators = []
        for key in keys:
            coordinators.append(self._find_coordinator(key, request.key_type, exchange))
            yield 1 + len(key) // 100
        if exchange.version >= 4:
            response = FindCoordinatorResponse(coordinators=coordinators)
        else:
            (only,) = coordinators
            text = ErrorCode(only.error_code).meaning if only.error_code else "NONE"
            response = FindCoordinatorResponse(
                error_code=only.error_code,
                error_message=text if exchange.version >= 1 else None,
                node_id=only.node_id,
                host=only.host,
                port=only.port,
            )
        exchange.respond_when_durable(response, self._state.when_durable)

    def _find_coordinator(self, key: str, key_type: int, exchange: Exchange) -> Coordinator:
        """The leader of the key's partition. The first request about a group creates `__consumer_offsets`."""
        if key_type not in (_GROUP, _TRANSACTION):
            text = "" if key_type == _SHARE else f"There are no coordinators of type {key_type}."
            return _no_coordinator(key, ErrorCode.INVALID_REQUEST, text)
        if key_type == _GROUP and OFFSETS_TOPIC not in self._state.topics:
            self._state.create_topic(OFFSETS_TOPIC, self._state.offsets_topic_partitions, cause=exchange.cause)
            return _no_coordinator(key, ErrorCode.COORDINATOR_NOT_AVAILABLE)
        if key_type == _GROUP:
            node_id = self._state.leader_of(self._state.partition_of_group(key))
        else:
            node_id = self._state.transaction_coordinator_id(key)
        node = self._state.nodes.get(node_id)
        if node is None:
            return _no_coordinator(key, ErrorCode.COORDINATOR_NOT_AVAILABLE)
        return Coordinator(key=key, node_id=node.node_id, host=node.host, port=node.port, error_message="")

    def describe_cluster(self, request: DescribeClusterRequest, exchange: Exchange) -> None:
        if request.endpoint_type != _BROKERS:
            exchange.respond(_no_endpoints(request.endpoint_type))
            return
        wants_operations = request.include_cluster_authorized_operations
        brokers = [
            DescribeClusterBroker(broker_id=node.node_id, host=node.host, port=node.port)
            for node in self._state.nodes.values()
        ]
        response = DescribeClusterResponse(
            cluster_id=self._state.cluster_id,
            controller_id=self._state.controller_id,
            brokers=brokers,
            cluster_authorized_operations=_CLUSTER_OPERATIONS if wants_operations else UNKNOWN_OPERATIONS,
        )
        exchange.respond(response)


def _place_in_metadata(topic: MetadataResponseTopic) -> int:
    """The sort key of a topic in the Metadata response. As in Kafka, unknown topic ids come first, then existing
    topics, then topics with other errors."""
    if topic.error_code == ErrorCode.UNKNOWN_TOPIC_ID:
        return 0
    return 2 if topic.error_code else 1


def _no_endpoints(endpoint_type: int) -> DescribeClusterResponse:
    """The error response to a DescribeCluster that asks a broker for controllers, or for an endpoint type that does not
    exist (KIP-919)."""
    if endpoint_type == _CONTROLLERS:
        code, text = ErrorCode.MISMATCHED_ENDPOINT_TYPE, "This is a broker; controllers do not listen here."
    else:
        code, text = ErrorCode.UNSUPPORTED_ENDPOINT_TYPE, f"There are no endpoints of type {endpoint_type}."
    return DescribeClusterResponse(error_code=code, error_message=text, cluster_id="", brokers=[])


def _no_coordinator(key: str, code: ErrorCode, text: str = "") -> Coordinator:
    """The FindCoordinator entry of a key without a coordinator. Since v4 Kafka sends an error text for an unknown key
    type only, and otherwise an empty text, not null."""
    return Coordinator(key=key, node_id=-1, host="", port=-1, error_code=code, error_message=text)
