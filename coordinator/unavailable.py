"""What a request gets that cannot be dealt with now: the group is elsewhere, or is being loaded (area recovery)."""

from collections.abc import Callable
from typing import Any, Final

from regroup.coordinator import commands as c
from regroup.coordinator import responses
from regroup.protocol.errors import ErrorCode
from regroup.protocol.message import Structure
from regroup.protocol.messages.describe import DescribedGroup
from regroup.protocol.messages.offsets import OffsetFetchResponseGroup


def unavailable(command: c.Command, code: ErrorCode) -> Structure:
    """The answer to a request, with this code in the place where this API has it."""
    return ANSWERS[type(command)](command, code)


def refused_by_the_log(command: c.Command, code: ErrorCode) -> Structure:
    """The same when Kafka's log failed; older consumers understand no 15 in answer to OffsetFetch."""
    if isinstance(command, c.FetchOffsets) and code is ErrorCode.COORDINATOR_NOT_AVAILABLE:
        code = ErrorCode.NOT_COORDINATOR
    return unavailable(command, code)


def join(command: c.JoinGroup, code: ErrorCode) -> Structure:
    """Only a coordinator that does not run gives the member id back."""
    return responses.join_refused(code, command.member_id if code is ErrorCode.COORDINATOR_NOT_AVAILABLE else "")


def beat(command: c.Heartbeat, code: ErrorCode) -> Structure:
    """Heartbeats are answered blindly while a group is loaded, so that members do not give up."""
    return responses.beat(ErrorCode.NONE if code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS else code)


ANSWERS: Final[dict[type[c.Command], Callable[[Any, ErrorCode], Structure]]] = {
    c.JoinGroup: join,
    c.SyncGroup: lambda command, code: responses.sync_refused(code),
    c.Heartbeat: beat,
    c.LeaveGroup: lambda command, code: responses.left(code),
    c.CommitOffsets: responses.committed,
    c.CommitTransactionalOffsets: responses.committed_in_transaction,
    c.EndTransaction: lambda command, code: responses.transaction_ended(code),
    c.FetchOffsets: lambda command, code: OffsetFetchResponseGroup(group_id=command.group_id, error_code=code),
    c.DeleteOffsets: lambda command, code: responses.offsets_deleted(code),
    c.DescribeGroup: lambda command, code: DescribedGroup(group_id=command.group_id, error_code=code),
    c.DeleteGroup: lambda command, code: responses.deleted(command.group_id, code),
}
