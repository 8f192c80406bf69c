"""Bugs in the timeouts of groups of the consumer protocol, and in its members."""

from collections.abc import Iterator, Mapping
from typing import Any
from unittest.mock import patch

from msgspec.structs import replace

from regroup.coordinator.commands import Deadline, DeadlineKind
from regroup.coordinator.consumer.commands import ConsumerGroupHeartbeat
from regroup.coordinator.consumer.heartbeat import consumer_group_heartbeat
from regroup.coordinator.deadlines import DEADLINES
from regroup.coordinator.decide import CONSUMER_HANDLERS
from regroup.coordinator.decision import Decision, DecisionBuilder
from regroup.coordinator.group import Group, GroupKind
from regroup.lab.planted_bugs.bug import BugContext, patch_attribute, planted_bug
from regroup.members.consumer.consumer_protocol import ConsumerProtocolMachine
from regroup.members.runtime.consumer_protocol_offsets import ConsumerProtocolOffsets
from regroup.members.runtime.consumer_protocol_process import ConsumerProtocolProcess


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
def revocation_never_times_out() -> BugContext:
    """A member of the consumer protocol may take any time to give up partitions, while others wait for them."""
    return _without_deadlines(DeadlineKind.REVOCATION)


@planted_bug
def consumer_heartbeat_does_not_renew_the_session() -> BugContext:
    """Heartbeats of the consumer protocol are accepted, but the session timer does not restart."""

    def wrong(decision: DecisionBuilder, command: ConsumerGroupHeartbeat) -> Decision:
        return replace(consumer_group_heartbeat(decision, command), touched_sessions=())

    return patch.dict(CONSUMER_HANDLERS, {ConsumerGroupHeartbeat: wrong})


@planted_bug
def member_goes_on_with_what_it_gave_up() -> BugContext:
    """A member of the consumer protocol reads and commits partitions after it has revoked or lost them."""
    return patch_attribute(ConsumerProtocolOffsets, "drop", lambda offsets, partitions: None)


@planted_bug
def fenced_member_commits() -> BugContext:
    """A member of the consumer protocol that has heard that it is fenced commits with its former epoch."""

    def generation(process: ConsumerProtocolProcess) -> Any:
        return process.consumer.generation if process.consumer.has_joined else None

    return patch_attribute(ConsumerProtocolProcess, "_generation", generation)


@planted_bug
def member_takes_new_partitions_only() -> BugContext:
    """A member of the consumer protocol gives nothing up, and reports what it is assigned as all that it owns."""
    return patch_attribute(ConsumerProtocolMachine, "revocable", property(lambda machine: ()))
