"""JoinGroup: how a consumer gets into the next generation. The checks stand in the order of `classicGroupJoin`."""

from msgspec import structs

from regroup.coordinator import responses
from regroup.coordinator.classic.protocol_vote import chosen_protocol, supported_by_all
from regroup.coordinator.classic.rebalance import rebalance, remove
from regroup.coordinator.classic.validation import refuse_member
from regroup.coordinator.commands import JoinGroup
from regroup.coordinator.decision import Decision, Unfolding
from regroup.coordinator.events import (
    GroupCreated,
    GroupStored,
    LeaderElected,
    MemberExpelled,
    MemberIdForgotten,
    MemberIdGiven,
    MemberJoined,
    MemberRejoined,
    StaticMemberReplaced,
)
from regroup.coordinator.group import Group, Member, MemberId, State, Waiting
from regroup.coordinator.settings import Settings
from regroup.protocol.errors import ErrorCode
from regroup.protocol.messages.group import JoinGroupResponse, SyncGroupResponse


def join_group(settings: Settings, group: Group, command: JoinGroup) -> Decision:
    """Answered at once, or held back until the join phase ends."""
    now = Unfolding(group, command.at_ms)
    if refused := refuse_request(settings, group, command):
        return now.ends(responses.join_refused(refused, command.member_id))
    if not group.exists:
        deadline_ms, reason = now.commit_deadline_ms(settings, command), "somebody asked to join it"
        now.happens(GroupCreated(at_ms=now.at_ms, by_join=True, reason=reason, commit_deadline_ms=deadline_ms))
    if is_full(now.group, command.member_id, settings.group_max_size):
        drop_for_want_of_room(now, command.member_id, settings.group_max_size)
        return now.ends(responses.join_refused(ErrorCode.GROUP_MAX_SIZE_REACHED, ""))
    if not fits_in(now.group, command):
        return now.ends(responses.join_refused(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, command.member_id))
    if command.member_id in now.group.reserved_ids:
        return join_with_reserved_id(now, settings, command)
    if command.member_id == "":
        return join_without_id(now, settings, command)
    return join_as_member(now, settings, command)


def refuse_request(settings: Settings, group: Group, command: JoinGroup) -> ErrorCode | None:
    """What can be said before the group is looked at. Only a newcomer without an id makes a group."""
    shortest, longest = settings.group_min_session_timeout_ms, settings.group_max_session_timeout_ms
    if not command.group_id:
        return ErrorCode.INVALID_GROUP_ID
    if not shortest <= command.session_timeout_ms <= longest:
        return ErrorCode.INVALID_SESSION_TIMEOUT
    if not group.exists and command.member_id:
        return ErrorCode.UNKNOWN_MEMBER_ID
    return None


def is_full(group: Group, member_id: MemberId, limit: int) -> bool:
    """While members gather, those who wait are counted; later, those who are in (KIP-389)."""
    if len(group.members) < limit:
        return False
    member = group.members.get(member_id)
    if group.state is State.PREPARING:
        waiting = sum(1 for _ in group.waiting(Waiting.JOIN))
        return waiting >= limit and not (member and member.waiting is Waiting.JOIN)
    return member is None


def drop_for_want_of_room(now: Unfolding, member_id: MemberId, limit: int) -> None:
    """Whoever finds no room is forgotten. As in Kafka nothing else follows, not even the end of a join phase."""
    reason = f"the group has its {limit} members already (group.max.size)"
    if member_id in now.group.reserved_ids:
        now.happens(MemberIdForgotten(at_ms=now.at_ms, member=member_id, reason=reason))
    elif member_id in now.group.members:
        remove(now, member_id, MemberExpelled(at_ms=now.at_ms, member=member_id, reason=reason))


def fits_in(group: Group, command: JoinGroup) -> bool:
    """One of its protocols must be supported by all present members, its own old entry included."""
    if group.state is State.EMPTY:
        return bool(command.protocol_type and command.protocols)
    # Most members ask for the very same; only the others need a closer look.
    others = [member for member in group.members.values() if member.protocols != command.protocols]
    return command.protocol_type == group.protocol_type and any(
        supported_by_all(protocol.name, others) for protocol in command.protocols
    )


def join_with_reserved_id(now: Unfolding, settings: Settings, command: JoinGroup) -> Decision:
    """The second JoinGroup of a newcomer. A reserved id never belongs to a static member: Kafka fails inside."""
    if command.group_instance_id is not None:
        return now.ends(responses.join_refused(ErrorCode.UNKNOWN_SERVER_ERROR, ""))
    return admit(now, settings, command, command.member_id)


def join_without_id(now: Unfolding, settings: Settings, command: JoinGroup) -> Decision:
    """A static member is admitted or takes its old place; a dynamic one is first given an id (KIP-394)."""
    if command.group_instance_id is not None:
        if command.group_instance_id in now.group.static_members:
            return replace_static_member(now, settings, command, command.group_instance_id)
        return admit(now, settings, command, command.new_member_id)
    if not command.can_be_asked_to_return:
        return admit(now, settings, command, command.new_member_id)
    now.happens(
        MemberIdGiven(
            at_ms=now.at_ms,
            member=command.new_member_id,
            client_id=command.client_id,
            session_timeout_ms=command.session_timeout_ms,
        )
    )
    return now.ends(responses.join_refused(ErrorCode.MEMBER_ID_REQUIRED, command.new_member_id))


