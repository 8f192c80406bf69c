"""The interface of all transports, and the conversion of requests and responses between API versions.

The consumer writes each request, and reads each response, in the form of its newest version. `to_version` and
`from_version` move the fields that older versions have in other places.
"""

from collections.abc import Callable
from typing import Final, Protocol, TypeAlias

from msgspec.structs import replace

from regroup.members.consumer.effects import OutgoingRequest
from regroup.members.consumer.inputs import RequestFailed, ResponseReceived
from regroup.protocol.apis import APIS
from regroup.protocol.errors import ErrorCode
from regroup.protocol.fields import Versions
from regroup.protocol.message import Message
from regroup.protocol.messages.cluster import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    MetadataRequest,
)
from regroup.protocol.messages.group import LeaveGroupRequest
from regroup.protocol.messages.offsets import (
    OffsetCommitRequest,
    OffsetFetchRequest,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopics,
)
from regroup.protocol.messages.records import FetchRequest, ProduceRequest

TransportCallback: TypeAlias = Callable[[ResponseReceived | RequestFailed], None]


class MemberTransport(Protocol):
    """Sends the requests of a member without waiting for their responses."""

    def send(self, request: OutgoingRequest, callback: TransportCallback) -> None:
        """Send a request to its target.

        The callback is called once, later, from the event loop, with the response or the failure; never if this side
        has closed the connection.
        """

    def disconnect_coordinator(self) -> None:
        """Close the connection to the coordinator. The requests that are in flight there get no response."""

    async def close(self) -> None:
        """Close all connections."""


MAX_API_VERSIONS: Final[dict[int, int]] = {
    MetadataRequest.api_key: 12,
    ProduceRequest.api_key: 12,
    FetchRequest.api_key: 12,
    OffsetCommitRequest.api_key: 9,
    OffsetFetchRequest.api_key: 9,
}
"""The newest version of some APIs that members use.

In later ones topics have ids in place of names, or a broker may send its clients back to the bootstrap addresses
(Metadata, KIP-1102).
"""

_MOVED_REQUESTS: Final = frozenset({FindCoordinatorRequest, LeaveGroupRequest, OffsetFetchRequest, MetadataRequest})
_MOVED_RESPONSES: Final = frozenset({FindCoordinatorResponse, OffsetFetchResponse})
"""The messages of which older versions have fields in other places."""

_PARTITION_CODES: Final = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.TOPIC_AUTHORIZATION_FAILED)


def choose_version(message: Message, offered: Versions) -> int | None:
    """The newest version of a request that the broker offers and this project speaks; None if there is none."""
    key = message.api_key
    newest = min(offered.last, APIS[key].versions.last, MAX_API_VERSIONS.get(key, offered.last))
    return newest if newest >= max(offered.first, APIS[key].versions.first) else None


def to_version(message: Message, version: int) -> Message:
    """The request with its fields moved to where this version has them."""
    if type(message) not in _MOVED_REQUESTS:
        return message
    match message:
        case FindCoordinatorRequest():
            return replace(message, coordinator_keys=[]) if version < 4 else replace(message, key="")
        case LeaveGroupRequest():
            return replace(message, members=[]) if version < 3 else replace(message, member_id="")
        case OffsetFetchRequest() if version < 7:
            return replace(message, groups=[], require_stable=False)
        case OffsetFetchRequest():
            return replace(message, groups=[]) if version < 8 else replace(message, group_id="", topics=[])
        case MetadataRequest() if version < 4:
            # Brokers create topics in these versions in any case.
            return replace(message, allow_auto_topic_creation=True)
        case _:
            return message


def from_version(request: Message, response: Message, version: int) -> Message:
    """The response with its fields moved to where the newest version has them."""
    if type(response) not in _MOVED_RESPONSES:
        return response
    match response:
        case FindCoordinatorResponse() if version < 4 and isinstance(request, FindCoordinatorRequest):
            found = Coordinator(
                key=request.key,
                node_id=response.node_id,
                host=response.host,
                port=response.port,
                error_code=response.error_code,
                error_message=response.error_message,
            )
            return replace(response, coordinators=[found])
        case OffsetFetchResponse() if version < 8 and isinstance(request, OffsetFetchRequest):
            return replace(response, groups=[_group_response(request.group_id, response, version)])
        case _:
            return response


def _group_response(group_id: str, response: OffsetFetchResponse, version: int) -> OffsetFetchResponseGroup:
    return OffsetFetchResponseGroup(
        group_id=group_id,
        error_code=_group_error(response) if version < 2 else response.error_code,
        topics=[
            OffsetFetchResponseTopics(
                name=topic.name,
                partitions=[
                    OffsetFetchResponsePartitions(
                        partition_index=each.partition_index,
                        committed_offset=each.committed_offset,
                        committed_leader_epoch=each.committed_leader_epoch,
                        metadata=each.metadata,
                        error_code=each.error_code,
                    )
                    for each in topic.partitions
                ],
            )
            for topic in response.topics
        ],
    )


def _group_error(response: OffsetFetchResponse) -> int:
    """The error code of the whole group in an OffsetFetch response before version 2, which has it at its partitions; 0
    if there is none."""
    codes = (each.error_code for topic in response.topics for each in topic.partitions)
    return next((code for code in codes if code and code not in _PARTITION_CODES), 0)
