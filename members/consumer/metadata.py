"""The metadata of a consumer: its subscription, the topics of the cluster, and when to request them again."""

import re
from typing import Final, TypeAlias

from regroup.assignors.interface import ClusterMetadata
from regroup.members.consumer import requests
from regroup.members.consumer.in_flight import InFlightRequests
from regroup.members.consumer.inputs import RequestFailed, Subscribe
from regroup.members.consumer.settings import ConsumerSettings
from regroup.protocol.errors import ErrorCode
from regroup.protocol.internal_topics import INTERNAL_TOPICS
from regroup.protocol.java_order import utf16_order
from regroup.protocol.message import Message
from regroup.protocol.messages.cluster import MetadataResponse, MetadataResponseTopic

_FINAL_CODES: Final = (ErrorCode.NONE, ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.INVALID_TOPIC_EXCEPTION)
"""A topic with an error code other than these is requested again soon."""

MetadataSnapshot: TypeAlias = dict[str, tuple[frozenset[str], ...]]
"""The racks of each partition, by topic. A leader rejoins when its snapshot is no longer equal to the last one."""


class ConsumerMetadata:
    """The topics of the subscription and, while the member is the leader, of its whole group."""

    def __init__(self, settings: ConsumerSettings, in_flight: InFlightRequests) -> None:
        self._settings = settings
        self._in_flight = in_flight
        self._names: tuple[str, ...] = ()
        self._pattern: re.Pattern[str] | None = None
        self.is_subscribed = False
        self.cluster = ClusterMetadata({})
        self.is_current = False
        """Whether metadata has been received since the subscription last changed."""
        self._internal_topics = INTERNAL_TOPICS
        self._group_topics: tuple[str, ...] = ()
        self._requested: frozenset[str] = frozenset()
        self._is_requesting = False
        self._refresh_at_ms: int | None = None
        self._failed_requests = 0
        """How many requests have failed since the last response."""
        self._equivalent_responses = 0
        """How many responses in a row had a topic to request again, and no new partition: Java's
        `equivalentResponseCount`."""
        self._snapshot: MetadataSnapshot = {}
        self._snapshot_basis: tuple[ClusterMetadata, tuple[str, ...], tuple[str, ...]] | None = None
        """The metadata and topics from which the last snapshot was made. While they are the same, it is reused."""

    def subscribe(self, subscription: Subscribe) -> None:
        """Change the subscription. The next poll requests the metadata of its topics.

        As in Java, a list of the topics to which the consumer has subscribed already changes nothing.
        """
        names = () if subscription.pattern else tuple(sorted(dict.fromkeys(subscription.topics), key=utf16_order))
        if self.is_subscribed and subscription.pattern is None and self._pattern is None and names == self._names:
            return
        self._names, self._pattern = names, subscription.pattern
        self.is_subscribed = True
        self.is_current = False
        self._refresh_now()

    def unsubscribe(self) -> None:
        """Remove the subscription: the consumer has no topics any more."""
        self._names, self._pattern, self._group_topics = (), None, ()
        self.is_subscribed = False
        self._refresh_at_ms = None

    @property
    def topics(self) -> tuple[str, ...]:
        """The topics of the subscription, sorted; for a pattern, the topics that match it now."""
        if self._pattern is None:
            return self._names
        hidden = self._internal_topics if self._settings.exclude_internal_topics else frozenset()
        matching = [
            topic
            for topic in self.cluster.partitions_per_topic
            if topic not in hidden and self._pattern.fullmatch(topic)
        ]
        return tuple(sorted(matching, key=utf16_order))

    @property
    def awaits_first_metadata(self) -> bool:
        """Whether the subscription is a pattern, and no metadata has come yet to match it against."""
        return self._pattern is not None and not self.is_current

    def update_group_subscription(self, topics: tuple[str, ...]) -> bool:
        """Set the topics to which the whole group subscribes, for a leader: from now on their metadata are requested
        too.

        Returns whether the metadata of all of them are known.
        """
        self._group_topics = topics
        if self._pattern is None and not self._requested.issuperset(topics):
            self._refresh_now()
            self.is_current = False
        return self.is_current

    def reset_group_subscription(self) -> None:
        """Request only metadata of topics to which this member itself subscribes, as a follower does."""
        self._group_topics = ()

    def snapshot(self) -> MetadataSnapshot:
        """The metadata on which an assignment depends. Racks are part of it only if the member has a rack."""
        basis = (self.cluster, self.topics, self._group_topics)
        if basis != self._snapshot_basis:
            with_racks = self._settings.client_rack is not None
            self._snapshot_basis = basis
            self._snapshot = {
                topic: tuple(self.cluster.replica_racks(topic) if with_racks else [frozenset[str]()] * count)
                for topic in dict.fromkeys((*self.topics, *self._group_topics))
                if (count := self.cluster.partitions_per_topic.get(topic)) is not None
            }
        return self._snapshot

    def request_if_due(self) -> None:
        """Send a Metadata request if a refresh is due."""
        if self._refresh_at_ms is None or self._is_requesting or self._in_flight.now_ms < self._refresh_at_ms:
            return
        self._is_requesting = True
        topics = None if self._pattern else tuple(dict.fromkeys((*self._names, *self._group_topics)))
        self._requested = frozenset(topics or ())
        self._in_flight.send_to_any_broker(requests.metadata(self._settings, topics), self._on_response)

    def _on_response(self, response: Message | RequestFailed) -> None:
        self._is_requesting = False
        if not isinstance(response, MetadataResponse):
            self._failed_requests += 1
            self._refresh_after_backoff()
            return
        self._failed_requests = 0
        self._internal_topics = INTERNAL_TOPICS.union(
            topic.name for topic in response.topics if topic.is_internal and topic.name
        )
        if self._pattern is None and not self._requested.issuperset((*self._names, *self._group_topics)):
            self._refresh_at_ms = self._in_flight.now_ms  # the subscription has changed since the request
            return
        former = self.cluster.partitions_per_topic
        self.update(_cluster_metadata(response))
        if all(topic.error_code in _FINAL_CODES for topic in response.topics):
            self._equivalent_responses = 0
            return
        is_new = any(count > former.get(topic, 0) for topic, count in self.cluster.partitions_per_topic.items())
        self._equivalent_responses = 0 if is_new else self._equivalent_responses + 1
        self._refresh_after_backoff()

    def _refresh_now(self) -> None:
        """Request the metadata of new topics at once, as Java's `requestUpdateForNewTopics` does."""
        self._refresh_at_ms = self._in_flight.now_ms
        self._equivalent_responses = 0

    def _refresh_after_backoff(self) -> None:
        """Request the metadata again after a backoff, which grows with failed requests and with responses without
        anything new."""
        earlier_attempts = max(self._failed_requests, self._equivalent_responses, 1) - 1
        self._refresh_at_ms = self._in_flight.now_ms + self._settings.backoff_ms(earlier_attempts)

    def update(self, cluster: ClusterMetadata) -> None:
        """Replace the known topics, partitions and racks of the cluster by these."""
        self.cluster = cluster
        self.is_current = True
        self._requested |= frozenset(cluster.partitions_per_topic)
        max_age_ms = self._settings.metadata_max_age_ms
        self._refresh_at_ms = self._in_flight.now_ms + max_age_ms if self.is_subscribed else None

    @property
    def deadline_ms(self) -> int | None:
        """The time of the next refresh in milliseconds.

        None while a request is in flight, or nothing is subscribed.
        """
        return None if self._is_requesting else self._refresh_at_ms


def _cluster_metadata(response: MetadataResponse) -> ClusterMetadata:
    """The topics of a response that have no error: their partition counts, and the racks if any broker has one."""
    rack_of = {broker.node_id: broker.rack for broker in response.brokers}
    topics = {topic.name: topic for topic in response.topics if topic.name and not topic.error_code}
    counts = {name: len(topic.partitions) for name, topic in topics.items()}
    if not any(rack_of.values()):
        return ClusterMetadata(counts)
    return ClusterMetadata(counts, {name: _replica_racks(topic, rack_of) for name, topic in topics.items()})


def _replica_racks(topic: MetadataResponseTopic, rack_of: dict[int, str | None]) -> list[list[str | None]]:
    partitions = sorted(topic.partitions, key=lambda partition: partition.partition_index)
    return [[rack_of.get(node_id) for node_id in partition.replica_nodes] for partition in partitions]
