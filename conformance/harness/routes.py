"""Sends each request to the right broker of a cluster: the coordinator of its group or of its transaction."""

import asyncio

from regroup.conformance.harness.broker_under_test import RETRIABLE_ERRORS, BrokerAddress, ConformanceTarget
from regroup.conformance.harness.expect import NotObservable
from regroup.conformance.harness.message_types import response_as
from regroup.conformance.harness.remedy import CLUSTER_NEEDED
from regroup.protocol.client import ClientConnection
from regroup.protocol.message import Message
from regroup.protocol.messages.cluster import FindCoordinatorRequest, FindCoordinatorResponse
from regroup.protocol.messages.describe import (
    ConsumerGroupDescribeRequest,
    DeleteGroupsRequest,
    DescribeGroupsRequest,
    ListGroupsRequest,
)
from regroup.protocol.messages.offsets import OffsetFetchRequest
from regroup.protocol.messages.transactions import AddOffsetsToTxnRequest, EndTxnRequest, InitProducerIdRequest

GROUP_KEY, TRANSACTION_KEY, SHARE_KEY = 0, 1, 2
"""The key types of FindCoordinator: a group, a transaction, a share group."""

RETRY_PAUSE_S = 0.05
FIND_COORDINATOR_TIMEOUT_S = 20.0


class CoordinatorRoutes:
    """The addresses of the coordinators of groups and transactions, each asked for once and kept.

    A broker that is not part of a cluster gets every request.
    """

    def __init__(self, target: ConformanceTarget) -> None:
        self._target = target
        self._coordinators: dict[tuple[int, str], BrokerAddress] = {}
        self._wrong_broker: BrokerAddress | None = None

    async def broker_for(self, group_id: str, request: Message | None = None) -> BrokerAddress:
        """The address of the broker for a request of a story whose group is `group_id`."""
        if self._wrong_broker is not None:
            return self._wrong_broker
        key = _coordinator_key(group_id, request)
        if len(self._target.brokers) < 2 or key is None or not key[1]:
            return self._target.host, self._target.port
        if key not in self._coordinators:
            self._coordinators[key] = await self._find_coordinator(*key)
        return self._coordinators[key]

    async def use_wrong_broker(self, group_id: str) -> None:
        """Send all further requests to a broker that is not this group's coordinator.

        Raises NotObservable if there is only one broker.
        """
        if len(self._target.brokers) < 2:
            reason = "a single broker coordinates every group; a cluster of two brokers is needed"
            raise NotObservable(reason, CLUSTER_NEEDED)
        coordinator = await self.broker_for(group_id)
        self._wrong_broker = next(broker for broker in self._target.brokers if broker != coordinator)

    def clear(self) -> None:
        """Drop the coordinators that were found, since they may have moved."""
        self._coordinators.clear()

    async def _find_coordinator(self, key_type: int, key: str) -> BrokerAddress:
        request = FindCoordinatorRequest(key=key, key_type=key_type)
        version = self._target.version_for(request, 2)
        connection = await ClientConnection.open(self._target.host, self._target.port)
        try:
            async with asyncio.timeout(FIND_COORDINATOR_TIMEOUT_S):
                while True:
                    found = response_as(FindCoordinatorResponse, await connection.send(request, version))
                    if found.error_code not in RETRIABLE_ERRORS:
                        break
                    await asyncio.sleep(RETRY_PAUSE_S)
        finally:
            await connection.close()
        return (self._target.host, self._target.port) if found.error_code else (found.host, found.port)


def _coordinator_key(group_id: str, request: Message | None) -> tuple[int, str] | None:
    """The key type and key by which FindCoordinator finds the broker for a request.

    None for a request of no group. If it names several groups, the first one counts. ListGroups goes to the coordinator
    of the story's group.
    """
    match request:
        case None | ListGroupsRequest():
            return GROUP_KEY, group_id
        case InitProducerIdRequest() | AddOffsetsToTxnRequest() | EndTxnRequest():
            return TRANSACTION_KEY, request.transactional_id or ""
        case (
            DescribeGroupsRequest(groups=[name, *_])
            | DeleteGroupsRequest(groups_names=[name, *_])
            | ConsumerGroupDescribeRequest(group_ids=[name, *_])
        ):
            return GROUP_KEY, name
        case OffsetFetchRequest(groups=[first, *_]):
            return GROUP_KEY, first.group_id
    own_group_id = getattr(request, "group_id", None)
    return (GROUP_KEY, own_group_id) if isinstance(own_group_id, str) else None
