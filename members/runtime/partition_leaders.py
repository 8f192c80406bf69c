"""Which broker leads which partition, for those who fetch and produce."""

from collections.abc import Callable, Sequence

from regroup.members.consumer.effects import Address, Lane, Outgoing
from regroup.members.consumer.inputs import Answered, Unanswered
from regroup.members.transports.base import Transport
from regroup.protocol.consumer.subscription import TopicPartition
from regroup.protocol.messages.cluster import MetadataRequest, MetadataRequestTopic, MetadataResponse

REQUEST_TIMEOUT_MS = 30_000


class Leaders:
    """Learned from Metadata. `changed` is called after each look."""

    def __init__(self, transport: Transport, changed: Callable[[], None]) -> None:
        self._transport = transport
        self._changed = changed
        self._asking = False
        self.of: dict[TopicPartition, Address] = {}
        self.partition_count: dict[str, int] = {}

    def look(self, topics: Sequence[str]) -> None:
        """Ask for these topics, unless an answer is on its way."""
        if self._asking or not topics:
            return
        self._asking = True
        message = MetadataRequest(topics=[MetadataRequestTopic(name=topic) for topic in topics])
        self._transport.send(Outgoing(0, Lane.ANY_BROKER, None, message, REQUEST_TIMEOUT_MS), self._answered)

    def _answered(self, answer: Answered | Unanswered) -> None:
        self._asking = False
        if isinstance(answer, Answered) and isinstance(answer.response, MetadataResponse):
            self._learn(answer.response)
        self._changed()

    def _learn(self, response: MetadataResponse) -> None:
        brokers = {each.node_id: Address(each.node_id, each.host, each.port) for each in response.brokers}
        for topic in response.topics:
            if topic.error_code or topic.name is None:
                continue
            self.partition_count[topic.name] = len(topic.partitions)
            for partition in topic.partitions:
                place = TopicPartition(topic.name, partition.partition_index)
                if partition.leader_id in brokers:
                    self.of[place] = brokers[partition.leader_id]
                else:
                    self.of.pop(place, None)
