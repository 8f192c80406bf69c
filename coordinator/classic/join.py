"""Handles JoinGroup, with its checks in the order of Kafka's `classicGroupJoin`."""

from collections import Counter

from msgspec.structs import replace

from regroup.coordinator import responses
from regroup.coordinator.classic.member_checks import refuse_member
from regroup.coordinator.classic.protocol_vote import select_protocol, supported_by_all
from regroup.coordinator.classic.rebalance import rebalance, remove_member
from regroup.coordinator.commands import JoinGroup
from regroup.coordinator.decision import Decision, DecisionBuilder
from regroup.coordinator.events import (
    GroupCreated,
    GroupMetadataWritten,
    LeaderElected,
    MemberJoined,
    MemberRejoined,
    PendingMemberAdded,
    PendingMemberRemoved,
    StaticMemberReplaced,
)
from regroup.coordinator.group import AwaitedResponse, Group, GroupState, InstanceId, Member, MemberId
from regroup.coordinator.layered_mapping import with_newer
from regroup.coordinator.offsets.log_batch_size import group_fits
from regroup.coordinator.settings import CoordinatorSettings
from regroup.protocol.errors import ErrorCode
from regroup.protocol.messages.group import JoinGroupResponse, SyncGroupResponse


def join_group(decision: DecisionBuilder, command: JoinGroup) -> Decision:
    """Handle a JoinGroup. Its response is given at once, or held until the join phase ends."""
    member_id, max_size = command.member_id, decision.settings.group_max_size
    if refused := refuse_request(decision.settings, decision.group, command):
        return decision.build(responses.join_error(refused, member_id))
    if not decision.group.exists:
        decision.apply(
            GroupCreated,
            by_join=True,
            reason="first JoinGroup",
            commit_deadline_ms=decision.append_deadline_ms(command),
        )
    if is_full(decision.group, member_id, max_size):
        remove_for_max_size(decision, member_id, max_size)
        return decision.build(responses.join_error(ErrorCode.GROUP_MAX_SIZE_REACHED, ""))
    if not is_protocol_consistent(decision.group, command):
        return decision.build(responses.join_error(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, member_id))
    if member_id in decision.group.pending_join_members:
        return join_with_pending_id(decision, command)
    if member_id == "":
        return join_without_id(decision, command)
    return join_as_member(decision, command)


def refuse_request(settings: CoordinatorSettings, group: Group, command: JoinGroup) -> ErrorCode | None:
    """The error of a JoinGroup by the checks that do not depend on the sender's membership; None if they accept it.

    A group that does not exist is created only by a JoinGroup without a member id.
    """
    shortest, longest = settings.group_min_session_timeout_ms, settings.group_max_session_timeout_ms
    if not command.group_id:
        return ErrorCode.INVALID_GROUP_ID
    if not shortest <= command.profile.session_timeout_ms <= longest:
        return ErrorCode.INVALID_SESSION_TIMEOUT
    if not group.exists and command.member_id:
        return ErrorCode.UNKNOWN_MEMBER_ID
    return None


def is_full(group: Group, member_id: MemberId, max_size: int) -> bool:
    """Whether `group.max.size` refuses the member (KIP-389). In the join phase the limit applies to held JoinGroups,
    otherwise to members."""
    if len(group.members) < max_size:
        return False
    member = group.members.get(member_id)
    if group.state is GroupState.PREPARING_REBALANCE:
        joined = sum(1 for _ in group.members_awaiting(AwaitedResponse.JOIN))
        return joined >= max_size and not (member and member.awaiting is AwaitedResponse.JOIN)
    return member is None


def remove_for_max_size(decision: DecisionBuilder, member_id: MemberId, max_size: int) -> None:
    """Remove a member that `group.max.size` refuses. As in Kafka nothing else follows, not even the end of a join
    phase."""
    reason = f"the group has reached group.max.size ({max_size})"
    if member_id in decision.group.pending_join_members:
        decision.apply(PendingMemberRemoved, member_id=member_id, reason=reason)
    elif member_id in decision.group.members:
        remove_member(decision, member_id, reason=reason)


