"""What an accepted LeaveGroup or DeleteGroups has done: one that is answered NONE and changes nothing is found."""

from collections.abc import Iterator
from typing import Any

from regroup.coordinator.group import Group
from regroup.lab.checker.coordinator_state import CheckerState
from regroup.lab.checker.exchanges import ObservedExchange
from regroup.protocol.errors import ErrorCode


def members_that_have_left_are_gone(state: CheckerState, exchange: ObservedExchange) -> str | None:
    """A member for which LeaveGroup is answered with NONE is no member any more, and its id is not pending.

    It is named by its member id, or by its instance id alone (KIP-345).
    """
    command: Any = exchange.command
    response: Any = exchange.response
    if exchange.error_code != ErrorCode.NONE:
        return None
    present = set(_member_ids(exchange.after))
    for leaving, left in zip(command.members, response.members, strict=False):
        member_id = leaving.member_id or _static_member(exchange.before, leaving.group_instance_id)
        if left.error_code == ErrorCode.NONE and member_id in present:
            named = leaving.member_id or f"instance id {leaving.group_instance_id}"
            return f"{named} was answered NONE, and {member_id} is still in group {exchange.group_id}"
    return None


def a_deleted_group_is_gone(state: CheckerState, exchange: ObservedExchange) -> str | None:
    """A group whose deletion is answered with NONE does not exist any more, and has no offsets (KIP-229)."""
    after = exchange.after
    if exchange.error_code != ErrorCode.NONE or not (after.exists or after.committed_offsets):
        return None
    return f"group {exchange.group_id} is {after.named_state}, with offsets of {list(after.committed_offsets)}"


def a_group_with_members_is_not_deleted(state: CheckerState, exchange: ObservedExchange) -> str | None:
    """A group of the consumer protocol with members, also with static ones that are away, is not deleted."""
    group = exchange.before
    members = list(group.consumer.members) if group.consumer is not None else []
    if not members or exchange.error_code not in (ErrorCode.NONE, ErrorCode.GROUP_ID_NOT_FOUND):
        return None
    return f"its deletion is answered with {exchange.error_code}, and it has the members {', '.join(members)}"


def _member_ids(group: Group) -> Iterator[str]:
    """All member ids that a coordinator knows in a group of either kind, those that were given out and not used yet
    too."""
    yield from group.members
    yield from group.pending_join_members
    if group.consumer is not None:
        yield from group.consumer.members


def _static_member(group: Group, instance_id: str | None) -> str | None:
    """The member id of a static member of a group of either kind."""
    members = group.static_members if group.consumer is None else group.consumer.static_members
    return members.get(instance_id or "")
