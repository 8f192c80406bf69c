"""The door to the coordinator: JoinGroup, SyncGroup, Heartbeat, LeaveGroup, and looking at groups from outside.

Here version numbers end: what a version can carry becomes what its sender is able to do.
"""

import asyncio
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any, Final, cast

from msgspec.structs import replace

from regroup.coordinator import commands as c
from regroup.coordinator.group import Group, Protocol
from regroup.coordinator.responses import sync_refused
from regroup.coordinator.runtime.group_coordinator import Because
from regroup.protocol.errors import ErrorCode
from regroup.protocol.message import Structure
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
from regroup.server.cluster.group_router import Groups
from regroup.server.cluster.state import Cluster
from regroup.server.net.exchange import Exchange, Handler

CLASSIC: Final = "classic"
"""The type of every group here, as ListGroups v5 names it."""
PORTION: Final = 1_000
"""So many groups of one request are dealt with before others have their turn."""
GROUP_OPERATIONS: Final = sum(1 << operation for operation in (3, 6, 8, 10, 11))
"""Read, delete, describe, and both for configs: nothing is forbidden here. The numbers are Kafka's."""


class GroupApis:
    """Turns requests into commands, and hands the coordinator's answers back."""

    def __init__(self, cluster: Cluster, coordinator: Groups) -> None:
        self._cluster = cluster
        self._coordinator = coordinator

    def handlers(self) -> dict[int, Handler]:
        return {
            JoinGroupRequest.api_key: self.join_group,
            SyncGroupRequest.api_key: self.sync_group,
            HeartbeatRequest.api_key: self.heartbeat,
            LeaveGroupRequest.api_key: self.leave_group,
            DescribeGroupsRequest.api_key: self.describe_groups,
            ListGroupsRequest.api_key: self.list_groups,
            DeleteGroupsRequest.api_key: self.delete_groups,
        }

    def join_group(self, exchange: Exchange) -> None:
        """The new member's id is drawn here, of the client's name or the instance's, as Kafka forms it."""
        request = cast("JoinGroupRequest", exchange.request)
        client_id = exchange.header.client_id or ""
        command = c.JoinGroup(
            group_id=request.group_id,
            at_ms=self._cluster.now_ms(),
            member_id=request.member_id,
            new_member_id=f"{request.group_instance_id or client_id}-{self._cluster.new_uuid()}",
            group_instance_id=request.group_instance_id,
            client_id=client_id,
            client_host=exchange.client_host,
            session_timeout_ms=request.session_timeout_ms,
            rebalance_timeout_ms=request.rebalance_timeout_ms if exchange.version >= 1 else request.session_timeout_ms,
            protocol_type=request.protocol_type,
            protocols=tuple(Protocol(each.name, each.metadata) for each in request.protocols),
            reason=request.reason or "",
            can_be_asked_to_return=exchange.version >= 4,
            can_skip_assignment=exchange.version >= 9,
        )

        def reply(answer: Structure) -> None:
            response = cast("JoinGroupResponse", answer)
            if response.protocol_name is None and exchange.version < 7:
                response = replace(response, protocol_name="")
            exchange.reply(response)

        self._coordinator.submit(command, reply, exchange.cause)

    def sync_group(self, exchange: Exchange) -> None:
        request = cast("SyncGroupRequest", exchange.request)
        if exchange.version >= 5 and (request.protocol_type is None or request.protocol_name is None):
            exchange.reply(sync_refused(ErrorCode.INCONSISTENT_GROUP_PROTOCOL))
            return
        command = c.SyncGroup(
            group_id=request.group_id,
            at_ms=self._cluster.now_ms(),
            generation_id=request.generation_id,
            member_id=request.member_id,
            group_instance_id=request.group_instance_id,
            protocol_type=request.protocol_type,
            protocol_name=request.protocol_name,
            assignment={each.member_id: each.assignment for each in request.assignments},
        )
        self._submit(exchange, command)

    def heartbeat(self, exchange: Exchange) -> None:
        request = cast("HeartbeatRequest", exchange.request)
        command = c.Heartbeat(
            group_id=request.group_id,
            at_ms=self._cluster.now_ms(),
            generation_id=request.generation_id,
            member_id=request.member_id,
            group_instance_id=request.group_instance_id,
        )
        again = self._coordinator.repeats(command)

        def reply(answer: Structure) -> None:
            response = cast("HeartbeatResponse", answer)
            exchange.again = None if response.error_code else again
            exchange.reply(response)

        self._coordinator.submit(command, reply, exchange.cause)

    def leave_group(self, exchange: Exchange) -> None:
        """Up to v2 one member leaves, and its own code stands at the top."""
        request = cast("LeaveGroupRequest", exchange.request)
        leaving = tuple(
            c.Leaving(each.member_id, each.group_instance_id, each.reason or "") for each in request.members
        )
        if exchange.version < 3:
            leaving = (c.Leaving(request.member_id),)
        command = c.LeaveGroup(group_id=request.group_id, at_ms=self._cluster.now_ms(), members=leaving)

        def reply(answer: Structure) -> None:
            response = cast("LeaveGroupResponse", answer)
            if exchange.version < 3:
                own = response.members[0].error_code if response.members else ErrorCode.NONE
                response = LeaveGroupResponse(error_code=response.error_code or own)
            exchange.reply(response)

        self._coordinator.submit(command, reply, exchange.cause)

    def describe_groups(self, exchange: Exchange) -> None:
        request = cast("DescribeGroupsRequest", exchange.request)

        def finish(groups: list[Structure]) -> None:
            described = cast("list[DescribedGroup]", groups)
            if request.include_authorized_operations:
                described = [with_operations(group) for group in described]
            if exchange.version >= 6:
                described = [as_missing(group) for group in described]
            exchange.reply(DescribeGroupsResponse(groups=described))

        commands = (c.DescribeGroup(group_id=name, at_ms=self._cluster.now_ms()) for name in request.groups)
        submit_all(self._coordinator, commands, len(request.groups), finish, exchange.cause)

    def list_groups(self, exchange: Exchange) -> None:
        """Filters take names in any case; one that means nothing selects nothing (behaviour `list.state-filter`)."""
        request = cast("ListGroupsRequest", exchange.request)
        if refusal := self._coordinator.refusal:
            exchange.reply(ListGroupsResponse(error_code=refusal))
            return
        states = {each.strip().lower() for each in request.states_filter}
        types = {each.strip().lower() for each in request.types_filter}
        groups = [
            listed(group)
            for group in self._coordinator.groups()
            if (not states or group.state.value.lower() in states) and (not types or CLASSIC in types)
        ]
        exchange.reply(ListGroupsResponse(groups=groups))

    def delete_groups(self, exchange: Exchange) -> None:
        request = cast("DeleteGroupsRequest", exchange.request)

        def finish(results: list[Structure]) -> None:
            exchange.reply(DeleteGroupsResponse(results=cast("list[DeletableGroupResult]", results)))

        commands = (c.DeleteGroup(group_id=name, at_ms=self._cluster.now_ms()) for name in request.groups_names)
        submit_all(self._coordinator, commands, len(request.groups_names), finish, exchange.cause)

    def _submit(self, exchange: Exchange, command: c.Command) -> None:
        self._coordinator.submit(command, cast("Callable[[Structure], None]", exchange.reply), exchange.cause)


