"""JoinGroup, SyncGroup, Heartbeat, LeaveGroup, and the requests of administrators about groups.

API versions end here: a command says what its client supports, and a response is adapted to the version of the request.
"""

import asyncio
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any, Final

from msgspec.structs import replace

from regroup.coordinator import commands as c
from regroup.coordinator.group import MemberProfile, SupportedProtocol
from regroup.coordinator.responses import sync_error
from regroup.coordinator.serialization import Cause
from regroup.protocol.errors import ErrorCode
from regroup.protocol.messages.describe import (
    DeletableGroupResult,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
    DescribedGroup,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
    ListedGroup,
    ListGroupsRequest,
    ListGroupsResponse,
)
from regroup.protocol.messages.group import (
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    JoinGroupResponse,
    LeaveGroupRequest,
    LeaveGroupResponse,
    SyncGroupRequest,
)
from regroup.server.apis.group_order import distinct_in_order_of_partitions, in_order_of_partitions
from regroup.server.cluster.group_router import BrokerGroups
from regroup.server.cluster.state import ClusterState
from regroup.server.net.exchange import Exchange, RequestHandler

_CLASSIC: Final = "classic"
"""The type of every group here, as ListGroups v5 names it."""
MAX_COMMANDS_PER_TURN: Final = 1_000
"""Groups of one request that are handled before the event loop gets a turn."""
_GROUP_OPERATIONS: Final = sum(1 << operation for operation in (3, 6, 8, 10, 11))
"""Kafka's numbers of what a client may do with a group: read, delete, describe, describe and alter configs."""


