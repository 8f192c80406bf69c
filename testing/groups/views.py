"""A group and its members as a test sees them: immutable values."""

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any, TypeAlias

import msgspec

from regroup.coordinator.consumer.targets import elected_assignor
from regroup.coordinator.consumer_group import (
    ConsumerGroup,
    ConsumerGroupState,
    ConsumerMember,
    PartitionEpochs,
    ReconciliationState,
    every_partition,
)
from regroup.coordinator.group import AwaitedResponse, Group, GroupKind, GroupState, Member
from regroup.protocol.consumer.subscription import (
    MalformedConsumerProtocol,
    decode_assignment,
    decode_subscribed_topics,
)
from regroup.server.cluster.state import ClusterState
from regroup.testing.errors import UnknownMember

PartitionName: TypeAlias = tuple[str, int]
"""Topic and partition: `("orders", 0)`."""


class MemberInGroup(msgspec.Struct, frozen=True, kw_only=True):
    """One member of a group, with its subscription and its assigned partitions.

    `subscription` and `partitions` are empty for groups of another protocol than `consumer`, whose bytes only their
    members understand.
    """

    member_id: str
    client_id: str
    instance_id: str | None
    host: str
    subscription: frozenset[str]
    partitions: frozenset[PartitionName]
    is_leader: bool
    awaiting: AwaitedResponse | None = None
    """`join` or `sync` while the response to the member's JoinGroup or SyncGroup is held."""
    group_protocol: GroupKind = GroupKind.CLASSIC
    """The protocol that the member speaks (Kafka's `group.protocol`); in a group of the consumer protocol that migrates
    it may be either."""
    epoch: int | None = None
    """The member epoch in a group of the consumer protocol, -2 for a static member that is away; None in others."""
    reconciliation: ReconciliationState | None = None
    """How far it has come on the way to its target, in a group of the consumer protocol."""
    revoking: frozenset[PartitionName] = frozenset()
    """Partitions that it has to give up, in a group of the consumer protocol; they are not among `partitions`."""


class GroupView(msgspec.Struct, frozen=True, kw_only=True):
    """The state of a group at one moment.

    >>> with Emulator(topics={"orders": 2}) as kafka:
    ...     group = kafka.group("billing").now()
    >>> group.state, group.generation, group.members
    (<GroupState.DEAD: 'Dead'>, 0, ())

    A group that does not exist is Dead, as in DescribeGroups. The members of a group of the consumer protocol (KIP-848)
    have epochs, and `generation` is its group epoch; it has no leader.
    """

    name: str
    state: GroupState | ConsumerGroupState
    generation: int
    leader: str | None
    """The member id of the leader; None if there is none."""
    protocol: str | None
    """The assignor of this generation, or the one that the members of a group of the consumer protocol have elected."""
    members: tuple[MemberInGroup, ...]
    """The members, in the order in which they joined."""
    committed: Mapping[PartitionName, int]
    """The committed offset of each partition: the next record that the group will read."""
    lag: Mapping[PartitionName, int]
    """How many records are behind the committed offset, for each partition that has one and whose topic exists."""
    unsynced: tuple[str, ...] = ()
    """Member ids of this generation that have not fetched their assignment yet, or have not reached the target."""
    event_number: int = 0
    """How many events the group has had."""
    kind: GroupKind = GroupKind.CLASSIC
    assignment_epoch: int | None = None
    """The epoch of the target of a group of the consumer protocol; None for another group."""

    @property
    def is_settled(self) -> bool:
        """Whether the group is Stable and every member has its assignment.

        A classic member has fetched it by SyncGroup; a member of the consumer protocol has reached the target
        assignment.
        """
        return self.state == GroupState.STABLE and not self.unsynced

    @property
    def total_lag(self) -> int:
        """How many records the group has yet to read: the sum of the lags of all partitions."""
        return sum(self.lag.values())

    def member(self, name: str) -> MemberInGroup:
        """The member with this member id, instance id or client id. Raises UnknownMember if no member has it, or
        several have."""
        return find_member(self.members, name, f"group {self.name!r}")

    def partitions_of(self, name: str) -> frozenset[PartitionName]:
        """The partitions that are assigned to this member. Raises UnknownMember as `member` does."""
        return self.member(name).partitions

    def __str__(self) -> str:
        members = ", ".join(short_name(member) for member in self.members) or "none"
        number = "generation" if self.kind is GroupKind.CLASSIC else "group epoch"
        return f"{self.state.value} in {number} {self.generation}, members: {members}"


