"""Handlers of requests about topics: CreateTopics, DeleteTopics, CreatePartitions."""

from collections import Counter
from collections.abc import Generator, Sequence
from typing import TypeAlias

from msgspec.structs import replace

from regroup.coordinator.settings import InvalidSetting, UnknownSetting
from regroup.protocol.errors import ErrorCode
from regroup.protocol.fields import NO_UUID
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
from regroup.protocol.topic_ids import topic_id_bytes
from regroup.server.cluster.events import LARGEST_PARTITION_COUNT, PartitionsAdded, TopicCreated, TopicDeleted
from regroup.server.cluster.image import Topic, metric_name_of, topic_name_error
from regroup.server.cluster.state import ClusterState
from regroup.server.cluster.topic_configs import check_topic_config, describe_topic_configs
from regroup.server.errors import RequestError
from regroup.server.limits import MAX_CREATION_RECORDS
from regroup.server.net.exchange import Exchange, RequestHandler
from regroup.server.net.turns import Turns

_TOPICS_PER_PORTION = 100
_SOURCE_TOPIC, _SOURCE_DEFAULT = 1, 5
_UNKNOWN_TOPIC = "This server does not host this topic-partition."

_DescribedConfigs: TypeAlias = dict[frozenset[tuple[str, str]], list[CreatableTopicConfigs]]
"""The described settings of topics. The key is a topic's own settings, which are equal for most topics of a request."""


