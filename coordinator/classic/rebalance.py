"""How a rebalance begins and ends: what joining, leaving and falling silent have in common.

Kafka: `prepareRebalance`, `completeClassicGroupJoin` and what calls them in `GroupMetadataManager`.
"""

from regroup.coordinator import responses
from regroup.coordinator.classic.protocol_vote import chosen_protocol, subscribed_topics
from regroup.coordinator.decision import Unfolding
from regroup.coordinator.events import (
    GenerationStarted,
    GroupEmptied,
    JoinPhaseProlonged,
    LeaderElected,
    MemberExpelled,
    MemberLeft,
    RebalanceStarted,
)
from regroup.coordinator.group import Member, MemberId, State, Waiting
from regroup.coordinator.settings import Settings
from regroup.protocol.errors import ErrorCode


def rebalance(
    now: Unfolding, settings: Settings, reason: str, to_parked_syncs: ErrorCode = ErrorCode.REBALANCE_IN_PROGRESS
) -> None:
    """Start the join phase, or, if one runs already, end it should everybody have joined."""
    if now.group.state is State.COMPLETING:
        abort_sync_phase(now, to_parked_syncs)
    if now.group.state in (State.EMPTY, State.COMPLETING, State.STABLE):
        start_join_phase(now, settings, reason)
    complete_join_phase_if_everybody_is_here(now)


def start_join_phase(now: Unfolding, settings: Settings, reason: str) -> None:
    """From Empty the phase is short but may be drawn out by newcomers (KIP-134); otherwise it lasts for the longest
    rebalance timeout, which later joiners never push back."""
    group = now.group
    if group.state is State.EMPTY:
        delay = settings.group_initial_rebalance_delay_ms
        remaining = max(group.rebalance_timeout_ms - delay, 0)
        now.happens(
            RebalanceStarted(
                at_ms=now.at_ms,
                reason=reason,
                deadline_ms=now.at_ms + delay,
                initial=True,
                delay_ms=delay,
                remaining_ms=remaining,
            )
        )
        return
    deadline = now.at_ms + group.rebalance_timeout_ms
    now.happens(RebalanceStarted(at_ms=now.at_ms, reason=reason, deadline_ms=deadline))


def abort_sync_phase(now: Unfolding, code: ErrorCode) -> None:
    """Whoever waits for a share is told that there will be none in this generation."""
    for member in now.group.waiting(Waiting.SYNC):
        now.replies(Waiting.SYNC, member.member_id, responses.sync_refused(code))
        now.hears(member.member_id)


def complete_join_phase_if_everybody_is_here(now: Unfolding) -> None:
    """The short cut: nobody is missing, so nobody need wait for the deadline. Not while the initial delay runs."""
    phase = now.group.join_phase
    if phase and not phase.initial and now.group.everybody_has_joined:
        complete_join_phase(now)


def complete_join_phase(now: Unfolding) -> None:
    """The next generation begins with those who are here; static members who are silent stay (KIP-345)."""
    expel_silent_dynamic_members(now)
    group = now.group
    if not group.members:
        now.happens(GroupEmptied(at_ms=now.at_ms, reason="nobody is left", generation=group.generation + 1))
    elif leader := leader_among_those_who_joined(now):
        start_generation(now, leader)
    else:
        now.happens(
            JoinPhaseProlonged(
                at_ms=now.at_ms,
                reason="only static members are left, and none of them has joined",
                deadline_ms=now.at_ms + group.rebalance_timeout_ms,
            )
        )


def expel_silent_dynamic_members(now: Unfolding) -> None:
    silent = [member for member in now.group.members.values() if member.waiting is not Waiting.JOIN]
    for member in silent:
        if member.instance_id is None:
            timeout = now.group.rebalance_timeout_ms
            reason = f"it did not join again within the rebalance timeout of {timeout} ms"
            remove(now, member.member_id, MemberExpelled(at_ms=now.at_ms, reason=reason, member=member.member_id))


def leader_among_those_who_joined(now: Unfolding) -> MemberId | None:
    """A leader is always someone who has a JoinGroup parked; the present one keeps its office if it has."""
    group = now.group
    if group.leader and group.members[group.leader].waiting is Waiting.JOIN:
        return group.leader
    first = next(group.waiting(Waiting.JOIN), None)
    if first is None:
        return None
    now.happens(
        LeaderElected(at_ms=now.at_ms, reason="the leader has not joined this generation", leader=first.member_id)
    )
    return first.member_id


def start_generation(now: Unfolding, leader: MemberId) -> None:
    """Everybody is answered, and every session timer starts again, also that of a static member who stayed away."""
    group = now.group
    joined = list(group.waiting(Waiting.JOIN))
    protocol_name = chosen_protocol(group.members.values())
    now.happens(
        GenerationStarted(
            at_ms=now.at_ms,
            generation=group.generation + 1,
            protocol_name=protocol_name,
            leader=leader,
            subscribed_topics=subscribed_topics(group.protocol_type, protocol_name, group.members.values()),
            sync_deadline_ms=now.at_ms + group.rebalance_timeout_ms,
        )
    )
    for member in joined:
        now.replies(Waiting.JOIN, member.member_id, responses.joined(now.group, member.member_id))
    for name in now.group.members:
        now.hears(name)


def remove(now: Unfolding, name: MemberId, event: MemberLeft | MemberExpelled) -> None:
    """Take a member out. A parked JoinGroup is answered, a parked SyncGroup never is (so Kafka does), and the office
    of a leader passes on at once (behaviour `leader.leaves`)."""
    member = now.group.members[name]
    now.happens(event)
    answer_the_removed(now, member)
    if now.group.leader is None and now.group.members:
        heir = next(iter(now.group.members))
        now.happens(LeaderElected(at_ms=now.at_ms, reason=f"the leader {name} is gone", leader=heir))


def answer_the_removed(now: Unfolding, member: Member) -> None:
    if member.waiting is Waiting.JOIN:
        now.replies(Waiting.JOIN, member.member_id, responses.join_refused(ErrorCode.UNKNOWN_MEMBER_ID, ""))
    elif member.waiting is Waiting.SYNC:
        now.replies(Waiting.SYNC, member.member_id, None)
