"""The response to a request that no coordinator can handle now, or whose record the emulated Kafka log has lost."""

from collections.abc import Callable
from typing import Any, Final

from regroup.coordinator import commands as c
from regroup.coordinator.consumer import commands as cc
from regroup.coordinator.consumer.checks import refuse_request
from regroup.coordinator.consumer.responses import heartbeat_error as consumer_heartbeat_error
from regroup.coordinator.responses import (
    heartbeat_response,
    join_error,
    leave_response,
    offset_commit_response,
    offset_delete_response,
    sync_error,
    txn_offset_commit_response,
)
from regroup.protocol.errors import ErrorCode
from regroup.protocol.message import Structure
from regroup.protocol.messages.describe import DeletableGroupResult, DescribedConsumerGroup, DescribedGroup
from regroup.protocol.messages.offsets import OffsetFetchResponseGroup
from regroup.protocol.messages.transactions import EndTxnResponse


def unavailable_response(command: c.Command, code: ErrorCode) -> Structure:
    """The response to a request that no coordinator can handle now, with the code where this API carries it.

    The group is on another broker, or it is being loaded (behaviours `recovery.*`).
    """
    return UNAVAILABLE_RESPONSES[type(command)](command, code)


def failed_append_response(command: c.Command, code: ErrorCode) -> Structure:
    """The response, with this error code, to a request whose record the emulated Kafka log lost.

    Consumers before Kafka 2.0 do not understand COORDINATOR_NOT_AVAILABLE in an OffsetFetch response, so it gets
    NOT_COORDINATOR instead.
    """
    if isinstance(command, c.OffsetFetch) and code is ErrorCode.COORDINATOR_NOT_AVAILABLE:
        code = ErrorCode.NOT_COORDINATOR
    return unavailable_response(command, code)


def unavailable_join_response(command: c.JoinGroup, code: ErrorCode) -> Structure:
    """The JoinGroup response of a coordinator that cannot handle the request. It contains the member id only if the
    coordinator is not running (COORDINATOR_NOT_AVAILABLE)."""
    return join_error(code, command.member_id if code is ErrorCode.COORDINATOR_NOT_AVAILABLE else "")


def unavailable_heartbeat_response(command: c.Heartbeat, code: ErrorCode) -> Structure:
    """The Heartbeat response of a coordinator that cannot handle the request. While the group is being loaded it
    reports success without any check, so that members do not rejoin."""
    return heartbeat_response(ErrorCode.NONE if code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS else code)


def unavailable_consumer_heartbeat_response(command: cc.ConsumerGroupHeartbeat, code: ErrorCode) -> Structure:
    """The ConsumerGroupHeartbeat response of a coordinator that cannot handle the request. An error in the fields of
    the request itself precedes the error `code`, because it is found before the group is looked up."""
    if refused := refuse_request(command):
        return consumer_heartbeat_error(refused.code, refused.text)
    return consumer_heartbeat_error(code, f"The coordinator of group {command.group_id} cannot answer now.")


UNAVAILABLE_RESPONSES: Final[dict[type[c.Command], Callable[[Any, ErrorCode], Structure]]] = {
    c.JoinGroup: unavailable_join_response,
    c.SyncGroup: lambda command, code: sync_error(code),
    c.Heartbeat: unavailable_heartbeat_response,
    c.LeaveGroup: lambda command, code: leave_response(code),
    c.OffsetCommit: offset_commit_response,
    c.TxnOffsetCommit: txn_offset_commit_response,
    c.EndTransaction: lambda command, code: EndTxnResponse(error_code=code),
    c.OffsetFetch: lambda command, code: OffsetFetchResponseGroup(group_id=command.group_id, error_code=code),
    c.OffsetDelete: lambda command, code: offset_delete_response(code),
    c.DescribeGroup: lambda command, code: DescribedGroup(group_id=command.group_id, error_code=code),
    cc.ConsumerGroupHeartbeat: unavailable_consumer_heartbeat_response,
    cc.ConsumerGroupDescribe: lambda command, code: DescribedConsumerGroup(group_id=command.group_id, error_code=code),
    c.DeleteGroup: lambda command, code: DeletableGroupResult(group_id=command.group_id, error_code=code),
}
