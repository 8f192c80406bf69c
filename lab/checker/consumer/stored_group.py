"""The groups of the consumer protocol that the stored events add up to, folded without the product's `evolve`.

    group = StoredGroup()
    group.apply(event)
    group.members["anna"].epoch, group.targets["anna"]

The lab's other second state, `ShadowState`, folds with `evolve`. An event that `evolve` applies wrongly changes that
state and the coordinator's own alike; it does not change this one, and `differences` finds it.
"""

from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from regroup.coordinator import events as e
from regroup.coordinator.consumer import events as ce
from regroup.coordinator.consumer.migration import events as me
from regroup.coordinator.consumer_group import (
    AWAY_EPOCH,
    FIRST_GROUP_EPOCH,
    ConsumerGroup,
    ConsumerMember,
    ConsumerProfile,
    ReconciliationState,
)
from regroup.coordinator.events import Event
from regroup.coordinator.group import Group
from regroup.coordinator.layered_mapping import added_keys, changed

Partition: TypeAlias = tuple[str, int]
"""The topic id and the index of a partition."""
ClassicDeadlines: TypeAlias = tuple[int | None, int | None]
"""The deadlines for JoinGroup and SyncGroup, in epoch milliseconds; None where no timer is running."""
NO_DEADLINES: Final[ClassicDeadlines] = (None, None)
OF_ONE_MEMBER: Final = (
    *(ce.MemberSubscribed, ce.MemberReconciled, ce.StaticMemberAway, e.MemberLeft, e.MemberRemoved),
    *(me.ClassicMemberJoined, me.ClassicMemberSynced, me.RejoinRequested),
)
"""Events that apply to the member with their `member_id` alone."""


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
    deadlines_ms: ClassicDeadlines = NO_DEADLINES
    """Until when a member of the classic protocol has to send JoinGroup and SyncGroup."""
    has_dropped_topics: bool = False
    """Whether it has unsubscribed from a topic since the target was computed."""

    @property
    def held(self) -> dict[Partition, int]:
        """The partitions that the member is assigned, and those that it has yet to give up, each with its epoch."""
        return self.pending | self.assigned

    @property
    def is_classic(self) -> bool:
        return self.profile.classic is not None

    def differences(self, found: ConsumerMember) -> Iterator[str]:
        """What the product's fold of the same events has otherwise in this member."""
        own = (self.epoch, self.previous_epoch, self.state, self.assigned, self.pending, self.profile)
        if own != (
            *(found.epoch, found.previous_epoch, found.state),
            *(flat_epochs(found.assigned), flat_epochs(found.pending_revocation), found.profile),
        ):
            yield f"member {found.member_id}"
        if self.deadlines_ms != (found.join_deadline_ms, found.sync_deadline_ms):
            yield f"the deadlines of member {found.member_id}"


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
    left_deadlines_ms: dict[str, ClassicDeadlines] = field(default_factory=dict)
    """Of members of the classic protocol when the group became a classic one; their timers were not cancelled."""
    deleted_topics: Set[str] = frozenset()
    """The ids of all topics of the cluster that were deleted."""
    _touched: set[str] | None = None
    """The members to which events have applied since the last comparison; None if any may have changed."""
    _compared: ConsumerGroup = field(default_factory=ConsumerGroup)
    """The product's group when it was last found to be the same."""

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
        self._touch(event)
        match event:
            case ce.ConsumerGroupCreated():
                self._begin()
            case me.GroupUpgraded():
                self._upgrade(event)
            case me.GroupDowngraded():
                left = {each: member.deadlines_ms for each, member in self.members.items()}
                self._begin(is_consumer=False)
                self.left_deadlines_ms = _running(left)
            case ce.ConsumerGroupEnded() | e.GroupDeleted():
                self._begin(is_consumer=False)
            case e.CoordinatorLoaded() if not self.is_consumer:
                self.left_deadlines_ms = {}
            case _ if self.is_consumer:
                self._apply_to_consumer_group(event)

    def _touch(self, event: Event) -> None:
        """Note the member to which an event applies. An event of another type may apply to all members."""
        if not isinstance(event, OF_ONE_MEMBER):
            if not isinstance(event, ce.GroupEpochBumped):
                self._touched = None
        elif self._touched is not None:
            self._touched.add(event.member_id)

    def _begin(self, *, is_consumer: bool = True) -> None:
        self.is_consumer, self.group_epoch, self.target_epoch = is_consumer, FIRST_GROUP_EPOCH, 0
        self.targets, self.members, self.left_deadlines_ms = {}, {}, {}

    def _upgrade(self, event: me.GroupUpgraded) -> None:
        left = self.left_deadlines_ms
        self._begin()
        self.group_epoch = self.target_epoch = event.group_epoch
        for member_id, profile in event.profiles.items():
            self.targets[member_id] = share = flat(event.targets.get(member_id, {}))
            self.members[member_id] = StoredMember(
                profile, event.group_epoch, event.group_epoch, assigned=dict.fromkeys(share, event.group_epoch)
            )
            join_ms, sync_ms = left.get(member_id, NO_DEADLINES)
            self.members[member_id].deadlines_ms = _later(event.at_ms, join_ms), _later(event.at_ms, sync_ms)

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
                for member in members.values():
                    member.has_dropped_topics = False
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
            case me.ClassicMemberJoined(member_id=member_id, sync_deadline_ms=sync_ms):
                members[member_id].deadlines_ms = None, sync_ms
            case me.ClassicMemberSynced(member_id=member_id):
                members[member_id].deadlines_ms = members[member_id].deadlines_ms[0], None
            case me.RejoinRequested(member_id=member_id, join_deadline_ms=join_ms):
                members[member_id].deadlines_ms = join_ms, members[member_id].deadlines_ms[1]
            case e.CoordinatorLoaded():
                for member in members.values():
                    member.revokes_since_ms, member.deadlines_ms = 0, NO_DEADLINES

    def _subscribe(self, member_id: str, profile: ConsumerProfile, at_ms: int) -> None:
        former = self.members.get(member_id)
        if set(profile.subscribed_topics) != set(former.profile.subscribed_topics if former else ()):
            self.resubscribed = member_id
        member = self.members.setdefault(member_id, StoredMember(profile))
        if member.is_classic and profile.classic is None and member.pending:
            member.revokes_since_ms = at_ms
        if set(member.profile.subscribed_topics) - set(profile.subscribed_topics):
            member.has_dropped_topics = True
        member.profile = profile

    def _reconcile(self, member: StoredMember, event: ce.MemberReconciled) -> None:
        member.state, member.epoch, member.previous_epoch = event.state, event.epoch, event.previous_epoch
        member.assigned, member.pending = flat_epochs(event.assigned), flat_epochs(event.pending_revocation)
        member.revokes_since_ms = event.at_ms if member.pending and not member.is_classic else 0

    def _replace(self, member_id: str, replaced: str) -> None:
        """Give the member `member_id`, a new process of a static member, what `replaced` had; its epochs begin at 0."""
        member, share = self.members.pop(replaced), self.targets.pop(replaced, frozenset())
        member.epoch = member.previous_epoch = member.revokes_since_ms = 0
        member.deadlines_ms = NO_DEADLINES
        self.members[member_id], self.targets[member_id] = member, share

    def differences(self, folded: Group) -> Iterator[str]:
        """Compare this group with `folded`, which the product has folded from the same events; yield what differs."""
        other = folded.consumer
        if other is None or not self.is_consumer:
            if (other is not None) != self.is_consumer:
                yield "the kind of the group"
            if self.left_deadlines_ms != _running(folded.left_deadlines_ms):
                yield "the deadlines that its members had before it became a classic one"
            return
        if (self.group_epoch, self.target_epoch) != (other.group_epoch, other.assignment_epoch):
            yield "the epochs of the group and of its target"
        yield from self._member_differences(other)

    def _member_differences(self, other: ConsumerGroup) -> Iterator[str]:
        """What differs in the members and their shares of the target. Only those are looked at that have changed on
        either side since the last comparison without a difference: a group of thousands changes for each member."""
        touched, known = self._touched, self._compared
        everyone = {*self.members, *self.targets, *other.members, *other.targets} if touched is None else touched
        shares = {*everyone, *changed(known.targets, other.targets), *added_keys(other.targets, known.targets)}
        if any(self.targets.get(each, frozenset()) != flat(other.targets.get(each, {})) for each in shares):
            yield "the target"
            return
        members = {*everyone, *changed(known.members, other.members)}
        if len(self.members) != len(other.members) or any(
            (each in self.members) != (each in other.members) for each in members
        ):
            yield "the members"
            return
        differing = [each for each in sorted(members) if each in self.members]
        differences = [each for name in differing for each in self.members[name].differences(other.members[name])]
        if not differences:
            self._touched, self._compared = set(), other
        yield from differences


def _running(deadlines_ms: Mapping[str, ClassicDeadlines]) -> dict[str, ClassicDeadlines]:
    """The deadlines of those members for which a timer is running."""
    return {member_id: each for member_id, each in deadlines_ms.items() if each != NO_DEADLINES}


def _later(at_ms: int, deadline_ms: int | None) -> int | None:
    """The deadline if it is later than `at_ms`, None if it has passed."""
    return deadline_ms if deadline_ms is not None and deadline_ms > at_ms else None


def flat(partitions: Mapping[str, Any]) -> frozenset[Partition]:
    """Partition indexes by topic id as one set of pairs of topic id and index."""
    return frozenset((topic_id, index) for topic_id, indexes in partitions.items() for index in indexes)


def flat_epochs(partitions: Mapping[str, Mapping[int, int]]) -> dict[Partition, int]:
    """The assignment epoch of each partition, by pairs of topic id and index in place of nested mappings."""
    return {(topic_id, index): epoch for topic_id, epochs in partitions.items() for index, epoch in epochs.items()}
