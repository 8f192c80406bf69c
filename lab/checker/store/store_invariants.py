"""Invariants of what the store holds: of loads, of migrations, and of the states that the stored events add up to.

A function returns None if the invariant holds, and otherwise what was found.
"""

from typing import Final

import msgspec

from regroup.coordinator.group import Group
from regroup.lab.checker.coordinator_state import CheckerState, ExchangeInvariant
from regroup.lab.checker.exchanges import ObservedExchange


def a_load_finds_every_event(state: CheckerState, exchange: ObservedExchange) -> str | None:
    """Every stored event survives a crash: a coordinator loads the group that the stored records add up to."""
    stored = state.shadow.group(exchange.group_id)
    if exchange.before == stored:
        return None
    return f"{_difference(exchange.before, stored)} of group {exchange.group_id}"


def acknowledged_offsets_survive(state: CheckerState, exchange: ObservedExchange) -> str | None:
    """Acknowledged offsets survive every crash."""
    return next(state.acknowledgements.lost_offsets(exchange.after), None)


def acknowledged_assignments_survive(state: CheckerState, exchange: ObservedExchange) -> str | None:
    """Acknowledged assignments survive every crash."""
    return next(state.acknowledgements.lost_assignments(exchange.after), None)


def answers_to_consumers_survive(state: CheckerState, exchange: ObservedExchange) -> str | None:
    """The epochs and assignments that heartbeats of the consumer protocol were answered with survive every crash."""
    consumer, group = exchange.after.consumer, state.consumer_groups.group(exchange.group_id)
    for member_id, answered in group.members.items():
        loaded = consumer.members.get(member_id) if consumer else None
        if loaded is None or answered.epoch > loaded.epoch >= 0:
            found = "no such member" if loaded is None else f"epoch {loaded.epoch}"
            return f"{member_id} has had a response with epoch {answered.epoch}, and {found} was loaded"
        if loaded.epoch == answered.epoch and not answered.assigned <= frozenset(loaded.held()):
            return f"the assignment of {member_id} at epoch {answered.epoch}"
    return None


def deadlines_of_classic_members_do_not_survive(state: CheckerState, exchange: ObservedExchange) -> str | None:
    """Deadlines for JoinGroup and SyncGroup in a group of the consumer protocol do not survive a load.

    Kafka's log does not contain for which members of the classic protocol a timer was running.
    """
    consumer = exchange.after.consumer
    for member_id, member in consumer.members.items() if consumer else ():
        if (member.join_deadline_ms, member.sync_deadline_ms) != (None, None):
            return f"{member_id} has the deadlines {member.join_deadline_ms} and {member.sync_deadline_ms} (ms)"
    return None


LOAD_INVARIANTS: Final[tuple[ExchangeInvariant, ...]] = (
    a_load_finds_every_event,
    acknowledged_offsets_survive,
    acknowledged_assignments_survive,
    answers_to_consumers_survive,
    deadlines_of_classic_members_do_not_survive,
)
"""The invariants that are checked when a coordinator has loaded a group."""


def a_migration_keeps_acknowledged_offsets(state: CheckerState, exchange: ObservedExchange) -> str | None:
    """A group that changes its protocol keeps every acknowledged offset."""
    return next(state.acknowledgements.lost_offsets(exchange.after), None)


def _difference(found: Group, stored: Group) -> str:
    """Describe how a group in a coordinator differs from the one that the stored records give: its last event, or
    fields."""
    if found.event_number != stored.event_number:
        return f"event {found.event_number} is the last, and event {stored.event_number} is stored,"
    names = [each.name for each in msgspec.structs.fields(Group)]
    differing = [name for name in names if getattr(found, name) != getattr(stored, name)]
    return f"the stored records give another {' and '.join(differing)}"


def both_folds_agree(stored: Group, state: CheckerState) -> str | None:
    """The stored events of a group of the consumer protocol give the same group if the lab folds them itself."""
    known = state.consumer_groups.group(stored.group_id)
    differing = ", ".join(known.stored.differences(stored))
    return f"they differ in {differing} of group {stored.group_id}" if differing else None


def both_classic_folds_agree(stored: Group, state: CheckerState) -> str | None:
    """The stored events of a classic group, and offsets of any group, give the same if the lab folds them itself.

    The state that is compared with the coordinator's is folded with the coordinator's own function.
    """
    differing = state.classic_groups.differences(stored)
    return f"they differ in {differing} of group {stored.group_id}" if differing else None


def the_shadow_group_equals_the_live_group(live: Group, stored: Group, is_all_durable: bool) -> str | None:
    """A second state, evolved from the stored records, equals the live one whenever everything is durable."""
    if stored.event_number > live.event_number or (is_all_durable and stored.event_number < live.event_number):
        return f"the live group is at event {live.event_number}, the stored one at {stored.event_number}"
    if stored.event_number == live.event_number and stored != live:
        return f"{_difference(live, stored)} of group {live.group_id}"
    return None
