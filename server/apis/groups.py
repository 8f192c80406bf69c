"""Handlers of group requests: JoinGroup, SyncGroup, Heartbeat, LeaveGroup, ListGroups, DescribeGroups, DeleteGroups.

API versions end here: a command says what its client supports, and a response is adapted to the version of the request.
"""

from collections.abc import Callable, Generator, Hashable, Sequence
from typing import Any, Final, TypeVar

from msgspec.structs import replace

from regroup.coordinator import commands as c
from regroup.coordinator.group import MemberProfile
from regroup.coordinator.responses import sync_error
from regroup.coordinator.serialization import Cause
from regroup.coordinator.supported_protocol import SupportedProtocol
from regroup.protocol.errors import ErrorCode
from regroup.protocol.java_order import java_string_hash
from regroup.protocol.messages.describe import (
    DeletableGroupResult,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
    DescribedConsumerGroup,
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
from regroup.protocol.messages.offsets import OffsetFetchResponseGroup
from regroup.protocol.topic_ids import topic_id_text
from regroup.server.apis.group_order import distinct_in_order_of_partitions, in_order_of_partitions
from regroup.server.cluster.group_router import BrokerGroups
from regroup.server.cluster.state import ClusterState
from regroup.server.net.exchange import Exchange, RequestHandler
from regroup.server.net.turns import Turns

_STEPS_OF_HELD_RESPONSE: Final = 20
_Key = TypeVar("_Key", bound=Hashable)
GROUP_OPERATIONS: Final = sum(1 << operation for operation in (3, 6, 8, 10, 11))
"""The `authorized_operations` bit field of a described group: bits 3, 6, 8, 10 and 11 (read, delete, describe, describe
configs, alter configs)."""


class GroupApis:
    """Turns group requests into commands for the coordinator, and its results into responses.

    `prepare_search` is called with the group id before a JoinGroup, and what it returns after the response of an
    accepted one: in a group of the consumer protocol topics may have to be searched for patterns.
    """

    def __init__(
        self, state: ClusterState, groups: BrokerGroups, prepare_search: Callable[[str], Callable[[], None]]
    ) -> None:
        self._state = state
        self._groups = groups
        self._prepare_search = prepare_search

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
        """Submit a JoinGroup. The id of a new member is its instance id or client id, even an empty one, followed by a
        random UUID, as in Kafka."""
        client_id, instance_id = exchange.header.client_id or "", request.group_instance_id
        new_uuid = self._state.new_uuid()
        has_rebalance_timeout = exchange.version >= 1
        command = c.JoinGroup(
            group_id=request.group_id,
            at_ms=self._state.now_ms(),
            member_id=request.member_id,
            new_member_id=f"{client_id if instance_id is None else instance_id}-{new_uuid}",
            new_short_member_id=topic_id_text(new_uuid.bytes),
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
            topics=self._state.topics_image,
        )

        search_if_due = self._prepare_search(request.group_id)

        def on_response(response: JoinGroupResponse) -> None:
            if not response.protocol_name:  # an assignor may have the empty name; since v7 Kafka returns null for it
                response = replace(response, protocol_name=None if exchange.version >= 7 else "")
            exchange.respond(response)
            if not response.error_code:
                search_if_due()

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
            topics=self._state.topics_image,
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
        """Submit a LeaveGroup. Up to v2 it names one member, whose error code becomes that of the response."""
        has_members = exchange.version >= 3
        members = tuple(
            c.LeavingMember(each.member_id, each.group_instance_id, each.reason or "") for each in request.members
        )
        if not has_members:
            members = (c.LeavingMember(request.member_id),)
        command = c.LeaveGroup(
            group_id=request.group_id, at_ms=self._state.now_ms(), members=members, topics=self._state.topics_image
        )

        def on_response(response: LeaveGroupResponse) -> None:
            if not has_members:
                member_code = response.members[0].error_code if response.members else ErrorCode.NONE
                response = LeaveGroupResponse(error_code=response.error_code or member_code)
            exchange.respond(response)

        self._groups.submit(command, on_response, exchange.cause)

    def describe_groups(self, request: DescribeGroupsRequest, exchange: Exchange) -> Turns:
        def command(group_id: str) -> c.DescribeGroup:
            return c.DescribeGroup(group_id=group_id, at_ms=self._state.now_ms())

        def complete(group: DescribedGroup) -> DescribedGroup:
            group = _missing_as_error(group) if exchange.version >= 6 else replace(group, error_message=None)
            if request.include_authorized_operations and not group.error_code:
                group = replace(group, authorized_operations=GROUP_OPERATIONS)
            return group

        def on_responses(groups: dict[str, DescribedGroup]) -> None:
            completed = {group_id: complete(group) for group_id, group in groups.items()}
            exchange.respond(DescribeGroupsResponse(groups=[completed[group_id] for group_id in group_ids]))

        partitions = yield from _of_each(self._state.partition_of_group, request.groups)
        group_ids = in_order_of_partitions(request.groups, partitions.__getitem__)
        yield from submit_all(self._groups, group_ids, command, on_responses, exchange.cause)

    def list_groups(self, request: ListGroupsRequest, exchange: Exchange) -> Turns:
        """List groups. The filters of state and type ignore case; an unknown state or type selects no group (behaviour
        `list.state-filter`)."""
        if code := self._groups.refusal:
            exchange.respond(ListGroupsResponse(error_code=code))
            return
        states = {each.strip().lower() for each in request.states_filter}
        types = {each.strip().lower() for each in request.types_filter}
        groups = []
        for group in list(self._groups.groups()):
            if types and group.kind.value not in types:
                yield 1
                continue
            state_name = group.state_name
            if not states or state_name.lower() in states:
                groups.append(
                    ListedGroup(
                        group_id=group.group_id,
                        protocol_type=group.shown_protocol_type,
                        group_state=state_name,
                        group_type=group.kind.value,
                    )
                )
            yield 1 + len(group.member_ids) // 100
        exchange.respond(ListGroupsResponse(groups=groups))

    def delete_groups(self, request: DeleteGroupsRequest, exchange: Exchange) -> Turns:
        """Delete the named groups. A group that is named several times is deleted once."""

        def command(group_id: str) -> c.DeleteGroup:
            return c.DeleteGroup(group_id=group_id, at_ms=self._state.now_ms())

        def on_responses(results: dict[str, DeletableGroupResult]) -> None:
            exchange.respond(DeleteGroupsResponse(results=[results[group_id] for group_id in group_ids]))

        names = request.groups_names
        partitions = yield from _of_each(self._state.partition_of_group, names)
        hashes = yield from _of_each(java_string_hash, names)
        group_ids = distinct_in_order_of_partitions(names, partitions.__getitem__, hashes.__getitem__)
        yield from submit_all(self._groups, group_ids, command, on_responses, exchange.cause)


def _of_each(function: Callable[[str], int], group_ids: Sequence[str]) -> Generator[int, None, dict[str, int]]:
    """The result of `function` for each group id, computed in turns, because the hash of a long id takes long."""
    values = {}
    for group_id in group_ids:
        if group_id not in values:
            values[group_id] = function(group_id)
            yield 1 + len(group_id) // 100
    return values


def submit_all(
    groups: BrokerGroups,
    keys: Sequence[_Key],
    command: Callable[[_Key], c.Command],
    on_responses: Callable[[dict[_Key, Any]], None],
    cause: Cause,
) -> Turns:
    """Submit one command for each key, once for equal keys; `on_responses` gets the response for each key.

    A request may name very many groups, or one very often: the commands are made and submitted in turns.
    """
    responses: dict[_Key, Any] = {}
    distinct = dict.fromkeys(keys)

    def on_response_to(key: _Key) -> Callable[[Any], None]:
        def on_response(response: Any) -> None:
            responses[key] = response
            if len(responses) == len(distinct):
                on_responses(responses)

        return on_response

    if not distinct:
        on_responses({})
    for key in distinct:
        groups.submit(command(key), on_response_to(key), cause)
        yield 1 + _entries(responses[key]) if key in responses else _STEPS_OF_HELD_RESPONSE


def _entries(response: Any) -> int:
    """The number of entries in the response about one group, which is the number of steps that the response costs:
    members and their assigned topics, or partitions with offsets."""
    if isinstance(response, DescribedGroup):
        return len(response.members)
    if isinstance(response, DescribedConsumerGroup):
        return sum(
            1 + len(each.assignment.topic_partitions) + len(each.target_assignment.topic_partitions)
            for each in response.members
        )
    if isinstance(response, OffsetFetchResponseGroup):
        return sum(len(topic.partitions) for topic in response.topics)
    return 0


def _missing_as_error(group: DescribedGroup) -> DescribedGroup:
    """Since DescribeGroups v6 (KIP-1043) a group that does not exist or is not classic is described by an error: return
    that description for such a group, and any other unchanged."""
    if group.error_code or group.group_state != "Dead":
        return group
    text = group.error_message or f"Group {group.group_id} not found."
    return replace(group, error_code=ErrorCode.GROUP_ID_NOT_FOUND, error_message=text)
