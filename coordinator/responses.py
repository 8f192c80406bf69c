"""Makes the coordinator's responses, as messages of the wire protocol.

The codec drops the fields that the request's version cannot carry.
"""

from collections.abc import Callable, Iterable, Sequence
from functools import cache
from itertools import repeat
from typing import TypeAlias, TypeVar

from regroup.coordinator import commands as c
from regroup.coordinator.group import Group, GroupState, Member, MemberId
from regroup.protocol.errors import ErrorCode
from regroup.protocol.messages.describe import DescribedGroup, DescribedGroupMember
from regroup.protocol.messages.group import (
    HeartbeatResponse,
    JoinGroupResponse,
    JoinGroupResponseMember,
    LeaveGroupResponse,
    MemberResponse,
    SyncGroupResponse,
)
from regroup.protocol.messages.offsets import (
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
from regroup.protocol.messages.transactions import (
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)

Partition = TypeVar("Partition")

Codes: TypeAlias = Sequence[ErrorCode] | ErrorCode
"""An error code for each requested offset, or one for all of them."""


def join_error(code: ErrorCode, member_id: MemberId) -> JoinGroupResponse:
    return JoinGroupResponse(error_code=code, member_id=member_id, protocol_name=None)


def join_response(
    group: Group, member_id: MemberId, *, leader_id: MemberId | None = None, skip_assignment: bool = False
) -> JoinGroupResponse:
    """The JoinGroup response of one member, about the present generation; only the leader gets the list of members.

    `leader_id` is named as the leader in place of the true one, where a client must not take itself for the leader
    (KIP-345, KIP-814).
    """
    named_leader = group.leader_id if leader_id is None else leader_id
    return JoinGroupResponse(
        generation_id=group.generation_id,
        protocol_type=group.protocol_type,
        protocol_name=group.protocol_name,
        leader=named_leader or "",
        skip_assignment=skip_assignment,
        member_id=member_id,
        members=members_for_leader(group) if named_leader == member_id else [],
    )


def members_for_leader(group: Group) -> list[JoinGroupResponseMember]:
    return [
        JoinGroupResponseMember(
            member_id=member.member_id,
            group_instance_id=member.instance_id,
            metadata=member.metadata(group.protocol_name),
        )
        for member in group.members.values()
    ]


def sync_error(code: ErrorCode) -> SyncGroupResponse:
    return SyncGroupResponse(error_code=code)


def sync_response(group: Group, member_id: MemberId) -> SyncGroupResponse:
    return SyncGroupResponse(
        protocol_type=group.protocol_type,
        protocol_name=group.protocol_name,
        assignment=group.members[member_id].assignment,
    )


@cache
def heartbeat_response(code: ErrorCode = ErrorCode.NONE) -> HeartbeatResponse:
    """The Heartbeat response with this error code. The same object is used again, because most requests are
    heartbeats."""
    return HeartbeatResponse(error_code=code)


def leave_response(code: ErrorCode, members: list[MemberResponse] | None = None) -> LeaveGroupResponse:
    return LeaveGroupResponse(error_code=code, members=members or [])


def offset_commit_response(command: c.OffsetCommit, codes: Codes) -> OffsetCommitResponse:
    by_topic = partitions_by_topic(OffsetCommitResponsePartition, command.offsets, codes)
    return OffsetCommitResponse(
        topics=[OffsetCommitResponseTopic(name=topic, partitions=partitions) for topic, partitions in by_topic.items()]
    )


def txn_offset_commit_response(command: c.TxnOffsetCommit, codes: Codes) -> TxnOffsetCommitResponse:
    by_topic = partitions_by_topic(TxnOffsetCommitResponsePartition, command.offsets, codes)
    return TxnOffsetCommitResponse(
        topics=[
            TxnOffsetCommitResponseTopic(name=topic, partitions=partitions) for topic, partitions in by_topic.items()
        ]
    )


def partitions_by_topic(
    partition_type: Callable[..., Partition], offsets: Iterable[c.RequestedOffset], codes: Codes
) -> dict[str, list[Partition]]:
    topics: dict[str, list[Partition]] = {}
    each_code = repeat(codes) if isinstance(codes, ErrorCode) else codes
    topic, partitions = None, list[Partition]()
    for offset, code in zip(offsets, each_code, strict=False):
        if offset.topic != topic:  # mostly the offsets of a topic follow each other
            topic = offset.topic
            partitions = topics.setdefault(topic, [])
        partitions.append(partition_type(partition_index=offset.partition, error_code=code))
    return topics


def offset_delete_response(
    code: ErrorCode, codes: dict[str, dict[int, ErrorCode]] | None = None
) -> OffsetDeleteResponse:
    return OffsetDeleteResponse(
        error_code=code,
        topics=[
            OffsetDeleteResponseTopic(
                name=topic,
                partitions=[
                    OffsetDeleteResponsePartition(partition_index=number, error_code=code)
                    for number, code in numbers.items()
                ],
            )
            for topic, numbers in (codes or {}).items()
        ],
    )


def describe_group_response(group: Group) -> DescribedGroup:
    """The DescribeGroups entry of a group. Protocol and subscriptions are returned in Stable only, assignments in every
    state (`describe.*`)."""
    protocol_name = group.protocol_name if group.state is GroupState.STABLE else None
    return DescribedGroup(
        group_id=group.group_id,
        group_state=group.state.value,
        protocol_type=group.protocol_type,
        protocol_data=protocol_name or "",
        members=[described_member(member, protocol_name) for member in group.members.values()],
    )


def described_member(member: Member, protocol_name: str | None) -> DescribedGroupMember:
    return DescribedGroupMember(
        member_id=member.member_id,
        group_instance_id=member.instance_id,
        client_id=member.profile.client_id,
        client_host=member.profile.client_host,
        member_metadata=member.metadata(protocol_name),
        member_assignment=member.assignment,
    )


def lost_replacement_response(group: Group, code: ErrorCode, leader_id: MemberId | None) -> JoinGroupResponse:
    """The JoinGroup response to a static member whose replacement Kafka could not write: the generation and this
    leader, without a member id."""
    return JoinGroupResponse(
        error_code=code,
        generation_id=group.generation_id,
        protocol_type=group.protocol_type,
        protocol_name=group.protocol_name,
        leader=leader_id or "",
        member_id="",
    )
