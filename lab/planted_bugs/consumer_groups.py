"""Bugs in groups of the consumer protocol (KIP-848), and in its members."""

from typing import Any
from unittest.mock import patch

from msgspec.structs import replace

from regroup.coordinator.consumer import heartbeat, offset_rules, reconciliation, responses
from regroup.coordinator.consumer.checks import HeartbeatRefusal
from regroup.coordinator.consumer.commands import ConsumerGroupHeartbeat
from regroup.coordinator.consumer.leaving import bump_after_removal
from regroup.coordinator.consumer.reconciliation import Reconciliation
from regroup.coordinator.consumer.targets import update_target
from regroup.coordinator.consumer_group import ConsumerGroup, ConsumerMember, ReconciliationState
from regroup.coordinator.decide import CONSUMER_HANDLERS
from regroup.coordinator.decision import Decision, DecisionBuilder
from regroup.lab.planted_bugs.bug import BugContext, patch_attribute, planted_bug
from regroup.members.runtime.consumer_protocol_offsets import ConsumerProtocolOffsets
from regroup.protocol.errors import ErrorCode
from regroup.protocol.messages.consumer_group import ConsumerGroupHeartbeatResponse


@planted_bug
def partition_is_given_before_its_release() -> BugContext:
    """A member gets what its target has at once, though the former owner has not given it up."""

    def hasty(*arguments: Any, **options: Any) -> Reconciliation:
        return Reconciliation(*arguments, **{**options, "is_held_by_another": lambda topic_id, index: False})

    return patch_attribute(heartbeat, "Reconciliation", hasty)


@planted_bug
def heartbeat_tells_the_previous_epoch() -> BugContext:
    """A member that stays where it is, is told the epoch that it had before its present one."""

    def heartbeat_response(
        member: ConsumerMember, heartbeat_interval_ms: int, *, with_assignment: bool
    ) -> ConsumerGroupHeartbeatResponse:
        if not with_assignment and member.previous_epoch > 0:
            member = replace(member, epoch=member.previous_epoch)
        return responses.heartbeat_response(member, heartbeat_interval_ms, with_assignment=with_assignment)

    return patch_attribute(heartbeat, "heartbeat_response", heartbeat_response)


@planted_bug
def member_at_the_target_keeps_the_rest() -> BugContext:
    """A member reaches the epoch of the target without giving up what the target gives to others."""

    def approach(step: Reconciliation, epoch: int) -> ConsumerMember:
        assigned = step.member.assigned
        if not assigned:
            return right(step, epoch)
        return reconciliation.after_step(step.member, ReconciliationState.STABLE, step.target_epoch, assigned, {})

    right = reconciliation.approach_target_from
    return patch_attribute(reconciliation, "approach_target_from", approach)


@planted_bug
def removed_member_goes_on() -> BugContext:
    """A heartbeat of a member that was removed is accepted with its old epoch, as if it were a new member."""
    right = heartbeat.refuse_in_group

    def refuse_in_group(
        decision: DecisionBuilder, consumer: ConsumerGroup, command: ConsumerGroupHeartbeat
    ) -> HeartbeatRefusal | None:
        refused = right(decision, consumer, command)
        return None if refused and refused.code is ErrorCode.UNKNOWN_MEMBER_ID else refused

    return patch_attribute(heartbeat, "refuse_in_group", refuse_in_group)


@planted_bug
def refused_heartbeat_bumps_the_epoch() -> BugContext:
    """A heartbeat of a member that was removed is refused, and bumps the epoch of the group."""

    def wrong(decision: DecisionBuilder, command: ConsumerGroupHeartbeat) -> Decision:
        result = heartbeat.consumer_group_heartbeat(decision, command)
        response: Any = result.response
        if response is None or response.error_code != ErrorCode.UNKNOWN_MEMBER_ID or decision.group.consumer is None:
            return result
        bump_after_removal(decision, "a heartbeat was refused", command.topics)
        return decision.build_after_pending_appends(response)

    return patch.dict(CONSUMER_HANDLERS, {ConsumerGroupHeartbeat: wrong})


@planted_bug
def any_epoch_commits() -> BugContext:
    """Offsets are committed for whoever names a member id, whatever the epoch."""
    return patch_attribute(offset_rules.ConsumerOffsetRules, "refuse_commit", lambda *arguments: None)


@planted_bug
def target_is_computed_for_joins_alone() -> BugContext:
    """The target assignment is computed again when a member has joined, and not when one has left."""

    def wrong(decision: DecisionBuilder, *arguments: Any, **options: Any) -> None:
        consumer = decision.group.consumer
        if consumer is None or not consumer.targets or len(consumer.members) > len(consumer.targets):
            update_target(decision, *arguments, **options)

    return patch_attribute(heartbeat, "update_target", wrong)


@planted_bug
def member_goes_on_with_what_it_gave_up() -> BugContext:
    """A member of the consumer protocol reads and commits partitions after it has revoked or lost them."""
    return patch_attribute(ConsumerProtocolOffsets, "drop", lambda offsets, partitions: None)
