"""Handles changes that a test forces on a classic group. A change that does not fit the group's state leads to no
events.
"""

from collections.abc import Mapping

from regroup.coordinator.classic.expiry import remove_pending_member
from regroup.coordinator.classic.rebalance import complete_join_phase, rebalance, remove_member
from regroup.coordinator.commands import CompleteJoinPhase, EndSession, ForgetOffsets, RaiseGeneration, StartRebalance
from regroup.coordinator.decision import Decision, DecisionBuilder
from regroup.coordinator.events import GenerationRaised, OffsetsDeleted
from regroup.coordinator.group import Group, GroupState

REASON = "forced by a test"


def end_session(decision: DecisionBuilder, command: EndSession) -> Decision:
    """End the session of a member, or of a pending member id, now. The events, and the answer to a held request, are
    those of a session timeout."""
    member_id = command.member_id
    if member_id in decision.group.members:
        remove_member(decision, member_id, reason="its session was ended by a test")
        rebalance(decision, f"member {member_id} expired")
    elif member_id in decision.group.pending_join_members:
        remove_pending_member(decision, member_id, "its session was ended by a test")
    return decision.build()


def start_rebalance(decision: DecisionBuilder, command: StartRebalance) -> Decision:
    if decision.group.state in (GroupState.STABLE, GroupState.COMPLETING_REBALANCE):
        rebalance(decision, REASON)
    return decision.build()


def complete_join_phase_now(decision: DecisionBuilder, command: CompleteJoinPhase) -> Decision:
    if decision.group.join_phase:
        complete_join_phase(decision)
    return decision.build()


def raise_generation(decision: DecisionBuilder, command: RaiseGeneration) -> Decision:
    """Raise the generation of a Stable group by one. This is done only if the log holds the present generation, so that
    a failover restores the raised one."""
    group = decision.group
    if group.state is GroupState.STABLE and not group.pending_appends:
        decision.apply(GenerationRaised, generation_id=group.generation_id + 1, reason=REASON)
    return decision.build()


def forget_offsets(decision: DecisionBuilder, command: ForgetOffsets) -> Decision:
    if forgotten := present_offsets(decision.group, command.partitions):
        decision.apply(OffsetsDeleted, partitions=forgotten, reason=REASON)
    return decision.build()


def present_offsets(group: Group, requested: Mapping[str, tuple[int, ...]] | None) -> dict[str, tuple[int, ...]]:
    """The requested partitions that have a committed offset; all partitions that have one if `requested` is None."""
    if requested is None:
        requested = {topic: tuple(partitions) for topic, partitions in group.committed_offsets.items()}
    present = {
        topic: tuple(index for index in indexes if index in group.partitions_with_offsets(topic))
        for topic, indexes in requested.items()
    }
    return {topic: indexes for topic, indexes in present.items() if indexes}
