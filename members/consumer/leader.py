"""What a leader does with the response to its JoinGroup: decode subscriptions, run the assignor, encode assignments.

Every failure here comes out of the leader's poll() as one error that names the member; the leader stays in the group
and rejoins at its next poll, as in the Java client.
"""

from collections.abc import Iterable, Mapping

from regroup.assignors.interface import Assignor, AssignorError, AssignorMember, ClusterMetadata, leader_order
from regroup.assignors.registry import BUILT_IN, assign_checked
from regroup.protocol.consumer.subscription import (
    HIGHEST_VERSION,
    Assignment,
    MalformedConsumerProtocol,
    decode_subscription,
    encode_assignment,
)
from regroup.protocol.messages.group import JoinGroupResponseMember, SyncGroupRequestAssignment


class LeaderAssignmentFailed(Exception):
    """Raised if no assignment can be made. The text names the member or the assignor that is the cause."""


def decode_subscriptions(members: Iterable[JoinGroupResponseMember]) -> dict[str, AssignorMember]:
    """The members of a generation by member id, in the order of a Java leader.

    Raises LeaderAssignmentFailed for a subscription that cannot be decoded.
    """
    by_id = {member.member_id: member for member in members}
    return {member_id: _decode_subscription(by_id[member_id]) for member_id in leader_order(by_id)}


def _decode_subscription(member: JoinGroupResponseMember) -> AssignorMember:
    try:
        subscription = decode_subscription(member.metadata)
    except MalformedConsumerProtocol as error:
        raise LeaderAssignmentFailed(
            f"the subscription of member {member.member_id} cannot be read: {error}"
        ) from error
    return AssignorMember(
        tuple(dict.fromkeys(subscription.topics)),
        subscription.user_data,
        subscription.owned_partitions,
        subscription.generation_id,
        subscription.rack_id,
        member.group_instance_id,
    )


def select_assignor(assignors: Iterable[Assignor], name: str | None) -> Assignor:
    """The assignor that the coordinator selected. Raises LeaderAssignmentFailed if this member does not support it."""
    offered = {assignor.name: assignor for assignor in assignors}
    if name not in offered:
        raise LeaderAssignmentFailed(
            f"the coordinator chose the assignor {name!r}; this member offered {', '.join(offered)}"
        )
    return offered[name]


def compute_assignments(
    assignor: Assignor, members: Mapping[str, AssignorMember], cluster: ClusterMetadata
) -> list[SyncGroupRequestAssignment]:
    """Run the assignor, and encode the assignments of all members for SyncGroup.

    Assignments of assignors other than Kafka's are checked first. Raises LeaderAssignmentFailed.
    """
    try:
        if type(assignor) in BUILT_IN.values():
            assignments = assignor.assign(cluster, members)
        else:
            assignments = assign_checked(assignor, cluster, members)
    except AssignorError as error:
        culprit = f" at member {error.member}" if error.member else ""
        raise LeaderAssignmentFailed(f"the assignor {assignor.name} failed{culprit}: {error}") from error
    return [
        SyncGroupRequestAssignment(
            member_id=member_id, assignment=encode_assignment(Assignment(HIGHEST_VERSION, tuple(partitions)))
        )
        for member_id, partitions in assignments.items()
    ]
