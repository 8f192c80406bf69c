"""The groups of the consumer protocol that the stored events add up to, folded without the product's `evolve`.

    group = StoredGroup()
    group.apply(event)
    group.members["anna"].epoch, group.targets["anna"]

The lab's other second state, `ShadowState`, folds with `evolve`. An event that `evolve` applies wrongly changes that
state and the coordinator's own alike; it does not change this one, and `differences` finds it.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from regroup.coordinator import events as e
from regroup.coordinator.consumer import events as ce
from regroup.coordinator.consumer.migration import events as me
from regroup.coordinator.consumer_group import (
    AWAY_EPOCH,
    FIRST_GROUP_EPOCH,
    ConsumerGroup,
    ConsumerProfile,
    ReconciliationState,
)
from regroup.coordinator.events import Event

Partition: TypeAlias = tuple[str, int]
"""The topic id and the index of a partition."""


@dataclass(slots=True)
class StoredMember:
    """One member of a group of the consumer protocol. The member itself may use the consumer or the classic
    protocol."""

    profile: ConsumerProfile
    epoch: int = 0
    previous_epoch: int = 0
    state: ReconciliationState = ReconciliationState.STABLE
    assigned: dict[Partition, int] = field(default_factory=dict)
    """The assigned partitions, each with the epoch at which the member got it."""
    pending: dict[Partition, int] = field(default_factory=dict)
    """The partitions that it has yet to give up."""
    revokes_since_ms: int = 0
    """When it was asked to, by the coordinator's clock; 0 if it has none to give up, or the group was loaded since."""

    @property
    def held(self) -> dict[Partition, int]:
        """The partitions that the member is assigned, and those that it has yet to give up, each with its epoch."""
        return self.pending | self.assigned

    @property
    def is_classic(self) -> bool:
        return self.profile.classic is not None


