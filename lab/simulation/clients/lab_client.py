"""A client that is no member: it finds a coordinator, sends one request after the other, and tries again for a while.

client = LabClient(transport, retry_interval_s=0.5)
response = await client.request_of_group("payments", DeleteGroupsRequest(groups_names=["payments"]))
"""

import asyncio
from collections.abc import Sequence
from typing import Any, Final

from regroup.members.consumer.effects import NodeAddress, OutgoingRequest, RequestTarget
from regroup.members.consumer.inputs import RequestFailed, ResponseReceived
from regroup.members.transports.base import MemberTransport
from regroup.protocol.consumer.subscription import TopicPartition
from regroup.protocol.errors import ErrorCode
from regroup.protocol.message import Message
from regroup.protocol.messages.cluster import FindCoordinatorRequest, MetadataRequest, MetadataRequestTopic

MAX_ATTEMPTS: Final = 10
RETRY_INTERVAL_S: Final = 0.5
REQUEST_TIMEOUT_MS: Final = 10_000
GROUP_KEY: Final = 0
TRANSACTION_KEY: Final = 1
RETRIED: Final = (
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.CONCURRENT_TRANSACTIONS,
)


class LabClient:
    """Sends requests to coordinators on a transport of its own."""

    def __init__(self, transport: MemberTransport) -> None:
        self.transport = transport
        self._last_id = 0
        self._coordinators: dict[tuple[int, str], NodeAddress] = {}
        """By key type and key, the coordinators that have answered without an error that says to look again."""

    async def request(self, key: str, message: Message, *, key_type: int = GROUP_KEY) -> Any:
        """Send a request to the coordinator of a group or a transactional id, `key`, and try again for a while if it
        fails.

        Returns the response; None if there is none after ten tries. An error that says to try again is returned if the
        last try still gets it.
        """
        response: Any = None
        for attempt in range(MAX_ATTEMPTS):
            if attempt:
                await asyncio.sleep(RETRY_INTERVAL_S)
            address = self._coordinators.get((key_type, key)) or await self._find_coordinator(key, key_type)
            if address is not None:
                response = await self._send(RequestTarget.COORDINATOR, address, message)
                if response is not None and first_code(response) not in RETRIED:
                    self._coordinators[key_type, key] = address
                    break
                self._coordinators.pop((key_type, key), None)
        return response

    async def send_once(self, key: str, message: Message) -> Any:
        """Send a request once to the coordinator of the group `key`, and return its response; None if there is none."""
        address = await self._find_coordinator(key, GROUP_KEY)
        return None if address is None else await self._send(RequestTarget.COORDINATOR, address, message)

    async def send_to_other_broker(self, key: str, message: Message) -> Any:
        """Send a request once to a broker that is not the coordinator of the group `key`, and return its response; None
        if there is none, or no such broker."""
        address, response = await self._find_coordinator(key, GROUP_KEY), await self._brokers_and_topics([])
        if address is None or response is None:
            return None
        others = [each for each in response.brokers if each.node_id != address.node_id]
        if not others:
            return None
        other = NodeAddress(others[0].node_id, others[0].host, others[0].port)
        return await self._send(RequestTarget.COORDINATOR, other, message)

    async def request_of_leader(
        self, partition: TopicPartition, message: Message, *, attempts: int = MAX_ATTEMPTS
    ) -> Any:
        """Send a request to the leader of a partition, and try again for a while if it fails or gets an error.

        Returns the last response; None if there is none.
        """
        response: Any = None
        for attempt in range(attempts):
            if attempt:
                await asyncio.sleep(RETRY_INTERVAL_S)
            address = await self._find_leader(partition)
            if address is not None:
                response = await self._send(RequestTarget.PARTITION_LEADER, address, message)
                if response is not None and not first_code(response):
                    break
        return response

    async def _find_leader(self, partition: TopicPartition) -> NodeAddress | None:
        response = await self._brokers_and_topics([partition.topic])
        if response is None:
            return None
        brokers = {each.node_id: NodeAddress(each.node_id, each.host, each.port) for each in response.brokers}
        rows = [each for topic in response.topics for each in topic.partitions]
        leaders = [each.leader_id for each in rows if each.partition_index == partition.partition]
        return brokers.get(leaders[0]) if leaders else None

    async def _brokers_and_topics(self, topics: Sequence[str]) -> Any:
        request = MetadataRequest(topics=[MetadataRequestTopic(name=each) for each in topics])
        return await self._send(RequestTarget.ANY_BROKER, None, request)

    async def _find_coordinator(self, key: str, key_type: int) -> NodeAddress | None:
        request = FindCoordinatorRequest(key=key, key_type=key_type, coordinator_keys=[key])
        response = await self._send(RequestTarget.ANY_BROKER, None, request)
        for found in response.coordinators if response is not None else ():
            if found.error_code == ErrorCode.NONE:
                return NodeAddress(found.node_id, found.host, found.port)
        return None

    async def _send(self, target: RequestTarget, address: NodeAddress | None, message: Message) -> Any:
        self._last_id += 1
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

        def handle(response: ResponseReceived | RequestFailed) -> None:
            if not future.done():
                future.set_result(response.response if isinstance(response, ResponseReceived) else None)

        request = OutgoingRequest(self._last_id, target, address, message, REQUEST_TIMEOUT_MS)
        self.transport.send(request, handle)
        return await future


def first_code(response: Any) -> int:
    """The first error code in a response."""
    code = getattr(response, "error_code", None)
    if code is not None:
        return int(code)
    named = ("topics", "results", "responses", "results_by_topic_v3_and_below")
    rows = next((found for name in named if (found := getattr(response, name, None))), ())
    for row in rows:
        parts = ("partitions", "partition_responses", "results_by_partition")
        for each in next((found for name in parts if (found := getattr(row, name, None))), (row,)):
            code = getattr(each, "error_code", None)
            return int(each.partition_error_code if code is None else code)
    return 0
