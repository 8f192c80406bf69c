"""How the phases of a classic rebalance end: the join phase with the last missing member, the sync phase by its
deadline, without the members that have sent no SyncGroup."""

from regroup.coordinator import commands as c
from regroup.coordinator.group import AwaitedResponse
from regroup.lab.checker.coordinator_state import CheckerState
from regroup.lab.checker.exchanges import ObservedExchange


def a_member_that_has_synced_stays(state: CheckerState, exchange: ObservedExchange) -> str | None:
    """The end of a sync phase removes only members that have sent no SyncGroup in their generation."""
    command, before = exchange.command, exchange.before
    assert isinstance(command, c.DeadlinePassed)
    known = state.acknowledgements.assignments.get(exchange.group_id)
    if command.kind is not c.DeadlineKind.SYNC_PHASE or known is None or known.generation_id != before.generation_id:
        return None
    synced = [each for each in before.members if each not in exchange.after.members and each in known.assignments]
    return f"{', '.join(synced)} had got an assignment in generation {before.generation_id}" if synced else None


def a_join_phase_ends_with_the_last_missing_member(state: CheckerState, exchange: ObservedExchange) -> str | None:
    """A join phase ends when its last missing member joins, leaves or expires, the initial delay only by an expiry."""
    command, before, after = exchange.command, exchange.before, exchange.after
    phase = after.join_phase
    if after is before or phase is None or not isinstance(command, c.JoinGroup | c.LeaveGroup | c.DeadlinePassed):
        return None
    is_session_end = isinstance(command, c.DeadlinePassed) and command.kind is c.DeadlineKind.SESSION
    if after.pending_join_members or (phase.is_initial and not is_session_end):
        return None
    if any(member.awaiting is not AwaitedResponse.JOIN for member in after.members.values()):
        return None
    gone = [each for each in (*before.members, *before.pending_join_members) if each not in after.members]
    if gone and isinstance(command, c.JoinGroup):
        return None  # as in Kafka a member that joins a group of too many is removed, and the phase goes on
    return f"{', '.join(gone)} is gone, and all others have joined" if gone else "all members have joined"
