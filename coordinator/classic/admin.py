"""Looking at a group from outside, and deleting it."""

from regroup.coordinator import responses
from regroup.coordinator.commands import DeleteGroup, DescribeGroup
from regroup.coordinator.decision import Decision, Unfolding
from regroup.coordinator.events import GroupDeleted
from regroup.coordinator.group import Group, State, Written
from regroup.coordinator.settings import Settings
from regroup.protocol.errors import ErrorCode


def describe_group(settings: Settings, group: Group, command: DescribeGroup) -> Decision:
    """A group that does not exist is no error: it is Dead. So is one of which Kafka's log has committed nothing yet."""
    is_new = any(append.what is Written.GROUP for append in group.appends.values())
    return Decision(group, answer=responses.described(Group(name=group.name) if is_new else group))


def delete_group(settings: Settings, group: Group, command: DeleteGroup) -> Decision:
    """Only a group without members may go; its offsets go with it (KIP-229).

    Kafka's log commits that at once, and with it whatever it held back.
    """
    now = Unfolding(group, command.at_ms)
    if not command.group_id:
        code = ErrorCode.INVALID_GROUP_ID
    elif not group.exists:
        code = ErrorCode.GROUP_ID_NOT_FOUND
    elif group.state is not State.EMPTY:
        code = ErrorCode.NON_EMPTY_GROUP
    else:
        code = ErrorCode.NONE
        now.happens(GroupDeleted(at_ms=now.at_ms, reason="somebody asked for it"))
        for append in group.appends:
            now.settles(append)
    return now.ends_behind_the_log(responses.deleted(command.group_id, code))
