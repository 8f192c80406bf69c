"""Handles Heartbeat and LeaveGroup of classic groups."""

from regroup.coordinator import responses
from regroup.coordinator.classic.member_checks import refuse_generation, refuse_member
from regroup.coordinator.classic.rebalance import leave_member, rebalance
from regroup.coordinator.commands import Heartbeat, LeaveGroup, LeavingMember
from regroup.coordinator.decision import Decision, DecisionBuilder
from regroup.coordinator.events import PendingMemberRemoved
from regroup.coordinator.group import Group, GroupState
from regroup.protocol.errors import ErrorCode
from regroup.protocol.messages.group import MemberResponse


def heartbeat(decision: DecisionBuilder, command: Heartbeat) -> Decision:
    """Handle a Heartbeat: it restarts the session timeout and leads to no event. Its response says whether a rebalance
    is in progress."""
    group = decision.group
    if not command.group_id:
        return Decision(group, response=responses.heartbeat_response(ErrorCode.INVALID_GROUP_ID))
    refused = refuse_generation(group, command.member_id, command.group_instance_id, command.generation_id)
    if refused is not None:
        return Decision(group, response=responses.heartbeat_response(refused))
    is_rebalancing = group.state is GroupState.PREPARING_REBALANCE
    code = ErrorCode.REBALANCE_IN_PROGRESS if is_rebalancing else ErrorCode.NONE
    return Decision(
        group,
        response=responses.heartbeat_response(code),
        touched_sessions=(command.member_id,),
        after_append=group.last_pending_append,
    )


def leave_group(decision: DecisionBuilder, command: LeaveGroup) -> Decision:
    """Handle a LeaveGroup: each named member gets its own error code, and the group rebalances once, after all were
    removed."""
    if not command.group_id:
        return decision.build(responses.leave_response(ErrorCode.INVALID_GROUP_ID))
    results = [leave(decision, leaving) for leaving in command.members]
    left = [each.member_id or each.group_instance_id or "" for each in results if each.error_code == ErrorCode.NONE]
    if left and decision.group.state is not GroupState.EMPTY:
        # As in Kafka, also if only a pending member id left; but not in an empty group.
        rebalance(decision, f"{', '.join(left)} left")
    return decision.build_after_pending_appends(responses.leave_response(ErrorCode.NONE, results))


def leave(decision: DecisionBuilder, leaving: LeavingMember) -> MemberResponse:
    code = ErrorCode.NONE
    if leaving.member_id in decision.group.pending_join_members:
        reason = leaving.reason or "LeaveGroup"
        decision.apply(PendingMemberRemoved, member_id=leaving.member_id, reason=reason)
    elif refused := refuse_leave(decision.group, leaving):
        code = refused
    else:
        member_id = leaving.member_id or decision.group.static_members[leaving.group_instance_id or ""]
        leave_member(decision, member_id, leaving.reason)
    return MemberResponse(member_id=leaving.member_id, group_instance_id=leaving.group_instance_id, error_code=code)


def refuse_leave(group: Group, leaving: LeavingMember) -> ErrorCode | None:
    """The error of one member that is to leave; None if it may. An administrator may name a static member by its
    instance id alone (KIP-345)."""
    if leaving.member_id == "" and leaving.group_instance_id is not None:
        return None if leaving.group_instance_id in group.static_members else ErrorCode.UNKNOWN_MEMBER_ID
    return refuse_member(group, leaving.member_id, leaving.group_instance_id)
