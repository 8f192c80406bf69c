"""What is known of groups of the consumer protocol: from the responses to their members, and from what the store holds.

    groups = ConsumerGroups()
    groups.on_stored(record, event)              # an event of the group is durable
    groups.proceed(group_id, event_number)       # take account of the events up to the one on which a response rests
    groups.on_heartbeat(command, response)       # a response leaves

Nothing of it comes from the coordinator's own state: what a member was answered comes from responses, and
`StoredGroup` folds the stored events without the product's `evolve`.
"""

from collections import deque
from collections.abc import Iterator
from copy import copy
from dataclasses import dataclass, field
from typing import Any, Final, get_args

from regroup.coordinator.consumer import events as ce
from regroup.coordinator.consumer.commands import ConsumerGroupHeartbeat
from regroup.coordinator.consumer.migration.events import AnyMigrationEvent, GroupDowngraded, GroupUpgraded
from regroup.coordinator.consumer_group import AWAY_EPOCH
from regroup.coordinator.events import (
    AppendFailed,
    CoordinatorLoaded,
    Event,
    GroupCreated,
    GroupDeleted,
    MemberLeft,
    MemberRemoved,
    StaticMemberReplaced,
)
from regroup.coordinator.serialization import EVENT_TYPE_NAMES
from regroup.coordinator.topics import NO_TOPICS, TopicsImage
from regroup.lab.checker.consumer.steps import step_violations
from regroup.lab.checker.consumer.stored_group import Partition, StoredGroup, StoredMember, flat
from regroup.protocol.topic_ids import topic_id_text
from regroup.storage.records import NewRecord

RELEVANT_TYPES: Final = frozenset(
    EVENT_TYPE_NAMES[each]
    for each in (
        *get_args(ce.AnyConsumerEvent),
        *get_args(AnyMigrationEvent),
        *(AppendFailed, CoordinatorLoaded, GroupCreated, GroupDeleted, MemberLeft, MemberRemoved, StaticMemberReplaced),
    )
)
"""The types of the events that say what a group of the consumer protocol is like."""

MIGRATION_KEEPS_MEMBERS: Final = "A group that changes its protocol keeps every member that was accepted before."


@dataclass(slots=True)
class AnsweredMember:
    """The epochs and the assignment that heartbeat responses have given one member since it last joined with epoch
    0."""

    epochs: list[int] = field(default_factory=list)
    """The epochs of the responses in their order, each once."""
    assigned: frozenset[Partition] = frozenset()
    """The last assignment that a response has carried."""
    since: dict[Partition, int] = field(default_factory=dict)
    """The epoch since which it has each partition that it holds."""

    @property
    def epoch(self) -> int:
        return self.epochs[-1] if self.epochs else 0

    @property
    def held(self) -> frozenset[Partition]:
        """The partitions that the member is assigned, and those that it has yet to give up."""
        return frozenset(self.since)


@dataclass(slots=True)
class KnownGroup:
    """One group: its members as the responses to them have described them, and the group as the stored events give
    it."""

    members: dict[str, AnsweredMember] = field(default_factory=dict)
    stored: StoredGroup = field(default_factory=StoredGroup)
    before: StoredMember | None = None
    """The member of the present request, before the events of the request."""
    epoch_before: int = 0
    """The group epoch before the events of the present request."""
    exchange_number: int = 0
    """Number of the newest exchange whose response was checked."""
    event_number: int = 0
    """Number of the last event that was applied."""
    creation_number: int = 0
    """Number of the event that has created the classic group."""
    queue: deque[tuple[int, Event]] = field(default_factory=deque)
    """Stored events with their numbers that no response has rested on so far."""

    classic_members: dict[str, None] = field(default_factory=dict)
    """Members of the classic protocol by the responses that accepted their requests; none is known after a load."""
    topics: TopicsImage = NO_TOPICS
    """The topics of the cluster at the last heartbeat that was accepted."""

    def topics_are_known(self, topics: TopicsImage) -> bool:
        """Whether the cluster's topics are the same as at the last heartbeat of this group that was accepted."""
        return topics is self.topics or topics.by_name == self.topics.by_name

    def other_holders(self, member_id: str, partition: Partition) -> Iterator[str]:
        """The ids of the members, except `member_id`, that are assigned the partition or have yet to give it up."""
        return (each for each, member in self.members.items() if each != member_id and partition in member.since)


