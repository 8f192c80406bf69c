"""What endpoints answer about groups, and how it is made from the view of a group."""

from enum import StrEnum
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from regroup.control.endpoints.fields import PartitionOfTopic
from regroup.coordinator.commands import DeadlineKind
from regroup.coordinator.consumer_group import ReconciliationState
from regroup.coordinator.group import AwaitedResponse, GroupKind
from regroup.coordinator.serialization import Cause
from regroup.testing.groups.views import GroupView, MemberInGroup


class GroupStateName(StrEnum):
    """The states of groups of both kinds: five of classic groups, and four of those of the consumer protocol."""

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    ASSIGNING = "Assigning"
    RECONCILING = "Reconciling"
    STABLE = "Stable"
    DEAD = "Dead"


class GroupInList(msgspec.Struct, frozen=True, kw_only=True):
    """A group, as a list of groups shows it."""

    group: str
    kind: GroupKind
    state: GroupStateName
    generation: Annotated[int, Meta(description="The group epoch, in a group of the consumer protocol.")]
    members: int


class MemberAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """A member of a group, with what is assigned to it."""

    member_id: str
    client_id: str
    instance_id: str | None
    host: str
    subscription: tuple[str, ...]
    partitions: tuple[PartitionOfTopic, ...]
    is_leader: bool
    awaiting: Annotated[AwaitedResponse, Meta(description="The request whose response is held.")] | None
    group_protocol: Annotated[GroupKind, Meta(description="What it speaks; both kinds occur in a group that migrates.")]
    epoch: Annotated[int, Meta(description="The member epoch, in a group of the consumer protocol (KIP-848).")] | None
    reconciliation: (
        Annotated[ReconciliationState, Meta(description="How far it has come, in a group of that protocol.")] | None
    )
    revoking: Annotated[tuple[PartitionOfTopic, ...], Meta(description="What it has yet to give up, in such a group.")]


class GroupMemberAnswer(MemberAnswer, frozen=True, kw_only=True):
    """A member of a group, with the name of the group."""

    group: str


class CommittedOffsetAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The offset that a group has committed in one partition: that of the next record that the group will read."""

    topic: str
    partition: int
    offset: int
    lag: Annotated[int, Meta(description="Records behind it.")] | None


class GroupAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The state of a group at one moment."""

    group: str
    kind: GroupKind
    state: GroupStateName
    generation: Annotated[int, Meta(description="The group epoch, in a group of the consumer protocol.")]
    assignment_epoch: Annotated[int, Meta(description="Of the target, in a group of the consumer protocol.")] | None
    leader: Annotated[str, Meta(description="A member id.")] | None
    protocol: Annotated[str, Meta(description="The assignor of this generation.")] | None
    members: tuple[MemberAnswer, ...]
    unsynced: Annotated[tuple[str, ...], Meta(description="Member ids without their assignment, or behind the target.")]
    offsets: tuple[CommittedOffsetAnswer, ...]
    total_lag: int
    event_number: Annotated[int, Meta(description="How many events the group has had.")]


class EventAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """One stored event of a group, with its position, time and cause."""

    position: int
    at_ms: int
    type: str
    fields: dict[str, Any]
    cause: Cause | None


class DeadlineAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """A deadline of a group that has not passed."""

    kind: Annotated[DeadlineKind, Meta(description="What expires then.")]
    at_ms: Annotated[int, Meta(description="When it ends, in epoch milliseconds of the brokers.")]
    member_id: Annotated[str, Meta(description="Of a session, or of a member id that has not been used.")]
    since_ms: Annotated[int, Meta(description="When the member was last seen.")] | None


class StoryAnswer(msgspec.Struct, frozen=True):
    """The last events and requests, as tables for people."""

    text: str


def member_fields(member: MemberInGroup) -> dict[str, Any]:
    return {
        "member_id": member.member_id,
        "client_id": member.client_id,
        "instance_id": member.instance_id,
        "host": member.host,
        "subscription": tuple(sorted(member.subscription)),
        "partitions": tuple(PartitionOfTopic(*each) for each in sorted(member.partitions)),
        "is_leader": member.is_leader,
        "awaiting": member.awaiting,
        "group_protocol": member.group_protocol,
        "epoch": member.epoch,
        "reconciliation": member.reconciliation,
        "revoking": tuple(PartitionOfTopic(*each) for each in sorted(member.revoking)),
    }


def offset_answers(view: GroupView) -> tuple[CommittedOffsetAnswer, ...]:
    return tuple(
        CommittedOffsetAnswer(topic=topic, partition=index, offset=offset, lag=view.lag.get((topic, index)))
        for (topic, index), offset in sorted(view.committed.items())
    )


def group_answer(view: GroupView) -> GroupAnswer:
    return GroupAnswer(
        group=view.name,
        kind=view.kind,
        state=GroupStateName(view.state),
        generation=view.generation,
        assignment_epoch=view.assignment_epoch,
        leader=view.leader,
        protocol=view.protocol,
        members=tuple(MemberAnswer(**member_fields(each)) for each in view.members),
        unsynced=view.unsynced,
        offsets=offset_answers(view),
        total_lag=view.total_lag,
        event_number=view.event_number,
    )
