"""Handles SyncGroup: the leader sends the assignments, and every member gets its own."""

from msgspec.structs import replace

from regroup.coordinator import responses
from regroup.coordinator.classic.member_checks import refuse_generation
from regroup.coordinator.classic.rebalance import rebalance
from regroup.coordinator.commands import SyncGroup
from regroup.coordinator.decision import Decision, DecisionBuilder
from regroup.coordinator.events import AssignmentCommitted, AssignmentWritten, MemberSynced
from regroup.coordinator.group import AwaitedResponse, Group, GroupState
from regroup.coordinator.offsets.log_batch_size import group_fits
from regroup.protocol.errors import ErrorCode


def sync_group(decision: DecisionBuilder, command: SyncGroup) -> Decision:
    """Handle a SyncGroup. Its response is given at once in Stable, and otherwise held until the leader's assignments
    are written and committed."""
    group, member_id = decision.group, command.member_id
    if refused := refuse_sync(group, command):
        return decision.build(responses.sync_error(refused))
    is_stable = group.state is GroupState.STABLE
    # A static member that is back since the log has lost its replacement is not pending, but the replacement's id is.
    awaits_anew = not is_stable and group.members[member_id].awaiting is not AwaitedResponse.SYNC
    if member_id in group.pending_sync_members or awaits_anew:
        decision.apply(MemberSynced, member_id=member_id, awaits_assignment=not is_stable)
    if is_stable:
        return decision.build(responses.sync_response(decision.group, member_id))
    decision.hold(AwaitedResponse.SYNC, member_id)
    if member_id == group.leader_id and group.uncommitted_assignments is None:
        write_assignments(decision, command)
    return decision.build()


def refuse_sync(group: Group, command: SyncGroup) -> ErrorCode | None:
    """The error of a SyncGroup, by the checks of Kafka's `classicGroupSync` in their order; None if it is accepted. A
    protocol type or name that is missing, in the request or in the group, matches any other."""
    if not command.group_id:
        return ErrorCode.INVALID_GROUP_ID
    refused = refuse_generation(group, command.member_id, command.group_instance_id, command.generation_id)
    if refused is not None:
        return refused
    if differ(command.protocol_type, group.protocol_type) or differ(command.protocol_name, group.protocol_name):
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    return ErrorCode.REBALANCE_IN_PROGRESS if group.state is GroupState.PREPARING_REBALANCE else None


def differ(requested: str | None, present: str | None) -> bool:
    return requested is not None and present is not None and requested != present


def write_assignments(decision: DecisionBuilder, command: SyncGroup) -> None:
    """Write the leader's assignments to the log. Members that the leader left out get an empty assignment; member ids
    that are not in the group are dropped.

    If Kafka could not write the group because it is too large, the group gets no assignment and rebalances.
    """
    group = decision.group
    assignments = {member_id: command.assignments.get(member_id, b"") for member_id in group.members}
    assigned = (replace(each, assignment=assignments[each.member_id]) for each in group.members.values())
    if not group_fits(group, assigned):
        rebalance(decision, "the assignment is larger than a batch of the log", ErrorCode.UNKNOWN_SERVER_ERROR)
        return
    deadline_ms = decision.append_deadline_ms(command)
    decision.apply(AssignmentWritten, assignments=assignments, commit_deadline_ms=deadline_ms)
    if deadline_ms is None:
        commit_assignments(decision)


def commit_assignments(decision: DecisionBuilder) -> None:
    """Make the assignments valid, because the log has committed them: every held SyncGroup is answered."""
    waiting = list(decision.group.members_awaiting(AwaitedResponse.SYNC))
    decision.apply(AssignmentCommitted)
    for member in waiting:
        response = responses.sync_response(decision.group, member.member_id)
        decision.release(AwaitedResponse.SYNC, member.member_id, response)
        decision.touch_session(member.member_id)