class ConsumerGroups:
    """All groups of a run, with what responses and stored events have said of each; made when first asked for."""

    def __init__(self) -> None:
        self._groups: dict[str, KnownGroup] = {}
        self._deleted_topics: set[str] = set()

    def group(self, group_id: str) -> KnownGroup:
        """The group of this id; one that is not known yet is added without members."""
        if (group := self._groups.get(group_id)) is None:  # each response asks for it: none is made to be thrown away
            group = self._groups[group_id] = KnownGroup(stored=StoredGroup(deleted_topics=self._deleted_topics))
        return group

    @property
    def group_ids(self) -> tuple[str, ...]:
        return tuple(self._groups)

    def on_topic_deleted(self, topic_id: str) -> None:
        """Note that a topic was deleted: its partitions are left out of targets."""
        self._deleted_topics.add(topic_id)

    def on_stored(self, record: NewRecord, event: Event) -> None:
        """Queue a stored event of a group. `begin` and `proceed` apply it when a response that depends on it is
        checked."""
        if record.group is not None and record.type in RELEVANT_TYPES:
            self.group(record.group).queue.append((record.event_number, event))

    def begin(self, group_id: str, event_number: int, member_id: str) -> list[tuple[str, str]]:
        """Apply the queued events up to this number: the state in which the coordinator handled the request of a
        member.

        The member and the group epoch of that state are kept in `before` and `epoch_before`. Returns the violations of
        the applied events, as `proceed` does.
        """
        violations = self.proceed(group_id, event_number)
        group = self.group(group_id)
        member = group.stored.members.get(member_id)
        group.before, group.epoch_before = copy(member) if member else None, group.stored.group_epoch
        return violations

    def proceed(self, group_id: str, event_number: int | None = None) -> list[tuple[str, str]]:
        """Apply the queued events of a group up to this number, by default all; later ones are newer than the response
        to check.

        Returns the violations of these events: the sentence of each, and what was found.
        """
        group, violations = self.group(group_id), []
        while group.queue and (event_number is None or group.queue[0][0] <= event_number):
            group.event_number, event = group.queue.popleft()
            violations += step_violations(group.stored, event)
            if missing := _members_lost_by(event, group):
                violations.append((MIGRATION_KEEPS_MEMBERS, f"{', '.join(missing)} is not among them"))
            group.stored.apply(event)
            self._end_lives(group, event)
        return violations

    def _end_lives(self, group: KnownGroup, event: Event) -> None:
        """Drop the members that an event removes or that join by the classic protocol, or all when the group ends or
        changes back to that protocol.

        A static member that leaves for a while stays, with what it is assigned.
        """
        match event:
            case MemberLeft(member_id=member_id) | MemberRemoved(member_id=member_id):
                group.members.pop(member_id, None)
                group.classic_members.pop(member_id, None)
            case StaticMemberReplaced(replaced_member_id=replaced):
                group.classic_members.pop(replaced, None)
            case CoordinatorLoaded():
                group.classic_members.clear()
            case ce.StaticConsumerReplaced(replaced_member_id=replaced):
                group.members.pop(replaced, None)
                group.classic_members.pop(replaced, None)
            case ce.MemberSubscribed(member_id=member_id, profile=profile) if profile.classic is not None:
                group.members.pop(member_id, None)  # what it holds now, its JoinGroup has said
            case ce.StaticMemberAway(member_id=member_id) if member_id in group.members:
                member = group.members[member_id]
                member.epochs, member.since = [AWAY_EPOCH], dict.fromkeys(member.assigned, 0)
            case GroupCreated():
                group.creation_number = group.event_number
            case AppendFailed(append_number=number) if number == group.creation_number:
                group.classic_members.clear()  # Kafka's log has lost the group
            case GroupDowngraded() | ce.ConsumerGroupEnded() | GroupDeleted():
                group.members.clear()

    def on_heartbeat(self, command: ConsumerGroupHeartbeat, response: Any) -> None:
        """Note the epoch and the assignment in the response to a heartbeat that was accepted, and what the member still
        holds.

        Since when a member that was one of the classic protocol has its partitions, no heartbeat has said: it counts as
        for ever.
        """
        group = self.group(command.group_id)
        members = group.members
        if command.member_epoch < 0:
            return
        if command.member_epoch == 0:
            former = members.pop(response.member_id, AnsweredMember())
            members[response.member_id] = AnsweredMember(assigned=former.assigned, since=former.since)
        member = members.setdefault(response.member_id, AnsweredMember())
        if response.member_epoch not in member.epochs:
            member.epochs.append(response.member_epoch)
        given = assignment_of(response)
        assigned = member.assigned if given is None else given
        kept = member.since if command.owned is None else member.held & flat(command.owned)
        since_epoch = 0 if group.before is not None and group.before.is_classic else response.member_epoch
        member.since = {each: member.since.get(each, since_epoch) for each in (*assigned, *kept)}
        member.assigned = assigned
        group.topics = command.topics

    def on_release(self, command: ConsumerGroupHeartbeat) -> None:
        """Note what a member gives up with a heartbeat that takes effect though it is answered with an error, because
        Kafka's log has refused an earlier record."""
        member = self.group(command.group_id).members.get(command.member_id)
        if member is not None and command.owned is not None:
            kept = member.assigned | flat(command.owned)
            member.since = {each: since for each, since in member.since.items() if each in kept}

    def on_fenced(self, command: ConsumerGroupHeartbeat) -> None:
        """Note that the last epoch that a member was answered is refused: the member loses all its partitions.

        Only what the coordinator keeps for it is not free then. An older epoch may come from another client.
        """
        group = self.group(command.group_id)
        member, stored = group.members.get(command.member_id), group.stored.members.get(command.member_id)
        if member is not None and member.epoch == command.member_epoch:
            kept = frozenset(stored.held) if stored is not None else frozenset()
            member.since = {each: since for each, since in member.since.items() if each in kept}
            member.assigned &= kept

    def on_late_heartbeat(self, command: ConsumerGroupHeartbeat, response: Any) -> None:
        """Note the response to a heartbeat as `on_heartbeat` does, where later heartbeats were answered first.

        Nothing is noted if the member was removed meanwhile, or has left as a static member.
        """
        stored = self.group(command.group_id).stored.members.get(response.member_id)
        if stored is not None and stored.epoch != AWAY_EPOCH:
            self.on_heartbeat(command, response)

    def on_classic_response(self, group_id: str, member_id: str) -> None:
        """Note that a request of this member of the classic protocol was accepted, so that a migration must keep the
        member."""
        if member_id:
            self.group(group_id).classic_members[member_id] = None


def _members_lost_by(event: Event, group: KnownGroup) -> list[str]:
    """The ids of the members that a group loses with an event by which it changes its protocol; none for other
    events."""
    match event:
        case GroupUpgraded(profiles=profiles):
            return [each for each in group.classic_members if each not in profiles]
        case GroupDowngraded(members=members):
            kept = {each.member_id for each in members}
            return [each for each in group.stored.members if each not in kept]
    return []


def assignment_of(response: Any) -> frozenset[Partition] | None:
    """The partitions that a response assigns; None if it has no assignment."""
    if response.assignment is None:
        return None
    topics = response.assignment.topic_partitions
    return frozenset((topic_id_text(each.topic_id), index) for each in topics for index in each.partitions)
