"""The cluster that all brokers share: its nodes, its topics, and the partitions' logs and leaders.

A change is an event, folded at once and queued for the store; a response that rests on it waits with `when_durable`.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from uuid import UUID

from regroup.coordinator.serialization import Cause
from regroup.coordinator.settings import CoordinatorSettings
from regroup.coordinator.topics import TopicMetadata, TopicsImage
from regroup.protocol.fields import NO_UUID
from regroup.protocol.internal_topics import OFFSETS_TOPIC
from regroup.server.cluster.events import (
    BROKER_STOP,
    RECORDS_PRODUCED,
    ClusterEvent,
    OffsetsReserved,
    PartitionsAdded,
    ProducerIdsReserved,
    TopicConfigured,
    TopicCreated,
    TopicDeleted,
    encode_cluster_event,
)
from regroup.server.cluster.group_configs import effective_group_settings
from regroup.server.cluster.image import (
    ClusterImage,
    Topic,
    encode_cluster_snapshot,
    evolve_cluster,
    metric_name_of,
    partition_of_key,
    topic_name_error,
    uuid_text,
)
from regroup.server.cluster.loading import StoredClusterState
from regroup.server.cluster.topic_configs import effective_topic_config
from regroup.server.log.partition_log import PartitionLog
from regroup.server.log.record_validation import ValidatedBatch
from regroup.server.settings import BrokerSettings
from regroup.storage.journal import Journal
from regroup.storage.records import Snapshot

OFFSET_BLOCK_SIZE = 1_000
"""How many offsets a partition reserves at once. It reserves the next block when half of one is left."""
PRODUCER_ID_BLOCK_SIZE = 1_000
TRANSACTION_STATE_PARTITIONS = 50
"""Kafka's default. The topic does not exist here; its partitions only assign transactional ids to brokers."""


@dataclass(frozen=True, slots=True)
class BrokerNode:
    """A broker that listens, at the address that clients get."""

    node_id: int
    host: str
    port: int


