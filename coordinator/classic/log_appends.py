"""Handles records that the emulated Kafka log, `__consumer_offsets`, commits late or loses.

Usually the log commits a record at once. While a record waits to be committed, the responses that depend on it wait
too. These records can be delayed: a new group, the leader's assignment, the replacement of a static member in Stable,
and committed offsets.
"""

from typing import Final

from regroup.coordinator import responses
from regroup.coordinator.classic.rebalance import rebalance
from regroup.coordinator.classic.sync import commit_assignments
from regroup.coordinator.commands import CompleteAppend, DeadlinePassed, FailAppend
from regroup.coordinator.decision import Decision, DecisionBuilder
from regroup.coordinator.events import AppendCommitted, AppendFailed, AppendTimedOut
from regroup.coordinator.group import AwaitedResponse, Group, GroupState, LogRecordKind, PendingAppend
from regroup.protocol.errors import ErrorCode
from regroup.protocol.message import Structure

E = ErrorCode

CLIENT_ERRORS: Final[dict[ErrorCode, ErrorCode]] = {
    E.UNKNOWN_TOPIC_OR_PARTITION: E.COORDINATOR_NOT_AVAILABLE,
    E.NOT_ENOUGH_REPLICAS: E.COORDINATOR_NOT_AVAILABLE,
    E.REQUEST_TIMED_OUT: E.COORDINATOR_NOT_AVAILABLE,
    E.NOT_LEADER_OR_FOLLOWER: E.NOT_COORDINATOR,
    E.KAFKA_STORAGE_ERROR: E.NOT_COORDINATOR,
    E.MESSAGE_TOO_LARGE: E.UNKNOWN_SERVER_ERROR,
    E.RECORD_LIST_TOO_LARGE: E.UNKNOWN_SERVER_ERROR,
    E.INVALID_FETCH_SIZE: E.UNKNOWN_SERVER_ERROR,
}
"""The error that clients get for an error of the log. An error that is not listed is passed on unchanged."""


def complete_append(decision: DecisionBuilder, command: CompleteAppend) -> Decision:
    """Handle the late commit of a record by the Kafka log: answer the requests that wait for the record.

    If the record is an assignment, it takes effect only if the group still waits for it; the record stays in the log in
    any case.
    """
    decision.complete_append(command.append_number)
    append = decision.group.pending_appends.get(command.append_number)
    if append is not None:
        decision.apply(AppendCommitted, append_number=command.append_number)
        if is_awaited_assignment(decision.group, append):
            commit_assignments(decision)
    return decision.build()


def fail_append(decision: DecisionBuilder, command: FailAppend) -> Decision:
    """Handle the loss of a record: every request that waits for it is refused."""
    before, code = decision.group, CLIENT_ERRORS.get(command.error_code, command.error_code)
    append = before.pending_appends.get(command.append_number)
    if append is None:
        decision.complete_append(command.append_number, code)
        return decision.build()
    reason = f"the log returned {command.error_code.name}"
    decision.apply(AppendFailed, reason=reason, append_number=command.append_number, error_code=command.error_code)
    if not decision.group.exists:
        refuse_all(decision, before, code)
    elif is_awaited_assignment(decision.group, append):
        rebalance(decision, f"the assignment was lost: {reason}", code)
    elif append.kind is LogRecordKind.STATIC_MEMBER_REPLACEMENT and append.replaced_member:
        decision.touch_session(append.replaced_member.member_id)
    decision.complete_append(command.append_number, code, failed_replacement_response(decision.group, append, code))
    return decision.build()


def is_awaited_assignment(group: Group, append: PendingAppend) -> bool:
    """Whether the record is the assignment that the members of the present sync phase wait for."""
    is_present = group.state is GroupState.COMPLETING_REBALANCE and group.generation_id == append.generation_id
    return append.kind is LogRecordKind.ASSIGNMENT and is_present


def refuse_all(decision: DecisionBuilder, before: Group, code: ErrorCode) -> None:
    """Refuse every held request of a group whose creation was lost, and fail its other records."""
    for member in before.members_awaiting(AwaitedResponse.JOIN):
        decision.release(AwaitedResponse.JOIN, member.member_id, responses.join_error(code, ""))
    for member in before.members_awaiting(AwaitedResponse.SYNC):
        decision.release(AwaitedResponse.SYNC, member.member_id, responses.sync_error(code))
    for append_number in before.pending_appends:
        decision.complete_append(append_number, code)


def failed_replacement_response(group: Group, append: PendingAppend, code: ErrorCode) -> Structure | None:
    """The JoinGroup response to a static member whose replacement was lost; None for another record.

    It names the leader that the group had when the member joined, as Kafka's does, also if there is another one since.
    """
    if append.kind is not LogRecordKind.STATIC_MEMBER_REPLACEMENT:
        return None
    written, old = append.group_metadata, append.replaced_member
    assert written is not None, "a replacement is written with the record of its group"
    assert old is not None, "a replacement has a former member"
    leader_id = old.member_id if written.leader_id == append.member_id else written.leader_id
    return responses.lost_replacement_response(group, code, leader_id)


def append_deadline_passed(decision: DecisionBuilder, command: DeadlinePassed) -> None:
    """Handle the passing of `offsets.commit.timeout.ms` for a record: waiting requests are refused. The record stays in
    the log and may still be committed."""
    overdue = [
        append_number
        for append_number, append in decision.group.pending_appends.items()
        if not append.has_timed_out and append.deadline_ms <= decision.at_ms
    ]
    for append_number in overdue:
        decision.apply(AppendTimedOut, append_number=append_number, reason="the log did not commit it in time")
        decision.complete_append(append_number, ErrorCode.COORDINATOR_NOT_AVAILABLE)
