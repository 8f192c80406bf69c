"""The cluster as its brokers share it: who is there, which topics there are, and the partitions' logs.

A topic's change is an event, folded at once and queued for the disk; whoever answers for it waits with `when_durable`.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from uuid import UUID

from regroup.coordinator.serialization import ILLEGIBLE, damaged
from regroup.server.cluster.causes import RECORDS, STOP
from regroup.server.cluster.events import (
    ClusterEvent,
    OffsetsReserved,
    ProducerIdsReserved,
    TopicConfigured,
    TopicCreated,
    TopicDeleted,
    read_event,
    write_event,
)
from regroup.server.cluster.topic_configs import topic_config
from regroup.server.cluster.topics import (
    OFFSETS_TOPIC,
    SNAPSHOT_VERSION,
    Topic,
    Topics,
    evolve,
    from_snapshot,
    partition_of_key,
    snapshot_of,
    uuid_text,
)
from regroup.server.log.partition_log import Appended, PartitionLog
from regroup.server.log.record_validation import Incoming, Refusal
from regroup.server.settings import BrokerSettings
from regroup.storage.journal import Journal
from regroup.storage.records import Head, Snapshot
from regroup.storage.store import EventStore

OFFSETS_IN_A_BLOCK = 1_000
"""How many offsets a partition reserves at once. The next block is reserved when half of one is left."""
PRODUCER_IDS_IN_A_BLOCK = 1_000
TRANSACTIONS_TOPIC_PARTITIONS = 50
"""Kafka's default. Nobody can see this topic here; it only says which broker coordinates a transactional id."""
_CLUSTER_ID = "cluster-id"


@dataclass(frozen=True, slots=True)
class Node:
    """A broker as its clients are told of it."""

    node_id: int
    host: str
    port: int


@dataclass(slots=True)
class Stored:
    """What a store knows of the cluster: the fold, where its history ends, and the cluster's id."""

    topics: Topics
    head: Head
    cluster_id: str


async def load(store: EventStore, new_uuid: Callable[[], UUID]) -> Stored:
    """Fold the cluster's history. A new store is given its cluster id here."""
    kept = await store.kept(_CLUSTER_ID)
    cluster_id = kept.decode() if kept is not None else uuid_text(new_uuid())
    if kept is None:
        await store.keep(_CLUSTER_ID, cluster_id.encode())
    cut, snapshots = await store.load_snapshots()
    snapshot = next((each for each in snapshots if each.group is None), None)
    try:
        topics = from_snapshot(snapshot.payload) if snapshot else Topics()
        async for record in store.read(group=None, after=cut if snapshot else store.trimmed_through):
            topics = evolve(topics, read_event(record))
    except ILLEGIBLE as error:
        raise damaged("The history of the topics", error) from error
    heads = await store.heads()
    return Stored(topics, heads.get(None, Head(number=0, reign=0, position=0)), cluster_id)


