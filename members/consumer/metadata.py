"""Which topics a consumer wants, and what it knows of the cluster."""

import re
from typing import Final, TypeAlias

from regroup.assignors.interface import Cluster
from regroup.members.consumer import requests
from regroup.members.consumer.in_flight import NoAnswer, Wire
from regroup.members.consumer.inputs import Subscribe
from regroup.members.consumer.settings import ConsumerSettings
from regroup.protocol.errors import ErrorCode
from regroup.protocol.java_order import utf16_order
from regroup.protocol.message import Message
from regroup.protocol.messages.cluster import MetadataResponse, MetadataResponseTopic

INTERNAL_TOPICS: Final = frozenset({"__consumer_offsets", "__transaction_state"})

_SETTLED: Final = (ErrorCode.NONE, ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.INVALID_TOPIC_EXCEPTION)
"""With any other code it is worth while to ask for the topic again soon."""

Snapshot: TypeAlias = dict[str, tuple[frozenset[str], ...]]
"""For each topic the racks of each partition; two that are equal need no rebalance."""


class Topics:
    """The subscription against the metadata. A leader looks after the topics of its whole group."""

    def __init__(self, settings: ConsumerSettings, wire: Wire) -> None:
        self._settings = settings
        self._wire = wire
        self._names: tuple[str, ...] = ()
        self._pattern: re.Pattern[str] | None = None
        self.subscribed = False
        self.cluster = Cluster({})
        self.seen = False
        """Metadata has come since the subscription last changed."""
        self._internal: frozenset[str] = INTERNAL_TOPICS
        self._group: tuple[str, ...] = ()
        self._asked_for: frozenset[str] = frozenset()
        self._asking = False
        self._refresh_at_ms: int | None = None

    def subscribe(self, wish: Subscribe) -> None:
        """Take a subscription in; metadata is asked for at the next poll."""
        self._names = () if wish.pattern else tuple(sorted(dict.fromkeys(wish.topics), key=utf16_order))
        self._pattern = wish.pattern
        self.subscribed = True
        self.seen = False
        self._refresh_at_ms = self._wire.now_ms

    def unsubscribe(self) -> None:
        self._names, self._pattern, self._group = (), None, ()
        self.subscribed = False
        self._refresh_at_ms = None

    @property
    def names(self) -> tuple[str, ...]:
        """The topics that the member subscribes to at this moment, sorted."""
        if self._pattern is None:
            return self._names
        hidden = self._internal if self._settings.exclude_internal_topics else frozenset()
        matching = [
            topic
            for topic in self.cluster.partitions_per_topic
            if topic not in hidden and self._pattern.fullmatch(topic)
        ]
        return tuple(sorted(matching, key=utf16_order))

    @property
    def waits_for_metadata(self) -> bool:
        """A pattern means nothing before the topics are known."""
        return self._pattern is not None and not self.seen

    def lead(self, group: tuple[str, ...]) -> bool:
        """Look after these topics too. Whether all of them are known well enough to deal them out."""
        self._group = group
        if self._pattern is None and not self._asked_for.issuperset(group):
            self._refresh_at_ms = self._wire.now_ms
            self.seen = False
        return self.seen

    def follow(self) -> None:
        """Look after the topics of the own subscription only."""
        self._group = ()

    def snapshot(self) -> Snapshot:
        """What a leader compares to know whether its group needs a rebalance. Racks count only if it has one."""
        with_racks = self._settings.client_rack is not None
        return {
            topic: tuple(self.cluster.replica_racks(topic) if with_racks else [frozenset[str]()] * count)
            for topic in dict.fromkeys((*self.names, *self._group))
            if (count := self.cluster.partitions_per_topic.get(topic)) is not None
        }

    def proceed(self) -> None:
        """Ask for metadata when it is due."""
        if self._refresh_at_ms is None or self._asking or self._wire.now_ms < self._refresh_at_ms:
            return
        self._asking = True
        wanted = None if self._pattern else tuple(dict.fromkeys((*self._names, *self._group)))
        self._asked_for = frozenset(wanted or ())
        self._wire.ask_anyone(requests.metadata(self._settings, wanted), self._answered)

    def _answered(self, answer: Message | NoAnswer) -> None:
        self._asking = False
        if not isinstance(answer, MetadataResponse):
            self._refresh_at_ms = self._wire.now_ms + self._settings.retry_backoff_max_ms
            return
        self._internal = INTERNAL_TOPICS.union(
            topic.name for topic in answer.topics if topic.is_internal and topic.name
        )
        overtaken = self._pattern is None and not self._asked_for.issuperset((*self._names, *self._group))
        if overtaken:
            self._refresh_at_ms = self._wire.now_ms
            return
        unsettled = any(topic.error_code not in _SETTLED for topic in answer.topics)
        self.know(cluster_of(answer))
        if unsettled:
            self._refresh_at_ms = self._wire.now_ms + self._settings.retry_backoff_max_ms

    def know(self, cluster: Cluster) -> None:
        """Take the cluster as it is now."""
        self.cluster = cluster
        self.seen = True
        self._asked_for |= frozenset(cluster.partitions_per_topic)
        self._refresh_at_ms = self._wire.now_ms + self._settings.metadata_max_age_ms if self.subscribed else None

    @property
    def deadline_ms(self) -> int | None:
        return None if self._asking else self._refresh_at_ms


def cluster_of(response: MetadataResponse) -> Cluster:
    """Partition counts, and racks if any broker names one. A topic with an error is not there."""
    rack_of = {broker.node_id: broker.rack for broker in response.brokers}
    topics = {topic.name: topic for topic in response.topics if topic.name and not topic.error_code}
    counts = {name: len(topic.partitions) for name, topic in topics.items()}
    if not any(rack_of.values()):
        return Cluster(counts)
    return Cluster(counts, {name: _racks(topic, rack_of) for name, topic in topics.items()})


def _racks(topic: MetadataResponseTopic, rack_of: dict[int, str | None]) -> list[list[str | None]]:
    in_order = sorted(topic.partitions, key=lambda partition: partition.partition_index)
    return [[rack_of.get(node) for node in partition.replica_nodes] for partition in in_order]
