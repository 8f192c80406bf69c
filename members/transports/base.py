"""What carries a consumer's requests, and in which version each of them goes.

The machine writes every request in the form of its newest version and reads every response so; what older versions
put elsewhere is moved here.
"""

from collections.abc import Callable, Mapping
from typing import Final, Protocol, TypeAlias

from msgspec.structs import replace

from regroup.members.consumer.effects import Outgoing
from regroup.members.consumer.inputs import Answered, Unanswered
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

Reply: TypeAlias = Callable[[Answered | Unanswered], None]


class Transport(Protocol):
    """Sends without waiting; `reply` is called once, later, from the event loop, or never after `hang_up`."""

    def send(self, outgoing: Outgoing, reply: Reply) -> None:
        """Send on the connection that the lane and the address call for."""

    def hang_up(self) -> None:
        """Drop the connection to the coordinator, and with it all that is in flight there."""

    async def close(self) -> None:
        """Drop all connections."""


NEWEST_USED: Final[dict[int, int]] = {
    MetadataRequest.api_key: 12,
    ProduceRequest.api_key: 12,
    FetchRequest.api_key: 12,
    OffsetCommitRequest.api_key: 9,
    OffsetFetchRequest.api_key: 9,
}
"""Where the members here stop: from the next version on topics have ids in place of names, or, in Metadata, a broker
may send its clients back to their first addresses (KIP-1102)."""


_OF_ONE_PARTITION: Final = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.TOPIC_AUTHORIZATION_FAILED)


def version_for(message: Message, spoken: Versions) -> int | None:
    """The newest version that both sides speak, None if there is none."""
    key = message.api_key
    newest = min(spoken.last, APIS[key].versions.last, NEWEST_USED.get(key, spoken.last))
    return newest if newest >= max(spoken.first, APIS[key].versions.first) else None


def default_versions() -> Mapping[int, int]:
    """For each API the version that goes to a broker which speaks all that this project does."""
    return {key: NEWEST_USED.get(key, api.versions.last) for key, api in APIS.items()}


def as_of(message: Message, version: int) -> Message:
    """The request with its contents where this version has them."""
    match message:
        case FindCoordinatorRequest():
            return replace(message, coordinator_keys=[]) if version < 4 else replace(message, key="")
        case LeaveGroupRequest():
            return replace(message, members=[]) if version < 3 else replace(message, member_id="")
        case OffsetFetchRequest():
            return replace(message, groups=[]) if version < 8 else replace(message, group_id="", topics=[])
        case MetadataRequest() if version < 4:
            # Older brokers create topics on demand whether asked to or not.
            return replace(message, allow_auto_topic_creation=True)
        case _:
            return message


def as_newest(request: Message, response: Message, version: int) -> Message:
    """The response with its contents where the newest version has them."""
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
            return replace(response, groups=[_as_group(request.group_id, response, version)])
        case _:
            return response


def _as_group(group_id: str, response: OffsetFetchResponse, version: int) -> OffsetFetchResponseGroup:
    return OffsetFetchResponseGroup(
        group_id=group_id,
        error_code=_error_of_all(response) if version < 2 else response.error_code,
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


def _error_of_all(response: OffsetFetchResponse) -> int:
    """Before v2 an error of the whole group stands at its partitions."""
    codes = (each.error_code for topic in response.topics for each in topic.partitions)
    return next((code for code in codes if code and code not in _OF_ONE_PARTITION), 0)
