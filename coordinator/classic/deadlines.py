"""When silence alone will change a group. Read off the state and the last signs of life, never stored."""

from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from regroup.coordinator.commands import DeadlineKind
from regroup.coordinator.group import NEWCOMER_TIMEOUT_MS, Group, Member, MemberId, State

ORDER: Final = {kind: place for place, kind in enumerate(DeadlineKind)}


class Deadline(NamedTuple):
    """A moment, whose patience ends then, and when the member was last heard."""

    at_ms: int
    kind: DeadlineKind
    member: MemberId = ""
    last_heard_ms: int | None = None


def next_deadline(group: Group, heard: Mapping[MemberId, int]) -> Deadline | None:
    """The earliest deadline; of simultaneous ones the first in the order of `DeadlineKind`, then of the members."""
    return min(deadlines(group, heard), key=lambda deadline: (deadline.at_ms, ORDER[deadline.kind]), default=None)


def deadlines(group: Group, heard: Mapping[MemberId, int]) -> Iterator[Deadline]:
    """Every deadline of the group. `heard` says when each member last gave a sign of life, in epoch milliseconds.

    After a load nothing has been heard yet, and the time of the load stands in.
    """
    if group.join_phase:
        yield Deadline(group.join_phase.deadline_ms, DeadlineKind.JOIN_PHASE)
    if group.owes_sync and group.state in (State.COMPLETING, State.STABLE):
        yield Deadline(group.sync_deadline_ms, DeadlineKind.SYNC_PHASE)
    for name, member in group.members.items():
        deadline = of_member(member, heard.get(name, group.loaded_at_ms))
        if deadline is not None:
            yield deadline
    for name, reserved in group.reserved_ids.items():
        yield Deadline(reserved.given_at_ms + reserved.session_timeout_ms, DeadlineKind.RESERVED_ID, name)
    for append in group.appends.values():
        if not append.is_late:
            yield Deadline(append.deadline_ms, DeadlineKind.APPEND)


def of_member(member: Member, heard_ms: int) -> Deadline | None:
    """A parked request counts as a sign of life as long as it waits; only a newcomer is not protected by it.

    A newcomer has five minutes, until it gives a sign of life beyond its first JoinGroup: then its session counts.
    """
    if member.is_newcomer and heard_ms <= member.joined_at_ms:
        at_ms = member.joined_at_ms + NEWCOMER_TIMEOUT_MS
        return Deadline(at_ms, DeadlineKind.NEWCOMER, member.member_id, member.joined_at_ms)
    if member.waiting and not member.is_newcomer:
        return None
    return Deadline(heard_ms + member.session_timeout_after(heard_ms), DeadlineKind.SESSION, member.member_id, heard_ms)
