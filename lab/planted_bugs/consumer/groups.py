"""Bugs in the heartbeats, epochs and assignments of groups of the consumer protocol (KIP-848)."""

from dataclasses import replace as replace_fields
from typing import Any
from unittest.mock import patch

from msgspec.structs import replace

from regroup.coordinator.consumer import checks, heartbeat, reconciliation, responses
from regroup.coordinator.consumer import events as ce
from regroup.coordinator.consumer.checks import JOIN_EPOCH, HeartbeatRefusal
from regroup.coordinator.consumer.commands import ConsumerGroupHeartbeat
from regroup.coordinator.consumer.evolve_group import consumer_of, with_consumer, with_member
from regroup.coordinator.consumer.leaving import bump_after_removal
from regroup.coordinator.consumer.reconciliation import Reconciliation
from regroup.coordinator.consumer.regexes import regexes_to_resolve
from regroup.coordinator.consumer.targets import update_target
from regroup.coordinator.consumer_group import ConsumerGroup, ConsumerMember, ReconciliationState
from regroup.coordinator.decide import CONSUMER_HANDLERS
from regroup.coordinator.decision import Decision, DecisionBuilder
from regroup.coordinator.evolve import CONSUMER_EVOLVERS
from regroup.coordinator.group import Group
from regroup.coordinator.topics import NO_TOPICS, TopicsImage
from regroup.lab.planted_bugs.bug import BugContext, patch_attribute, planted_bug
from regroup.protocol.errors import ErrorCode
from regroup.protocol.messages.consumer_group import ConsumerGroupHeartbeatResponse
from regroup.server.apis.consumer_groups import patterns


@planted_bug
def partition_is_given_before_its_release() -> BugContext:
    """A member gets what its target has at once, though the former owner has not given it up."""

    def hasty(*arguments: Any, **options: Any) -> Reconciliation:
        return Reconciliation(*arguments, **{**options, "is_held_by_another": lambda topic_id, index: False})

    return patch_attribute(heartbeat, "Reconciliation", hasty)


@planted_bug
def heartbeat_names_the_previous_epoch() -> BugContext:
    """The response to a member that stays where it is has the epoch before its present one."""

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
def heartbeat_with_any_older_epoch_is_accepted() -> BugContext:
    """A heartbeat of a member of the consumer protocol is accepted with any older epoch."""
    right = checks.refuse_epoch

    def refuse_epoch(member: ConsumerMember, command: ConsumerGroupHeartbeat) -> HeartbeatRefusal | None:
        return None if command.member_epoch < member.epoch else right(member, command)

    return patch_attribute(heartbeat, "refuse_epoch", refuse_epoch)


@planted_bug
def previous_epoch_needs_no_report() -> BugContext:
    """A heartbeat with the previous epoch is accepted if it does not say what the member owns."""
    right = checks.owns_only_assigned

    def owns_only_assigned(member: ConsumerMember, command: ConsumerGroupHeartbeat) -> bool:
        return command.owned is None or right(member, command)

    return patch_attribute(checks, "owns_only_assigned", owns_only_assigned)


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
def target_is_computed_for_joins_alone() -> BugContext:
    """The target assignment is computed again when a member has joined, and not when one has left."""

    def wrong(decision: DecisionBuilder, *arguments: Any, **options: Any) -> None:
        consumer = decision.group.consumer
        if consumer is None or not consumer.targets or len(consumer.members) > len(consumer.targets):
            update_target(decision, *arguments, **options)

    return patch_attribute(heartbeat, "update_target", wrong)


@planted_bug
def away_member_loses_its_partitions() -> BugContext:
    """A static member that leaves for a while loses what it is assigned, and the others get it at once."""
    right = CONSUMER_EVOLVERS[ce.StaticMemberAway]

    def wrong(group: Group, event: ce.StaticMemberAway) -> Group:
        after = right(group, event)
        consumer = consumer_of(after)
        member = consumer.members[event.member_id]
        return with_consumer(after, with_member(consumer, member, replace(member, assigned={})))

    return patch.dict(CONSUMER_EVOLVERS, {ce.StaticMemberAway: wrong})


