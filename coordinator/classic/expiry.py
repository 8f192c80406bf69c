"""Handles the deadlines of a classic group: what follows when one passes.

Kafka: `expireClassicGroupMemberHeartbeat`, `expirePendingSync` and the timers of `GroupMetadataManager`.
"""

from regroup.coordinator.classic.rebalance import complete_join_phase, rebalance, remove_member
from regroup.coordinator.commands import DeadlinePassed
from regroup.coordinator.decision import DecisionBuilder
from regroup.coordinator.events import JoinPhaseExtended, PendingMemberRemoved
from regroup.coordinator.group import NEW_MEMBER_JOIN_TIMEOUT_MS, GroupState, MemberId


def join_phase_deadline_passed(decision: DecisionBuilder, command: DeadlinePassed) -> None:
    """Handle the deadline of the join phase: extend the initial delay if new members have joined and time remains
    (KIP-134); otherwise end the phase."""
    phase = decision.group.join_phase
    assert phase is not None, "a join phase cannot end while none is running"
    if not (phase.is_initial and decision.group.new_member_added and phase.remaining_ms):
        complete_join_phase(decision)
        return
    delay_ms = min(decision.settings.group_initial_rebalance_delay_ms, phase.remaining_ms)
    decision.apply(
        JoinPhaseExtended,
        reason="members joined during the initial delay",
        deadline_ms=decision.at_ms + delay_ms,
        delay_ms=delay_ms,
        remaining_ms=max(phase.remaining_ms - phase.delay_ms, 0),
    )


def sync_phase_deadline_passed(decision: DecisionBuilder, command: DeadlinePassed) -> None:
    """Handle the deadline of the sync phase: remove every pending sync member, also static ones. Heartbeats do not
    protect them (KAFKA-13254)."""
    for member_id in decision.group.pending_sync_members:
        if member_id in decision.group.members:
            remove_member(decision, member_id, reason="did not send SyncGroup in time")
    rebalance(decision, "members did not send SyncGroup in time")


def expire_session(decision: DecisionBuilder, command: DeadlinePassed) -> None:
    member = decision.group.members[command.member_id]
    timeout_ms = member.session_timeout_after(command.last_seen_ms or 0)
    expire_member(decision, command, timeout_ms, f"session timeout of {timeout_ms} ms expired")


def expire_new_member(decision: DecisionBuilder, command: DeadlinePassed) -> None:
    """Remove a member that has not completed a join phase within five minutes, even while its JoinGroup is held."""
    reason = "no join phase completed within five minutes of its first JoinGroup"
    expire_member(decision, command, NEW_MEMBER_JOIN_TIMEOUT_MS, reason)


def expire_member(decision: DecisionBuilder, command: DeadlinePassed, timeout_ms: int, reason: str) -> None:
    member_id, last_seen_ms = command.member_id, command.last_seen_ms
    remove_member(decision, member_id, reason=reason, last_seen_ms=last_seen_ms, timeout_ms=timeout_ms)
    if decision.group.state is GroupState.PREPARING_REBALANCE:
        complete_join_phase_after_expiry(decision)
    else:
        rebalance(decision, f"member {member_id} expired")


def expire_pending_member(decision: DecisionBuilder, command: DeadlinePassed) -> None:
    timeout_ms = decision.group.pending_join_members[command.member_id].session_timeout_ms
    remove_pending_member(decision, command.member_id, f"did not rejoin within {timeout_ms} ms")


def remove_pending_member(decision: DecisionBuilder, member_id: MemberId, reason: str) -> None:
    """Remove a member id that was never used, and end the join phase if only this id was missing."""
    decision.apply(PendingMemberRemoved, member_id=member_id, reason=reason)
    if decision.group.state is GroupState.PREPARING_REBALANCE:
        complete_join_phase_after_expiry(decision)


def complete_join_phase_after_expiry(decision: DecisionBuilder) -> None:
    """End the join phase if only the expired member was missing, as in Kafka even during the initial delay.

    During that delay, a member that leaves or joins does not end the phase early.
    """
    if decision.group.all_members_joined:
        complete_join_phase(decision)
