"""Bugs in the join phase: the initial delay (KIP-134), the vote, the leader, and what it is answered (KIP-814)."""

from collections.abc import Collection, Iterable
from typing import Any
from unittest.mock import patch

from msgspec.structs import replace

from regroup.coordinator import responses
from regroup.coordinator.classic import deadlines as classic_deadlines
from regroup.coordinator.classic import expiry, heartbeat_leave, join, protocol_vote, rebalance
from regroup.coordinator.commands import DeadlineKind, DeadlinePassed
from regroup.coordinator.decide import DEADLINE_HANDLERS
from regroup.coordinator.decision import DecisionBuilder
from regroup.coordinator.events import CoordinatorLoaded, JoinPhaseExtended, LeaderElected, RebalanceStarted
from regroup.coordinator.evolve import coordinator_loaded
from regroup.coordinator.group import AwaitedResponse, Group, GroupKind, GroupState, Member, MemberId
from regroup.lab.planted_bugs.bug import BugContext, combine, patch_attribute, patch_evolver, planted_bug
from regroup.protocol.java_order import java_hash_map_order
from regroup.protocol.messages.group import JoinGroupResponse


@planted_bug
def initial_delay_is_not_extended() -> BugContext:
    """The first join phase ends with the first initial delay, though members have joined in it."""

    def join_phase_deadline_passed(decision: DecisionBuilder, command: DeadlinePassed) -> None:
        rebalance.complete_join_phase(decision)

    handlers = {GroupKind.CLASSIC: join_phase_deadline_passed}
    return patch.dict(DEADLINE_HANDLERS, {DeadlineKind.JOIN_PHASE: handlers})


@planted_bug
def initial_delay_never_gets_shorter() -> BugContext:
    """Each extension of the initial delay leaves as much time for more as there was before it."""

    def extended(at_ms: int, reason: str, deadline_ms: int, delay_ms: int = 0, remaining_ms: int = 0) -> Any:
        remaining_ms += delay_ms
        return JoinPhaseExtended(
            at_ms=at_ms, reason=reason, deadline_ms=deadline_ms, delay_ms=delay_ms, remaining_ms=remaining_ms
        )

    return patch_attribute(expiry, "JoinPhaseExtended", extended)


@planted_bug
def initial_delay_after_every_rebalance() -> BugContext:
    """A join phase of a group with members counts as a first one: it waits for the whole initial delay."""

    def started(at_ms: int, reason: str, deadline_ms: int, **first: Any) -> RebalanceStarted:
        first["is_initial"] = True
        return RebalanceStarted(at_ms=at_ms, reason=reason, deadline_ms=deadline_ms, **first)

    return patch_attribute(rebalance, "RebalanceStarted", started)


@planted_bug
def tie_goes_to_the_last_candidate() -> BugContext:
    """Of several assignors with the same number of votes the last one in Java's order is chosen, not the first."""

    def reversed_order(names: Iterable[str]) -> list[str]:
        return java_hash_map_order(names)[::-1]

    return patch_attribute(protocol_vote, "java_hash_map_order", reversed_order)


@planted_bug
def absent_members_have_no_vote() -> BugContext:
    """Static members that have not joined a generation have no vote for its assignor."""

    def select_protocol(members: Collection[Member]) -> str:
        joined = [each for each in members if each.awaiting is AwaitedResponse.JOIN]
        return protocol_vote.select_protocol(joined or members)

    return patch_attribute(rebalance, "select_protocol", select_protocol)


@planted_bug
def newest_member_leads() -> BugContext:
    """The member that joined last leads each generation, although its former leader has joined."""

    def leader_of_joined_members(decision: DecisionBuilder) -> MemberId | None:
        joined = [each.member_id for each in decision.group.members_awaiting(AwaitedResponse.JOIN)]
        if joined and joined[-1] != decision.group.leader_id:
            decision.apply(LeaderElected, reason="the newest member", leader_id=joined[-1])
        return joined[-1] if joined else None

    return patch_attribute(rebalance, "leader_of_joined_members", leader_of_joined_members)


@planted_bug
def another_member_leads_after_a_load() -> BugContext:
    """A coordinator that loads a group takes its last member for the leader."""

    def load(group: Group, event: CoordinatorLoaded) -> Group:
        loaded = coordinator_loaded(group, event)
        return replace(loaded, leader_id=next(reversed([*loaded.members]), None))

    return patch_evolver(CoordinatorLoaded, load)


@planted_bug
def restarted_leader_assigns_again() -> BugContext:
    """A static leader that has restarted in Stable does not get skip_assignment (KIP-814)."""
    right = responses.join_response

    def join_response(
        group: Group, member_id: MemberId, *, leader_id: MemberId | None = None, skip_assignment: bool = False
    ) -> JoinGroupResponse:
        return right(group, member_id, leader_id=leader_id)

    return patch_attribute(responses, "join_response", join_response)


@planted_bug
def old_client_leads_under_its_new_member_id() -> BugContext:
    """A restarted leader whose client does not know skip_assignment is named as the leader, and assigns again."""
    right = join.replacement_response

    def replacement_response(group: Group, command: Any, former_leader_id: MemberId | None) -> JoinGroupResponse:
        response = right(group, command, former_leader_id)
        if group.leader_id == command.new_member_id and not command.supports_skip_assignment:
            return responses.join_response(group, command.new_member_id)
        return response

    return patch_attribute(join, "replacement_response", replacement_response)


@planted_bug
def new_member_waits_without_a_limit() -> BugContext:
    """A member that never completes a join phase has an hour, and not five minutes, from its first JoinGroup."""
    return combine(
        patch_attribute(classic_deadlines, "NEW_MEMBER_JOIN_TIMEOUT_MS", 3_600_000),
        patch_attribute(expiry, "NEW_MEMBER_JOIN_TIMEOUT_MS", 3_600_000),
    )


@planted_bug
def leaving_ends_no_join_phase() -> BugContext:
    """The members that have joined wait for the whole rebalance timeout, although the last missing member has left."""
    right = rebalance.rebalance

    def wrong(decision: DecisionBuilder, reason: str) -> None:
        if decision.group.state is not GroupState.PREPARING_REBALANCE:
            right(decision, reason)

    return patch_attribute(heartbeat_leave, "rebalance", wrong)