@planted_bug
def away_member_keeps_what_it_had_to_give_up() -> BugContext:
    """A static member that leaves for a while keeps the partitions that it had to give up, and the others wait."""
    right = CONSUMER_EVOLVERS[ce.StaticMemberAway]

    def wrong(group: Group, event: ce.StaticMemberAway) -> Group:
        pending = consumer_of(group).members[event.member_id].pending_revocation
        after = right(group, event)
        consumer = consumer_of(after)
        member = consumer.members[event.member_id]
        return with_consumer(after, with_member(consumer, member, replace(member, pending_revocation=pending)))

    return patch.dict(CONSUMER_EVOLVERS, {ce.StaticMemberAway: wrong})


@planted_bug
def step_keeps_one_partition_too_many() -> BugContext:
    """A member that is asked to give up partitions keeps one of those that its target gives to others."""
    right = reconciliation.after_step

    def after_step(
        member: ConsumerMember, state: ReconciliationState, epoch: int, assigned: Any, pending_revocation: Any
    ) -> ConsumerMember:
        pending = {each: dict(indexes) for each, indexes in pending_revocation.items()}
        for topic_id, indexes in pending.items():
            if len(indexes) > 1:
                index, since = indexes.popitem()
                assigned = reconciliation.merged(assigned, {topic_id: {index: since}})
        return right(member, state, epoch, assigned, pending)

    return patch_attribute(reconciliation, "after_step", after_step)


@planted_bug
def partition_is_released_unasked() -> BugContext:
    """A partition that a member has to give up is free with its next heartbeat, even if the member lists it."""
    moves = ((reconciliation.always, _give_up_at_once),)
    return patch.dict(reconciliation.MOVES, {ReconciliationState.UNREVOKED_PARTITIONS: moves})


def _give_up_at_once(step: Reconciliation) -> ConsumerMember:
    return reconciliation.approach_target(replace_fields(step, owned={}))


@planted_bug
def previous_epoch_is_fenced() -> BugContext:
    """A member that repeats its heartbeat because the response was lost is fenced."""
    return patch_attribute(checks, "owns_only_assigned", lambda member, command: False)


@planted_bug
def every_heartbeat_bumps_the_epoch() -> BugContext:
    """The group epoch grows with every heartbeat, as if topics had changed."""
    right = heartbeat.bump_reasons

    def bump_reasons(*arguments: Any) -> list[str]:
        return [*right(*arguments), "a heartbeat has come"]

    return patch_attribute(heartbeat, "bump_reasons", bump_reasons)


@planted_bug
def changed_assignment_is_not_sent() -> BugContext:
    """The response to a heartbeat has no assignment unless the request is a full one, though it has changed."""
    right = responses.heartbeat_response

    def wrong(member: ConsumerMember, interval_ms: int, *, with_assignment: bool) -> ConsumerGroupHeartbeatResponse:
        return right(member, interval_ms, with_assignment=with_assignment and member.previous_epoch == 0)

    return patch_attribute(heartbeat, "heartbeat_response", wrong)


@planted_bug
def full_heartbeat_gets_no_assignment() -> BugContext:
    """A member that names all it has, as after an error, gets its assignment only if that has changed."""
    return patch_attribute(heartbeat, "is_full", lambda command: command.member_epoch == JOIN_EPOCH)


@planted_bug
def description_shows_no_target() -> BugContext:
    """ConsumerGroupDescribe shows what members are assigned as their target."""
    right = responses.described_member

    def described_member(member: ConsumerMember, target: Any, topics: Any) -> Any:
        described = right(member, target, topics)
        return replace(described, target_assignment=described.assignment)

    return patch_attribute(responses, "described_member", described_member)


@planted_bug
def new_topic_starts_no_search() -> BugContext:
    """A topic that is created does not lead to a search for the patterns of groups: it waits for the regular one."""

    def wrong(group: Group, topics: TopicsImage, *times_ms: Any) -> tuple[str, ...]:
        return regexes_to_resolve(group, NO_TOPICS, *times_ms)

    return patch_attribute(patterns, "regexes_to_resolve", wrong)
