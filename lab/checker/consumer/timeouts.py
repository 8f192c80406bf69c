"""Timeouts of groups of the consumer protocol: of sessions, and of members that have partitions to give up.

Heartbeats start a session timeout again there, and commits do not.
"""

from collections.abc import Iterator
from typing import Final

from regroup.coordinator import commands as c
from regroup.coordinator.consumer_group import ConsumerMember
from regroup.coordinator.group import Group, MemberId
from regroup.lab.checker.exchanges import ObservedExchange

EVERY_MEMBER: Final = "every member"
"""Stands for all members of a group that is loaded or changes its protocol: their sessions begin then."""


class RevocationTimeouts:
    """Since when each member of the consumer protocol has had partitions to give up, by the clock of the run."""

    def __init__(self) -> None:
        self._since_ms: dict[tuple[str, MemberId], int] = {}

    def on_group_change(self, exchange: ObservedExchange, now_ms: int) -> None:
        """Start the time again of each member that a command has asked to give up partitions, or others than before.

        After a load it starts again for every member that has partitions to give up.
        """
        before, after = exchange.before.consumer, exchange.after.consumer
        if after is None or (before is after and not isinstance(exchange.command, c.LoadGroup)):
            return
        former = {} if before is None or isinstance(exchange.command, c.LoadGroup) else before.members
        for member_id, member in after.members.items():
            known = former.get(member_id)
            if known is not member and _revokes(member) and (known is None or _has_stepped(known, member)):
                self._since_ms[exchange.group_id, member_id] = now_ms

    def overdue(self, group: Group, now_ms: int, slack_ms: int) -> Iterator[str]:
        """Describe each member of a group that should have given up its partitions or been removed by now.

        The limit is the member's rebalance timeout; `slack_ms` is how late a timer may be.
        """
        for member_id, member in group.consumer.members.items() if group.consumer else ():
            since_ms = self._since_ms.get((group.group_id, member_id), now_ms)
            if _revokes(member) and now_ms - since_ms > member.profile.rebalance_timeout_ms + slack_ms:
                yield f"{member_id} was asked {now_ms - since_ms} ms ago to give up partitions"


class HeartbeatTimes:
    """When each member of the consumer protocol's groups has sent the last request that may start its session timeout
    again, by the coordinator's clock."""

    def __init__(self) -> None:
        self._last_ms: dict[tuple[str, MemberId], int] = {}

    def on_command(self, exchange: ObservedExchange) -> str | None:
        """Note such a request. If it is an OffsetCommit in such a group, return what is wrong: the session timeout of
        its member began with it."""
        command, consumer = exchange.command, exchange.after.consumer
        if consumer is None:
            return None
        member_id = getattr(command, "member_id", EVERY_MEMBER)
        is_new = exchange.before.consumer is None  # it was loaded, or was a classic group
        if not isinstance(command, c.OffsetCommit):
            self._last_ms[exchange.group_id, EVERY_MEMBER if is_new else member_id] = command.at_ms
            return None
        if is_new or member_id not in consumer.members:
            return None
        begun_ms = (self._last_ms.get((exchange.group_id, each)) for each in (member_id, EVERY_MEMBER))
        if command.at_ms in begun_ms:
            return None
        for deadline in exchange.coordinator.deadlines(exchange.group_id):
            is_session = deadline.kind is c.DeadlineKind.SESSION and deadline.member_id == member_id
            if is_session and deadline.last_seen_ms == command.at_ms:
                return f"the session of {member_id} began with its commit"
        return None


def unstarted_session(exchange: ObservedExchange) -> str | None:
    """What is wrong with the sessions of a group after the command that made it, a classic group with members, one of
    the consumer protocol: each session begins with that command. None after any other command.
    """
    before, after = exchange.before, exchange.after
    if after.consumer is None or before.consumer is not None or not before.members:
        return None
    if exchange.coordinator.group(after.group_id) is not after or exchange.coordinator.refusal is not None:
        return None
    begun_ms = {
        each.member_id: each.last_seen_ms
        for each in exchange.coordinator.deadlines(after.group_id)
        if each.kind is c.DeadlineKind.SESSION
    }
    for member_id in after.consumer.members:
        if begun_ms.get(member_id) != exchange.command.at_ms:
            return f"the session of {member_id} began at {begun_ms.get(member_id)} ms, not at {exchange.command.at_ms}"
    return None


def _revokes(member: ConsumerMember) -> bool:
    """Whether a rebalance timeout runs for the member. One of the classic protocol has other deadlines."""
    return bool(member.pending_revocation) and not member.is_classic


def _has_stepped(before: ConsumerMember, after: ConsumerMember) -> bool:
    """Whether a member's assignment, partitions to give up or protocol differ between two states of the group.

    A heartbeat that changes none of these does not prolong the rebalance timeout.
    """
    return (
        before.is_classic != after.is_classic
        or (before.assigned, before.pending_revocation) != (after.assigned, after.pending_revocation)
    )  # fmt: skip


def session_timeouts_ms(group: Group, session_timeout_ms: int) -> Iterator[tuple[MemberId, tuple[int, ...]]]:
    """Yield each member of a group of the consumer protocol with the session timeouts that may apply to it.

    `session_timeout_ms` is that of the broker. A member of the classic protocol may also have the one from its
    JoinGroup.
    """
    for member_id, member in group.consumer.members.items() if group.consumer else ():
        classic = member.profile.classic
        yield member_id, (session_timeout_ms, *(() if classic is None else (classic.session_timeout_ms,)))


def early_expiry(exchange: ObservedExchange, last_seen_ms: int | None, session_timeout_ms: int) -> str | None:
    """Check the removal of a member whose session has expired; None if it came after the whole session timeout.

    Otherwise returns how long ago the member was seen. `last_seen_ms` is by the coordinator's clock; None if not known.
    """
    command = exchange.command
    assert isinstance(command, c.DeadlinePassed)
    found = dict(session_timeouts_ms(exchange.before, session_timeout_ms))
    if command.member_id not in found or command.member_id in exchange.after.member_ids or last_seen_ms is None:
        return None
    silent_ms = command.at_ms - last_seen_ms
    return None if silent_ms >= min(found[command.member_id]) else f"{command.member_id} was seen {silent_ms} ms ago"


def early_revocation_timeout(exchange: ObservedExchange, revokes_since_ms: int) -> str | None:
    """Check the removal of a member that has not given up its partitions; None if its rebalance timeout was over.

    Otherwise returns what was found. `revokes_since_ms` is by the coordinator's clock; 0 if it is not known.
    """
    command, consumer = exchange.command, exchange.before.consumer
    assert isinstance(command, c.DeadlinePassed)
    if consumer is None or command.member_id not in consumer.members or command.member_id in exchange.after.member_ids:
        return None
    waited_ms = command.at_ms - revokes_since_ms
    if not revokes_since_ms or waited_ms >= consumer.members[command.member_id].profile.rebalance_timeout_ms:
        return None
    return f"{command.member_id} was asked {waited_ms} ms ago to give up partitions"