class TopicApis:
    """Handles CreateTopics, DeleteTopics and CreatePartitions. A response is sent once the topics' events are
    durable."""

    def __init__(self, state: ClusterState) -> None:
        self._state = state

    def handlers(self) -> dict[int, RequestHandler]:
        return {
            CreateTopicsRequest.api_key: self.create_topics,
            DeleteTopicsRequest.api_key: self.delete_topics,
            CreatePartitionsRequest.api_key: self.create_partitions,
        }

    def create_topics(self, request: CreateTopicsRequest, exchange: Exchange) -> Turns:
        if self._is_too_large(request.topics):
            text = f"A request may create at most {MAX_CREATION_RECORDS} topics, settings and partitions together."
            results = [
                CreatableTopicResult(name=topic.name, error_code=ErrorCode.POLICY_VIOLATION, error_message=text)
                for topic in request.topics
            ]
            exchange.respond(CreateTopicsResponse(topics=results))
            return
        counts = Counter(topic.name for topic in request.topics)
        described: _DescribedConfigs = {}
        results = []
        topics = list({topic.name: topic for topic in request.topics}.values())
        for start in range(0, len(topics), _TOPICS_PER_PORTION):
            events: dict[str, TopicCreated] = {}
            for topic in topics[start : start + _TOPICS_PER_PORTION]:
                try:
                    _check_unique(topic.name, counts)
                    self._check_topic(topic, events)
                    results.append(self._create(topic, events, described))
                except RequestError as error:
                    code, text = error.code, error.text
                    results.append(CreatableTopicResult(name=topic.name, error_code=code, error_message=text))
                yield 3 + len(topic.assignments) + len(topic.configs)
            if not request.validate_only:
                self._state.record_events(list(events.values()), exchange.cause)
            yield self._state.steps_of_event
        if request.validate_only:
            results = [replace(each, topic_id=NO_UUID) for each in results]
        exchange.respond_when_durable(CreateTopicsResponse(topics=results), self._state.when_durable)

    def _is_too_large(self, topics: Sequence[CreatableTopic]) -> bool:
        """Whether the request is too large: Kafka's controller would write more records than it allows at once, or more
        partitions are named than that."""
        if sum(map(self._partition_count, topics)) > MAX_CREATION_RECORDS:
            return True
        records = {each.name: 1 + len(each.configs) + self._partition_count(each) for each in topics}
        if sum(records.values()) <= MAX_CREATION_RECORDS:
            return False
        new = (name for name in records if name not in self._state.topics and not self._state.topic_name_error(name))
        return sum(records[name] for name in new) > MAX_CREATION_RECORDS

    def _partition_count(self, topic: CreatableTopic) -> int:
        """The number of partitions with which a topic is to be created: from the request, its replica assignment, or
        the settings."""
        if topic.assignments:
            return len(topic.assignments)
        return self._state.settings.num_partitions if topic.num_partitions == -1 else max(0, topic.num_partitions)

    def _check_topic(self, topic: CreatableTopic, events: dict[str, TopicCreated]) -> None:
        """Make Kafka's checks of a topic to create, in Kafka's order. Raises RequestError. `events` are the topics of
        the same request that passed."""
        if topic.name in self._state.topics:
            raise RequestError(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{topic.name}' already exists.")
        twin = events.get(metric_name_of(topic.name))
        name_error = self._state.topic_name_error(topic.name)
        if name_error := name_error or (topic_name_error(topic.name, (twin.name,)) if twin else None):
            raise RequestError(ErrorCode.INVALID_TOPIC_EXCEPTION, name_error)
        try:
            for config in topic.configs:
                check_topic_config(config.name, config.value or "")
        except (UnknownSetting, InvalidSetting) as error:
            raise RequestError(ErrorCode.INVALID_CONFIG, str(error)) from None
        if topic.assignments:
            self._check_assignments(topic)
        else:
            self._check_counts(topic)

    def _check_counts(self, topic: CreatableTopic) -> None:
        if topic.num_partitions == 0 or topic.num_partitions < -1:
            text = "Number of partitions was set to an invalid non-positive value."
            raise RequestError(ErrorCode.INVALID_PARTITIONS, text)
        replicas = topic.replication_factor
        if replicas == 0 or replicas < -1:
            text = "Replication factor must be larger than 0, or -1 to use the default value."
            raise RequestError(ErrorCode.INVALID_REPLICATION_FACTOR, text)
        replicas = self._state.settings.default_replication_factor if replicas == -1 else replicas
        brokers = len(self._state.nodes)
        if replicas > brokers:
            text = f"The replication factor {replicas} is larger than the number of brokers, {brokers}."
            raise RequestError(ErrorCode.INVALID_REPLICATION_FACTOR, text)

    def _check_assignments(self, topic: CreatableTopic) -> None:
        if topic.num_partitions != -1 or topic.replication_factor != -1:
            text = "With manual replica assignments, partitions and replication factor must both be -1."
            raise RequestError(ErrorCode.INVALID_REQUEST, text)
        if sorted(each.partition_index for each in topic.assignments) != list(range(len(topic.assignments))):
            text = "The assigned partitions must be numbered from 0 without a gap."
            raise RequestError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, text)
        self._check_brokers([each.broker_ids for each in topic.assignments])

    def _check_brokers(self, assignments: Sequence[Sequence[int]]) -> None:
        for broker_ids in assignments:
            is_known = set(broker_ids) <= self._state.nodes.keys()
            if not broker_ids or not is_known or len(set(broker_ids)) != len(broker_ids):
                text = f"Invalid replicas: {list(broker_ids)}; brokers: {sorted(self._state.nodes)}."
                raise RequestError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, text)

    def _create(
        self, topic: CreatableTopic, events: dict[str, TopicCreated], described: "_DescribedConfigs"
    ) -> CreatableTopicResult:
        """Check one topic of a CreateTopics request and return its result. If the topic may be created, the event that
        creates it is added to `events`."""
        settings = self._state.settings
        partitions = self._partition_count(topic)
        configs = {config.name: config.value for config in topic.configs if config.value is not None}
        event = events[metric_name_of(topic.name)] = self._state.topic_to_create(topic.name, partitions, configs)
        key = frozenset(configs.items())
        if key not in described:
            described[key] = [
                CreatableTopicConfigs(
                    name=setting.name,
                    value=setting.text,
                    read_only=False,
                    config_source=_SOURCE_TOPIC if setting.name in configs else _SOURCE_DEFAULT,
                    is_sensitive=False,
                )
                for setting in describe_topic_configs(configs, settings)
            ]
        return CreatableTopicResult(
            name=topic.name,
            topic_id=topic_id_bytes(event.topic_id),
            error_message=None,
            num_partitions=partitions,
            replication_factor=1,
            configs=described[key],
        )

    def delete_topics(self, request: DeleteTopicsRequest, exchange: Exchange) -> Turns:
        names = [DeleteTopicState(name=name) for name in request.topic_names]
        wanted = yield from self._by_topic(request.topics if exchange.version >= 6 else names)
        results = []
        for start in range(0, len(wanted), _TOPICS_PER_PORTION):
            events: list[TopicDeleted] = []
            for states in wanted[start : start + _TOPICS_PER_PORTION]:
                results.append(self._delete(states, exchange, events))
                yield 1
            self._state.record_events(events, exchange.cause)
            yield self._state.steps_of_event + self._state.group_count() // 5 if events else 1
        exchange.respond_when_durable(DeleteTopicsResponse(responses=results), self._state.when_durable)

    def _by_topic(self, states: Sequence[DeleteTopicState]) -> Generator[int, None, list[list[DeleteTopicState]]]:
        """The entries of a DeleteTopics request in lists: entries that mean the same topic, by name or by id, are in
        the same list."""
        by_topic: dict[object, list[DeleteTopicState]] = {}
        for state in states:
            known = self._state.find_topic(state.name or "", state.topic_id)
            key: object = known.topic_id if known else (state.name, state.topic_id)
            by_topic.setdefault(key, []).append(state)
            yield 1
        return list(by_topic.values())

    def _delete(
        self, states: Sequence[DeleteTopicState], exchange: Exchange, events: list[TopicDeleted]
    ) -> DeletableTopicResult:
        """Check the topic that these entries of a DeleteTopics request mean, and return its result. If the topic may be
        deleted, the event is added to `events`. A topic that the request names twice is not deleted."""
        state = next((each for each in states if each.name is not None), states[0])
        try:
            if len(states) > 1:
                text = f"The request names the topic {len(states)} times."
                raise RequestError(ErrorCode.INVALID_REQUEST, text)
            topic = self._find_deletable(state, exchange.version)
        except RequestError as error:
            return _refused(state, exchange.version, error)
        events.append(TopicDeleted(name=topic.name, topic_id=topic.topic_id))
        return DeletableTopicResult(name=topic.name, topic_id=topic.id_bytes)

    def _find_deletable(self, state: DeleteTopicState, version: int) -> Topic:
        is_by_id = state.topic_id != NO_UUID
        if not self._state.settings.delete_topic_enable:
            code = ErrorCode.TOPIC_DELETION_DISABLED if version >= 3 else ErrorCode.INVALID_REQUEST
            raise RequestError(code, "Topics cannot be deleted: delete.topic.enable is false.")
        if state.name is not None and is_by_id:
            raise RequestError(ErrorCode.INVALID_REQUEST, "Give the name of a topic or its id, not both.")
        topic = self._state.find_topic(state.name or "", state.topic_id)
        if topic is None and is_by_id:
            raise RequestError(ErrorCode.UNKNOWN_TOPIC_ID, "This server does not host this topic ID.")
        if topic is None:
            raise RequestError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, _UNKNOWN_TOPIC)
        return topic

    def create_partitions(self, request: CreatePartitionsRequest, exchange: Exchange) -> Turns:
        counts = Counter(topic.name for topic in request.topics)
        added = sum(
            max(0, topic.count - known.partitions)
            for topic in request.topics
            if (known := self._state.topics.get(topic.name))
        )
        results = []
        for topic in {topic.name: topic for topic in request.topics}.values():
            code, text = ErrorCode.NONE, None
            try:
                _check_unique(topic.name, counts)
                self._check_growth(topic)
                _check_partition_limit(added)
                if not request.validate_only:
                    event = PartitionsAdded(name=topic.name, partitions=topic.count)
                    self._state.record_event(event, exchange.cause)
            except RequestError as error:
                code, text = error.code, error.text or None
            results.append(CreatePartitionsTopicResult(name=topic.name, error_code=code, error_message=text))
            yield self._state.steps_of_event + len(topic.assignments or ())
        exchange.respond_when_durable(CreatePartitionsResponse(results=results), self._state.when_durable)

    def _check_growth(self, wanted: CreatePartitionsTopic) -> None:
        topic = self._state.topics.get(wanted.name)
        if topic is None:
            raise RequestError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "")
        added = wanted.count - topic.partitions
        if added <= 0:
            text = f"The topic {wanted.name} has {topic.partitions} partition(s); {wanted.count} is not an increase."
            raise RequestError(ErrorCode.INVALID_PARTITIONS, text)
        if wanted.count > LARGEST_PARTITION_COUNT:
            text = f"A topic may have at most {LARGEST_PARTITION_COUNT} partitions, not {wanted.count}."
            raise RequestError(ErrorCode.POLICY_VIOLATION, text)
        if wanted.assignments is None:
            return
        if len(wanted.assignments) != added:
            text = f"{added} partitions are added and {len(wanted.assignments)} assigned."
            raise RequestError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, text)
        self._check_brokers([each.broker_ids for each in wanted.assignments])


def _refused(state: DeleteTopicState, version: int, error: RequestError) -> DeletableTopicResult:
    name = state.name if version >= 6 else state.name or ""
    return DeletableTopicResult(name=name, topic_id=state.topic_id, error_code=error.code, error_message=error.text)


def _check_unique(name: str, counts: Counter[str]) -> None:
    if counts[name] > 1:
        raise RequestError(ErrorCode.INVALID_REQUEST, f"The request names topic '{name}' {counts[name]} times.")


def _check_partition_limit(partitions: int) -> None:
    if partitions > MAX_CREATION_RECORDS:
        text = f"A request may create at most {MAX_CREATION_RECORDS} partitions, not {partitions}."
        raise RequestError(ErrorCode.POLICY_VIOLATION, text)
