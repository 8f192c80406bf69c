"""Builds the table `member_lifetimes`: a row for each member id, from its first join to its end."""

from collections.abc import Iterator
from typing import Any

from regroup.coordinator import events as e
from regroup.coordinator.group import Group, Member, MemberId
from regroup.pipeline.gold.table_builder import TableRow, Transition


class MemberLifetimes:
    """Builds `member_lifetimes` of one group."""

    def __init__(self) -> None:
        self._open: dict[MemberId, dict[str, Any]] = {}

    def on_snapshot(self, group: Group) -> None:
        """Begin with the members of a snapshot, which stands in place of trimmed events."""
        for member in group.members.values():
            self._begin(member, member.joined_at_ms)

    def on_event(self, transition: Transition) -> Iterator[TableRow]:
        event, members, at_ms = transition.event, transition.after.members, transition.at_ms
        match event:
            case e.MemberJoined():
                self._begin(members[event.member_id], at_ms)
            case e.StaticMemberReplaced():
                yield from self._end(event.replaced_member_id, at_ms, "replaced", event.reason)
                self._begin(members[event.member_id], at_ms, event.replaced_member_id)
            case e.GenerationStarted():
                for member_id in members:
                    self._open[member_id]["generations"] += 1
            case e.MemberLeft():
                yield from self._end(event.member_id, at_ms, "left", event.reason)
            case e.MemberRemoved():
                timing = {"last_seen_ms": event.last_seen_ms, "timeout_ms": event.timeout_ms}
                yield from self._end(event.member_id, at_ms, "removed", event.reason, **timing)
            case e.CoordinatorLoaded() | e.GroupDeleted() | e.AppendFailed():
                # The group is what the log holds: it lost some members, and may have a replaced member back.
                for member_id in [each for each in self._open if each not in members]:
                    yield from self._end(member_id, at_ms, "lost", "the coordinator's log does not hold the member")
                for member_id, member in members.items():
                    if member_id not in self._open:
                        self._begin(member, at_ms)

    def on_end(self) -> Iterator[TableRow]:
        for row in self._open.values():
            yield "member_lifetimes", row

    def _begin(self, member: Member, from_ms: int, replaced_member_id: MemberId | None = None) -> None:
        self._open[member.member_id] = {
            "member_id": member.member_id,
            "instance_id": member.instance_id,
            "client_id": member.profile.client_id,
            "client_host": member.profile.client_host,
            "session_timeout_ms": member.profile.session_timeout_ms,
            "replaced_member_id": replaced_member_id,
            "from_ms": from_ms,
            "ended_by": "open",
            "generations": 0,
        }

    def _end(
        self, member_id: MemberId, at_ms: int, ended_by: str, reason: str, **timing: int | None
    ) -> Iterator[TableRow]:
        row = self._open.pop(member_id, None)
        if row is not None:
            yield "member_lifetimes", row | {"to_ms": at_ms, "ended_by": ended_by, "reason": reason} | timing
