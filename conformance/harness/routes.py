"""Which broker of a cluster a request belongs to: the coordinator of its group or of its transaction."""

import asyncio

from regroup.conformance.harness.connection import Connection, answer_as
from regroup.conformance.harness.expect import NotObservable
from regroup.conformance.harness.target import RETRIABLE, Address, Target
from regroup.protocol.message import Message
from regroup.protocol.messages.cluster import FindCoordinatorRequest, FindCoordinatorResponse
from regroup.protocol.messages.describe import DeleteGroupsRequest, DescribeGroupsRequest, ListGroupsRequest
from regroup.protocol.messages.offsets import OffsetFetchRequest
from regroup.protocol.messages.transactions import AddOffsetsToTxnRequest, EndTxnRequest, InitProducerIdRequest

GROUP, TRANSACTION = 0, 1
"""Key types of FindCoordinator."""

PAUSE_SECONDS = 0.05
PATIENCE_SECONDS = 20.0

Key = tuple[int, str]


class Routes:
    """Asks once for each group and transaction. Of a broker that is alone, every request goes there."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self._known: dict[Key, Address] = {}
        self._astray: Address | None = None

    async def find(self, group: str, request: Message | None = None) -> Address:
        """Where to send a request of a story that is about this group."""
        if self._astray is not None:
            return self._astray
        key = _key(group, request)
        if len(self._target.brokers) < 2 or key is None or not key[1]:
            return self._target.host, self._target.port
        if key not in self._known:
            self._known[key] = await self._ask(key)
        return self._known[key]

    async def go_astray(self, group: str) -> None:
        """All requests go from now on to a broker that does not coordinate this group. NotObservable of one alone."""
        if len(self._target.brokers) < 2:
            raise NotObservable("a broker that is alone coordinates every group; a cluster of two shows it")
        home = await self.find(group)
        self._astray = next(each for each in self._target.brokers if each != home)

    def forget(self) -> None:
        """Coordinators may have moved."""
        self._known.clear()

    async def _ask(self, key: Key) -> Address:
        kind, name = key
        question = FindCoordinatorRequest(key=name, key_type=kind)
        version = self._target.version_for(question, 2)
        connection = await Connection.open(self._target.host, self._target.port)
        try:
            async with asyncio.timeout(PATIENCE_SECONDS):
                while True:
                    found = answer_as(FindCoordinatorResponse, await connection.ask(question, version))
                    if found.error_code not in RETRIABLE:
                        break
                    await asyncio.sleep(PAUSE_SECONDS)
        finally:
            await connection.close()
        here = (self._target.host, self._target.port)
        return here if found.error_code else (found.host, found.port)


def _key(group: str, request: Message | None) -> Key | None:
    """The first group counts where a request names several; a list of groups is asked of the story's coordinator."""
    match request:
        case None | ListGroupsRequest():
            return GROUP, group
        case InitProducerIdRequest() | AddOffsetsToTxnRequest() | EndTxnRequest():
            return TRANSACTION, request.transactional_id or ""
        case DescribeGroupsRequest(groups=[name, *_]) | DeleteGroupsRequest(groups_names=[name, *_]):
            return GROUP, name
        case OffsetFetchRequest(groups=[first, *_]):
            return GROUP, first.group_id
    own = getattr(request, "group_id", None)
    return (GROUP, own) if isinstance(own, str) else None
