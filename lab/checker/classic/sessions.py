"""The sessions of members of classic groups: which request starts a session again, and when it has to expire.

Kafka starts a session again with an accepted heartbeat, with an accepted commit that names the member, when a join
phase ends (for every member, absent ones too), when a held SyncGroup is answered, when a static member is replaced in
Stable, and when a coordinator loads the group. Nothing else does, no transactional commit and no request that is
refused. In regroup a refused upgrade does so, too, for the members whose held requests it has refused. A member that
has not completed a join phase has five minutes from its first JoinGroup.
"""

from collections.abc import Iterator
from typing import Final, NamedTuple

from regroup.coordinator import commands as c
from regroup.coordinator.consumer.commands import ConsumerGroupHeartbeat
from regroup.coordinator.group import AwaitedResponse, Group, GroupState, Member, MemberId
from regroup.coordinator.layered_mapping import added_keys
from regroup.lab.checker.exchanges import ObservedExchange

NEW_MEMBER_TIMEOUT_MS: Final = 5 * 60 * 1000
"""How long a member may wait for the end of its first join phase."""


class Restart(NamedTuple):
    """When the session of a member started again: `at_ms` by the coordinator's clock, which may jump, and `run_ms` by
    the clock of the run, which never does."""

    at_ms: int
    run_ms: int


class ClassicSessions:
    """Since when the session of each member of a classic group runs, for all groups of a run."""

    def __init__(self) -> None:
        self._restarts: dict[tuple[str, MemberId], Restart] = {}
        self._appeared: dict[tuple[str, MemberId], int] = {}
        """When a member, or a pending member id, appeared in its group, by the run's clock."""

    def on_command(self, exchange: ObservedExchange, now_ms: int) -> None:
        """Note new members, and the time at which a handled command has started the sessions of members again."""
        before, after, command = exchange.before, exchange.after, exchange.command
        if after.consumer is not None:
            return
        if before is not after:
            self._note_newcomers(before, after, now_ms)
        for member_id in restarted_by(command, before, after):
            self._restarts[exchange.group_id, member_id] = Restart(command.at_ms, now_ms)

    def _note_newcomers(self, before: Group, after: Group, now_ms: int) -> None:
        for former, present in (
            (before.members, after.members),
            (before.pending_join_members, after.pending_join_members),
        ):
            for member_id in added_keys(former, present):
                self._appeared[after.group_id, member_id] = now_ms
                self._restarts.pop((after.group_id, member_id), None)

    def restart_of(self, group_id: str, member_id: MemberId) -> Restart | None:
        """When the session of a member last started again; None if that is not known."""
        return self._restarts.get((group_id, member_id))

    def overdue(self, group: Group, now_ms: int, slack_ms: int) -> Iterator[str]:
        """Describe each member and each pending member id of a group that the coordinator should have removed by now.

        `slack_ms` is how late a timer may be.
        """
        for member_id, pending in group.pending_join_members.items():
            since_ms = self._appeared.get((group.group_id, member_id), now_ms)
            if now_ms - since_ms > pending.session_timeout_ms + slack_ms:
                yield f"pending join member {member_id} was added {now_ms - since_ms} ms ago and has not joined"
        for member_id, member in group.members.items():
            since_ms, timeout_ms = self._timeout_of(group.group_id, member, now_ms)
            if now_ms - since_ms > timeout_ms + slack_ms:
                yield f"the {timeout_ms} ms of {member_id} began {now_ms - since_ms} ms ago"

    def _timeout_of(self, group_id: str, member: Member, now_ms: int) -> tuple[int, int]:
        """Since when the present timeout of a member runs, by the run's clock, and how long it is."""
        key = group_id, member.member_id
        restart, appeared_ms = self._restarts.get(key), self._appeared.get(key, now_ms)
        if member.is_new and (restart is None or restart.run_ms <= appeared_ms):
            return appeared_ms, NEW_MEMBER_TIMEOUT_MS
        if member.awaiting is not None and not member.is_new:
            return now_ms, 0
        if restart is None:
            return now_ms, 0
        return restart.run_ms, session_timeout_ms(member, restart.at_ms)


