"""The deadlines that a coordinator names for the sessions of a classic group, compared with when the sessions began.

A session that a wrong request has started again has an effect only if its member then stays silent until the deadline.
The deadline itself shows it at once.
"""

from collections.abc import Mapping
from typing import Final

from regroup.coordinator import commands as c
from regroup.coordinator.group import Group, Member, MemberId
from regroup.lab.checker.classic.sessions import ClassicSessions, session_timeout_ms
from regroup.lab.checker.exchanges import ObservedExchange
from regroup.protocol.errors import ErrorCode

MEMBERS_OF_EVERY_LOOK: Final = 8
"""In a group with k times as many members, the deadlines are looked at after one command of k, so that the cost of a
command does not grow with its group."""


def wrong_session_deadline(exchange: ObservedExchange, sessions: ClassicSessions) -> str | None:
    """What is wrong with the deadlines that the coordinator names after a command for the sessions of its group.

    None if they are right, or not looked at. Members that have yet to complete a join phase are left out: their five
    minutes have a deadline of another kind.
    """
    group = exchange.after
    if not group.members or not _is_looked_at(exchange, group):
        return None
    named_ms = {
        each.member_id: each.at_ms
        for each in exchange.coordinator.deadlines(group.group_id)
        if each.kind is c.DeadlineKind.SESSION
    }
    for member_id, member in group.members.items():
        if not member.is_new and (detail := _wrong_deadline(group, member, named_ms, sessions)):
            return f"{member_id} {detail}"
    return None


def _is_looked_at(exchange: ObservedExchange, group: Group) -> bool:
    """Whether the deadlines are looked at after this command. After an accepted heartbeat they are not: there are too
    many."""
    is_accepted = exchange.response is not None and exchange.error_code == ErrorCode.NONE
    if is_accepted and isinstance(exchange.command, c.Heartbeat):
        return False
    if exchange.coordinator.refusal is not None or exchange.coordinator.group(group.group_id) is not group:
        return False
    return exchange.exchange_number % (len(group.members) // MEMBERS_OF_EVERY_LOOK + 1) == 0


def _wrong_deadline(
    group: Group, member: Member, named_ms: Mapping[MemberId, int], sessions: ClassicSessions
) -> str | None:
    deadline_ms = named_ms.get(member.member_id)
    if member.awaiting is not None:
        return None if deadline_ms is None else f"awaits its {member.awaiting}, and its session has a deadline"
    restart = sessions.restart_of(group.group_id, member.member_id)
    if restart is None:
        return None
    due_ms = restart.at_ms + session_timeout_ms(member, restart.at_ms)
    if deadline_ms is None:
        return f"has a session that ends at {due_ms} ms, and no deadline"
    return None if deadline_ms == due_ms else f"has the deadline {deadline_ms} ms, and its session ends at {due_ms} ms"
