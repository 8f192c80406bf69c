"""Whether a response says something of each part of its request: each member that leaves, each partition."""

from collections import Counter
from collections.abc import Mapping
from typing import Any

from regroup.coordinator import commands as c
from regroup.lab.checker.coordinator_state import CheckerState
from regroup.lab.checker.exchanges import ObservedExchange
from regroup.protocol.errors import ErrorCode


def a_response_names_what_was_requested(state: CheckerState, exchange: ObservedExchange) -> str | None:
    """A response has one entry for each member or partition that its request names, and no others.

    One that refuses a LeaveGroup, OffsetFetch or OffsetDelete as a whole need not have any.
    """
    command, response = exchange.command, exchange.response
    if isinstance(command, c.LeaveGroup | c.OffsetFetch | c.OffsetDelete) and exchange.error_code != ErrorCode.NONE:
        return None
    requested, named = _requested(command), _named(command, response)
    if requested is None or requested == named:
        return None
    missing, more = requested - named, named - requested
    return f"it leaves out {list(missing)}" if missing else f"it has {list(more)} beside what was requested"


def _requested(command: c.Command) -> Counter[Any] | None:
    match command:
        case c.LeaveGroup():
            return Counter((each.member_id, each.group_instance_id) for each in command.members)
        case c.OffsetCommit() | c.TxnOffsetCommit():
            return Counter((each.topic, each.partition) for each in command.offsets)
        case c.OffsetFetch() | c.OffsetDelete() if command.partitions is not None:
            return _partitions(command.partitions)
    return None


def _named(command: c.Command, response: Any) -> Counter[Any]:
    if isinstance(command, c.LeaveGroup):
        return Counter((each.member_id, each.group_instance_id) for each in response.members)
    topics = getattr(response, "topics", ())
    return Counter((topic.name, each.partition_index) for topic in topics for each in topic.partitions)


def _partitions(partitions: Mapping[str, tuple[int, ...]]) -> Counter[Any]:
    return Counter((topic, each) for topic, indexes in partitions.items() for each in indexes)
