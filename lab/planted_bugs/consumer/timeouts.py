"""Bugs in the timeouts of groups of the consumer protocol, and in its members."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any
from unittest.mock import patch

from msgspec.structs import replace

from regroup.coordinator.commands import Deadline, DeadlineKind, OffsetCommit
from regroup.coordinator.consumer.commands import ConsumerGroupHeartbeat
from regroup.coordinator.consumer.events import MemberReconciled
from regroup.coordinator.consumer.heartbeat import consumer_group_heartbeat
from regroup.coordinator.decide import CONSUMER_HANDLERS
from regroup.coordinator.decision import Decision, DecisionBuilder
from regroup.coordinator.events import Event
from regroup.coordinator.group import Group, GroupKind
from regroup.coordinator.runtime import group_coordinator
from regroup.coordinator.runtime.deadlines import DEADLINES, may_bring_deadlines
from regroup.lab.planted_bugs.bug import BugContext, combine, patch_attribute, planted_bug
from regroup.members.consumer.consumer_protocol import ConsumerProtocolMachine, HeartbeatResult
from regroup.members.consumer.effects import PartitionsAssigned
from regroup.members.runtime.consumer_protocol_offsets import ConsumerProtocolOffsets
from regroup.members.runtime.consumer_protocol_process import ConsumerProtocolProcess
from regroup.protocol.messages.consumer_group import ConsumerGroupHeartbeatResponse


def _without_deadlines(kind: DeadlineKind) -> BugContext:
    right = DEADLINES[GroupKind.CONSUMER]

    def deadlines(group: Group, last_seen_ms: Mapping[str, int]) -> Iterator[Deadline]:
        return (each for each in right(group, last_seen_ms) if each.kind is not kind)

    return patch.dict(DEADLINES, {GroupKind.CONSUMER: deadlines})


@planted_bug
def consumer_session_never_expires() -> BugContext:
    """A member of the consumer protocol that sends nothing any more stays in the group."""
    return _without_deadlines(DeadlineKind.SESSION)


@planted_bug
def consumer_commit_keeps_its_member() -> BugContext:
    """A commit starts the session timeout of its member again in a group of the consumer protocol, too."""
    right = CONSUMER_HANDLERS[OffsetCommit]

    def offset_commit(builder: DecisionBuilder, command: OffsetCommit) -> Decision:
        decision: Decision = right(builder, command)
        is_member = command.member_id in decision.group.member_ids
        return replace(decision, touched_sessions=(command.member_id,)) if is_member else decision

    return patch.dict(CONSUMER_HANDLERS, {OffsetCommit: offset_commit})


@planted_bug
def revocation_never_times_out() -> BugContext:
    """A member of the consumer protocol may take any time to give up partitions, while others wait for them."""
    return _without_deadlines(DeadlineKind.REVOCATION)


@planted_bug
def revocation_timeout_has_no_timer() -> BugContext:
    """A step with partitions to give up sets no timer: the rebalance timeout ends when another deadline is due."""

    def wrong(events: Iterable[Event]) -> bool:
        return may_bring_deadlines(each for each in events if not isinstance(each, MemberReconciled))

    return patch_attribute(group_coordinator, "may_bring_deadlines", wrong)


@planted_bug
def consumer_heartbeat_does_not_renew_the_session() -> BugContext:
    """Heartbeats of the consumer protocol are accepted, but only the one that joins starts the session timer."""

    def wrong(decision: DecisionBuilder, command: ConsumerGroupHeartbeat) -> Decision:
        decided = consumer_group_heartbeat(decision, command)
        return replace(decided, touched_sessions=()) if command.member_epoch > 0 else decided

    return patch.dict(CONSUMER_HANDLERS, {ConsumerGroupHeartbeat: wrong})


@planted_bug
def member_goes_on_with_what_it_gave_up() -> BugContext:
    """A member of the consumer protocol reads and commits partitions after it has revoked or lost them."""
    return patch_attribute(ConsumerProtocolOffsets, "drop", lambda offsets, partitions: None)


@planted_bug
def fenced_member_commits() -> BugContext:
    """A member of the consumer protocol commits its positions with its former epoch after a fencing error."""
    right = ConsumerProtocolProcess._join_again

    def join_again(process: ConsumerProtocolProcess) -> None:
        process._has_lost_all = False
        process._offsets.commit(tuple(process._offsets.positions))
        right(process)

    return patch_attribute(ConsumerProtocolProcess, "_join_again", join_again)


@planted_bug
def member_takes_new_partitions_only() -> BugContext:
    """A member of the consumer protocol takes what is new and gives nothing up."""
    right = ConsumerProtocolMachine.reconcile

    def reconcile(machine: ConsumerProtocolMachine) -> Any:
        owned = machine.assigned_partitions
        changes = [each for each in right(machine) if isinstance(each, PartitionsAssigned)]
        machine._owned |= frozenset(owned)
        return changes

    return combine(
        patch_attribute(ConsumerProtocolMachine, "revocable", property(lambda machine: ())),
        patch_attribute(ConsumerProtocolMachine, "reconcile", reconcile),
    )


@planted_bug
def member_takes_partitions_during_a_heartbeat() -> BugContext:
    """A member of the consumer protocol takes new partitions although a heartbeat on its way says that it does not own
    them."""
    right = ConsumerProtocolProcess._take

    def take(process: ConsumerProtocolProcess) -> None:
        if not (process._has_lost_all or process._is_leaving or process.consumer.revocable):
            for change in process.consumer.reconcile():
                process._observe(change)
        right(process)

    return patch_attribute(ConsumerProtocolProcess, "_take", take)


@planted_bug
def member_does_not_wait_for_a_load() -> BugContext:
    """A member of the consumer protocol whose coordinator is loading looks for it again at once."""
    right = ConsumerProtocolProcess._follow

    def follow(
        process: ConsumerProtocolProcess, result: HeartbeatResult, response: ConsumerGroupHeartbeatResponse
    ) -> None:
        if result is HeartbeatResult.ELSEWHERE:
            process._requests.find_coordinator()
        else:
            right(process, result, response)

    return patch_attribute(ConsumerProtocolProcess, "_follow", follow)


@planted_bug
def consumer_member_falls_silent_at_its_poll_timeout() -> BugContext:
    """A member of the consumer protocol whose application is outside poll() for too long sends no heartbeat that leaves
    its group, and joins again when the application is back."""

    def on_poll_timeout(process: ConsumerProtocolProcess) -> None:
        process._has_lost_all = True
        process._timers.set_deadline(None, process._send_heartbeat)

    return patch_attribute(ConsumerProtocolProcess, "_on_poll_timeout", on_poll_timeout)


@planted_bug
def consumer_member_leaves_at_half_its_poll_interval() -> BugContext:
    """A member of the consumer protocol leaves when its application has been outside poll() for half of
    max.poll.interval.ms."""
    right = ConsumerProtocolProcess._leave_poll

    def leave_poll(process: ConsumerProtocolProcess, duration_ms: float, then: Callable[[], None]) -> None:
        half_ms = process._settings.max_poll_interval_ms // 2
        right(process, duration_ms, then)
        stay = process.last_poll_stay

        def expired() -> None:
            if process.last_poll_stay is stay and not process._is_leaving:
                process._on_poll_timeout()

        if duration_ms > half_ms:
            process._call_after(half_ms, expired)

    return patch_attribute(ConsumerProtocolProcess, "_leave_poll", leave_poll)