@dataclass(slots=True)
class StoredGroup:
    """The epochs, the target assignment and the members of one group of the consumer protocol.

    With `is_consumer` False the group is a classic one, or does not exist.
    """

    is_consumer: bool = False
    group_epoch: int = FIRST_GROUP_EPOCH
    target_epoch: int = 0
    targets: dict[str, frozenset[Partition]] = field(default_factory=dict)
    members: dict[str, StoredMember] = field(default_factory=dict)
    resubscribed: str | None = None
    """The member that has named other topics than before with the last event."""

    def member_of_instance(self, instance_id: str) -> str | None:
        """The id of the static member with this instance id."""
        return next((each for each, member in self.members.items() if member.profile.instance_id == instance_id), None)

    def other_holder(self, partition: Partition, member_id: str) -> str | None:
        """Another member that is assigned the partition, or has yet to give it up."""
        return next(
            (
                each
                for each, member in self.members.items()
                if each != member_id and (partition in member.assigned or partition in member.pending)
            ),
            None,
        )

    def apply(self, event: Event) -> None:
        """Apply one stored event. Events of classic groups, and those about offsets, change nothing."""
        self.resubscribed = None
        match event:
            case ce.ConsumerGroupCreated():
                self._begin()
            case me.GroupUpgraded():
                self._upgrade(event)
            case ce.ConsumerGroupEnded() | e.GroupDeleted() | me.GroupDowngraded():
                self._begin(is_consumer=False)
            case _ if self.is_consumer:
                self._apply_to_consumer_group(event)

    def _begin(self, *, is_consumer: bool = True) -> None:
        self.is_consumer, self.group_epoch, self.target_epoch = is_consumer, FIRST_GROUP_EPOCH, 0
        self.targets, self.members = {}, {}

    def _upgrade(self, event: me.GroupUpgraded) -> None:
        self._begin()
        self.group_epoch = self.target_epoch = event.group_epoch
        for member_id, profile in event.profiles.items():
            self.targets[member_id] = share = flat(event.targets.get(member_id, {}))
            self.members[member_id] = StoredMember(
                profile, event.group_epoch, event.group_epoch, assigned=dict.fromkeys(share, event.group_epoch)
            )

    def _apply_to_consumer_group(self, event: Event) -> None:
        members = self.members
        match event:
            case ce.MemberSubscribed(member_id=member_id, profile=profile):
                self._subscribe(member_id, profile, event.at_ms)
            case ce.GroupEpochBumped(group_epoch=epoch):
                self.group_epoch = epoch
            case ce.TargetAssigned(assignment_epoch=epoch, targets=targets):
                self.target_epoch = epoch
                self.targets.update((each, flat(share)) for each, share in targets.items())
            case ce.MemberReconciled(member_id=member_id):
                self._reconcile(members[member_id], event)
            case ce.StaticMemberAway(member_id=member_id):
                member = members[member_id]
                member.epoch, member.assigned, member.pending = AWAY_EPOCH, dict.fromkeys(member.assigned, 0), {}
                member.revokes_since_ms = 0
            case ce.StaticConsumerReplaced(member_id=member_id, replaced_member_id=replaced):
                self._replace(member_id, replaced)
            case e.MemberLeft(member_id=member_id) | e.MemberRemoved(member_id=member_id):
                members.pop(member_id, None)
                self.targets.pop(member_id, None)
            case e.CoordinatorLoaded():
                for member in members.values():
                    member.revokes_since_ms = 0

    def _subscribe(self, member_id: str, profile: ConsumerProfile, at_ms: int) -> None:
        former = self.members.get(member_id)
        if set(profile.subscribed_topics) != set(former.profile.subscribed_topics if former else ()):
            self.resubscribed = member_id
        member = self.members.setdefault(member_id, StoredMember(profile))
        if member.is_classic and profile.classic is None and member.pending:
            member.revokes_since_ms = at_ms
        member.profile = profile

    def _reconcile(self, member: StoredMember, event: ce.MemberReconciled) -> None:
        member.state, member.epoch, member.previous_epoch = event.state, event.epoch, event.previous_epoch
        member.assigned, member.pending = flat_epochs(event.assigned), flat_epochs(event.pending_revocation)
        member.revokes_since_ms = event.at_ms if member.pending and not member.is_classic else 0

    def _replace(self, member_id: str, replaced: str) -> None:
        """Give the member `member_id`, a new process of a static member, what `replaced` had; its epochs begin at 0."""
        member, share = self.members.pop(replaced), self.targets.pop(replaced, frozenset())
        member.epoch = member.previous_epoch = member.revokes_since_ms = 0
        self.members[member_id], self.targets[member_id] = member, share

    def differences(self, other: ConsumerGroup | None) -> Iterator[str]:
        """Compare this group with `other`, which the product has folded from the same events; yield what differs."""
        if other is None or not self.is_consumer:
            if (other is not None) != self.is_consumer:
                yield "the kind of the group"
            return
        if (self.group_epoch, self.target_epoch) != (other.group_epoch, other.assignment_epoch):
            yield "the epochs of the group and of its target"
        if {each: share for each, share in self.targets.items() if share} != {
            each: flat(share) for each, share in other.targets.items() if any(share.values())
        }:
            yield "the target"
        if self.members.keys() != other.members.keys():
            yield "the members"
            return
        for member_id, member in self.members.items():
            found = other.members[member_id]
            own = (member.epoch, member.previous_epoch, member.state, member.assigned, member.pending, member.profile)
            if own != (
                *(found.epoch, found.previous_epoch, found.state),
                *(flat_epochs(found.assigned), flat_epochs(found.pending_revocation), found.profile),
            ):
                yield f"member {member_id}"


def flat(partitions: Mapping[str, Any]) -> frozenset[Partition]:
    """Partition indexes by topic id as one set of pairs of topic id and index."""
    return frozenset((topic_id, index) for topic_id, indexes in partitions.items() for index in indexes)


def flat_epochs(partitions: Mapping[str, Mapping[int, int]]) -> dict[Partition, int]:
    """The assignment epoch of each partition, by pairs of topic id and index in place of nested mappings."""
    return {(topic_id, index): epoch for topic_id, epochs in partitions.items() for index, epoch in epochs.items()}