class Cluster:
    """Topics and partitions of all brokers in this process.

    `node_ids` names the brokers, `nodes` those that listen at present. Each of them holds every partition, so any can
    lead any; partitions with the same place in the row of brokers always have the same leader.
    `watchers` are called with each event after it was folded and queued.
    """

    def __init__(
        self,
        stored: Stored,
        journal: Journal,
        *,
        reign: int,
        settings: BrokerSettings,
        now_ms: Callable[[], int],
        new_uuid: Callable[[], UUID],
        offsets_topic_partitions: int = 50,
        node_ids: Sequence[int] = (0,),
    ) -> None:
        self.settings = settings
        self.cluster_id = stored.cluster_id
        self.nodes: dict[int, Node] = {}
        self.now_ms = now_ms
        self.new_uuid = new_uuid
        offsets_topic = stored.topics.by_name.get(OFFSETS_TOPIC)
        self.offsets_topic_partitions = offsets_topic.partitions if offsets_topic else offsets_topic_partitions
        self.node_ids = tuple(node_ids)
        self.watchers: list[Callable[[ClusterEvent], None]] = []
        self._journal = journal
        self._partitions: dict[tuple[str, int], PartitionLog] = {}
        self._take_over(stored, reign)

    def _take_over(self, stored: Stored, reign: int) -> None:
        self.topics, self._reign = stored.topics, reign
        self._last_number, self.last_position = stored.head.number, stored.head.position
        self._names_by_id = {topic.id_bytes: topic.name for topic in self.topics.by_name.values()}
        self._next_producer_id = self.topics.producer_ids_before
        self._leader_epochs = [reign - 1] * len(self.node_ids)

    def reload(self, stored: Stored, reign: int) -> None:
        """Begin again behind what is on disk, after the store has failed or another reign has ruled.

        Topics and records whose events never reached the disk have not happened; no answer ever spoke of them.
        """
        self._take_over(stored, reign)
        kept: dict[tuple[str, int], PartitionLog] = {}
        reserved = {topic.topic_id: topic.reserved for topic in stored.topics.by_name.values()}
        for (topic_id, index), log in self._partitions.items():
            if index < len(reserved.get(topic_id, ())):
                log.begin_epoch(self.leader_epoch(index), reserved[topic_id][index])
                kept[topic_id, index] = log
            else:
                log.wake()
        self._partitions = kept

    def close(self) -> None:
        """Give back the offsets that were reserved and not used. The journal's owner still has to flush it."""
        for topic in list(self.topics.by_name.values()):
            for index, before in enumerate(topic.reserved):
                log = self._partitions.get((topic.topic_id, index))
                if log is not None and log.log_end_offset < before:
                    self.happen(OffsetsReserved(name=topic.name, partition=index, before=log.log_end_offset), STOP)

    def happen(self, event: ClusterEvent, cause: bytes) -> int:
        """Fold the event and queue it; returns its position. StoreError if the journal takes nothing any more."""
        number = self._last_number + 1
        record = write_event(event, number=number, reign=self._reign, at_ms=self.now_ms(), cause=cause)
        self.last_position = self._journal.append([record])
        self._last_number = number
        self.topics = evolve(self.topics, event)
        self._follow(event)
        for watcher in self.watchers:
            watcher(event)
        return self.last_position

    def _follow(self, event: ClusterEvent) -> None:
        """Bring what is derived from the topics up to date."""
        if isinstance(event, TopicCreated):
            self._names_by_id[self.topics.by_name[event.name].id_bytes] = event.name
        elif isinstance(event, TopicDeleted):
            self._names_by_id = {each.id_bytes: each.name for each in self.topics.by_name.values()}
            for key in [key for key in self._partitions if key[0] == event.topic_id]:
                self._partitions.pop(key).wake()
        elif isinstance(event, TopicConfigured):
            topic = self.topics.by_name[event.name]
            for (topic_id, _), log in self._partitions.items():
                if topic_id == topic.topic_id:
                    log.retention_bytes = self._retention_bytes(topic)

    def _retention_bytes(self, topic: Topic) -> int:
        return int(topic_config(topic.configs, "retention.bytes", self.settings))

    def take_snapshot(self) -> Snapshot | None:
        """The topics as of `last_position`, for the store; None if nothing has ever happened to them."""
        if not self.last_position:
            return None
        payload = snapshot_of(self.topics)
        return Snapshot(None, self._last_number, self.last_position, self._reign, SNAPSHOT_VERSION, payload)

    def when_durable(self, done: Callable[[], None], lost: Callable[[], None]) -> None:
        """Call `done` once everything that has happened to the topics is on disk, or `lost` if it never will be."""
        self._journal.when_durable(self.last_position, done, lost)

    def create_topic(self, name: str, partitions: int, configs: dict[str, str] | None = None, *, cause: bytes) -> Topic:
        """Make a topic. Whether it may be made is for the caller to know."""
        topic_id = uuid_text(self.new_uuid())
        self.happen(TopicCreated(name=name, topic_id=topic_id, partitions=partitions, configs=configs or {}), cause)
        return self.topics.by_name[name]

    def topic(self, name: str, topic_id: bytes) -> Topic | None:
        """A topic by its id, if one is given, and otherwise by its name."""
        if any(topic_id):
            name = self._names_by_id.get(topic_id, "")
        return self.topics.by_name.get(name)

    def partition(self, topic: Topic, index: int) -> PartitionLog:
        """The log of a partition that exists; it begins where a restart left it."""
        log = self._partitions.get((topic.topic_id, index))
        if log is None:
            log = self._partitions[topic.topic_id, index] = PartitionLog(
                leader_epoch=self.leader_epoch(index),
                retention_bytes=self._retention_bytes(topic),
                log_end_offset=topic.reserved[index],
            )
        return log

    def append(self, topic: Topic, index: int, batches: list[Incoming]) -> Appended | Refusal:
        """Write to a partition, and reserve offsets ahead of it. Readers see what lies within durable blocks."""
        log = self.partition(topic, index)
        appended = log.append(batches)
        self._reserve_ahead(topic, index, log)
        return appended

    def append_marker(self, topic: Topic, index: int, producer_id: int, epoch: int, *, committed: bool) -> None:
        """End the producer's transaction in this partition."""
        log = self.partition(topic, index)
        log.append_marker(producer_id, epoch, committed=committed, at_ms=self.now_ms())
        self._reserve_ahead(topic, index, log)

    def _reserve_ahead(self, topic: Topic, index: int, log: PartitionLog) -> None:
        reserved = self.topics.by_name[topic.name].reserved[index]
        if log.log_end_offset + OFFSETS_IN_A_BLOCK // 2 > reserved:
            before = log.log_end_offset + OFFSETS_IN_A_BLOCK
            self.happen(OffsetsReserved(name=topic.name, partition=index, before=before), RECORDS)
            self.when_durable(lambda: log.reserve(before), _nothing)

    def new_producer_id(self, cause: bytes) -> int:
        """An id that no producer has had, nor will have after a restart once `when_durable` has called back."""
        if self._next_producer_id >= self.topics.producer_ids_before:
            before = self._next_producer_id + PRODUCER_IDS_IN_A_BLOCK
            self.happen(ProducerIdsReserved(before=before), cause)
        self._next_producer_id += 1
        return self._next_producer_id - 1

    def place_of(self, index: int) -> int:
        """Where in the row of brokers the partitions with this index have their leader, if all brokers are there."""
        return index % len(self.node_ids)

    def replicas_of(self, index: int) -> tuple[int, ...]:
        """Who leads these partitions, and who would if those before were gone."""
        place = self.place_of(index)
        return self.node_ids[place:] + self.node_ids[:place]

    def leader_of(self, index: int) -> int:
        """The node that leads the partitions with this index; -1 while nobody is there."""
        place = self.place_of(index)
        if self.node_ids[place] in self.nodes:
            return self.node_ids[place]
        return next((node_id for node_id in self.replicas_of(index) if node_id in self.nodes), -1)

    def leader_epoch(self, index: int) -> int:
        """Of the partitions with this index. It grows whenever another reign or another leader begins, so that clients
        notice what a restart has lost."""
        return self._leader_epochs[self.place_of(index)]

    @property
    def leadership(self) -> object:
        """Equal as long as the same nodes are there and lead in the same epochs."""
        return tuple(self.nodes), tuple(self._leader_epochs)

    def lead_anew(self, place: int, leader_epoch: int) -> None:
        """The partitions of this place have another leader now."""
        self._leader_epochs[place] = leader_epoch
        for (_, index), log in self._partitions.items():
            if self.place_of(index) == place:
                log.lead_anew(leader_epoch)

    def partition_of_group(self, group_id: str) -> int:
        """The partition of `__consumer_offsets` in which a group lives; its leader coordinates the group."""
        return partition_of_key(group_id, self.offsets_topic_partitions)

    def node_of_transaction(self, transactional_id: str) -> int:
        """The node that coordinates this transactional id."""
        return self.leader_of(partition_of_key(transactional_id, TRANSACTIONS_TOPIC_PARTITIONS))

    @property
    def controller_id(self) -> int:
        return min(self.nodes, default=-1)


def _nothing() -> None:
    """The store has failed; `Cluster.reload` will take the records back."""
