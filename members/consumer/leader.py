"""What a leader does with the answer to its JoinGroup: read the subscriptions, ask the assignor, write the assignments.

Whatever fails here comes out of the leader's poll() as one error that names the member; the leader stays in the group
and joins again at its next poll, as in the Java client.
"""

from collections.abc import Iterable, Mapping

from regroup.assignors.interface import Assignor, AssignorError, Cluster, Member, leader_order
from regroup.assignors.registry import BUILT_IN, assign_checked
from regroup.protocol.consumer.subscription import (
    HIGHEST_VERSION,
    Assignment,
    MalformedConsumerProtocol,
    decode_subscription,
    encode_assignment,
)
from regroup.protocol.messages.group import JoinGroupResponseMember, SyncGroupRequestAssignment


class LeaderFailed(Exception):
    """The partitions could not be dealt out; the text says whose fault it was."""


def read_members(members: Iterable[JoinGroupResponseMember]) -> dict[str, Member]:
    """The subscriptions, in the order in which a Java leader walks them. LeaderFailed names who cannot be read."""
    by_id = {member.member_id: member for member in members}
    return {member_id: _read(by_id[member_id]) for member_id in leader_order(by_id)}


def _read(member: JoinGroupResponseMember) -> Member:
    try:
        subscription = decode_subscription(member.metadata)
    except MalformedConsumerProtocol as error:
        raise LeaderFailed(f"the subscription of member {member.member_id} cannot be read: {error}") from error
    return Member(
        tuple(dict.fromkeys(subscription.topics)),
        subscription.user_data,
        subscription.owned_partitions,
        subscription.generation_id,
        subscription.rack_id,
        member.group_instance_id,
    )


def subscribed_topics(members: Mapping[str, Member]) -> tuple[str, ...]:
    """The topics of the whole group, each once."""
    return tuple(dict.fromkeys(topic for member in members.values() for topic in member.topics))


def chosen(assignors: Iterable[Assignor], name: str | None) -> Assignor:
    """The assignor that the coordinator chose. LeaderFailed if the member never offered it."""
    offered = {assignor.name: assignor for assignor in assignors}
    if name not in offered:
        raise LeaderFailed(f"the coordinator chose the assignor {name!r}; this member offered {', '.join(offered)}")
    return offered[name]


def deal(assignor: Assignor, members: Mapping[str, Member], cluster: Cluster) -> list[SyncGroupRequestAssignment]:
    """Everyone's share, as it is sent with SyncGroup. Only assignors that are not Kafka's own are checked."""
    try:
        if type(assignor) in BUILT_IN.values():
            assignments = assignor.assign(cluster, members)
        else:
            assignments = assign_checked(assignor, cluster, members)
    except AssignorError as error:
        whom = f" at member {error.member}" if error.member else ""
        raise LeaderFailed(f"the partitions could not be dealt out by {assignor.name}{whom}: {error}") from error
    return [
        SyncGroupRequestAssignment(
            member_id=member_id, assignment=encode_assignment(Assignment(HIGHEST_VERSION, tuple(partitions)))
        )
        for member_id, partitions in assignments.items()
    ]
