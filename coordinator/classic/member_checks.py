"""Checks the member and generation of a request, in the order of Kafka's `ClassicGroup.validateMember`."""

from regroup.coordinator.group import Group, MemberId
from regroup.protocol.errors import ErrorCode


def refuse_member(group: Group, member_id: MemberId, instance_id: str | None) -> ErrorCode | None:
    """The error of a request whose member is unknown or fenced; None if it is valid. The instance id is checked first:
    it may be unknown, or belong to a newer process, which fences this one."""
    if instance_id is not None:
        owner = group.static_members.get(instance_id)
        if owner is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        return None if owner == member_id else ErrorCode.FENCED_INSTANCE_ID
    return None if member_id in group.members else ErrorCode.UNKNOWN_MEMBER_ID


def refuse_generation(
    group: Group, member_id: MemberId, instance_id: str | None, generation_id: int
) -> ErrorCode | None:
    """The error of a request whose member or generation is not valid; None if both are. The member is checked first."""
    refused = refuse_member(group, member_id, instance_id)
    if refused is None and generation_id != group.generation_id:
        return ErrorCode.ILLEGAL_GENERATION
    return refused
