"""SyncGroup: the leader hands in who gets what, and everybody fetches a share."""

from regroup.coordinator import responses
from regroup.coordinator.classic.validation import refuse_generation
from regroup.coordinator.commands import SyncGroup
from regroup.coordinator.decision import Decision, Unfolding
from regroup.coordinator.events import AssignmentCommitted, AssignmentWritten, MemberSynced
from regroup.coordinator.group import Group, State, Waiting
from regroup.coordinator.settings import Settings
from regroup.protocol.errors import ErrorCode


def sync_group(settings: Settings, group: Group, command: SyncGroup) -> Decision:
    """Held back until the leader's own SyncGroup has been written and committed."""
    now = Unfolding(group, command.at_ms)
    if refused := refuse(group, command):
        return now.ends(responses.sync_refused(refused))
    owed = command.member_id in group.owes_sync
    if group.state is State.STABLE:
        if owed:
            now.happens(MemberSynced(at_ms=now.at_ms, member=command.member_id, waits=False))
        return now.ends(responses.share(now.group, command.member_id))
    if owed:
        now.happens(MemberSynced(at_ms=now.at_ms, member=command.member_id, waits=True))
    now.parks(Waiting.SYNC, command.member_id)
    if command.member_id == group.leader and group.written_assignment is None:
        assign(now, settings, command)
    return now.ends()


def refuse(group: Group, command: SyncGroup) -> ErrorCode | None:
    """In the order of Kafka's `classicGroupSync`. A protocol that either side leaves open matches anything."""
    if not command.group_id:
        return ErrorCode.INVALID_GROUP_ID
    refused = refuse_generation(group, command.member_id, command.group_instance_id, command.generation_id)
    if refused is not None:
        return refused
    if differ(command.protocol_type, group.protocol_type) or differ(command.protocol_name, group.protocol_name):
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    return ErrorCode.REBALANCE_IN_PROGRESS if group.state is State.PREPARING else None


def differ(asked: str | None, present: str | None) -> bool:
    return asked is not None and present is not None and asked != present


def assign(now: Unfolding, settings: Settings, command: SyncGroup) -> None:
    """Members that the leader left out get an empty share; names that are no members are dropped."""
    assignment = {name: command.assignment.get(name, b"") for name in now.group.members}
    deadline_ms = now.commit_deadline_ms(settings, command)
    now.happens(AssignmentWritten(at_ms=now.at_ms, assignment=assignment, commit_deadline_ms=deadline_ms))
    if deadline_ms is None:
        commit_assignment(now)


def commit_assignment(now: Unfolding) -> None:
    """The log has committed what the leader said: everybody who waits is served."""
    served = list(now.group.waiting(Waiting.SYNC))
    now.happens(AssignmentCommitted(at_ms=now.at_ms))
    for member in served:
        now.replies(Waiting.SYNC, member.member_id, responses.share(now.group, member.member_id))
        now.hears(member.member_id)
