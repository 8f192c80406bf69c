"""The checks of every member's request, in the order of Kafka's `ClassicGroup.validateMember`."""

from regroup.coordinator.group import Group, MemberId
from regroup.protocol.errors import ErrorCode


def refuse_member(group: Group, member_id: MemberId, instance_id: str | None) -> ErrorCode | None:
    """The instance id is checked first: it may be unknown, or another process may own it, which fences this one."""
    if instance_id is not None:
        owner = group.static_members.get(instance_id)
        if owner is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        return None if owner == member_id else ErrorCode.FENCED_INSTANCE_ID
    return None if member_id in group.members else ErrorCode.UNKNOWN_MEMBER_ID


def refuse_generation(
    group: Group, member_id: MemberId, instance_id: str | None, generation_id: int
) -> ErrorCode | None:
    """The member is checked before its generation."""
    refused = refuse_member(group, member_id, instance_id)
    if refused is None and generation_id != group.generation_id:
        return ErrorCode.ILLEGAL_GENERATION
    return refused
