"""What events say about session timeouts: what each member's timeout was, and which events started it again.

The requests that did so without an event, heartbeats above all, are in recorded exchanges alone
(`recorded/session_clocks.py`).
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator

from regroup.classroom.timeline import MemberSession, Point
from regroup.coordinator import events as e
from regroup.coordinator.group import AwaitedResponse, Group, LogRecordKind, Member, MemberId


class SessionsBuilder:
    """Builds the sessions of one group while its events are folded."""

    def __init__(self) -> None:
        self._members: dict[MemberId, list[tuple[int, Member | None]]] = defaultdict(list)
        self._started: dict[MemberId, list[Point]] = defaultdict(list)

    def begin_with(self, group: Group, point: Point) -> None:
        """Begin with a group in the middle of its history."""
        for member in group.members.values():
            self._members[member.member_id].append((point.position, member))

    def on_event(self, event: e.Event, before: Group, after: Group, changed: Iterable[MemberId], point: Point) -> None:
        """Take in an event; `changed` names the members that it may have changed."""
        for member_id in changed:
            member = after.members.get(member_id)
            if member is not before.members.get(member_id):
                self._members[member_id].append((point.position, member))
        for member_id in _started_by(event, before, after):
            self._started[member_id].append(point)

    def sessions(self) -> dict[MemberId, MemberSession]:
        return {
            member_id: MemberSession(changes=tuple(changes), started=tuple(self._started.get(member_id, ())))
            for member_id, changes in self._members.items()
        }


def _started_by(event: e.Event, before: Group, after: Group) -> Iterator[MemberId]:
    """The members whose session timeouts an event starts again, as `coordinator/classic/` does (`touch_session`)."""
    match event:
        case e.GenerationStarted() | e.CoordinatorLoaded():
            yield from after.members
        case e.AssignmentCommitted() | e.RebalanceStarted():
            yield from (each.member_id for each in before.members_awaiting(AwaitedResponse.SYNC))
        case e.StaticMemberReplaced(awaits_join=False):
            yield event.member_id
        case e.OffsetsCommitted() | e.OffsetsWritten() if event.member_id in after.members:
            yield event.member_id
        case e.AppendFailed():
            append = before.pending_appends.get(event.append_number)
            if append and append.kind is LogRecordKind.STATIC_MEMBER_REPLACEMENT and append.replaced_member:
                yield append.replaced_member.member_id