class ClusterState:
    """The topics and partitions of all brokers in this process.

    `node_ids` are all brokers, `nodes` those that listen at present. Every broker has a replica of every partition, so
    any can lead any. Partitions with the same index modulo the number of brokers always have the same leader; they
    form a shard. `event_listeners` are called with events after they were folded and queued.
    """

    def __init__(
        self,
        stored: StoredClusterState,
        journal: Journal,
        *,
        coordinator_epoch: int,
        settings: BrokerSettings,
        now_ms: Callable[[], int],
        new_uuid: Callable[[], UUID],
        offsets_topic_partitions: int = 50,
        node_ids: Sequence[int] = (0,),
        group_settings: CoordinatorSettings | None = None,
    ) -> None:
        self.settings = settings
        self.group_settings = group_settings or CoordinatorSettings()
        """The settings of groups that have none of their own."""
        self.cluster_id = stored.cluster_id
        self._first_coordinator_epoch = coordinator_epoch
        self.nodes: dict[int, BrokerNode] = {}
        self.now_ms = now_ms
        self.new_uuid = new_uuid
        offsets_topic = stored.image.topics.get(OFFSETS_TOPIC)
        self.offsets_topic_partitions = offsets_topic.partitions if offsets_topic else offsets_topic_partitions
        self.node_ids = tuple(node_ids)
        self._preferred_leaders = list(self.node_ids)
        self.event_listeners: list[Callable[[Sequence[ClusterEvent]], None]] = []
        self.group_count: Callable[[], int] = lambda: 0
        """Returns the number of groups. Deleting a topic takes longer with many groups, since each may have offsets in
        it."""
        self._journal = journal
        self._logs: dict[str, dict[int, PartitionLog]] = {}
        """Logs by topic id and partition index; each is made when it is first used."""
        self._begin(stored, coordinator_epoch)

    def _begin(self, stored: StoredClusterState, coordinator_epoch: int) -> None:
        self.image, self._coordinator_epoch = stored.image, coordinator_epoch
        self._event_number, self.last_position = stored.head.event_number, stored.head.position
        self._names_by_id = {topic.id_bytes: topic.name for topic in self.topics.values()}
        self._names_by_metric = {metric_name_of(name): name for name in self.topics}
        self._topics_image: TopicsImage | None = None
        self._topics_version = self._event_number
        self._next_producer_id = self.image.producer_ids_before
        self._leader_epochs = [coordinator_epoch - 1] * len(self.node_ids)

    def reload(self, stored: StoredClusterState, coordinator_epoch: int) -> None:
        """Replace the state by `stored`, which was loaded from a reopened store. Topics and records whose events did
        not become durable are dropped; no response has mentioned them."""
        self._begin(stored, coordinator_epoch)
        remaining: dict[str, dict[int, PartitionLog]] = {}
        reserved_before = {topic.topic_id: topic.reserved_before for topic in self.topics.values()}
        for topic_id, logs in self._logs.items():
            for index, log in logs.items():
                if index < len(reserved_before.get(topic_id, ())):
                    log.start_leader_epoch(self.leader_epoch(index), reserved_before[topic_id][index])
                    remaining.setdefault(topic_id, {})[index] = log
                else:
                    log.notify_listeners()
        self._logs = remaining

    def close(self) -> None:
        """Record events by which the offsets that partitions have reserved and not used are free again. The caller
        waits until these events are durable."""
        for topic in list(self.topics.values()):
            for index, before in enumerate(topic.reserved_before):
                log = self._logs.get(topic.topic_id, {}).get(index)
                if log is not None and log.log_end_offset < before:
                    event = OffsetsReserved(name=topic.name, partition=index, before=log.log_end_offset)
                    self.record_event(event, BROKER_STOP)

    def connection_name(self, number: str) -> str:
        """The name of a connection in causes and in the log: its number, `@`, and the coordinator epoch with which this
        process began.

        `0-3@7` is thus one connection in the whole history, also after restarts.
        """
        return f"{number}@{self._first_coordinator_epoch}"

    # Events

    def record_event(self, event: ClusterEvent, cause: Cause) -> None:
        """Apply an event to the state and queue it for the store, with its cause. Raises StoreError if the journal has
        failed."""
        self.record_events((event,), cause)

    def record_events(self, events: Sequence[ClusterEvent], cause: Cause) -> None:
        """Fold several events, each of a different topic, and queue them for the store. Raises StoreError if the
        journal has failed."""
        if not events:
            return
        records = [
            encode_cluster_event(
                event,
                event_number=event_number,
                coordinator_epoch=self._coordinator_epoch,
                at_ms=self.now_ms(),
                cause=cause,
            )
            for event_number, event in enumerate(events, self._event_number + 1)
        ]
        self.last_position = self._journal.append(records)
        self._event_number += len(events)
        before, self.image = self.image, evolve_cluster(self.image, *events)
        for event in events:
            self._apply(event, before)
        for listener in self.event_listeners:
            listener(events)

    @property
    def steps_of_event(self) -> int:
        """What recording one event costs, in steps (`regroup.server.limits`): the event copies the dict of topics or of
        settings."""
        return 1 + (len(self.topics) + len(self.image.group_configs)) // 100

    def _apply(self, event: ClusterEvent, before: ClusterImage) -> None:
        """Update the values that are derived from the topics after this event; `before` is the state before it."""
        if isinstance(event, TopicCreated | PartitionsAdded | TopicDeleted):
            self._topics_image = None
        if isinstance(event, TopicCreated):
            # Kafka resolves patterns again after new topics only, not after deleted or grown ones.
            self._topics_version = self._event_number
            self._names_by_id[self.topics[event.name].id_bytes] = event.name
            self._names_by_metric[metric_name_of(event.name)] = event.name
        elif isinstance(event, TopicDeleted):
            self._names_by_id.pop(before.topics[event.name].id_bytes, None)
            self._names_by_metric.pop(metric_name_of(event.name), None)
            for log in self._logs.pop(event.topic_id, {}).values():
                log.notify_listeners()
        elif isinstance(event, TopicConfigured):
            topic = self.topics[event.name]
            for log in self._logs.get(topic.topic_id, {}).values():
                log.retention_bytes = self._retention_bytes(topic)

    def when_durable(self, on_durable: Callable[[], None], on_lost: Callable[[], None]) -> None:
        """Call `on_durable` once all events of the cluster so far are durable, or `on_lost` if the store fails."""
        self._journal.when_durable(self.last_position, on_durable, on_lost)

    def take_snapshot(self) -> Snapshot | None:
        """A snapshot of the state after the last event; None before the first event."""
        if not self.last_position:
            return None
        return encode_cluster_snapshot(
            self.image,
            event_number=self._event_number,
            position=self.last_position,
            coordinator_epoch=self._coordinator_epoch,
        )

    # Topics and partitions

    @property
    def topics(self) -> dict[str, Topic]:
        """Topics by name, in the order of their creation."""
        return self.image.topics

    def settings_of_group(self, group_id: str) -> CoordinatorSettings:
        """The coordinator's settings as they apply to this group: its own settings replace those of the broker."""
        configs = self.image.group_configs.get(group_id)
        return effective_group_settings(self.group_settings, configs) if configs else self.group_settings

    @property
    def topics_image(self) -> TopicsImage:
        """The topics in the form in which group commands carry them. The same object is returned until topics
        change."""
        if self._topics_image is None:
            topics = (TopicMetadata(each.topic_id, each.name, each.partitions) for each in self.topics.values())
            self._topics_image = TopicsImage(topics, self._topics_version)
        return self._topics_image

    def create_topic(self, name: str, partitions: int, configs: dict[str, str] | None = None, *, cause: Cause) -> Topic:
        """Create a topic and record its event. The caller has checked the name and the number of partitions."""
        self.record_event(self.topic_to_create(name, partitions, configs), cause)
        return self.topics[name]

    def topic_to_create(self, name: str, partitions: int, configs: dict[str, str] | None = None) -> TopicCreated:
        """The event that creates a topic, with a new topic id. The caller records it."""
        topic_id = uuid_text(self.new_uuid())
        return TopicCreated(name=name, topic_id=topic_id, partitions=partitions, configs=configs or {})

    def topic_name_error(self, name: str) -> str | None:
        """Why no topic may be created with this name (`image.topic_name_error`); None if one may."""
        twin = self._names_by_metric.get(metric_name_of(name))
        return topic_name_error(name, () if twin is None else (twin,))

    def find_topic(self, name: str, topic_id: bytes) -> Topic | None:
        """The topic with this id or, if the id is all zeros, with this name."""
        if topic_id != NO_UUID:
            name = self._names_by_id.get(topic_id, "")
        return self.topics.get(name)

    def partition_log(self, topic: Topic, index: int) -> PartitionLog:
        """The log of an existing partition. After a restart it continues at the offsets that were reserved."""
        logs = self._logs.setdefault(topic.topic_id, {})
        log = logs.get(index)
        if log is None:
            log = logs[index] = PartitionLog(
                leader_epoch=self.leader_epoch(index),
                retention_bytes=self._retention_bytes(topic),
                log_end_offset=topic.reserved_before[index],
            )
        return log

    def _retention_bytes(self, topic: Topic) -> int:
        return int(effective_topic_config(topic.configs, "retention.bytes", self.settings))

    def append_batches(self, topic: Topic, index: int, batches: list[ValidatedBatch]) -> int:
        """Append batches to a partition, reserve offsets ahead of its end if needed, and return the offset of the first
        record.

        Records are readable once their offsets are durably reserved. Raises RequestError as `PartitionLog.append` does.
        """
        log = self.partition_log(topic, index)
        base_offset = log.append(batches)
        self._reserve_ahead(topic, index, log)
        return base_offset

    def append_marker(self, topic: Topic, index: int, producer_id: int, epoch: int, *, committed: bool) -> None:
        """Append the marker that ends the producer's transaction in this partition."""
        log = self.partition_log(topic, index)
        log.append_marker(producer_id, epoch, committed=committed, at_ms=self.now_ms())
        self._reserve_ahead(topic, index, log)

    def _reserve_ahead(self, topic: Topic, index: int, log: PartitionLog) -> None:
        if log.log_end_offset + OFFSET_BLOCK_SIZE // 2 > self.topics[topic.name].reserved_before[index]:
            before = log.log_end_offset + OFFSET_BLOCK_SIZE
            self.record_event(OffsetsReserved(name=topic.name, partition=index, before=before), RECORDS_PRODUCED)
            # If the store fails instead, `reload` truncates the log.
            self.when_durable(lambda: log.reserve(before), lambda: None)

    def new_producer_id(self, cause: Cause) -> int:
        """A new producer id. Once the cluster's events are durable (`when_durable`), it is never given again, not even
        after a crash."""
        if self._next_producer_id >= self.image.producer_ids_before:
            before = self._next_producer_id + PRODUCER_ID_BLOCK_SIZE
            self.record_event(ProducerIdsReserved(before=before), cause)
        self._next_producer_id += 1
        return self._next_producer_id - 1

    # Leaders

    def shard_of_partition(self, index: int) -> int:
        """The shard of the partitions with this index. The preferred leader of shard n is the n-th node of `node_ids`,
        unless `prefer_leader` has changed that."""
        return index % len(self.node_ids)

    def replicas_of(self, index: int) -> tuple[int, ...]:
        """The brokers that have a replica of the partitions with this index: all of them, in the order in which they
        would become leader."""
        first = self.node_ids.index(self._preferred_leaders[self.shard_of_partition(index)])
        return self.node_ids[first:] + self.node_ids[:first]

    def prefer_leader(self, shard: int, node_id: int) -> None:
        """Make this node the preferred leader of the shard: it leads the shard while it listens. The caller then begins
        a new leader epoch."""
        self._preferred_leaders[shard] = node_id

    def leader_of(self, index: int) -> int:
        """The node that leads the partitions with this index; -1 while no broker listens."""
        preferred = self._preferred_leaders[self.shard_of_partition(index)]
        if preferred in self.nodes:
            return preferred
        return next((node_id for node_id in self.replicas_of(index) if node_id in self.nodes), -1)

    def leader_epoch(self, index: int) -> int:
        """The leader epoch of the partitions with this index. It grows with every new leader and every load, so that
        clients notice records that a restart has lost."""
        return self._leader_epochs[self.shard_of_partition(index)]

    @property
    def leadership(self) -> object:
        """A value that changes whenever a listening node, a leader or a leader epoch changes."""
        return tuple(self.nodes), tuple(self._leader_epochs)

    def bump_leader_epoch(self, shard: int, leader_epoch: int) -> None:
        """Set the leader epoch of a shard's partitions to `leader_epoch`, because the shard has a new leader."""
        self._leader_epochs[shard] = leader_epoch
        for logs in self._logs.values():
            for index, log in logs.items():
                if self.shard_of_partition(index) == shard:
                    log.bump_leader_epoch(leader_epoch)

    def partition_of_group(self, group_id: str) -> int:
        """The partition of `__consumer_offsets` that holds the group; the leader of that partition coordinates the
        group."""
        return partition_of_key(group_id, self.offsets_topic_partitions)

    def transaction_coordinator_id(self, transactional_id: str) -> int:
        """The node id of the transaction coordinator of this transactional id; -1 while no broker listens."""
        return self.leader_of(partition_of_key(transactional_id, TRANSACTION_STATE_PARTITIONS))

    @property
    def controller_id(self) -> int:
        return min(self.nodes, default=-1)