class GroupApis:
    """Turns requests into commands, and the coordinator's results into responses."""

    def __init__(self, state: ClusterState, groups: BrokerGroups) -> None:
        self._state = state
        self._groups = groups

    def handlers(self) -> dict[int, RequestHandler]:
        return {
            JoinGroupRequest.api_key: self.join_group,
            SyncGroupRequest.api_key: self.sync_group,
            HeartbeatRequest.api_key: self.heartbeat,
            LeaveGroupRequest.api_key: self.leave_group,
            DescribeGroupsRequest.api_key: self.describe_groups,
            ListGroupsRequest.api_key: self.list_groups,
            DeleteGroupsRequest.api_key: self.delete_groups,
        }

    def join_group(self, request: JoinGroupRequest, exchange: Exchange) -> None:
        """A new member's id is the client id or the instance id, even an empty one, and a random UUID, as in Kafka."""
        client_id, instance_id = exchange.header.client_id or "", request.group_instance_id
        has_rebalance_timeout = exchange.version >= 1
        command = c.JoinGroup(
            group_id=request.group_id,
            at_ms=self._state.now_ms(),
            member_id=request.member_id,
            new_member_id=f"{client_id if instance_id is None else instance_id}-{self._state.new_uuid()}",
            protocol_type=request.protocol_type,
            profile=MemberProfile(
                instance_id=instance_id,
                client_id=client_id,
                client_host=exchange.client_host,
                session_timeout_ms=request.session_timeout_ms,
                rebalance_timeout_ms=(
                    request.rebalance_timeout_ms if has_rebalance_timeout else request.session_timeout_ms
                ),
                supported_protocols=tuple(SupportedProtocol(each.name, each.metadata) for each in request.protocols),
            ),
            reason=request.reason or "",
            supports_member_id_required=exchange.version >= 4,
            supports_skip_assignment=exchange.version >= 9,
        )

        def on_response(response: JoinGroupResponse) -> None:
            if not response.protocol_name:  # an assignor may have the empty name; since v7 Kafka returns null for it
                response = replace(response, protocol_name=None if exchange.version >= 7 else "")
            exchange.respond(response)

        self._groups.submit(command, on_response, exchange.cause)

    def sync_group(self, request: SyncGroupRequest, exchange: Exchange) -> None:
        if exchange.version >= 5 and (request.protocol_type is None or request.protocol_name is None):
            exchange.respond(sync_error(ErrorCode.INCONSISTENT_GROUP_PROTOCOL))
            return
        command = c.SyncGroup(
            group_id=request.group_id,
            at_ms=self._state.now_ms(),
            generation_id=request.generation_id,
            member_id=request.member_id,
            group_instance_id=request.group_instance_id,
            protocol_type=request.protocol_type,
            protocol_name=request.protocol_name,
            assignments={each.member_id: each.assignment for each in request.assignments},
        )
        self._groups.submit(command, exchange.respond, exchange.cause)

    def heartbeat(self, request: HeartbeatRequest, exchange: Exchange) -> None:
        command = c.Heartbeat(
            group_id=request.group_id,
            at_ms=self._state.now_ms(),
            generation_id=request.generation_id,
            member_id=request.member_id,
            group_instance_id=request.group_instance_id,
        )
        still_valid = self._groups.heartbeat_revalidator(command)

        def on_response(response: HeartbeatResponse) -> None:
            exchange.still_valid = None if response.error_code else still_valid
            exchange.respond(response)

        self._groups.submit(command, on_response, exchange.cause)

    def leave_group(self, request: LeaveGroupRequest, exchange: Exchange) -> None:
        """Up to v2 one member leaves, and its error code is that of the response."""
        has_members = exchange.version >= 3
        members = tuple(
            c.LeavingMember(each.member_id, each.group_instance_id, each.reason or "") for each in request.members
        )
        if not has_members:
            members = (c.LeavingMember(request.member_id),)
        command = c.LeaveGroup(group_id=request.group_id, at_ms=self._state.now_ms(), members=members)

        def on_response(response: LeaveGroupResponse) -> None:
            if not has_members:
                member_code = response.members[0].error_code if response.members else ErrorCode.NONE
                response = LeaveGroupResponse(error_code=response.error_code or member_code)
            exchange.respond(response)

        self._groups.submit(command, on_response, exchange.cause)

    def describe_groups(self, request: DescribeGroupsRequest, exchange: Exchange) -> None:
        def on_responses(groups: list[DescribedGroup]) -> None:
            if exchange.version >= 6:
                groups = [_missing_as_error(group) for group in groups]
            if request.include_authorized_operations:
                groups = [
                    group if group.error_code else replace(group, authorized_operations=_GROUP_OPERATIONS)
                    for group in groups
                ]
            exchange.respond(DescribeGroupsResponse(groups=groups))

        group_ids = in_order_of_partitions(request.groups, self._state.partition_of_group)
        commands = (c.DescribeGroup(group_id=group_id, at_ms=self._state.now_ms()) for group_id in group_ids)
        submit_all(self._groups, commands, len(group_ids), on_responses, exchange.cause)

    def list_groups(self, request: ListGroupsRequest, exchange: Exchange) -> None:
        """Filters ignore case; an unknown state or type selects no group (behaviour `list.state-filter`)."""
        if code := self._groups.refusal:
            exchange.respond(ListGroupsResponse(error_code=code))
            return
        states = {each.strip().lower() for each in request.states_filter}
        types = {each.strip().lower() for each in request.types_filter}
        groups = [
            ListedGroup(
                group_id=group.group_id,
                protocol_type=group.protocol_type,
                group_state=group.state.value,
                group_type=_CLASSIC,
            )
            for group in self._groups.groups()
            if (not states or group.state.value.lower() in states) and (not types or _CLASSIC in types)
        ]
        exchange.respond(ListGroupsResponse(groups=groups))

    def delete_groups(self, request: DeleteGroupsRequest, exchange: Exchange) -> None:
        """Delete each group once, however often it is named."""

        def on_responses(results: list[DeletableGroupResult]) -> None:
            exchange.respond(DeleteGroupsResponse(results=results))

        group_ids = distinct_in_order_of_partitions(request.groups_names, self._state.partition_of_group)
        commands = (c.DeleteGroup(group_id=group_id, at_ms=self._state.now_ms()) for group_id in group_ids)
        submit_all(self._groups, commands, len(group_ids), on_responses, exchange.cause)


def submit_all(
    groups: BrokerGroups,
    commands: Iterator[c.Command],
    count: int,
    on_responses: Callable[[list[Any]], None],
    cause: Cause,
) -> None:
    """Submit one command for each of the `count` groups of a request; `on_responses` gets all responses in that order.

    A request may name a million groups: the commands are made and submitted in portions, and the event loop gets a turn
    after each.
    """
    responses: list[Any] = [None] * count
    missing = count
    numbered = enumerate(commands)

    def on_response_to(index: int) -> Callable[[Any], None]:
        def on_response(response: Any) -> None:
            nonlocal missing
            responses[index] = response
            missing -= 1
            if missing == 0:
                on_responses(responses)

        return on_response

    def submit_portion(submitted: int) -> None:
        for index, command in islice(numbered, MAX_COMMANDS_PER_TURN):
            groups.submit(command, on_response_to(index), cause)
        if submitted + MAX_COMMANDS_PER_TURN < count:
            asyncio.get_running_loop().call_soon(submit_portion, submitted + MAX_COMMANDS_PER_TURN)

    if not count:
        on_responses([])
    submit_portion(0)


def _missing_as_error(group: DescribedGroup) -> DescribedGroup:
    """Since v6 a group that does not exist is an error (KIP-1043)."""
    if group.error_code or group.group_state != "Dead":
        return group
    text = f"Group {group.group_id} not found."
    return replace(group, error_code=ErrorCode.GROUP_ID_NOT_FOUND, error_message=text)