def restarted_by(command: c.Command, before: Group, after: Group) -> Iterator[MemberId]:
    """The members whose session timeout starts again with this command, by the group before and after it."""
    match command:
        case c.Heartbeat() | c.OffsetCommit():
            if is_present(command, before) and _may_be_accepted(command, before):
                yield command.member_id
        case c.JoinGroup() | c.FailAppend() if after.static_members is not before.static_members:
            for instance_id, member_id in after.static_members.items():
                former_id = before.static_members.get(instance_id, member_id)
                if former_id != member_id and not after.members[member_id].awaiting:
                    yield member_id
        case c.LoadGroup():
            yield from after.members
            return
        case ConsumerGroupHeartbeat():
            for member_id, member in before.members.items():
                if member.awaiting and not member.is_new and not after.members[member_id].awaiting:
                    yield member_id
    if before.state is after.state and before.generation_id == after.generation_id:
        return
    if after.generation_id > before.generation_id:
        yield from after.members
    elif before.state is GroupState.COMPLETING_REBALANCE:
        for member_id, member in before.members.items():
            present = after.members.get(member_id)
            if member.awaiting is AwaitedResponse.SYNC and present is not None and present.awaiting is None:
                yield member_id
        asks = command.member_id if isinstance(command, c.SyncGroup) else ""
        if asks in after.members and after.state is GroupState.STABLE:
            yield asks


def is_present(command: c.Heartbeat | c.OffsetCommit, group: Group) -> bool:
    """Whether a request names a member of the group as it is: its id, its instance id if it has one, its generation."""
    instance_id = command.group_instance_id
    return (
        command.member_id in group.members
        and command.generation_id == group.generation_id
        and (instance_id is None or group.static_members.get(instance_id) == command.member_id)
    )


def _may_be_accepted(command: c.Heartbeat | c.OffsetCommit, group: Group) -> bool:
    return not isinstance(command, c.OffsetCommit) or group.state is not GroupState.COMPLETING_REBALANCE


def session_timeout_ms(member: Member, restarted_ms: int) -> int:
    """The session timeout that runs from this time; a replaced static member has the one of its former process until
    the new one is first seen."""
    former_ms = member.replaced_session_timeout_ms
    return member.profile.session_timeout_ms if former_ms is None or restarted_ms > member.replaced_at_ms else former_ms


# -- what may not happen early


def early_deadline(exchange: ObservedExchange, sessions: ClassicSessions) -> str | None:
    """What is wrong with a deadline of a classic group that had an effect: it passed too early."""
    command, before = exchange.command, exchange.before
    assert isinstance(command, c.DeadlinePassed)
    if exchange.after is before:
        return None
    at_ms, member_id = command.at_ms, command.member_id
    match command.kind:
        case c.DeadlineKind.SESSION:
            return _early_session(exchange, sessions)
        case c.DeadlineKind.NEW_MEMBER_JOIN if member_id in before.members:
            waited_ms = at_ms - before.members[member_id].joined_at_ms
            return f"{member_id} joined {waited_ms} ms ago" if waited_ms < NEW_MEMBER_TIMEOUT_MS else None
        case c.DeadlineKind.PENDING_JOIN if member_id in before.pending_join_members:
            pending = before.pending_join_members[member_id]
            waited_ms = at_ms - pending.added_at_ms
            return f"{member_id} was given {waited_ms} ms ago" if waited_ms < pending.session_timeout_ms else None
        case c.DeadlineKind.SYNC_PHASE if at_ms < before.sync_deadline_ms:
            return f"the sync phase had {before.sync_deadline_ms - at_ms} ms left"
    return None


def _early_session(exchange: ObservedExchange, sessions: ClassicSessions) -> str | None:
    command = exchange.command
    assert isinstance(command, c.DeadlinePassed)
    member = exchange.before.members.get(command.member_id)
    if member is None:
        return None
    if member.awaiting is not None and not member.is_new:
        return f"{command.member_id} awaits its {member.awaiting}"
    restart = sessions.restart_of(exchange.group_id, command.member_id)
    if restart is None:
        return None
    if command.at_ms - restart.at_ms < session_timeout_ms(member, restart.at_ms):
        return f"{command.member_id} was seen {command.at_ms - restart.at_ms} ms ago"
    if command.last_seen_ms != restart.at_ms:
        counted_ms = command.at_ms - (command.last_seen_ms or 0)
        began_ms = command.at_ms - restart.at_ms
        return f"the session of {command.member_id} counts from {counted_ms} ms ago, and began {began_ms} ms ago"
    return None
