"""What explanations of groups of the consumer protocol read from a history: profiles, partitions by name, states."""

from collections.abc import Iterator, Mapping

from regroup.coordinator.consumer import events as ce
from regroup.coordinator.consumer.migration import events as me
from regroup.coordinator.consumer_group import ConsumerGroup, ConsumerProfile, PartitionEpochs, every_partition
from regroup.coordinator.events import MemberLeft, MemberRemoved
from regroup.coordinator.evolve import evolve, fold
from regroup.coordinator.group import Group
from regroup.notation.partitions import format_partitions
from regroup.server.cluster.events import PartitionsAdded, TopicCreated, TopicDeleted
from regroup.server.explanation.history import GroupHappening, KnownHistory
from regroup.server.explanation.sentences import counted, time_text


def profile_before(history: KnownHistory, happening: GroupHappening, member_id: str) -> ConsumerProfile | None:
    """The profile (subscription, client id and so on) that a member had before the event `happening`; None if there is
    none in the history."""
    for each in reversed(history.happenings[: history.happenings.index(happening)]):
        match each.event:
            case ce.MemberSubscribed(member_id=found, profile=profile) if found == member_id:
                return profile
            case me.GroupUpgraded(profiles=profiles) if member_id in profiles:
                return profiles[member_id]
            case ce.StaticConsumerReplaced(member_id=found, replaced_member_id=replaced) if found == member_id:
                return profile_before(history, each, replaced)
            case ce.ConsumerGroupCreated():
                return None
    return None


def held_before(history: KnownHistory, happening: GroupHappening, member_id: str) -> PartitionEpochs:
    """The partitions that the coordinator had asked a member to give up before the event `happening`, and that the
    member had not given up yet; empty if there were none."""
    for each in reversed(history.happenings[: history.happenings.index(happening)]):
        match each.event:
            case ce.MemberReconciled(member_id=found, pending_revocation=pending) if found == member_id:
                return pending
            case ce.MemberSubscribed(member_id=found) if found == member_id:
                continue
    return {}


def takers_of(
    history: KnownHistory, happening: GroupHappening, partitions: Mapping[str, Mapping[int, int]]
) -> tuple[int, list[str]]:
    """The epoch of the target assignment before the event `happening`, and the ids of the members to which that target
    gives any of these partitions."""
    wanted, epoch, shares = set(every_partition(partitions)), 0, dict[str, frozenset[tuple[str, int]]]()
    for each in history.happenings[: history.happenings.index(happening)]:
        match each.event:
            case ce.TargetAssigned(assignment_epoch=epoch, targets=targets):
                shares |= {member_id: frozenset(every_partition(share)) for member_id, share in targets.items()}
            case MemberLeft(member_id=member_id) | MemberRemoved(member_id=member_id):
                shares.pop(member_id, None)
    return epoch, [member_id for member_id, share in shares.items() if wanted & share]


def partitions_text(history: KnownHistory, partitions: Mapping[str, Mapping[int, int]]) -> str:
    """Partitions as `bills 0-3 and orders 5`, empty for none; a topic that is not known is named by its id."""
    names = history.topic_names
    named = sorted((names.get(topic_id, topic_id), index) for topic_id, index in every_partition(partitions))
    return format_partitions(named, between=" and ")


def topic_changes(history: KnownHistory, index: int, event: ce.GroupEpochBumped) -> Iterator[str]:
    """Phrases about the subscribed topics that were created, deleted or extended between the last bump of the group
    epoch and `event`, which bumps it again and stands at `index`."""
    before = history.last_before(index, ce.GroupEpochBumped, me.GroupUpgraded)
    since = history.happenings[before].position if before is not None else 0
    former = history.happenings[before].event if before is not None else None
    subscribed = {*event.hashed_topics, *getattr(former, "hashed_topics", ())}
    for each in history.cluster:
        if not since < each.position < history.happenings[index].position:
            continue
        at = time_text(each.at_ms)
        match each.event:
            case TopicDeleted(name=name) if name in subscribed:
                yield f"topic {name} was deleted at {at}"
            case TopicCreated(name=name, partitions=partitions) if name in subscribed:
                yield f"topic {name} was created at {at} with {counted(partitions, 'partition')}"
            case PartitionsAdded(name=name, partitions=partitions) if name in subscribed:
                yield f"topic {name} had got {counted(partitions, 'partition')} at {at}"


def group_after(history: KnownHistory, first: int) -> Iterator[tuple[int, ConsumerGroup | None]]:
    """Yield the index of each event from `first` on, with the state of the group after that event; the state is None if
    the group does not use the consumer protocol then. Nothing is yielded if the beginning of the history was
    trimmed."""
    if history.beginning:
        return
    group = fold(Group(group_id=history.group_id), (each.event for each in history.happenings[:first]))
    for index in range(first, len(history.happenings)):
        group = evolve(group, history.happenings[index].event)
        yield index, group.consumer
