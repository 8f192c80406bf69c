"""The payload of a group's retained summary, made of the group's value alone: both kinds of groups have one form."""

from collections.abc import Iterable, Mapping
from itertools import islice
from typing import Final

import msgspec

from regroup.coordinator.consumer_group import ConsumerMember
from regroup.coordinator.group import Group, GroupKind, Member
from regroup.coordinator.topics import TopicsImage
from regroup.server.mqtt.connection_losses import ConnectionLoss
from regroup.server.mqtt.consumer_summary import ConsumerState, PartitionBudget, ReconcilingMember, consumer_state

MAX_LISTED_MEMBERS: Final = 1_000
"""How many members one summary lists; `member_count` counts all."""


class MemberSummary(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One member, as the MQTT summary of its group describes it."""

    member_id: str
    client_id: str
    client_host: str
    group_instance_id: str | None = None
    session_timeout_ms: int
    awaiting: str | None = None
    """`join` or `sync` while the response to that request of the member is held; None otherwise."""
    connection_lost_at_ms: int | None = None
    """When the last will of the member's connection was published, in epoch milliseconds; None if it is not lost. The
    coordinator removes the member when its session times out."""
    consumer: ReconcilingMember | None = None
    """How far the member has come, in a group of the consumer protocol; None in a classic group."""


class RemovedMember(msgspec.Struct, frozen=True, kw_only=True):
    """A member that the coordinator removed: its next request is refused, which the consumer protocol calls fenced."""

    member_id: str
    at_ms: int
    reason: str


class GroupSummary(msgspec.Struct, frozen=True, kw_only=True):
    """The summary of a group after its event `event_number`. Fields that a reader does not know it ignores, and those
    with a default may be missing: summaries of regroup 0.2 have neither them nor consumer groups."""

    group: str
    event_number: int
    state: str
    state_since_ms: int
    generation_id: int
    """The generation of a classic group, or the group epoch of one of the consumer protocol."""
    protocol_name: str | None
    """The assignor of a classic group's generation, or the one that the members of a consumer group elect."""
    leader_id: str | None
    """None in a group of the consumer protocol, where no member assigns."""
    member_count: int
    members: list[MemberSummary]
    kind: GroupKind = GroupKind.CLASSIC
    consumer: ConsumerState | None = None
    """What only a group of the consumer protocol has."""
    removed_members: list[RemovedMember] = []
    """The last members that the coordinator removed since its process began, in order."""


def summary_of(
    group: Group, losses: Mapping[str, ConnectionLoss], topics: TopicsImage, removed: Iterable[RemovedMember]
) -> GroupSummary:
    """The summary of a group that exists. `losses` are those of its members, by member id."""
    state = None if group.consumer is None else consumer_state(group)
    return GroupSummary(
        group=group.group_id,
        event_number=group.event_number,
        state=group.state_name,
        state_since_ms=group.state_since_ms,
        generation_id=group.generation_id if state is None else state.group_epoch,
        protocol_name=group.protocol_name if state is None else state.assignor,
        leader_id=group.leader_id,
        member_count=len(group.member_ids),
        members=_members(group, losses, topics),
        kind=group.kind,
        consumer=state,
        removed_members=list(removed),
    )


def _members(group: Group, losses: Mapping[str, ConnectionLoss], topics: TopicsImage) -> list[MemberSummary]:
    budget = PartitionBudget(topics)
    members: Mapping[str, Member | ConsumerMember] = group.members if group.consumer is None else group.consumer.members
    return [
        MemberSummary(
            member_id=member.member_id,
            client_id=member.profile.client_id,
            client_host=member.profile.client_host,
            group_instance_id=member.instance_id,
            session_timeout_ms=member.profile.session_timeout_ms,
            awaiting=member.awaiting.value if isinstance(member, Member) and member.awaiting else None,
            connection_lost_at_ms=losses[member.member_id].at_ms if member.member_id in losses else None,
            consumer=None if isinstance(member, Member) else budget.member(member),
        )
        for member in islice(members.values(), MAX_LISTED_MEMBERS)
    ]
