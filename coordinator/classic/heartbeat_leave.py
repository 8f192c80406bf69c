"""Heartbeat and LeaveGroup: staying and going."""

from regroup.coordinator import responses
from regroup.coordinator.classic.rebalance import rebalance, remove
from regroup.coordinator.classic.validation import refuse_generation, refuse_member
from regroup.coordinator.commands import Heartbeat, LeaveGroup, Leaving
from regroup.coordinator.decision import Decision, Unfolding
from regroup.coordinator.events import MemberIdForgotten, MemberLeft
from regroup.coordinator.group import Group, State
from regroup.coordinator.settings import Settings
from regroup.protocol.errors import ErrorCode
from regroup.protocol.messages.group import MemberResponse


def heartbeat(settings: Settings, group: Group, command: Heartbeat) -> Decision:
    """A sign of life changes nothing that has to survive. It is how followers learn of a rebalance."""
    if not command.group_id:
        return Decision(group, answer=responses.beat(ErrorCode.INVALID_GROUP_ID))
    refused = refuse_generation(group, command.member_id, command.group_instance_id, command.generation_id)
    if refused is not None:
        return Decision(group, answer=responses.beat(refused))
    code = ErrorCode.REBALANCE_IN_PROGRESS if group.state is State.PREPARING else ErrorCode.NONE
    return Decision(group, answer=responses.beat(code), heard=(command.member_id,), behind=group.last_append)


def leave_group(settings: Settings, group: Group, command: LeaveGroup) -> Decision:
    """Each member has its own code; the group reacts once, after the whole list."""
    now = Unfolding(group, command.at_ms)
    if not command.group_id:
        return now.ends(responses.left(ErrorCode.INVALID_GROUP_ID))
    results = [leave(now, leaving) for leaving in command.members]
    left = [each.member_id or each.group_instance_id or "" for each in results if each.error_code == ErrorCode.NONE]
    if left and now.group.state is not State.EMPTY:
        # As in Kafka, also if only a reserved id was given back; but then not in an empty group.
        rebalance(now, settings, f"{', '.join(left)} left")
    return now.ends_behind_the_log(responses.left(ErrorCode.NONE, results))


def leave(now: Unfolding, leaving: Leaving) -> MemberResponse:
    code = ErrorCode.NONE
    if leaving.member_id in now.group.reserved_ids:
        reason = leaving.reason or "it was given back"
        now.happens(MemberIdForgotten(at_ms=now.at_ms, member=leaving.member_id, reason=reason))
    elif refused := refuse_leaving(now.group, leaving):
        code = refused
    else:
        name = leaving.member_id or now.group.static_members[leaving.group_instance_id or ""]
        remove(now, name, MemberLeft(at_ms=now.at_ms, member=name, reason=leaving.reason))
    return MemberResponse(member_id=leaving.member_id, group_instance_id=leaving.group_instance_id, error_code=code)


def refuse_leaving(group: Group, leaving: Leaving) -> ErrorCode | None:
    """An operator may name a static member by its instance id alone (KIP-345)."""
    if leaving.member_id == "" and leaving.group_instance_id is not None:
        return None if leaving.group_instance_id in group.static_members else ErrorCode.UNKNOWN_MEMBER_ID
    return refuse_member(group, leaving.member_id, leaving.group_instance_id)
