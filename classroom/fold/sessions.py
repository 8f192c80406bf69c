"""What events say about session timeouts: what each member's timeout was, and which events started it again.

The requests that did so without an event, heartbeats above all, are in recorded exchanges alone
(`recorded/session_clocks.py`).
"""

from collections import defaultdict
from collections.abc import Iterable

from regroup.classroom.kinds import AnyMember, members_of, reader_of
from regroup.classroom.points import Point
from regroup.classroom.timeline import MemberSession
from regroup.coordinator import events as e
from regroup.coordinator.group import Group, MemberId


class SessionsBuilder:
    """Builds the session of each member of one group: its timeouts, and the events that restarted them."""

    def __init__(self) -> None:
        self._members: dict[MemberId, list[tuple[int, AnyMember | None]]] = defaultdict(list)
        self._started: dict[MemberId, list[Point]] = defaultdict(list)

    def begin_with(self, group: Group, point: Point) -> None:
        """Start from a group whose earlier events have been trimmed, in its state at `point`."""
        for member in members_of(group).values():
            self._members[member.member_id].append((point.position, member))

    def on_event(self, event: e.Event, before: Group, after: Group, changed: Iterable[MemberId], point: Point) -> None:
        """Take in an event. `changed` has the ids of the members that it may have changed."""
        present, former = members_of(after), members_of(before)
        for member_id in changed:
            member = present.get(member_id)
            if member is not former.get(member_id):
                self._members[member_id].append((point.position, member))
        for member_id in reader_of(after).started_sessions(event, before, after):
            self._started[member_id].append(point)

    def sessions(self) -> dict[MemberId, MemberSession]:
        return {
            member_id: MemberSession(changes=tuple(changes), started=tuple(self._started.get(member_id, ())))
            for member_id, changes in self._members.items()
        }
