"""Bugs in the sync phase: which assignment a member gets, and when."""

from collections.abc import Callable

from regroup.coordinator import responses
from regroup.coordinator.classic import rebalance, sync
from regroup.coordinator.classic.member_checks import refuse_member
from regroup.coordinator.commands import SyncGroup
from regroup.coordinator.decision import Decision, DecisionBuilder
from regroup.coordinator.events import MemberSynced
from regroup.coordinator.group import Group, GroupState, MemberId
from regroup.lab.planted_bugs.bug import BugContext, patch_attribute, patch_handler, planted_bug
from regroup.protocol.errors import ErrorCode
from regroup.protocol.messages.group import SyncGroupResponse


@planted_bug
def sync_ignores_the_generation() -> BugContext:
    """SyncGroup is accepted with any generation id."""

    def refuse_generation(
        group: Group, member_id: MemberId, instance_id: str | None, generation_id: int
    ) -> ErrorCode | None:
        return refuse_member(group, member_id, instance_id)

    return patch_attribute(sync, "refuse_generation", refuse_generation)


@planted_bug
def follower_gets_an_empty_assignment() -> BugContext:
    """A follower whose SyncGroup comes before the leader's gets an empty assignment at once."""
    return patch_handler(SyncGroup, _respond_early(lambda group, member_id: SyncGroupResponse()))


@planted_bug
def follower_gets_its_former_assignment() -> BugContext:
    """A follower whose SyncGroup comes before the leader's gets its assignment of the last generation at once."""
    return patch_handler(SyncGroup, _respond_early(responses.sync_response))


def _respond_early(response: Callable[[Group, MemberId], SyncGroupResponse]) -> Callable[..., Decision]:
    """A handler of SyncGroup that sends this response at once, instead of waiting for the leader's assignment."""

    def sync_group(decision: DecisionBuilder, command: SyncGroup) -> Decision:
        group = decision.group
        is_early = group.state is GroupState.COMPLETING_REBALANCE and command.member_id != group.leader_id
        if not is_early or sync.refuse_sync(group, command):
            return sync.sync_group(decision, command)
        decision.apply(MemberSynced, member_id=command.member_id, awaits_assignment=False)
        return decision.build(response(group, command.member_id))

    return sync_group


@planted_bug
def held_sync_is_forgotten() -> BugContext:
    """A rebalance that interrupts the sync phase sends no response to the held SyncGroup requests."""
    return patch_attribute(rebalance, "abort_sync_phase", lambda decision, code: None)


@planted_bug
def assignment_precedes_the_kafka_log() -> BugContext:
    """Assignments are sent as soon as Kafka's log has written them, although it may still lose them."""
    right = sync.write_assignments

    def write_assignments(decision: DecisionBuilder, command: SyncGroup) -> None:
        right(decision, command)
        if decision.group.uncommitted_assignments is not None:
            sync.commit_assignments(decision)

    return patch_attribute(sync, "write_assignments", write_assignments)
