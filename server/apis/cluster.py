"""What a client asks first: ApiVersions, Metadata, FindCoordinator, DescribeCluster."""

import re
from collections.abc import Mapping
from typing import cast

from msgspec.structs import replace

from regroup.protocol.errors import ErrorCode
from regroup.protocol.fields import NO_UUID, UNKNOWN_OPERATIONS, Versions
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
from regroup.server.apis.durable import reply_when_durable
from regroup.server.cluster.state import Cluster
from regroup.server.cluster.topics import INTERNAL_TOPICS, OFFSETS_TOPIC, Topic, name_is_illegal
from regroup.server.net.exchange import Exchange, Handler

_SOFTWARE_NAME = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")
_GROUP, _TRANSACTION = 0, 1
_TRANSACTIONS = "transaction.version"
_BROKERS = 1


def _bits(*operations: int) -> int:
    return sum(1 << operation for operation in operations)


# Nothing is forbidden here, so everything that can be done with a resource may be done. The numbers are Kafka's:
# 3 read, 4 write, 5 create, 6 delete, 7 alter, 8 describe, 9 cluster action, 10 and 11 configs, 12 idempotent write.
TOPIC_OPERATIONS = _bits(3, 4, 5, 6, 7, 8, 10, 11)
CLUSTER_OPERATIONS = _bits(5, 7, 8, 9, 10, 11, 12)


