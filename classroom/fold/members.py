"""The lanes of members and the requests that the coordinator held for them, built while events are folded."""

from collections.abc import Iterable
from typing import Final

from msgspec.structs import replace

from regroup.classroom.fold.names import member_names
from regroup.classroom.kinds import AnyMember, Awaited, awaited_by, members_of
from regroup.classroom.points import Point
from regroup.classroom.timeline import BEFORE, HeldRequest, Lane
from regroup.coordinator import events as e
from regroup.coordinator.consumer.events import StaticConsumerReplaced
from regroup.coordinator.group import AwaitedResponse, Group, MemberId

REPLACEMENTS: Final = (e.StaticMemberReplaced, StaticConsumerReplaced)


class MembersBuilder:
    """Builds the lanes of one group's members and the times during which the coordinator held their requests."""

    def __init__(self) -> None:
        self._lanes: list[Lane] = []
        self._open_lanes: dict[MemberId, int] = {}
        self._held: list[HeldRequest] = []
        self._open_held: dict[MemberId, int] = {}

    def begin_with(self, group: Group, point: Point) -> None:
        """Start from a group whose earlier events have been trimmed, in its state at `point`."""
        for member in members_of(group).values():
            self._begin_lane(member, point, BEFORE)
            if awaited := awaited_by(member):
                self._begin_held(member.member_id, awaited, point)

    def on_event(
        self, event: e.Event, before: Group, after: Group, changed: Iterable[MemberId], point: Point, event_type: str
    ) -> None:
        """Take in an event. `changed` has the ids of the members that it may have changed."""
        present, earlier = members_of(after), members_of(before)
        for member_id in changed:
            member, former = present.get(member_id), earlier.get(member_id)
            if former is not None and member is None:
                index = self._open_lanes.pop(member_id)
                self._lanes[index] = replace(self._lanes[index], ended=point, ended_by=event_type)
            elif former is None and member is not None:
                replaced = event.replaced_member_id if isinstance(event, REPLACEMENTS) else None
                self._begin_lane(member, point, event_type, replaced)
            self._follow_held(member_id, former, member, point, event_type)
        match event:
            case e.MemberSynced(awaits_assignment=False):
                self._held.append(_held_no_time(event.member_id, AwaitedResponse.SYNC, point, event_type))

    def lanes(self) -> tuple[Lane, ...]:
        names = member_names((lane.member_id, lane.client_id) for lane in self._lanes)
        return tuple(replace(lane, name=names[lane.member_id]) for lane in self._lanes)

    def held_requests(self) -> tuple[HeldRequest, ...]:
        return tuple(self._held)

    def _begin_lane(self, member: AnyMember, point: Point, began_by: str, replaces: MemberId | None = None) -> None:
        self._open_lanes[member.member_id] = len(self._lanes)
        profile = member.profile
        self._lanes.append(
            Lane(
                member_id=member.member_id,
                name="",
                client_id=profile.client_id,
                client_host=profile.client_host,
                instance_id=profile.instance_id,
                session_timeout_ms=profile.session_timeout_ms,
                began=point,
                began_by=began_by,
                replaces=replaces,
            )
        )

    def _follow_held(
        self, member_id: MemberId, former: AnyMember | None, member: AnyMember | None, point: Point, event_type: str
    ) -> None:
        """End the held request of one member, and begin the next one, if the event has changed what it waits for.

        If a member sends a JoinGroup again while its first one is held, both count as one held request.
        """
        was_held, is_held = awaited_by(former), awaited_by(member)
        if was_held == is_held:
            return
        if was_held:
            index = self._open_held.pop(member_id)
            self._held[index] = replace(self._held[index], ended=point, ended_by=event_type)
        if is_held:
            self._begin_held(member_id, is_held, point)

    def _begin_held(self, member_id: MemberId, response: Awaited, point: Point) -> None:
        self._open_held[member_id] = len(self._held)
        self._held.append(HeldRequest(member_id=member_id, response=response, began=point))


def _held_no_time(member_id: MemberId, response: AwaitedResponse, point: Point, event_type: str) -> HeldRequest:
    return HeldRequest(member_id=member_id, response=response, began=point, ended=point, ended_by=event_type)
