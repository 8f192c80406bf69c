"""A transport on which a test plays the coordinator of the consumer protocol; other requests answer themselves."""

import asyncio
from typing import TypeVar

from regroup.members.consumer.effects import OutgoingRequest
from regroup.members.consumer.inputs import RequestFailed, ResponseReceived
from regroup.members.transports.base import TransportCallback
from regroup.protocol.message import Message
from regroup.protocol.messages.cluster import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    MetadataRequest,
    MetadataResponse,
    MetadataResponseTopic,
)
from regroup.protocol.messages.consumer_group import (
    ConsumerGroupAssignment,
    ConsumerGroupHeartbeatResponse,
    ConsumerGroupTopicPartitions,
)

Request = TypeVar("Request", bound=Message)

ORDERS_ID = bytes(15) + b"\1"
FOUND = FindCoordinatorResponse(coordinators=[Coordinator(key="payments", node_id=0, host="broker", port=9092)])
METADATA = MetadataResponse(
    brokers=[], topics=[MetadataResponseTopic(name="orders", topic_id=ORDERS_ID, partitions=[])]
)


def assigned(*partitions: int, epoch: int = 1) -> ConsumerGroupHeartbeatResponse:
    """The response to a heartbeat, with these partitions of `orders` as the member's assignment."""
    topics = [ConsumerGroupTopicPartitions(topic_id=ORDERS_ID, partitions=list(partitions))] if partitions else []
    return ConsumerGroupHeartbeatResponse(
        member_epoch=epoch, heartbeat_interval_ms=5_000, assignment=ConsumerGroupAssignment(topic_partitions=topics)
    )


UNCHANGED = ConsumerGroupHeartbeatResponse(member_epoch=1, heartbeat_interval_ms=5_000)


class PlayedCoordinator:
    """Answers FindCoordinator and Metadata at once; every other request waits until the test answers it.

    A heartbeat is answered with the value of `answers_heartbeats`, if that is set.
    """

    def __init__(self) -> None:
        self.answers_heartbeats: ConsumerGroupHeartbeatResponse | None = None
        self.holds_metadata = False
        """Whether Metadata waits for the test too."""
        self.sent: list[tuple[float, Message]] = []
        """Every request that is not answered by itself, with the time at which it was sent, in seconds."""
        self._open: list[tuple[OutgoingRequest, TransportCallback]] = []

    def send(self, request: OutgoingRequest, callback: TransportCallback) -> None:
        message = request.message
        if isinstance(message, FindCoordinatorRequest):
            callback(ResponseReceived(request.request_id, FOUND))
        elif isinstance(message, MetadataRequest) and not self.holds_metadata:
            callback(ResponseReceived(request.request_id, METADATA))
        else:
            self.sent.append((asyncio.get_running_loop().time(), message))
            self._open.append((request, callback))
            if self.answers_heartbeats is not None and message.api_key == self.answers_heartbeats.api_key:
                self.answer(type(message), self.answers_heartbeats)

    def answer(self, kind: type[Message], response: Message | None) -> None:
        """Answer the oldest open request of this kind; None lets it fail."""
        found = next(each for each in self._open if isinstance(each[0].message, kind))
        self._open.remove(found)
        number = found[0].request_id
        found[1](RequestFailed(number, "reset") if response is None else ResponseReceived(number, response))

    def sent_of(self, kind: type[Request]) -> list[Request]:
        return [each for _, each in self.sent if isinstance(each, kind)]

    def times_of(self, kind: type[Message]) -> list[float]:
        """When the requests of this kind were sent, in seconds."""
        return [at_s for at_s, each in self.sent if isinstance(each, kind)]

    def disconnect_coordinator(self) -> None: ...

    async def close(self) -> None: ...