def admit(now: Unfolding, settings: Settings, command: JoinGroup, member: MemberId) -> Decision:
    """A new member: its JoinGroup waits, and the group rebalances."""
    now.happens(
        MemberJoined(
            at_ms=now.at_ms,
            reason=command.reason,
            member=member,
            instance_id=command.group_instance_id,
            client_id=command.client_id,
            client_host=command.client_host,
            session_timeout_ms=command.session_timeout_ms,
            rebalance_timeout_ms=command.rebalance_timeout_ms,
            protocol_type=command.protocol_type,
            protocols=command.protocols,
        )
    )
    if now.group.leader is None:
        now.happens(LeaderElected(at_ms=now.at_ms, reason="it is the first member", leader=member))
    now.parks(Waiting.JOIN, member)
    rebalance(now, settings, f"{member} joined")
    return now.ends()


def join_as_member(now: Unfolding, settings: Settings, command: JoinGroup) -> Decision:
    """A JoinGroup with a member id: a rebalance needs it, it changes something, or its answer was lost."""
    if refused := refuse_member(now.group, command.member_id, command.group_instance_id):
        return now.ends(responses.join_refused(refused, command.member_id))
    member = now.group.members[command.member_id]
    if reason := why_it_must_wait(now.group, member, command):
        return rejoin(now, settings, command, reason)
    return now.ends(responses.joined(now.group, member.member_id))


def why_it_must_wait(group: Group, member: Member, command: JoinGroup) -> str:
    """Empty if the present generation answers the request.

    In Stable a leader's JoinGroup always starts a rebalance: so a change of topics reaches the group.
    """
    if group.state is State.PREPARING:
        return "a rebalance is running"
    if member.protocols != command.protocols:
        return f"{member.member_id} changed what it asks for"
    if group.state is State.STABLE and member.member_id == group.leader:
        return f"the leader {member.member_id} joined again" + (f": {command.reason}" if command.reason else "")
    return ""


def rejoin(now: Unfolding, settings: Settings, command: JoinGroup, reason: str) -> Decision:
    """The JoinGroup waits. A SyncGroup of the same member that waits already hears that there will be no share."""
    if now.group.members[command.member_id].waiting is Waiting.SYNC:
        now.replies(Waiting.SYNC, command.member_id, responses.sync_refused(ErrorCode.REBALANCE_IN_PROGRESS))
    now.happens(
        MemberRejoined(
            at_ms=now.at_ms,
            reason=command.reason,
            member=command.member_id,
            session_timeout_ms=command.session_timeout_ms,
            rebalance_timeout_ms=command.rebalance_timeout_ms,
            protocols=command.protocols,
        )
    )
    now.parks(Waiting.JOIN, command.member_id)
    rebalance(now, settings, reason)
    return now.ends()


def replace_static_member(now: Unfolding, settings: Settings, command: JoinGroup, instance_id: str) -> Decision:
    """A restarted static member takes its old place under a new id; in Stable nobody else need notice (KIP-345)."""
    old = now.group.members[now.group.static_members[instance_id]]
    if old.waiting:
        now.replies(old.waiting, old.member_id, fenced(old))
    if now.group.state is State.STABLE and not vote_would_change(now.group, old, command):
        return replace_quietly(now, settings, command, old)
    now.happens(replaced(now, command, old, waits=True))
    now.parks(Waiting.JOIN, command.new_member_id)
    rebalance(now, settings, f"static member {instance_id} came back and changes what the group works with")
    return now.ends()


def replace_quietly(now: Unfolding, settings: Settings, command: JoinGroup, old: Member) -> Decision:
    """The present generation answers, once the log has the new id."""
    leader_before = now.group.leader
    deadline_ms = now.commit_deadline_ms(settings, command)
    now.happens(replaced(now, command, old, waits=False, commit_deadline_ms=deadline_ms))
    now.hears(command.new_member_id)
    if deadline_ms is None:
        now.happens(GroupStored(at_ms=now.at_ms, reason=f"static member {old.instance_id} has a new member id"))
    return now.ends_behind_the_log(answer_to_the_replacement(now.group, command, leader_before))


def replaced(
    now: Unfolding, command: JoinGroup, old: Member, *, waits: bool, commit_deadline_ms: int | None = None
) -> StaticMemberReplaced:
    return StaticMemberReplaced(
        at_ms=now.at_ms,
        reason=command.reason,
        instance_id=old.instance_id or "",
        member=command.new_member_id,
        replaces=old.member_id,
        session_timeout_ms=command.session_timeout_ms,
        rebalance_timeout_ms=command.rebalance_timeout_ms,
        protocols=command.protocols,
        waits=waits,
        commit_deadline_ms=commit_deadline_ms,
    )


def vote_would_change(group: Group, old: Member, command: JoinGroup) -> bool:
    after = group.members | {old.member_id: structs.replace(old, protocols=command.protocols)}
    return chosen_protocol(after.values()) != group.protocol_name


def answer_to_the_replacement(group: Group, command: JoinGroup, leader_before: MemberId | None) -> JoinGroupResponse:
    """A leader that came back must not assign again (KIP-814). Where it could not understand that, it is told the
    old id of the leader, so that it does not take itself for it."""
    if group.leader == command.new_member_id and command.can_skip_assignment:
        return responses.joined(group, command.new_member_id, skip_assignment=True)
    return responses.joined(group, command.new_member_id, leader=leader_before)


def fenced(old: Member) -> JoinGroupResponse | SyncGroupResponse:
    if old.waiting is Waiting.JOIN:
        return responses.join_refused(ErrorCode.FENCED_INSTANCE_ID, old.member_id)
    return responses.sync_refused(ErrorCode.FENCED_INSTANCE_ID)
