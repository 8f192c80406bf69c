"""What is known of groups of the consumer protocol from their heartbeats, and from the removals that the store holds.

    groups = ConsumerGroups()
    groups.on_stored(record, position)           # a member is gone, a target is new
    groups.proceed(group_id, event_number)       # take account of the records up to the one on which a response rests
    groups.on_heartbeat(command, response)       # a response leaves

Nothing of it comes from the coordinator's own state: the epochs and assignments are those that responses have carried.
"""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from regroup.coordinator.consumer import events as ce
from regroup.coordinator.consumer.commands import ConsumerGroupHeartbeat
from regroup.coordinator.consumer.migration.events import GroupDowngraded
from regroup.coordinator.consumer_group import AWAY_EPOCH
from regroup.coordinator.events import Event, MemberLeft, MemberRemoved
from regroup.coordinator.serialization import decode_event
from regroup.protocol.topic_ids import topic_id_text
from regroup.storage.records import NewRecord

Partition: TypeAlias = tuple[str, int]
"""The topic id and the index of a partition."""
RELEVANT_TYPES: Final = (
    "member-left",
    "member-removed",
    "static-consumer-replaced",
    "static-member-away",
    "target-assigned",
    "group-downgraded",
)


@dataclass(slots=True)
class ToldMember:
    """What responses have told a member in its present life, which began with epoch 0."""

    epochs: list[int] = field(default_factory=list)
    """The epochs in the order in which they were told, each once."""
    assigned: frozenset[Partition] = frozenset()
    """The last assignment that a response has carried."""
    since: dict[Partition, int] = field(default_factory=dict)
    """The epoch since which it has each partition that it holds."""

    @property
    def epoch(self) -> int:
        return self.epochs[-1] if self.epochs else 0

    @property
    def held(self) -> frozenset[Partition]:
        """What it is assigned, and what it has yet to give up."""
        return frozenset(self.since)


@dataclass(slots=True)
class ToldGroup:
    """The members of a group, as responses have described them, and the target that the store holds."""

    members: dict[str, ToldMember] = field(default_factory=dict)
    target_epoch: int = 0
    targets: dict[str, frozenset[Partition]] = field(default_factory=dict)
    exchange_number: int = 0
    """Number of the newest exchange whose response was checked."""
    stored: deque[tuple[int, Event]] = field(default_factory=deque)
    """Stored events with their numbers that no response has rested on so far."""

    def other_holders(self, member_id: str, partition: Partition) -> Iterator[str]:
        """The other members that hold a partition."""
        return (each for each, told in self.members.items() if each != member_id and partition in told.since)


class ConsumerGroups:
    """All groups of a run that had heartbeats of the consumer protocol."""

    def __init__(self) -> None:
        self._groups: dict[str, ToldGroup] = {}

    def group(self, group_id: str) -> ToldGroup:
        """The group of this id, which may have no members."""
        return self._groups.setdefault(group_id, ToldGroup())

    def on_stored(self, record: NewRecord, position: int) -> None:
        """Keep a stored record that says who is no member any more, or which target a group has."""
        if record.type in RELEVANT_TYPES and record.group is not None:
            event = decode_event(record.stored_at(position))
            self.group(record.group).stored.append((record.event_number, event))

    def proceed(self, group_id: str, event_number: int) -> None:
        """Take account of the stored records up to this event; later ones are newer than the response to check."""
        group = self.group(group_id)
        while group.stored and group.stored[0][0] <= event_number:
            self._apply(group, group.stored.popleft()[1])

    def _apply(self, group: ToldGroup, event: Event) -> None:
        match event:
            case MemberLeft(member_id=member_id) | MemberRemoved(member_id=member_id):
                group.members.pop(member_id, None)
                group.targets.pop(member_id, None)
            case ce.StaticConsumerReplaced(member_id=member_id, replaced_member_id=replaced):
                group.members.pop(replaced, None)
                group.targets[member_id] = group.targets.pop(replaced, frozenset())
            case ce.StaticMemberAway(member_id=member_id) if member_id in group.members:
                told = group.members[member_id]
                told.epochs, told.since = [AWAY_EPOCH], dict.fromkeys(told.assigned, 0)
            case ce.TargetAssigned(assignment_epoch=epoch, targets=targets):
                group.target_epoch = epoch
                group.targets.update((each, _flat(share)) for each, share in targets.items())
            case GroupDowngraded():
                group.members.clear()
                group.targets.clear()

    def on_heartbeat(self, command: ConsumerGroupHeartbeat, response: Any) -> None:
        """Follow a heartbeat that was accepted, as its response leaves."""
        members = self.group(command.group_id).members
        if command.member_epoch < 0:
            return
        if command.member_epoch == 0:
            former = members.pop(response.member_id, ToldMember())
            members[response.member_id] = ToldMember(assigned=former.assigned, since=former.since)
        told = members.setdefault(response.member_id, ToldMember())
        if response.member_epoch not in told.epochs:
            told.epochs.append(response.member_epoch)
        given = assignment_of(response)
        assigned = told.assigned if given is None else given
        kept = told.since if command.owned is None else told.held & _flat(command.owned)
        told.since = {each: told.since.get(each, response.member_epoch) for each in (*assigned, *kept)}
        told.assigned = assigned


def assignment_of(response: Any) -> frozenset[Partition] | None:
    """The partitions that a response assigns; None if it has no assignment."""
    if response.assignment is None:
        return None
    topics = response.assignment.topic_partitions
    return frozenset((topic_id_text(each.topic_id), index) for each in topics for index in each.partitions)


def _flat(partitions: Any) -> frozenset[Partition]:
    return frozenset((topic_id, index) for topic_id, indexes in partitions.items() for index in indexes)
