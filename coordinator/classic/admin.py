"""Handles the commands DescribeGroup and DeleteGroup for classic groups."""

from regroup.coordinator.commands import DeleteGroup, DescribeGroup
from regroup.coordinator.decision import Decision, DecisionBuilder
from regroup.coordinator.events import GroupDeleted
from regroup.coordinator.group import Group, GroupState, LogRecordKind
from regroup.coordinator.responses import describe_group_response
from regroup.protocol.errors import ErrorCode
from regroup.protocol.messages.describe import DeletableGroupResult


def describe_group(decision: DecisionBuilder, command: DescribeGroup) -> Decision:
    """Describe a group. A group that does not exist is shown as Dead, without an error; so is one whose creation the
    log has not committed."""
    group = decision.group
    if any(append.kind is LogRecordKind.GROUP_CREATION for append in group.pending_appends.values()):
        group = Group(group_id=group.group_id)
    return decision.build(describe_group_response(group))


def delete_group(decision: DecisionBuilder, command: DeleteGroup) -> Decision:
    """Delete a group without members, and its offsets (KIP-229). The empty group id is treated like any other.

    Kafka's log commits the deletion at once, and with it every record before it.
    """
    group, code = decision.group, ErrorCode.NONE
    if not group.exists:
        code = ErrorCode.GROUP_ID_NOT_FOUND
    elif group.state is not GroupState.EMPTY:
        code = ErrorCode.NON_EMPTY_GROUP
    else:
        decision.apply(GroupDeleted, reason="DeleteGroups")
        for append_number in group.pending_appends:
            decision.complete_append(append_number)
    return decision.build_after_pending_appends(DeletableGroupResult(group_id=command.group_id, error_code=code))