class ClusterApis:
    """`served` is the broker's own table of versions, shown by ApiVersions; `transaction_version` the level of that
    feature, 0 if the broker is too old for it."""

    def __init__(
        self, cluster: Cluster, node_id: int, served: Mapping[int, Versions], transaction_version: int
    ) -> None:
        self._cluster = cluster
        self._node_id = node_id
        self._served = served
        self._transaction_version = transaction_version
        self._shown: dict[str, tuple[Topic, object, MetadataResponseTopic]] = {}

    def handlers(self) -> dict[int, Handler]:
        return {
            ApiVersionsRequest.api_key: self.api_versions,
            MetadataRequest.api_key: self.metadata,
            FindCoordinatorRequest.api_key: self.find_coordinator,
            DescribeClusterRequest.api_key: self.describe_cluster,
        }

    def api_versions(self, exchange: Exchange) -> None:
        request = cast("ApiVersionsRequest", exchange.request)
        names = (request.client_software_name, request.client_software_version)
        if exchange.version >= 3 and not all(_SOFTWARE_NAME.fullmatch(name) for name in names):
            exchange.reply(ApiVersionsResponse(error_code=ErrorCode.INVALID_REQUEST, api_keys=[]))
            return
        rows = [
            ApiVersion(api_key=key, min_version=versions.first, max_version=versions.last)
            for key, versions in sorted(self._served.items())
        ]
        level = self._transaction_version
        if not level:
            exchange.reply(ApiVersionsResponse(api_keys=rows))
            return
        supported = SupportedFeatureKey(name=_TRANSACTIONS, min_version=0, max_version=level)
        finalized = FinalizedFeatureKey(name=_TRANSACTIONS, min_version_level=level, max_version_level=level)
        exchange.reply(
            ApiVersionsResponse(
                api_keys=rows,
                # Clients up to v3 cannot read a feature that begins at 0.
                supported_features=[supported] if exchange.version >= 4 else [],
                finalized_features_epoch=0,
                finalized_features=[finalized],
            )
        )

    def metadata(self, exchange: Exchange) -> None:
        """Topics that are asked for by name come to be if they may; the answer waits until they are on disk."""
        request = cast("MetadataRequest", exchange.request)
        may_create = request.allow_auto_topic_creation and self._cluster.settings.auto_create_topics_enable
        asked = request.topics
        if asked is None or (exchange.version == 0 and not asked):
            topics = [self._show(topic) for topic in self._cluster.topics.by_name.values()]
        else:
            topics = [self._look_up(wanted, exchange, may_create=may_create) for wanted in asked]
        if request.include_topic_authorized_operations:
            topics = [_with_operations(topic) for topic in topics]
        operations = CLUSTER_OPERATIONS if request.include_cluster_authorized_operations else UNKNOWN_OPERATIONS
        response = MetadataResponse(
            brokers=self._brokers(),
            cluster_id=self._cluster.cluster_id,
            controller_id=self._cluster.controller_id,
            topics=topics,
            cluster_authorized_operations=operations,
        )
        reply_when_durable(exchange, response, self._cluster)

    def _brokers(self) -> list[MetadataResponseBroker]:
        nodes = self._cluster.nodes.values()
        return [MetadataResponseBroker(node_id=node.node_id, host=node.host, port=node.port) for node in nodes]

    def _look_up(self, wanted: MetadataRequestTopic, exchange: Exchange, *, may_create: bool) -> MetadataResponseTopic:
        name, topic_id = wanted.name, wanted.topic_id
        topic = self._cluster.topic(name or "", topic_id)
        if topic is not None:
            return self._show(topic)
        if topic_id != NO_UUID:
            name = None if exchange.version >= 12 else ""
            return MetadataResponseTopic(error_code=ErrorCode.UNKNOWN_TOPIC_ID, name=name, topic_id=topic_id)
        if name is None or name_is_illegal(name, self._cluster.topics.by_name):
            return MetadataResponseTopic(error_code=ErrorCode.INVALID_TOPIC_EXCEPTION, name=name or "")
        if not may_create:
            return MetadataResponseTopic(
                error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, name=name, is_internal=name in INTERNAL_TOPICS
            )
        partitions = self._cluster.settings.num_partitions
        if name == OFFSETS_TOPIC:
            partitions = self._cluster.offsets_topic_partitions
        return self._show(self._cluster.create_topic(name, partitions, cause=exchange.cause()))

    def _show(self, topic: Topic) -> MetadataResponseTopic:
        """Kept until the topic or the brokers change: large clusters are asked for often."""
        leadership = self._cluster.leadership
        kept = self._shown.get(topic.name)
        is_same = kept is not None and (kept[0].topic_id, kept[0].partitions) == (topic.topic_id, topic.partitions)
        if kept is not None and is_same and kept[1] == leadership:
            return kept[2]
        shown = MetadataResponseTopic(
            name=topic.name,
            topic_id=topic.id_bytes,
            is_internal=topic.is_internal,
            partitions=[self._show_partition(index) for index in range(topic.partitions)],
        )
        self._shown[topic.name] = (topic, leadership, shown)
        return shown

    def _show_partition(self, index: int) -> MetadataResponsePartition:
        replicas = self._cluster.replicas_of(index)
        present = self._cluster.nodes
        return MetadataResponsePartition(
            partition_index=index,
            leader_id=self._cluster.leader_of(index),
            leader_epoch=self._cluster.leader_epoch(index),
            replica_nodes=list(replicas),
            isr_nodes=[node_id for node_id in replicas if node_id in present],
            offline_replicas=[node_id for node_id in replicas if node_id not in present],
        )

    def find_coordinator(self, exchange: Exchange) -> None:
        request = cast("FindCoordinatorRequest", exchange.request)
        keys = request.coordinator_keys if exchange.version >= 4 else [request.key]
        found = [self._coordinator_of(key, request.key_type, exchange) for key in keys]
        if exchange.version >= 4:
            response = FindCoordinatorResponse(coordinators=found)
        else:
            (only,) = found
            text = ErrorCode(only.error_code).meaning if only.error_code else "NONE"
            response = FindCoordinatorResponse(
                error_code=only.error_code,
                error_message=text if exchange.version >= 1 else None,
                node_id=only.node_id,
                host=only.host,
                port=only.port,
            )
        reply_when_durable(exchange, response, self._cluster)

    def _coordinator_of(self, key: str, key_type: int, exchange: Exchange) -> Coordinator:
        """The leader of the partition in which the key lives. Whoever asks first makes the topic, as in Kafka."""
        if key_type not in (_GROUP, _TRANSACTION):
            return _no_coordinator(key, ErrorCode.INVALID_REQUEST)
        if key_type == _GROUP and OFFSETS_TOPIC not in self._cluster.topics.by_name:
            wanted = self._cluster.offsets_topic_partitions
            self._cluster.create_topic(OFFSETS_TOPIC, wanted, cause=exchange.cause())
            return _no_coordinator(key, ErrorCode.COORDINATOR_NOT_AVAILABLE)
        if key_type == _GROUP:
            node_id = self._cluster.leader_of(self._cluster.partition_of_group(key))
        else:
            node_id = self._cluster.node_of_transaction(key)
        node = self._cluster.nodes.get(node_id)
        if node is None:
            return _no_coordinator(key, ErrorCode.COORDINATOR_NOT_AVAILABLE)
        return Coordinator(key=key, node_id=node.node_id, host=node.host, port=node.port)

    def describe_cluster(self, exchange: Exchange) -> None:
        request = cast("DescribeClusterRequest", exchange.request)
        wants_operations = request.include_cluster_authorized_operations
        wants_brokers = request.endpoint_type == _BROKERS
        error = ErrorCode.NONE if wants_brokers else ErrorCode.MISMATCHED_ENDPOINT_TYPE
        response = DescribeClusterResponse(
            error_code=error,
            error_message=None if wants_brokers else "This is a broker; controllers do not listen here",
            endpoint_type=request.endpoint_type,
            cluster_id=self._cluster.cluster_id,
            controller_id=self._cluster.controller_id,
            brokers=self._described_brokers() if wants_brokers else [],
            cluster_authorized_operations=CLUSTER_OPERATIONS if wants_operations else UNKNOWN_OPERATIONS,
        )
        exchange.reply(response)

    def _described_brokers(self) -> list[DescribeClusterBroker]:
        nodes = self._cluster.nodes.values()
        return [DescribeClusterBroker(broker_id=node.node_id, host=node.host, port=node.port) for node in nodes]


def _no_coordinator(key: str, code: ErrorCode) -> Coordinator:
    return Coordinator(key=key, node_id=-1, host="", port=-1, error_code=code, error_message=code.meaning)


def _with_operations(topic: MetadataResponseTopic) -> MetadataResponseTopic:
    return topic if topic.error_code else replace(topic, topic_authorized_operations=TOPIC_OPERATIONS)
