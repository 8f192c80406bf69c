"""Which partitions members are assigned, and which they own, as the events of each kind of group say.

In a classic group a member owns its assignment from its SyncGroup response on, and loses what its next JoinGroup does
not list as owned. In a group of the consumer protocol it owns what the coordinator has assigned it and what it has yet
to give up, and is assigned its share of the target.
"""

from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Protocol

from regroup.classroom.fold.ownership import OwnershipBuilder
from regroup.coordinator import events as e
from regroup.coordinator.consumer.evolve_group import consumer_of
from regroup.coordinator.group import AwaitedResponse, Group, GroupKind, GroupState, Member, MemberId
from regroup.protocol.consumer.subscription import (
    MalformedConsumerProtocol,
    TopicPartition,
    assigned_partitions,
    decode_subscribed_topics,
    decode_subscription,
)


class Holdings(Protocol):
    """Keeps, from the events of a group of one kind, which partitions each member is assigned and owns."""

    def begin_with(self, group: Group) -> None:
        """Start from a group whose earlier events have been trimmed."""

    def on_event(self, event: e.Event, before: Group, after: Group, changed: Iterable[MemberId]) -> None:
        """Take in an event. `changed` has the ids of the members that it may have changed."""


class ClassicHoldings:
    """Keeps which partitions each member of a classic group is assigned and owns."""

    def __init__(self, ownership: OwnershipBuilder) -> None:
        self._ownership = ownership
        self._assignments: dict[MemberId, bytes] = {}
        self._metadata: dict[MemberId, bytes] = {}

    def begin_with(self, group: Group) -> None:
        self._on_members(group, group.members)
        if group.state in (GroupState.STABLE, GroupState.PREPARING_REBALANCE):
            for member in group.members.values():
                self._receive(member)

    def on_event(self, event: e.Event, before: Group, after: Group, changed: Iterable[MemberId]) -> None:
        self._on_members(after, changed)
        self._on_ownership(event, before, after)

    def _on_members(self, group: Group, changed: Iterable[MemberId]) -> None:
        """Pass on the new assignments and subscriptions of the members in `changed`."""
        for member_id in changed:
            member = group.members.get(member_id)
            assignment, metadata = b"" if member is None else member.assignment, _first_metadata(member)
            if assignment != self._assignments.get(member_id, b""):
                self._assignments[member_id] = assignment
                self._ownership.assign(member_id, assigned_partitions(assignment))
            if metadata != self._metadata.get(member_id, b""):
                self._metadata[member_id] = metadata
                self._ownership.subscribe(member_id, _topics(metadata))
        if group.members:
            self._ownership.show_subscribed()

    def _on_ownership(self, event: e.Event, before: Group, after: Group) -> None:
        ownership = self._ownership
        match event:
            case e.AssignmentCommitted():
                for member in before.members_awaiting(AwaitedResponse.SYNC):
                    self._receive(after.members[member.member_id])
            case e.MemberSynced(awaits_assignment=False):
                self._receive(after.members[event.member_id])
            case e.MemberRejoined():
                ownership.keep(event.member_id, _owned_partitions(_first_metadata(after.members[event.member_id])))
            case e.StaticMemberReplaced():
                # In Stable the new process gets the old one's assignment without a rebalance.
                inherited = () if event.awaits_join else ownership.owned_by(event.replaced_member_id)
                ownership.keep(event.replaced_member_id, ())
                ownership.own(event.member_id, inherited)
            case e.MemberLeft() | e.MemberRemoved():
                ownership.keep(event.member_id, ())
            case e.CoordinatorLoaded() | e.GroupDeleted() | e.AppendFailed():
                for member_id in [each for each in ownership.owners() if each not in after.members]:
                    ownership.keep(member_id, ())

    def _receive(self, member: Member) -> None:
        """Make a member the owner of the partitions of its assignment, and of no others: it has received it."""
        assigned = assigned_partitions(member.assignment)
        self._ownership.keep(member.member_id, assigned)
        self._ownership.own(member.member_id, assigned)


class ConsumerHoldings:
    """Keeps which partitions each member of a group of the consumer protocol is assigned and owns."""

    def __init__(self, ownership: OwnershipBuilder) -> None:
        self._ownership = ownership

    def begin_with(self, group: Group) -> None:
        self._on_members(group, consumer_of(group).members)

    def on_event(self, event: e.Event, before: Group, after: Group, changed: Iterable[MemberId]) -> None:
        self._on_members(after, changed)

    def _on_members(self, group: Group, changed: Iterable[MemberId]) -> None:
        consumer, ownership = consumer_of(group), self._ownership
        for member_id in changed:
            member = consumer.members.get(member_id)
            pending = tuple(self._named(member.pending_revocation)) if member else ()
            held = (*self._named(member.assigned), *pending) if member else ()
            ownership.assign(member_id, tuple(self._named(consumer.targets.get(member_id, {}))))
            ownership.keep(member_id, held)
            ownership.own(member_id, held)
            ownership.revoke(member_id, pending)
            ownership.subscribe(member_id, tuple(consumer.topics_of(member.profile)) if member else ())
        if consumer.members:
            ownership.show_subscribed()

    def _named(self, partitions: Mapping[str, Iterable[int]]) -> Iterator[TopicPartition]:
        for topic_id, indexes in partitions.items():
            topic = self._ownership.topic_names.get(topic_id, topic_id)
            yield from (TopicPartition(topic, index) for index in indexes)


def holdings_of(ownership: OwnershipBuilder) -> Mapping[GroupKind, Holdings]:
    """For each kind of group the object that takes its events and passes the changes of holders to `ownership`."""
    return {GroupKind.CLASSIC: ClassicHoldings(ownership), GroupKind.CONSUMER: ConsumerHoldings(ownership)}


def _first_metadata(member: Member | None) -> bytes:
    """The subscription, as bytes, for the first assignor that a member lists; its topics are the same for each."""
    protocols = member.profile.supported_protocols if member else ()
    return protocols[0].metadata if protocols else b""


@lru_cache(maxsize=4096)
def _topics(metadata: bytes) -> tuple[str, ...]:
    """The topics of an encoded subscription, without repetitions; none if the bytes are not a consumer's."""
    try:
        return tuple(dict.fromkeys(decode_subscribed_topics(metadata))) if metadata else ()
    except MalformedConsumerProtocol:
        return ()


@lru_cache(maxsize=4096)
def _owned_partitions(metadata: bytes) -> tuple[TopicPartition, ...]:
    """The partitions that a JoinGroup lists as still owned; none for an eager member, which revokes all (KIP-429)."""
    try:
        return decode_subscription(metadata).owned_partitions
    except MalformedConsumerProtocol:
        return ()