def submit_all(
    coordinator: Groups,
    commands: Iterator[c.Command],
    count: int,
    finish: Callable[[list[Structure]], None],
    cause: Because,
) -> None:
    """Submit a command for each of the `count` groups that a request names; `finish` gets the answers in that order.

    A request may name a million of them: the commands are made and dealt with in portions, and other connections have
    their turn in between.
    """
    answers: list[Any] = [None] * count
    missing = count
    numbered = enumerate(commands)

    def answering(place: int) -> Callable[[Structure], None]:
        def answer(message: Structure) -> None:
            nonlocal missing
            answers[place] = message
            missing -= 1
            if missing == 0:
                finish(answers)

        return answer

    def submit_a_portion(submitted: int) -> None:
        for place, command in islice(numbered, PORTION):
            coordinator.submit(command, answering(place), cause)
        if submitted + PORTION < count:
            asyncio.get_running_loop().call_soon(submit_a_portion, submitted + PORTION)

    if not count:
        finish([])
    submit_a_portion(0)


def listed(group: Group) -> ListedGroup:
    return ListedGroup(
        group_id=group.name, protocol_type=group.protocol_type, group_state=group.state.value, group_type=CLASSIC
    )


def with_operations(group: DescribedGroup) -> DescribedGroup:
    """Everybody may do everything here."""
    return group if group.error_code else replace(group, authorized_operations=GROUP_OPERATIONS)


def as_missing(group: DescribedGroup) -> DescribedGroup:
    """Since v6 a group that does not exist is an error (KIP-1043)."""
    if group.error_code or group.group_state != "Dead":
        return group
    text = f"Group {group.group_id} not found."
    return replace(group, error_code=ErrorCode.GROUP_ID_NOT_FOUND, error_message=text)
