"""How the phases of a classic rebalance end by a deadline: the join phase with the last missing member, the sync phase
without the members that have sent no SyncGroup."""

from regroup.coordinator import commands as c
from regroup.coordinator.group import AwaitedResponse, GroupState
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
    """A join phase ends when the session of the last member that had not joined has expired."""
    command, after = exchange.command, exchange.after
    assert isinstance(command, c.DeadlinePassed)
    if command.kind is not c.DeadlineKind.SESSION or after.state is not GroupState.PREPARING_REBALANCE:
        return None
    has_expired = command.member_id in exchange.before.members and command.member_id not in after.members
    if not has_expired or after.pending_join_members:
        return None
    missing = [each for each, member in after.members.items() if member.awaiting is not AwaitedResponse.JOIN]
    return None if missing else f"{command.member_id} has expired, and all others have joined"
