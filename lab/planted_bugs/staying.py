"""Bugs in heartbeats, leaving, deadlines, and static members (KIP-345)."""

from collections.abc import Callable, Mapping

from msgspec.structs import replace

from regroup.coordinator import responses
from regroup.coordinator.classic import admin, expiry, heartbeat_leave, join, member_checks, offset_rules, rebalance
from regroup.coordinator.classic import deadlines as classic_deadlines
from regroup.coordinator.commands import Deadline, DeadlineKind, DeadlinePassed, DeleteGroup, Heartbeat, LeavingMember
from regroup.coordinator.decision import Decision, DecisionBuilder
from regroup.coordinator.group import AwaitedResponse, Group, GroupState, Member, MemberId
from regroup.coordinator.runtime import deadlines, group_coordinator
from regroup.coordinator.runtime.group_coordinator import GroupCoordinator
from regroup.coordinator.runtime.timers import GroupTimers
from regroup.lab.planted_bugs.bug import BugContext, combine, patch_attribute, patch_handler, planted_bug
from regroup.protocol.errors import ErrorCode
from regroup.protocol.messages.describe import DeletableGroupResult
from regroup.protocol.messages.group import MemberResponse

# -- heartbeats and leaving


@planted_bug
def heartbeat_says_27_while_syncing() -> BugContext:
    """A heartbeat in the sync phase gets REBALANCE_IN_PROGRESS, though the join phase is over."""

    def heartbeat(builder: DecisionBuilder, command: Heartbeat) -> Decision:
        decision = heartbeat_leave.heartbeat(builder, command)
        if decision.group.state is GroupState.COMPLETING_REBALANCE and decision.touched_sessions:
            return replace(decision, response=responses.heartbeat_response(ErrorCode.REBALANCE_IN_PROGRESS))
        return decision

    return patch_handler(Heartbeat, heartbeat)


@planted_bug
def leave_is_acknowledged_only() -> BugContext:
    """LeaveGroup is answered NONE, and the member stays until its session expires."""

    def leave(builder: DecisionBuilder, leaving: LeavingMember) -> MemberResponse:
        code = heartbeat_leave.refuse_leave(builder.group, leaving) or ErrorCode.NONE
        return MemberResponse(member_id=leaving.member_id, group_instance_id=leaving.group_instance_id, error_code=code)

    return patch_attribute(heartbeat_leave, "leave", leave)


@planted_bug
def deletion_is_acknowledged_only() -> BugContext:
    """DeleteGroups of an Empty group is answered NONE, and the group stays, with its offsets."""

    def delete_group(builder: DecisionBuilder, command: DeleteGroup) -> Decision:
        if builder.group.state is not GroupState.EMPTY:
            return admin.delete_group(builder, command)
        return builder.build_after_pending_appends(DeletableGroupResult(group_id=command.group_id))

    return patch_handler(DeleteGroup, delete_group)


@planted_bug
def heartbeat_does_not_renew_the_session() -> BugContext:
    """Heartbeats are accepted, but the session timer does not restart."""

    def heartbeat(builder: DecisionBuilder, command: Heartbeat) -> Decision:
        return replace(heartbeat_leave.heartbeat(builder, command), touched_sessions=())

    def heartbeat_revalidator(coordinator: GroupCoordinator, heartbeat: Heartbeat) -> Callable[[], bool]:
        return lambda: False

    return combine(
        patch_handler(Heartbeat, heartbeat),
        patch_attribute(GroupCoordinator, "heartbeat_revalidator", heartbeat_revalidator),
    )


@planted_bug
def session_expires_while_a_response_is_held() -> BugContext:
    """The session of a member runs on while its own request is held."""
    right = classic_deadlines.member_deadline

    def member_deadline(member: Member, last_seen_ms: int) -> Deadline | None:
        return right(replace(member, awaiting=None), last_seen_ms)

    return patch_attribute(classic_deadlines, "member_deadline", member_deadline)


@planted_bug
def leave_without_a_rebalance() -> BugContext:
    """The other members keep their assignments when one leaves."""
    return patch_attribute(heartbeat_leave, "rebalance", lambda *arguments: None)