def is_protocol_consistent(group: Group, command: JoinGroup) -> bool:
    """Whether all present members, also the sender's old entry, support one of the protocols in the request.

    Kafka also accepts a member that lists each of its protocols twice. It then finds no protocol to select, fails with
    an exception, and never answers.
    """
    supported = command.profile.supported_protocols
    listed = [protocol.name for protocol in supported]
    is_each_once = len(set(listed)) == len(listed)
    names = listed if is_each_once else [name for name, count in Counter(listed).items() if count == 1]
    if group.state is GroupState.EMPTY:
        return bool(command.protocol_type and names)
    if command.protocol_type != group.protocol_type or not names:
        return False
    # All members have a protocol in common, so no search is needed, among thousands of them, if the sender lists the
    # same protocols as one of them. Most do, although the metadata of each may differ.
    some = next(iter(group.members.values()), None)
    if some is not None and [each.name for each in some.profile.supported_protocols] == listed:
        return True
    others = [member for member in group.members.values() if member.profile.supported_protocols != supported]
    return any(supported_by_all(name, others) for name in names)


def join_with_pending_id(decision: DecisionBuilder, command: JoinGroup) -> Decision:
    """Handle the second JoinGroup of a new member, with the id that it was given. A static member never has a pending
    id; for one Kafka fails with an exception."""
    if command.profile.instance_id is not None:
        return decision.build(responses.join_error(ErrorCode.UNKNOWN_SERVER_ERROR, ""))
    return add_member(decision, command, command.member_id)


def join_without_id(decision: DecisionBuilder, command: JoinGroup) -> Decision:
    """Handle a JoinGroup without a member id. A static member is added or replaces its former process; a dynamic member
    first gets a member id (KIP-394)."""
    instance_id = command.profile.instance_id
    if instance_id is not None and instance_id in decision.group.static_members:
        return replace_static_member(decision, command, instance_id)
    if instance_id is not None or not command.supports_member_id_required:
        return add_member(decision, command, command.new_member_id)
    decision.apply(
        PendingMemberAdded,
        member_id=command.new_member_id,
        client_id=command.profile.client_id,
        session_timeout_ms=command.profile.session_timeout_ms,
    )
    return decision.build(responses.join_error(ErrorCode.MEMBER_ID_REQUIRED, command.new_member_id))


def add_member(decision: DecisionBuilder, command: JoinGroup, member_id: MemberId) -> Decision:
    """Add a new member: its response is held, and the group rebalances."""
    decision.apply(
        MemberJoined,
        reason=command.reason,
        member_id=member_id,
        protocol_type=command.protocol_type,
        profile=command.profile,
    )
    if decision.group.leader_id is None:
        decision.apply(LeaderElected, reason="first member", leader_id=member_id)
    decision.hold(AwaitedResponse.JOIN, member_id)
    rebalance(decision, f"member {member_id} joined")
    return decision.build()


def join_as_member(decision: DecisionBuilder, command: JoinGroup) -> Decision:
    """Handle a JoinGroup of a present member: it belongs to the running rebalance, or starts one, or repeats a request
    whose response was lost."""
    if refused := refuse_member(decision.group, command.member_id, command.profile.instance_id):
        return decision.build(responses.join_error(refused, command.member_id))
    member = decision.group.members[command.member_id]
    if reason := reason_to_rebalance(decision.group, member, command):
        return rejoin(decision, command, member, reason)
    return decision.build(responses.join_response(decision.group, member.member_id))


def reason_to_rebalance(group: Group, member: Member, command: JoinGroup) -> str:
    """Why the request is held until the join phase ends, as text; empty if it is answered with the present generation.

    In Stable the leader's JoinGroup always starts a rebalance: in this way a change of topics takes effect in the
    group.
    """
    if group.state is GroupState.PREPARING_REBALANCE:
        return "a rebalance is in progress"
    if member.profile.supported_protocols != command.profile.supported_protocols:
        return f"member {member.member_id} changed its supported protocols"
    if group.state is GroupState.STABLE and member.member_id == group.leader_id:
        return f"leader {member.member_id} rejoined" + (f": {command.reason}" if command.reason else "")
    return ""


