"""Bugs about who gets into a group, and who leads it."""

from collections.abc import Collection, Iterator

from regroup.coordinator import responses
from regroup.coordinator.classic import heartbeat_leave, join, rebalance
from regroup.coordinator.commands import JoinGroup
from regroup.coordinator.decision import Decision, Unfolding
from regroup.coordinator.events import GroupEmptied, MemberLeft
from regroup.coordinator.group import Group, Member, MemberId, State
from regroup.coordinator.runtime.pending_responses import Answering, Request, WaitingRoom
from regroup.coordinator.settings import Settings
from regroup.lab.planted_bugs.bug import Planted, bug, instead_of
from regroup.protocol.message import Structure
from regroup.protocol.messages.group import JoinGroupResponse


@bug
def unknown_member_is_let_in() -> Planted:
    """A JoinGroup with a member id that nobody has is taken for that of a newcomer."""
    right = join.join_as_member

    def join_as_member(now: Unfolding, settings: Settings, command: JoinGroup) -> Decision:
        if command.member_id in now.group.members or command.group_instance_id is not None:
            return right(now, settings, command)
        return join.admit(now, settings, command, command.member_id)

    return instead_of(join, "join_as_member", join_as_member)


@bug
def full_group_takes_one_more() -> Planted:
    """A group takes one member more than group.max.size."""
    right = join.is_full

    def is_full(group: Group, member_id: MemberId, limit: int) -> bool:
        return right(group, member_id, limit + 1)

    return instead_of(join, "is_full", is_full)


@bug
def protocol_of_the_first_member() -> Planted:
    """The group works with the first member's favourite assignor, whether the others support it or not."""

    def chosen_protocol(members: Collection[Member]) -> str:
        return next(iter(members)).protocols[0].name

    return instead_of(rebalance, "chosen_protocol", chosen_protocol)


@bug
def stable_group_takes_no_rejoin() -> Planted:
    """In Stable whoever joins again is answered at once, whatever it asks for, so that nothing changes any more."""
    right = join.why_it_must_wait

    def why_it_must_wait(group: Group, member: Member, command: JoinGroup) -> str:
        return "" if group.state is State.STABLE else right(group, member, command)

    return instead_of(join, "why_it_must_wait", why_it_must_wait)


@bug
def two_leaders() -> Planted:
    """When the leader has gone, everybody who joins the next generation is told that the group is his to lead."""
    right = responses.joined

    def joined(
        group: Group, member: MemberId, *, leader: MemberId | None = None, skip_assignment: bool = False
    ) -> JoinGroupResponse:
        last = group.stored.leader if group.stored else None
        told = member if last is not None and last not in group.members else leader
        return right(group, member, leader=told, skip_assignment=skip_assignment)

    return instead_of(responses, "joined", joined)


@bug
def nobody_inherits_the_lead() -> Planted:
    """When the leader leaves, nobody is named leader in its place."""

    def remove(now: Unfolding, name: MemberId, event: MemberLeft) -> None:
        member = now.group.members[name]
        now.happens(event)
        rebalance.answer_the_removed(now, member)

    return instead_of(heartbeat_leave, "remove", remove)


@bug
def member_that_did_not_join_is_kept() -> Planted:
    """A dynamic member that did not join in time is in the next generation nevertheless."""
    return instead_of(rebalance, "expel_silent_dynamic_members", lambda now: None)


@bug
def emptied_group_keeps_its_generation() -> Planted:
    """The generation does not grow when the last member has gone."""

    def emptied(at_ms: int, reason: str, generation: int) -> GroupEmptied:
        return GroupEmptied(at_ms=at_ms, reason=reason, generation=generation - 1)

    return instead_of(rebalance, "GroupEmptied", emptied)


@bug
def parked_join_is_forgotten() -> Planted:
    """When several JoinGroups are answered together, the last of them is not."""
    right = WaitingRoom.released_by

    def released_by(room: WaitingRoom, decision: Decision) -> Iterator[tuple[Request, Structure]]:
        released = list(right(room, decision))
        joins = [number for number, (request, _) in enumerate(released) if isinstance(request.command, JoinGroup)]
        if len(joins) > 1:
            del released[joins[-1]]
        return iter(released)

    return instead_of(WaitingRoom, "released_by", released_by)


@bug
def resent_join_is_answered_twice() -> Planted:
    """A JoinGroup that takes the place of an earlier one inherits the earlier one's answer as well as its own."""
    right = WaitingRoom.keeps

    def keeps(room: WaitingRoom, decision: Decision, request: Request) -> bool:
        place = decision.parked and (request.command.group_id, decision.parked)
        if place in room._parked and isinstance(request.command, JoinGroup):
            request = Request(request.command, twice(request.answering))
        return right(room, decision, request)

    return instead_of(WaitingRoom, "keeps", keeps)


def twice(answering: Answering) -> Answering:
    def answer(message: Structure) -> None:
        answering(message)
        answering(message)

    return answer
