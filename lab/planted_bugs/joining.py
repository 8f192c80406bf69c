"""Bugs in the join phase: who becomes a member, and who becomes leader."""

from collections.abc import Collection, Iterator

from regroup.coordinator import responses
from regroup.coordinator.classic import heartbeat_leave, join, rebalance
from regroup.coordinator.commands import JoinGroup
from regroup.coordinator.decision import Decision, DecisionBuilder
from regroup.coordinator.events import GroupEmptied, MemberLeft
from regroup.coordinator.group import AwaitedResponse, Group, GroupState, Member, MemberId
from regroup.coordinator.runtime.pending_responses import PendingRequest, PendingResponses, ResponseCallback
from regroup.lab.planted_bugs.bug import BugContext, patch_attribute, planted_bug
from regroup.protocol.errors import ErrorCode
from regroup.protocol.message import Structure
from regroup.protocol.messages.group import JoinGroupResponse


@planted_bug
def unknown_member_is_let_in() -> BugContext:
    """A JoinGroup with an unknown member id adds a member with this id."""
    right = join.join_as_member

    def join_as_member(decision: DecisionBuilder, command: JoinGroup) -> Decision:
        if command.member_id in decision.group.members or command.profile.instance_id is not None:
            return right(decision, command)
        return join.add_member(decision, command, command.member_id)

    return patch_attribute(join, "join_as_member", join_as_member)


@planted_bug
def full_group_takes_one_more() -> BugContext:
    """A group takes one member more than group.max.size."""
    right = join.is_full

    def is_full(group: Group, member_id: MemberId, limit: int) -> bool:
        return right(group, member_id, limit + 1)

    return patch_attribute(join, "is_full", is_full)


@planted_bug
def protocol_of_the_first_member() -> BugContext:
    """The group uses the first member's preferred assignor, even if other members do not support it."""

    def select_protocol(members: Collection[Member]) -> str:
        return next(iter(members)).profile.supported_protocols[0].name

    return patch_attribute(rebalance, "select_protocol", select_protocol)


@planted_bug
def stable_group_ignores_rejoins() -> BugContext:
    """Every JoinGroup of a member in Stable gets a response at once, and there is never another rebalance."""
    right = join.reason_to_rebalance

    def reason_to_rebalance(group: Group, member: Member, command: JoinGroup) -> str:
        return "" if group.state is GroupState.STABLE else right(group, member, command)

    return patch_attribute(join, "reason_to_rebalance", reason_to_rebalance)


@planted_bug
def two_leaders() -> BugContext:
    """Every JoinGroup response names its own member as leader, once the former leader has left."""
    right = responses.join_response

    def join_response(
        group: Group, member_id: MemberId, *, leader_id: MemberId | None = None, skip_assignment: bool = False
    ) -> JoinGroupResponse:
        former = group.group_metadata.leader_id if group.group_metadata else None
        named = member_id if former is not None and former not in group.members else leader_id
        return right(group, member_id, leader_id=named, skip_assignment=skip_assignment)

    return patch_attribute(responses, "join_response", join_response)


@planted_bug
def no_leader_after_the_leader_leaves() -> BugContext:
    """No other member becomes leader when the leader leaves."""

    def leave_member(decision: DecisionBuilder, member_id: MemberId, reason: str) -> None:
        member = decision.group.members[member_id]
        decision.apply(MemberLeft, member_id=member_id, reason=reason)
        if member.awaiting:
            refused = responses.join_error(ErrorCode.UNKNOWN_MEMBER_ID, "")
            decision.release(member.awaiting, member_id, refused if member.awaiting is AwaitedResponse.JOIN else None)

    return patch_attribute(heartbeat_leave, "leave_member", leave_member)


@planted_bug
def member_that_did_not_join_is_kept() -> BugContext:
    """A dynamic member that did not join in time is in the next generation all the same."""
    return patch_attribute(rebalance, "remove_dynamic_members_not_joined", lambda decision: None)


@planted_bug
def emptied_group_keeps_its_generation() -> BugContext:
    """The generation id does not grow when the last member has left."""

    def emptied(at_ms: int, reason: str, generation_id: int) -> GroupEmptied:
        return GroupEmptied(at_ms=at_ms, reason=reason, generation_id=generation_id - 1)

    return patch_attribute(rebalance, "GroupEmptied", emptied)


@planted_bug
def held_join_is_forgotten() -> BugContext:
    """The last of several held JoinGroup requests that are released together gets no response."""
    right = PendingResponses.release

    def release(pending: PendingResponses, decision: Decision) -> Iterator[tuple[PendingRequest, Structure]]:
        released = list(right(pending, decision))
        joins = [number for number, (request, _) in enumerate(released) if isinstance(request.command, JoinGroup)]
        if len(joins) > 1:
            del released[joins[-1]]
        return iter(released)

    return patch_attribute(PendingResponses, "release", release)


@planted_bug
def resent_join_is_answered_twice() -> BugContext:
    """A JoinGroup that supersedes an earlier one gets the earlier one's response as well as its own."""
    right = PendingResponses.hold

    def hold(pending: PendingResponses, decision: Decision, request: PendingRequest) -> bool:
        key = decision.held_under and (request.command.group_id, decision.held_under)
        if key in pending._held and isinstance(request.command, JoinGroup):
            request = PendingRequest(request.command, _twice(request.on_response))
        return right(pending, decision, request)

    return patch_attribute(PendingResponses, "hold", hold)


def _twice(on_response: ResponseCallback) -> ResponseCallback:
    def respond(response: Structure) -> None:
        on_response(response)
        on_response(response)

    return respond