def rejoin(decision: DecisionBuilder, command: JoinGroup, member: Member, reason: str) -> Decision:
    """Handle a JoinGroup of a present member that takes part in a rebalance: its response is held. A held SyncGroup of
    the member is refused."""
    if member.awaiting is AwaitedResponse.SYNC:
        refused = responses.sync_error(ErrorCode.REBALANCE_IN_PROGRESS)
        decision.release(AwaitedResponse.SYNC, member.member_id, refused)
    decision.apply(
        MemberRejoined,
        reason=command.reason,
        member_id=member.member_id,
        profile=member.profile.updated(command.profile),
    )
    decision.hold(AwaitedResponse.JOIN, member.member_id)
    rebalance(decision, reason)
    return decision.build()


def replace_static_member(decision: DecisionBuilder, command: JoinGroup, instance_id: InstanceId) -> Decision:
    """Replace the former process of a static member by a restarted one, under a new member id. In Stable no rebalance
    is needed (KIP-345)."""
    group = decision.group
    old = group.members[group.static_members[instance_id]]
    if old.awaiting:
        decision.release(old.awaiting, old.member_id, fenced_response(old))
    if group.state is GroupState.STABLE and not would_change_protocol(group, old, command):
        return replace_without_rebalance(decision, command, old)
    apply_replacement(decision, command, old, awaits_join=True)
    decision.hold(AwaitedResponse.JOIN, command.new_member_id)
    rebalance(decision, f"static member {instance_id} restarted and changed the group's protocol or state")
    return decision.build()


def replace_without_rebalance(decision: DecisionBuilder, command: JoinGroup, old: Member) -> Decision:
    """Replace a static member in Stable. It is answered with the present generation, once the log has committed the new
    member id."""
    group = decision.group
    former_leader_id = group.leader_id
    if not group_fits(group, with_newer(group.members, {old.member_id: replacement_of(old, command)}).values()):
        decision.touch_session(old.member_id)
        code = ErrorCode.UNKNOWN_SERVER_ERROR
        return decision.build(responses.lost_replacement_response(group, code, former_leader_id))
    deadline_ms = decision.append_deadline_ms(command)
    apply_replacement(decision, command, old, awaits_join=False, commit_deadline_ms=deadline_ms)
    decision.touch_session(command.new_member_id)
    if deadline_ms is None:
        decision.apply(GroupMetadataWritten, reason=f"static member {old.instance_id} has a new member id")
    return decision.build_after_pending_appends(replacement_response(decision.group, command, former_leader_id))


def apply_replacement(
    decision: DecisionBuilder,
    command: JoinGroup,
    old: Member,
    *,
    awaits_join: bool,
    commit_deadline_ms: int | None = None,
) -> None:
    decision.apply(
        StaticMemberReplaced,
        reason=command.reason,
        instance_id=old.instance_id or "",
        member_id=command.new_member_id,
        replaced_member_id=old.member_id,
        profile=old.profile.updated(command.profile),
        awaits_join=awaits_join,
        commit_deadline_ms=commit_deadline_ms,
    )


def would_change_protocol(group: Group, old: Member, command: JoinGroup) -> bool:
    members = with_newer(group.members, {old.member_id: replacement_of(old, command)})
    return select_protocol(members.values()) != group.protocol_name


def replacement_of(old: Member, command: JoinGroup) -> Member:
    return replace(old, member_id=command.new_member_id, profile=old.profile.updated(command.profile))


def replacement_response(group: Group, command: JoinGroup, former_leader_id: MemberId | None) -> JoinGroupResponse:
    """The response to a static member that restarted in Stable.

    A restarted leader must not assign again (KIP-814). A client that does not understand `skip_assignment` gets the
    leader's former member id, so that it does not take itself for the leader.
    """
    if group.leader_id == command.new_member_id and command.supports_skip_assignment:
        return responses.join_response(group, command.new_member_id, skip_assignment=True)
    return responses.join_response(group, command.new_member_id, leader_id=former_leader_id)


def fenced_response(old: Member) -> JoinGroupResponse | SyncGroupResponse:
    """The response with FENCED_INSTANCE_ID to the held request of a replaced process."""
    if old.awaiting is AwaitedResponse.JOIN:
        return responses.join_error(ErrorCode.FENCED_INSTANCE_ID, old.member_id)
    return responses.sync_error(ErrorCode.FENCED_INSTANCE_ID)