def find_member(members: Iterable[MemberInGroup], name: str, where: str) -> MemberInGroup:
    """The member with this name. A member id is preferred to an equal instance id, and that to an equal client id.
    Raises UnknownMember; `where` names the group in its text."""
    candidates = list(members)
    for attribute in ("member_id", "instance_id", "client_id"):
        found = [member for member in candidates if getattr(member, attribute) == name]
        if len(found) == 1:
            return found[0]
        if found:
            ids = ", ".join(member.member_id for member in found)
            raise UnknownMember(f"{len(found)} members of {where} have the client id {name!r}: name one of {ids}")
    names = ", ".join(short_name(member) for member in candidates) or "none"
    raise UnknownMember(f"no member of {where} is called {name!r}; members: {names}")


def short_name(member: MemberInGroup) -> str:
    """The shortest usual name of a member: its instance id, or else its client id, or else its member id."""
    return member.instance_id or member.client_id or member.member_id


def view_of(group: Group, state: ClusterState) -> GroupView:
    """A group as its coordinator has it now, as a value for tests; `state` has the topics of the cluster."""
    committed = {
        (topic, index): offset.offset
        for topic, partitions in group.committed_offsets.items()
        for index, offset in partitions.items()
    }
    return GroupView(
        name=group.group_id,
        committed=MappingProxyType(committed),
        lag=MappingProxyType(
            {
                partition: max(0, end - offset)
                for partition, offset in committed.items()
                if (end := end_offset(state, partition)) is not None
            }
        ),
        event_number=group.event_number,
        kind=group.kind,
        **(_classic_fields(group) if group.consumer is None else _consumer_fields(group.consumer, state)),
    )


def _classic_fields(group: Group) -> dict[str, Any]:
    return {
        "state": group.state,
        "generation": group.generation_id,
        "leader": group.leader_id,
        "protocol": group.protocol_name,
        "members": tuple(_member_of(group, member) for member in group.members.values()),
        "unsynced": group.pending_sync_members,
    }


def _consumer_fields(group: ConsumerGroup, state: ClusterState) -> dict[str, Any]:
    names = {topic.topic_id: name for name, topic in state.topics.items()}
    members = group.members.values()
    return {
        "state": group.state,
        "generation": group.group_epoch,
        "leader": None,
        "protocol": elected_assignor(group) if members else None,
        "members": tuple(_consumer_of(group, member, names) for member in members),
        "unsynced": tuple(each.member_id for each in members if not each.has_reached(group.assignment_epoch)),
        "assignment_epoch": group.assignment_epoch,
    }


def _consumer_of(group: ConsumerGroup, member: ConsumerMember, names: Mapping[str, str]) -> MemberInGroup:
    profile = member.profile
    return MemberInGroup(
        member_id=member.member_id,
        client_id=profile.client_id,
        instance_id=profile.instance_id,
        host=profile.client_host,
        subscription=frozenset(group.topics_of(profile)),
        partitions=_named(member.assigned, names),
        is_leader=False,
        group_protocol=GroupKind.CLASSIC if member.is_classic else GroupKind.CONSUMER,
        epoch=member.epoch,
        reconciliation=member.state,
        revoking=_named(member.pending_revocation, names),
    )


def _named(partitions: PartitionEpochs, names: Mapping[str, str]) -> frozenset[PartitionName]:
    """The partitions by the names of their topics, which `names` has by topic id; those of deleted topics keep the
    id."""
    return frozenset((names.get(topic_id, topic_id), index) for topic_id, index in every_partition(partitions))


def _member_of(group: Group, member: Member) -> MemberInGroup:
    profile = member.profile
    protocols = profile.supported_protocols
    metadata = member.metadata(group.protocol_name) or (protocols[0].metadata if protocols else b"")
    return MemberInGroup(
        member_id=member.member_id,
        client_id=profile.client_id,
        instance_id=profile.instance_id,
        host=profile.client_host,
        subscription=_subscription(metadata) if group.protocol_type == "consumer" else frozenset(),
        partitions=_partitions(member.assignment) if group.protocol_type == "consumer" else frozenset(),
        is_leader=member.member_id == group.leader_id,
        awaiting=member.awaiting,
    )


def _subscription(metadata: bytes) -> frozenset[str]:
    try:
        return frozenset(decode_subscribed_topics(metadata))
    except MalformedConsumerProtocol:
        return frozenset()


def _partitions(assignment: bytes) -> frozenset[PartitionName]:
    try:
        decoded = decode_assignment(assignment).partitions if assignment else ()
    except MalformedConsumerProtocol:
        return frozenset()
    return frozenset((each.topic, each.partition) for each in decoded)


def end_offset(state: ClusterState, partition: PartitionName) -> int | None:
    """The offset after the last record that consumers can read; None if there is no such partition."""
    topic = state.topics.get(partition[0])
    if topic is None or not 0 <= partition[1] < topic.partitions:
        return None
    return state.partition_log(topic, partition[1]).high_watermark
