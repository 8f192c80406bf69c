"""What happens when nothing happens: deadlines that pass.

Kafka: `expireClassicGroupMemberHeartbeat`, `expirePendingSync` and the timers of `GroupMetadataManager`.
"""

from collections.abc import Callable
from typing import Final

from regroup.coordinator.classic.rebalance import (
    complete_join_phase,
    rebalance,
    remove,
)
from regroup.coordinator.commands import DeadlineKind, DeadlinePassed
from regroup.coordinator.decision import Decision, Unfolding
from regroup.coordinator.events import JoinPhaseProlonged, MemberExpelled, MemberIdForgotten
from regroup.coordinator.group import NEWCOMER_TIMEOUT_MS, Group, State
from regroup.coordinator.offsets.log_appends import append_over
from regroup.coordinator.settings import Settings


def deadline_passed(settings: Settings, group: Group, command: DeadlinePassed) -> Decision:
    """The driver sends this only for a deadline that `deadlines` names at this moment."""
    now = Unfolding(group, command.at_ms)
    PASSED[command.kind](now, settings, command)
    return now.ends()


def join_phase_over(now: Unfolding, settings: Settings, command: DeadlinePassed) -> None:
    """The initial delay is drawn out if newcomers came and time remains (KIP-134); otherwise members are counted."""
    phase = now.group.join_phase
    assert phase is not None, "a join phase cannot end where none runs"
    if phase.initial and now.group.new_member_added and phase.remaining_ms:
        delay = min(settings.group_initial_rebalance_delay_ms, phase.remaining_ms)
        now.happens(
            JoinPhaseProlonged(
                at_ms=now.at_ms,
                reason="members came during the initial delay, perhaps more will",
                deadline_ms=now.at_ms + delay,
                delay_ms=delay,
                remaining_ms=max(phase.remaining_ms - phase.delay_ms, 0),
            )
        )
    else:
        complete_join_phase(now)


def sync_phase_over(now: Unfolding, settings: Settings, command: DeadlinePassed) -> None:
    """Whoever still owes a SyncGroup goes, static members too; heartbeats do not help (KAFKA-13254)."""
    reason = "it did not send SyncGroup in time"
    for name in now.group.owes_sync:
        if name in now.group.members:
            remove(now, name, MemberExpelled(at_ms=now.at_ms, reason=reason, member=name))
    rebalance(now, settings, "members did not send SyncGroup in time")


def session_over(now: Unfolding, settings: Settings, command: DeadlinePassed) -> None:
    timeout_ms = now.group.members[command.member].session_timeout_after(command.last_heard_ms or 0)
    expel(now, settings, command, timeout_ms, f"nothing was heard of it for its session timeout of {timeout_ms} ms")


def newcomer_over(now: Unfolding, settings: Settings, command: DeadlinePassed) -> None:
    """A member that never completed a join phase has five minutes, even while its JoinGroup is parked."""
    expel(now, settings, command, NEWCOMER_TIMEOUT_MS, "no join phase ended within five minutes of its first JoinGroup")


def expel(now: Unfolding, settings: Settings, command: DeadlinePassed, timeout_ms: int, reason: str) -> None:
    remove(
        now,
        command.member,
        MemberExpelled(
            at_ms=now.at_ms,
            reason=reason,
            member=command.member,
            last_heard_ms=command.last_heard_ms,
            timeout_ms=timeout_ms,
        ),
    )
    rebalance(now, settings, f"{command.member} fell silent")


def reserved_id_over(now: Unfolding, settings: Settings, command: DeadlinePassed) -> None:
    """The id was given out and never used; a join phase may have waited for it alone."""
    timeout_ms = now.group.reserved_ids[command.member].session_timeout_ms
    reason = f"nobody came back with it within {timeout_ms} ms"
    now.happens(MemberIdForgotten(at_ms=now.at_ms, member=command.member, reason=reason))
    # As in Kafka, here even an initial delay ends early.
    if now.group.state is State.PREPARING and now.group.everybody_has_joined:
        complete_join_phase(now)


PASSED: Final[dict[DeadlineKind, Callable[[Unfolding, Settings, DeadlinePassed], None]]] = {
    DeadlineKind.JOIN_PHASE: join_phase_over,
    DeadlineKind.SYNC_PHASE: sync_phase_over,
    DeadlineKind.SESSION: session_over,
    DeadlineKind.NEWCOMER: newcomer_over,
    DeadlineKind.RESERVED_ID: reserved_id_over,
    DeadlineKind.APPEND: append_over,
}
