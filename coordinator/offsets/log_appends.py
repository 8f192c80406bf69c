"""Kafka's own log may be slow, or lose what was written: `__consumer_offsets` as a source of trouble.

Usually it commits at once, and nothing of this is seen. While a record waits to be committed, answers that rest on
it wait too. Which writes can be held back: a new group, the leader's assignment, the replacement of a static member
in Stable, and committed offsets.
"""

from typing import Final

from regroup.coordinator import responses
from regroup.coordinator.classic.rebalance import rebalance
from regroup.coordinator.classic.sync import commit_assignment
from regroup.coordinator.commands import CommitAppend, DeadlinePassed, RefuseAppend
from regroup.coordinator.decision import Decision, Unfolding
from regroup.coordinator.events import AppendCommitted, AppendLate, AppendRefused
from regroup.coordinator.group import Append, Group, Waiting, Written
from regroup.coordinator.offsets.evolve_appends import awaits_assignment
from regroup.coordinator.settings import Settings
from regroup.protocol.errors import ErrorCode
from regroup.protocol.message import Structure
from regroup.protocol.messages.group import JoinGroupResponse

E = ErrorCode

AS_SEEN_BY_CLIENTS: Final[dict[ErrorCode, ErrorCode]] = {
    E.UNKNOWN_TOPIC_OR_PARTITION: E.COORDINATOR_NOT_AVAILABLE,
    E.NOT_ENOUGH_REPLICAS: E.COORDINATOR_NOT_AVAILABLE,
    E.REQUEST_TIMED_OUT: E.COORDINATOR_NOT_AVAILABLE,
    E.NOT_LEADER_OR_FOLLOWER: E.NOT_COORDINATOR,
    E.KAFKA_STORAGE_ERROR: E.NOT_COORDINATOR,
    E.MESSAGE_TOO_LARGE: E.UNKNOWN_SERVER_ERROR,
    E.RECORD_LIST_TOO_LARGE: E.UNKNOWN_SERVER_ERROR,
    E.INVALID_FETCH_SIZE: E.UNKNOWN_SERVER_ERROR,
}
"""What clients are told when the log fails; any other error reaches them as it is."""


def commit_append(settings: Settings, group: Group, command: CommitAppend) -> Decision:
    """The assignment takes effect only if the group has not moved on; the record is in the log all the same."""
    now = Unfolding(group, command.at_ms)
    now.settles(command.append)
    append = group.appends.get(command.append)
    if append is None:
        return now.ends()
    now.happens(AppendCommitted(at_ms=now.at_ms, append=command.append))
    if append.what is Written.ASSIGNMENT and awaits_assignment(now.group, append):
        commit_assignment(now)
    return now.ends()


def refuse_append(settings: Settings, group: Group, command: RefuseAppend) -> Decision:
    """Everybody who waited for the record is told why there will be no answer."""
    now = Unfolding(group, command.at_ms)
    code = AS_SEEN_BY_CLIENTS.get(command.code, command.code)
    append = group.appends.get(command.append)
    if append is None:
        now.settles(command.append, code)
        return now.ends()
    reason = f"the log answered {command.code.name}"
    now.happens(AppendRefused(at_ms=now.at_ms, reason=reason, append=command.append, code=command.code))
    if not now.group.exists:
        leave_nobody_waiting(now, group, code)
    elif append.what is Written.ASSIGNMENT and awaits_assignment(now.group, append):
        rebalance(now, settings, f"the assignment was lost: {reason}", code)
    elif append.what is Written.REPLACEMENT and append.replaced:
        now.hears(append.replaced.member_id)
    now.settles(command.append, code, to_the_joiner(now.group, append, code))
    return now.ends()


def leave_nobody_waiting(now: Unfolding, before: Group, code: ErrorCode) -> None:
    """The group is gone, and with it whatever else was written of it."""
    for member in before.waiting(Waiting.JOIN):
        now.replies(Waiting.JOIN, member.member_id, responses.join_refused(code, ""))
    for member in before.waiting(Waiting.SYNC):
        now.replies(Waiting.SYNC, member.member_id, responses.sync_refused(code))
    for number in before.appends:
        now.settles(number, code)


def to_the_joiner(group: Group, append: Append, code: ErrorCode) -> Structure | None:
    """A static member whose replacement was lost learns of the generation, and that it is not in it."""
    if append.what is not Written.REPLACEMENT:
        return None
    return JoinGroupResponse(
        error_code=code,
        generation_id=group.generation,
        protocol_type=group.protocol_type,
        protocol_name=group.protocol_name,
        leader=group.leader or "",
        member_id="",
    )


def append_over(now: Unfolding, settings: Settings, command: DeadlinePassed) -> None:
    """`offsets.commit.timeout.ms` has passed. The record is not taken back, and may be committed still."""
    due = [n for n, each in now.group.appends.items() if not each.is_late and each.deadline_ms <= now.at_ms]
    for number in due:
        now.happens(AppendLate(at_ms=now.at_ms, append=number, reason="the log did not commit it in time"))
        now.settles(number, ErrorCode.COORDINATOR_NOT_AVAILABLE)
