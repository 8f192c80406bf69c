"""The leaders of partitions, found by Metadata requests, for fetchers and producers."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Final

from regroup.members.consumer.effects import NodeAddress, OutgoingRequest, RequestTarget
from regroup.members.consumer.inputs import RequestFailed, ResponseReceived
from regroup.members.transports.base import MemberTransport
from regroup.protocol.consumer.subscription import TopicPartition
from regroup.protocol.messages.cluster import MetadataRequest, MetadataRequestTopic, MetadataResponse

REQUEST_TIMEOUT_MS: Final = 30_000
RETRY_BACKOFF_S: Final = 0.1
"""The pause after a Metadata request that has failed, as Kafka's `retry.backoff.ms`."""


class PartitionLeaders:
    """The addresses of the known leaders of partitions, and the numbers of partitions of topics.

    `on_refreshed` is called after each Metadata response, and a while after a request that has failed.
    """

    def __init__(self, transport: MemberTransport, on_refreshed: Callable[[], None]) -> None:
        self._transport = transport
        self._on_refreshed = on_refreshed
        self._is_requesting = False
        self.by_partition: dict[TopicPartition, NodeAddress] = {}
        self.partition_counts: dict[str, int] = {}

    def refresh(self, topics: Sequence[str]) -> None:
        """Send a Metadata request for these topics, unless one is in flight."""
        if self._is_requesting or not topics:
            return
        self._is_requesting = True
        message = MetadataRequest(topics=[MetadataRequestTopic(name=topic) for topic in topics])
        request = OutgoingRequest(0, RequestTarget.ANY_BROKER, None, message, REQUEST_TIMEOUT_MS)
        self._transport.send(request, self._on_response)

    def forget(self, leader: NodeAddress) -> None:
        """Forget the partitions of a leader that could not be reached: another broker may lead them now."""
        self.by_partition = {each: led_by for each, led_by in self.by_partition.items() if led_by != leader}

    def _on_response(self, response: ResponseReceived | RequestFailed) -> None:
        if isinstance(response, ResponseReceived) and isinstance(response.response, MetadataResponse):
            self._update(response.response)
            self._end_request()
        else:
            asyncio.get_running_loop().call_later(RETRY_BACKOFF_S, self._end_request)

    def _end_request(self) -> None:
        self._is_requesting = False
        self._on_refreshed()

    def _update(self, response: MetadataResponse) -> None:
        brokers = {each.node_id: NodeAddress(each.node_id, each.host, each.port) for each in response.brokers}
        for topic in response.topics:
            if topic.error_code or topic.name is None:
                continue
            self.partition_counts[topic.name] = len(topic.partitions)
            for each in topic.partitions:
                partition = TopicPartition(topic.name, each.partition_index)
                if each.leader_id in brokers:
                    self.by_partition[partition] = brokers[each.leader_id]
                else:
                    self.by_partition.pop(partition, None)
