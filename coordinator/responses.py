"""The answers that a coordinator gives, as the wire's own messages. Which fields a version can carry is not decided
here: the codec drops what is too new."""

from collections.abc import Iterable, Mapping
from typing import TypeAlias

from regroup.coordinator.commands import CommitOffsets, CommitTransactionalOffsets, OffsetToCommit
from regroup.coordinator.group import Group, Member, MemberId, State
from regroup.protocol.errors import ErrorCode
from regroup.protocol.messages.describe import DeletableGroupResult, DescribedGroup, DescribedGroupMember
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
    EndTxnResponse,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)

Codes: TypeAlias = Mapping[tuple[str, int], ErrorCode] | ErrorCode
"""By topic and partition, where no code means NONE; or one for all of them."""


def join_refused(code: ErrorCode, member: MemberId) -> JoinGroupResponse:
    return JoinGroupResponse(error_code=code, member_id=member, protocol_name=None)


def joined(
    group: Group, member: MemberId, *, leader: MemberId | None = None, skip_assignment: bool = False
) -> JoinGroupResponse:
    """The present generation as one member is told of it; only the leader learns who else is there.

    `leader` is named in place of the true one where a client must not take itself for it (KIP-345, KIP-814).
    """
    told = group.leader if leader is None else leader
    return JoinGroupResponse(
        generation_id=group.generation,
        protocol_type=group.protocol_type,
        protocol_name=group.protocol_name,
        leader=told or "",
        skip_assignment=skip_assignment,
        member_id=member,
        members=members_of(group) if told == member else [],
    )


def members_of(group: Group) -> list[JoinGroupResponseMember]:
    return [
        JoinGroupResponseMember(
            member_id=member.member_id,
            group_instance_id=member.instance_id,
            metadata=member.metadata(group.protocol_name),
        )
        for member in group.members.values()
    ]


def sync_refused(code: ErrorCode) -> SyncGroupResponse:
    return SyncGroupResponse(error_code=code)


def share(group: Group, member: MemberId) -> SyncGroupResponse:
    return SyncGroupResponse(
        protocol_type=group.protocol_type,
        protocol_name=group.protocol_name,
        assignment=group.members[member].assignment,
    )


def beat(code: ErrorCode = ErrorCode.NONE) -> HeartbeatResponse:
    return HeartbeatResponse(error_code=code)


def left(code: ErrorCode, members: list[MemberResponse] | None = None) -> LeaveGroupResponse:
    return LeaveGroupResponse(error_code=code, members=members or [])


def committed(command: CommitOffsets, codes: Codes) -> OffsetCommitResponse:
    return OffsetCommitResponse(
        topics=[
            OffsetCommitResponseTopic(
                name=topic,
                partitions=[OffsetCommitResponsePartition(partition_index=n, error_code=code) for n, code in rows],
            )
            for topic, rows in by_topic(command.offsets, codes).items()
        ]
    )


def committed_in_transaction(command: CommitTransactionalOffsets, codes: Codes) -> TxnOffsetCommitResponse:
    return TxnOffsetCommitResponse(
        topics=[
            TxnOffsetCommitResponseTopic(
                name=topic,
                partitions=[TxnOffsetCommitResponsePartition(partition_index=n, error_code=code) for n, code in rows],
            )
            for topic, rows in by_topic(command.offsets, codes).items()
        ]
    )


def by_topic(offsets: Iterable[OffsetToCommit], codes: Codes) -> dict[str, list[tuple[int, ErrorCode]]]:
    topics: dict[str, list[tuple[int, ErrorCode]]] = {}
    for offset in offsets:
        code = codes if isinstance(codes, ErrorCode) else codes.get((offset.topic, offset.partition), ErrorCode.NONE)
        topics.setdefault(offset.topic, []).append((offset.partition, code))
    return topics


def transaction_ended(code: ErrorCode = ErrorCode.NONE) -> EndTxnResponse:
    return EndTxnResponse(error_code=code)


def offsets_deleted(code: ErrorCode, codes: dict[str, dict[int, ErrorCode]] | None = None) -> OffsetDeleteResponse:
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


def deleted(group_id: str, code: ErrorCode) -> DeletableGroupResult:
    return DeletableGroupResult(group_id=group_id, error_code=code)


def described(group: Group) -> DescribedGroup:
    """Outside Stable neither the protocol nor any subscription is shown; shares are shown always (`describe.*`)."""
    stable = group.state is State.STABLE
    return DescribedGroup(
        group_id=group.name,
        group_state=group.state.value,
        protocol_type=group.protocol_type,
        protocol_data=(group.protocol_name or "") if stable else "",
        members=[
            described_member(member, group.protocol_name if stable else None) for member in group.members.values()
        ],
    )


def described_member(member: Member, protocol_name: str | None) -> DescribedGroupMember:
    return DescribedGroupMember(
        member_id=member.member_id,
        group_instance_id=member.instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        member_metadata=member.metadata(protocol_name),
        member_assignment=member.assignment,
    )
