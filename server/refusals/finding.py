"""Finds the error codes in responses with which requests of group members are refused."""

from collections.abc import Callable
from typing import Any, Final, NamedTuple, TypeAlias

from regroup.protocol.apis import APIS
from regroup.protocol.errors import ErrorCode
from regroup.protocol.message import Message
from regroup.protocol.messages.consumer_group import ConsumerGroupHeartbeatRequest
from regroup.protocol.messages.group import (
    HeartbeatRequest,
    JoinGroupRequest,
    LeaveGroupRequest,
    LeaveGroupResponse,
    SyncGroupRequest,
)
from regroup.protocol.messages.offsets import OffsetCommitRequest, OffsetCommitResponse
from regroup.protocol.messages.transactions import TxnOffsetCommitRequest, TxnOffsetCommitResponse
from regroup.server.net.exchange import Exchange


class Refusal(NamedTuple):
    """A request of a member, or a part of it, that was answered with an error code. A refusal changes nothing in the
    group and is not stored."""

    at_ms: int
    group_id: str
    api: str
    """The name of the API: `OffsetCommit`."""
    error: str
    """The name of the error code: `UNKNOWN_MEMBER_ID`."""
    member_id: str
    group_instance_id: str | None
    client_id: str
    connection: str
    generation_id: int | None
    """The generation id or member epoch in the request; None for JoinGroup and LeaveGroup, which have none."""

    @property
    def sender(self) -> str:
        """The shortest name of the member: its instance id, client id or member id."""
        return self.group_instance_id or self.client_id or self.member_id


_Who: TypeAlias = tuple[str, str | None, int]
"""Key of a refusal within one response: member id, instance id and error code."""


def refusals_of(exchange: Exchange, response: Message | None, now_ms: Callable[[], int]) -> list[Refusal]:
    """The refusals in the response to a member's request; in most cases none.

    MEMBER_ID_REQUIRED is not a refusal: it is how a new member gets its id (KIP-394).
    """
    find = _FINDERS.get(exchange.header.api_key)
    if find is None or response is None:
        return []
    found = find(exchange.request, response)
    if not found:
        return []
    request: Any = exchange.request
    names = ("generation_id", "generation_id_or_member_epoch", "member_epoch")
    generation_id = next((getattr(request, name) for name in names if hasattr(request, name)), None)
    at_ms, api = now_ms(), APIS[exchange.header.api_key].name
    return [
        Refusal(
            at_ms=at_ms,
            group_id=request.group_id,
            api=api,
            error=ErrorCode.name_of(code),
            member_id=member_id,
            group_instance_id=instance_id,
            client_id=exchange.header.client_id or "",
            connection=exchange.connection_name,
            generation_id=generation_id,
        )
        for member_id, instance_id, code in dict.fromkeys(found)
        if code != ErrorCode.MEMBER_ID_REQUIRED
    ]


def _in_response(request: Any, response: Any) -> list[_Who]:
    code = response.error_code
    return [(request.member_id, request.group_instance_id, code)] if code else []


def _in_consumer_heartbeat(request: Any, response: Any) -> list[_Who]:
    code = response.error_code
    return [(request.member_id, request.instance_id, code)] if code else []


def _in_leave_group(request: LeaveGroupRequest, response: LeaveGroupResponse) -> list[_Who]:
    if response.error_code:
        names = [(each.member_id, each.group_instance_id) for each in request.members] or [(request.member_id, None)]
        return [(member_id, instance_id, response.error_code) for member_id, instance_id in names]
    return [(each.member_id, each.group_instance_id, each.error_code) for each in response.members if each.error_code]


def _in_partitions(request: Any, response: OffsetCommitResponse | TxnOffsetCommitResponse) -> list[_Who]:
    codes = [each.error_code for topic in response.topics for each in topic.partitions if each.error_code]
    return [(request.member_id, request.group_instance_id, code) for code in dict.fromkeys(codes)]


_FINDERS: Final[dict[int, Callable[[Any, Any], list[_Who]]]] = {
    JoinGroupRequest.api_key: _in_response,
    SyncGroupRequest.api_key: _in_response,
    HeartbeatRequest.api_key: _in_response,
    LeaveGroupRequest.api_key: _in_leave_group,
    ConsumerGroupHeartbeatRequest.api_key: _in_consumer_heartbeat,
    OffsetCommitRequest.api_key: _in_partitions,
    TxnOffsetCommitRequest.api_key: _in_partitions,
}