@planted_bug
def removed_leader_is_not_replaced() -> BugContext:
    """The leader is removed without a rebalance when its session expires."""
    right = expiry.expire_member

    def expire_member(decision: DecisionBuilder, command: DeadlinePassed, timeout_ms: int, reason: str) -> None:
        member_id, last_seen_ms = command.member_id, command.last_seen_ms
        if member_id != decision.group.leader_id:
            right(decision, command, timeout_ms, reason)
            return
        rebalance.remove_member(decision, member_id, reason=reason, last_seen_ms=last_seen_ms, timeout_ms=timeout_ms)

    return patch_attribute(expiry, "expire_member", expire_member)


# -- deadlines


@planted_bug
def session_never_expires() -> BugContext:
    """A member that sends nothing any more stays in the group."""
    return without_deadline_of(DeadlineKind.SESSION)


@planted_bug
def sync_phase_never_ends() -> BugContext:
    """The sync phase waits for a leader that sends heartbeats, but never its assignment."""
    return without_deadline_of(DeadlineKind.SYNC_PHASE)


@planted_bug
def rebalance_timeout_is_ignored() -> BugContext:
    """The join phase waits for every member without a limit, except where it began in an Empty group."""

    def next_deadline(group: Group, last_seen_ms: Mapping[MemberId, int]) -> Deadline | None:
        phase = group.join_phase
        if phase and not phase.is_initial:
            group = replace(group, join_phase=None)
        return deadlines.next_deadline(group, last_seen_ms)

    return patch_attribute(group_coordinator, "next_deadline", next_deadline)


@planted_bug
def pending_member_never_expires() -> BugContext:
    """Every rebalance waits for a pending join member that never uses its member id."""
    return without_deadline_of(DeadlineKind.PENDING_JOIN)


def without_deadline_of(kind: DeadlineKind) -> BugContext:
    """Make the context of a bug: in it the coordinator sets no timer for deadlines of this kind, so they never pass."""

    def next_deadline(group: Group, last_seen_ms: Mapping[MemberId, int]) -> Deadline | None:
        others = (each for each in deadlines.deadlines(group, last_seen_ms) if each.kind is not kind)
        return min(others, key=lambda each: each.at_ms, default=None)

    return patch_attribute(group_coordinator, "next_deadline", next_deadline)


@planted_bug
def earlier_deadline_is_overlooked() -> BugContext:
    """A timer that is set is not set again when an earlier deadline arises."""
    right = GroupTimers._set

    def set_timer(timers: GroupTimers, group_id: str) -> None:
        if group_id not in timers._timers:
            right(timers, group_id)

    return patch_attribute(GroupTimers, "_set", set_timer)


# -- static members


@planted_bug
def replaced_process_is_not_fenced() -> BugContext:
    """Heartbeats and commits with an instance id are accepted from any process that names the present generation."""

    def refuse_generation(
        group: Group, member_id: MemberId, instance_id: str | None, generation_id: int
    ) -> ErrorCode | None:
        present = group.static_members.get(instance_id) if instance_id is not None else None
        return member_checks.refuse_generation(group, present or member_id, instance_id, generation_id)

    return combine(
        patch_attribute(heartbeat_leave, "refuse_generation", refuse_generation),
        patch_attribute(offset_rules, "refuse_generation", refuse_generation),
    )


@planted_bug
def replaced_process_waits_for_ever() -> BugContext:
    """The held request of a static member's former process gets no response when the member restarts."""
    return patch_attribute(join, "fenced_response", lambda former: None)


@planted_bug
def static_member_is_removed_by_a_rebalance() -> BugContext:
    """A static member that did not join when the join phase ends is removed, as if it were a dynamic one."""

    def remove_members_not_joined(decision: DecisionBuilder) -> None:
        for member in list(decision.group.members.values()):
            if member.awaiting is not AwaitedResponse.JOIN:
                rebalance.remove_member(decision, member.member_id, reason="did not rejoin in time")

    return patch_attribute(rebalance, "remove_dynamic_members_not_joined", remove_members_not_joined)
