"""CreateTopics, DeleteTopics, CreatePartitions."""

from collections import Counter
from collections.abc import Sequence
from typing import cast

from regroup.coordinator.settings import InvalidSetting, UnknownSetting
from regroup.protocol.errors import ErrorCode
from regroup.protocol.fields import NO_UUID
from regroup.protocol.message import Message
from regroup.protocol.messages.topics import (
    CreatableTopic,
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from regroup.server.apis.durable import reply_when_durable
from regroup.server.cluster.events import PartitionsAdded, TopicDeleted
from regroup.server.cluster.state import Cluster
from regroup.server.cluster.topic_configs import check_topic_config, shown_topic_configs
from regroup.server.cluster.topics import Topic, name_is_illegal
from regroup.server.log.record_validation import Refusal
from regroup.server.net.exchange import Exchange, Handler

MOST_PARTITIONS_AT_ONCE = 10_000
"""Of one request, all topics together; Kafka's controller has the same limit."""
_SOURCE_TOPIC, _SOURCE_DEFAULT = 1, 5


class TopicApis:
    """Every answer waits until what it tells of is on disk."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def handlers(self) -> dict[int, Handler]:
        return {
            CreateTopicsRequest.api_key: self.create_topics,
            DeleteTopicsRequest.api_key: self.delete_topics,
            CreatePartitionsRequest.api_key: self.create_partitions,
        }

    def _reply(self, exchange: Exchange, response: Message) -> None:
        reply_when_durable(exchange, response, self._cluster)

    def create_topics(self, exchange: Exchange) -> None:
        request = cast("CreateTopicsRequest", exchange.request)
        times = Counter(topic.name for topic in request.topics)
        wanted = sum(max(0, topic.num_partitions, len(topic.assignments)) for topic in request.topics)
        results = []
        for asked in {topic.name: topic for topic in request.topics}.values():
            refusal = _said_twice(asked.name, times) or _too_many(wanted) or self._refuse_topic(asked)
            if refusal is not None:
                text = refusal.text
                results.append(CreatableTopicResult(name=asked.name, error_code=refusal.code, error_message=text))
            else:
                results.append(self._create(asked, exchange, validate_only=request.validate_only))
        self._reply(exchange, CreateTopicsResponse(topics=results))

    def _refuse_topic(self, asked: CreatableTopic) -> Refusal | None:
        """Kafka's checks, in its order."""
        present = self._cluster.topics.by_name
        if asked.name in present:
            return Refusal(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{asked.name}' already exists.")
        fault = name_is_illegal(asked.name, present)
        if fault is not None:
            return Refusal(ErrorCode.INVALID_TOPIC_EXCEPTION, fault)
        try:
            for config in asked.configs:
                check_topic_config(config.name, config.value or "")
        except (UnknownSetting, InvalidSetting) as error:
            return Refusal(ErrorCode.INVALID_CONFIG, str(error))
        return self._refuse_assignments(asked) if asked.assignments else self._refuse_counts(asked)

    def _refuse_counts(self, asked: CreatableTopic) -> Refusal | None:
        if asked.num_partitions == 0 or asked.num_partitions < -1:
            text = "Number of partitions was set to an invalid non-positive value."
            return Refusal(ErrorCode.INVALID_PARTITIONS, text)
        copies = asked.replication_factor
        if copies == 0 or copies < -1:
            text = "Replication factor must be larger than 0, or -1 to use the default value."
            return Refusal(ErrorCode.INVALID_REPLICATION_FACTOR, text)
        copies = self._cluster.settings.default_replication_factor if copies == -1 else copies
        brokers = len(self._cluster.nodes)
        if copies > brokers:
            text = f"The replication factor {copies} is larger than the number of brokers, {brokers}."
            return Refusal(ErrorCode.INVALID_REPLICATION_FACTOR, text)
        return None

    def _refuse_assignments(self, asked: CreatableTopic) -> Refusal | None:
        if asked.num_partitions != -1 or asked.replication_factor != -1:
            text = "Where replicas are assigned by hand, partitions and replication factor must both be -1."
            return Refusal(ErrorCode.INVALID_REQUEST, text)
        if sorted(each.partition_index for each in asked.assignments) != list(range(len(asked.assignments))):
            text = "The assigned partitions must be numbered from 0 on without a gap."
            return Refusal(ErrorCode.INVALID_REPLICA_ASSIGNMENT, text)
        return self._refuse_brokers([each.broker_ids for each in asked.assignments])

    def _refuse_brokers(self, assignments: Sequence[Sequence[int]]) -> Refusal | None:
        for broker_ids in assignments:
            known = set(broker_ids) <= self._cluster.nodes.keys()
            if not broker_ids or not known or len(set(broker_ids)) != len(broker_ids):
                text = f"Brokers {list(broker_ids)} cannot hold a partition; known are {sorted(self._cluster.nodes)}."
                return Refusal(ErrorCode.INVALID_REPLICA_ASSIGNMENT, text)
        return None

    def _create(self, asked: CreatableTopic, exchange: Exchange, *, validate_only: bool) -> CreatableTopicResult:
        settings = self._cluster.settings
        partitions = len(asked.assignments) or asked.num_partitions
        partitions = settings.num_partitions if partitions == -1 else partitions
        configs = {config.name: config.value for config in asked.configs if config.value is not None}
        topic_id = NO_UUID
        if not validate_only:
            topic_id = self._cluster.create_topic(asked.name, partitions, configs, cause=exchange.cause()).id_bytes
        return CreatableTopicResult(
            name=asked.name,
            topic_id=topic_id,
            error_message=None,
            num_partitions=partitions,
            replication_factor=1,
            configs=[
                CreatableTopicConfigs(
                    name=shown.name,
                    value=shown.text,
                    read_only=False,
                    config_source=_SOURCE_TOPIC if shown.name in configs else _SOURCE_DEFAULT,
                    is_sensitive=False,
                )
                for shown in shown_topic_configs(configs, settings)
            ],
        )

    def delete_topics(self, exchange: Exchange) -> None:
        request = cast("DeleteTopicsRequest", exchange.request)
        states = (
            request.topics if exchange.version >= 6 else [DeleteTopicState(name=name) for name in request.topic_names]
        )
        results = [self._delete(state, exchange) for state in states]
        self._reply(exchange, DeleteTopicsResponse(responses=results))

    def _delete(self, state: DeleteTopicState, exchange: Exchange) -> DeletableTopicResult:
        topic = self._cluster.topic(state.name or "", state.topic_id)
        refusal = self._refuse_deletion(state, topic, exchange.version)
        if topic is None or refusal is not None:
            code, text = (refusal.code, refusal.text) if refusal else (ErrorCode.UNKNOWN_SERVER_ERROR, "")
            name = state.name if exchange.version >= 6 else state.name or ""
            return DeletableTopicResult(name=name, topic_id=state.topic_id, error_code=code, error_message=text)
        self._cluster.happen(TopicDeleted(name=topic.name, topic_id=topic.topic_id), exchange.cause())
        return DeletableTopicResult(name=topic.name, topic_id=topic.id_bytes)

    def _refuse_deletion(self, state: DeleteTopicState, topic: Topic | None, version: int) -> Refusal | None:
        if not self._cluster.settings.delete_topic_enable:
            code = ErrorCode.TOPIC_DELETION_DISABLED if version >= 3 else ErrorCode.INVALID_REQUEST
            return Refusal(code, "Topics cannot be deleted here: delete.topic.enable is false.")
        if state.name is not None and state.topic_id != NO_UUID:
            return Refusal(ErrorCode.INVALID_REQUEST, "Name a topic or give its id, not both.")
        if topic is None and state.topic_id != NO_UUID:
            return Refusal(ErrorCode.UNKNOWN_TOPIC_ID, "This server does not host this topic ID.")
        if topic is None:
            return Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "This server does not host this topic-partition.")
        return None

    def create_partitions(self, exchange: Exchange) -> None:
        request = cast("CreatePartitionsRequest", exchange.request)
        times = Counter(topic.name for topic in request.topics)
        results = []
        for asked in {topic.name: topic for topic in request.topics}.values():
            refusal = _said_twice(asked.name, times) or self._refuse_growth(asked)
            if refusal is None and not request.validate_only:
                self._cluster.happen(PartitionsAdded(name=asked.name, partitions=asked.count), exchange.cause())
            code, text = (refusal.code, refusal.text) if refusal else (ErrorCode.NONE, None)
            results.append(CreatePartitionsTopicResult(name=asked.name, error_code=code, error_message=text))
        self._reply(exchange, CreatePartitionsResponse(results=results))

    def _refuse_growth(self, asked: CreatePartitionsTopic) -> Refusal | None:
        topic = self._cluster.topics.by_name.get(asked.name)
        if topic is None:
            return Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "This server does not host this topic-partition.")
        if asked.count <= topic.partitions:
            text = (
                f"The topic {asked.name} has {topic.partitions} partition(s); {asked.count} would not be an increase."
            )
            return Refusal(ErrorCode.INVALID_PARTITIONS, text)
        added = asked.count - topic.partitions
        if asked.assignments is not None:
            if len(asked.assignments) != added:
                text = f"{added} partitions are added and {len(asked.assignments)} assigned."
                return Refusal(ErrorCode.INVALID_REPLICA_ASSIGNMENT, text)
            return self._refuse_brokers([each.broker_ids for each in asked.assignments])
        return _too_many(added)


def _said_twice(name: str, times: Counter[str]) -> Refusal | None:
    if times[name] == 1:
        return None
    return Refusal(ErrorCode.INVALID_REQUEST, f"Topic '{name}' stands in the request {times[name]} times.")


def _too_many(partitions: int) -> Refusal | None:
    if partitions <= MOST_PARTITIONS_AT_ONCE:
        return None
    text = f"{partitions} partitions in one request are too many; {MOST_PARTITIONS_AT_ONCE} can be made at once."
    return Refusal(ErrorCode.POLICY_VIOLATION, text)
