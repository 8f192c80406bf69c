"""Starts and ends rebalances: the steps that joining, leaving and expiry have in common.

Kafka: `prepareRebalance`, `completeClassicGroupJoin` and their callers in `GroupMetadataManager`.
"""

from regroup.coordinator import responses
from regroup.coordinator.classic.protocol_vote import select_protocol, subscribed_topics
from regroup.coordinator.decision import DecisionBuilder
from regroup.coordinator.events import (
    GenerationStarted,
    GroupEmptied,
    JoinPhaseExtended,
    LeaderElected,
    MemberLeft,
    MemberRemoved,
    RebalanceStarted,
)
from regroup.coordinator.group import AwaitedResponse, GroupState, Member, MemberId
from regroup.protocol.errors import ErrorCode


def rebalance(decision: DecisionBuilder, reason: str, sync_error: ErrorCode = ErrorCode.REBALANCE_IN_PROGRESS) -> None:
    """Start the join phase, or end a running one if every member has joined.

    `sync_error` is the response to held SyncGroups of a sync phase that this aborts.
    """
    if decision.group.state is GroupState.COMPLETING_REBALANCE:
        abort_sync_phase(decision, sync_error)
    if decision.group.state is not GroupState.PREPARING_REBALANCE:
        start_join_phase(decision, reason)
    complete_join_phase_if_all_joined(decision)


def start_join_phase(decision: DecisionBuilder, reason: str) -> None:
    """Start the join phase. It lasts for the longest rebalance timeout, which later members do not extend. In an Empty
    group it lasts for the initial delay, which new members extend (KIP-134)."""
    group = decision.group
    if group.state is GroupState.EMPTY:
        delay_ms = decision.settings.group_initial_rebalance_delay_ms
        decision.apply(
            RebalanceStarted,
            reason=reason,
            deadline_ms=decision.at_ms + delay_ms,
            is_initial=True,
            delay_ms=delay_ms,
            remaining_ms=max(group.rebalance_timeout_ms - delay_ms, 0),
        )
    else:
        decision.apply(RebalanceStarted, reason=reason, deadline_ms=decision.at_ms + group.rebalance_timeout_ms)


def abort_sync_phase(decision: DecisionBuilder, code: ErrorCode) -> None:
    """Refuse every held SyncGroup with this error code: the generation gets no assignment."""
    for member in decision.group.members_awaiting(AwaitedResponse.SYNC):
        decision.release(AwaitedResponse.SYNC, member.member_id, responses.sync_error(code))
        decision.touch_session(member.member_id)


def complete_join_phase_if_all_joined(decision: DecisionBuilder) -> None:
    """End the join phase before its deadline if no member is missing, except during the initial delay."""
    phase = decision.group.join_phase
    if phase and not phase.is_initial and decision.group.all_members_joined:
        complete_join_phase(decision)


def complete_join_phase(decision: DecisionBuilder) -> None:
    """Start the next generation with the members that have joined; absent static members stay (KIP-345)."""
    remove_dynamic_members_not_joined(decision)
    group = decision.group
    if not group.members:
        decision.apply(GroupEmptied, reason="no members remain", generation_id=group.generation_id + 1)
    elif leader_id := leader_of_joined_members(decision):
        start_generation(decision, leader_id)
    else:
        decision.apply(
            JoinPhaseExtended,
            reason="only static members remain, and none of them has joined",
            deadline_ms=decision.at_ms + group.rebalance_timeout_ms,
        )


def remove_dynamic_members_not_joined(decision: DecisionBuilder) -> None:
    absent = [member for member in decision.group.members.values() if member.awaiting is not AwaitedResponse.JOIN]
    for member in absent:
        if member.instance_id is None:
            timeout_ms = decision.group.rebalance_timeout_ms
            reason = f"did not rejoin within the rebalance timeout of {timeout_ms} ms"
            remove_member(decision, member.member_id, reason=reason)


def leader_of_joined_members(decision: DecisionBuilder) -> MemberId | None:
    """The leader of the next generation: the present leader if it has joined, otherwise another member that has; None
    if no member has joined."""
    group = decision.group
    if group.leader_id and group.members[group.leader_id].awaiting is AwaitedResponse.JOIN:
        return group.leader_id
    joined = [member.member_id for member in group.members_awaiting(AwaitedResponse.JOIN)]
    if not joined:
        return None
    leader_id = decision.choose_leader(group.group_id, joined)
    decision.apply(LeaderElected, reason="the leader has not joined this generation", leader_id=leader_id)
    return leader_id


def start_generation(decision: DecisionBuilder, leader_id: MemberId) -> None:
    """Start a generation: answer every held JoinGroup, and restart every session timeout, also those of absent static
    members."""
    group = decision.group
    joined = list(group.members_awaiting(AwaitedResponse.JOIN))
    protocol_name = select_protocol(group.members.values())
    decision.apply(
        GenerationStarted,
        generation_id=group.generation_id + 1,
        protocol_name=protocol_name,
        leader_id=leader_id,
        subscribed_topics=subscribed_topics(group.protocol_type, protocol_name, group.members.values()),
        sync_deadline_ms=decision.at_ms + group.rebalance_timeout_ms,
    )
    for member in joined:
        response = responses.join_response(decision.group, member.member_id)
        decision.release(AwaitedResponse.JOIN, member.member_id, response)
    for member_id in decision.group.members:
        decision.touch_session(member_id)


def remove_member(
    decision: DecisionBuilder,
    member_id: MemberId,
    *,
    reason: str,
    last_seen_ms: int | None = None,
    timeout_ms: int | None = None,
) -> None:
    """Remove a member that has not asked to leave, and write down why: `reason`, and for an expired timeout the time
    `last_seen_ms` at which it had started and its length `timeout_ms`."""
    member = decision.group.members[member_id]
    decision.apply(MemberRemoved, member_id=member_id, reason=reason, last_seen_ms=last_seen_ms, timeout_ms=timeout_ms)
    complete_removal(decision, member)


def leave_member(decision: DecisionBuilder, member_id: MemberId, reason: str) -> None:
    """Remove a member that leaves with LeaveGroup."""
    member = decision.group.members[member_id]
    decision.apply(MemberLeft, member_id=member_id, reason=reason)
    complete_removal(decision, member)


def complete_removal(decision: DecisionBuilder, member: Member) -> None:
    """Answer the held request of a removed member, and elect another leader if it led (behaviour `leader.leaves`).

    A held JoinGroup is refused; a held SyncGroup is never answered, as in Kafka.
    """
    if member.awaiting is AwaitedResponse.JOIN:
        refused = responses.join_error(ErrorCode.UNKNOWN_MEMBER_ID, "")
        decision.release(AwaitedResponse.JOIN, member.member_id, refused)
    elif member.awaiting is AwaitedResponse.SYNC:
        decision.release(AwaitedResponse.SYNC, member.member_id, None)
    group = decision.group
    if group.leader_id is None and group.members:
        leader_id = decision.choose_leader(group.group_id, list(group.members))
        decision.apply(LeaderElected, reason=f"leader {member.member_id} was removed", leader_id=leader_id)
