"""The recovery at the end of a run: ends all faults, and says which group has not recovered and why."""

import asyncio
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Final, NamedTuple, Self

from regroup.coordinator.consumer_group import ConsumerGroup, ConsumerGroupState, every_partition
from regroup.coordinator.group import Group, GroupState
from regroup.coordinator.runtime.deadlines import next_deadline
from regroup.lab.plan.validation import CLASSIC
from regroup.lab.simulation.members import LabMember
from regroup.lab.simulation.overlooked_partitions import OverlookedPartitions
from regroup.lab.simulation.world import World
from regroup.members.consumer.state import MemberState
from regroup.members.faults import MemberFaultKind, parse_fault
from regroup.protocol.consumer.subscription import TopicPartition, assigned_partitions

RECOVERY_INVARIANT: Final = "Once the faults are over, every group becomes Stable and all partitions have owners."


READS_INVARIANT: Final = (
    "Once the faults are over, each member reads what it owns, and each group processes records and commits again."
)


async def end_faults(world: World) -> None:
    """Let network, disk and brokers work again, and stop members whose faults would prevent recovery."""
    world.network.restore_all()
    world.disk.is_full = world.disk.fails_next_write = False
    world.disk.latency_ms = world.plan.disk_latency_ms
    for name, member in world.members.by_name.items():
        faults = [parse_fault(text) for text in world.plan.members[name].faults]
        is_stuck = name in world.members.without_assignment
        if member.is_zombie or is_stuck or any(fault.kind.is_lasting for fault in faults):
            world.members.inject_fault(name, MemberFaultKind.CRASH)
    with suppress(TimeoutError):  # `recovery_obstacle` then reports that the brokers are down
        async with asyncio.timeout(world.plan.recovery_timeout_ms / 1000):
            await world.brokers.recover()


def recovery_obstacle(world: World, overlooked: OverlookedPartitions) -> str | None:
    """Describe what keeps a group with running members from being Stable with an owner for every partition.

    None if every group has recovered.
    """
    if world.brokers.broker_cluster is None:
        return "the brokers do not start"
    groups = dict.fromkeys(planned.group for planned in world.plan.members.values())
    return next((missing for each in groups if (missing := _missing(world, overlooked, each))), None)


def _missing(world: World, overlooked: OverlookedPartitions, group_id: str) -> str | None:
    running = world.members.running_members(group_id)
    if not running:
        return None
    group = world.brokers.group(group_id)
    if group is None:
        return f"group {group_id} has no coordinator"
    if group.consumer is not None:
        return _missing_of_consumer_protocol(world, group_id, group.consumer, running)
    if group.state is not GroupState.STABLE:
        return f"group {group_id} is {group.state}; {_awaited_deadline(world, group)}"
    for name, member in running.items():
        consumer = member.consumer
        if consumer.state is not MemberState.STABLE:
            return f"{name} is {consumer.state.value}, generation {consumer.generation.generation_id}"
    stopped = [each for each in group.members if world.members.name_of(each) not in running]
    if stopped:
        stopped_name = world.members.name_of(stopped[0])
        return f"{stopped_name} has stopped and is still a member; {_awaited_deadline(world, group)}"
    assigned = {partition for each in group.members.values() for partition in assigned_partitions(each.assignment)}
    unowned = world.subscribed_partitions(group_id) - assigned - overlooked.of(group)
    if not unowned:
        return None
    topic, number = min(unowned)
    return f"{topic}-{number} has no owner"


def _missing_of_consumer_protocol(
    world: World, group_id: str, group: ConsumerGroup, running: Mapping[str, LabMember]
) -> str | None:
    """Describe what a group of the consumer protocol lacks to have recovered; None if it lacks nothing.

    Every running member has to own its share of the target, and the shares have to be all subscribed partitions.
    Members of the classic protocol that are too many for `group.max.size` stay in such a group when the others are
    gone. As with Kafka 4.4, none of their heartbeats leads to a new target, so the group may stay Assigning.
    """
    are_classic = all(world.plan.members[name].protocol == CLASSIC for name in running)
    if group.state is ConsumerGroupState.ASSIGNING and are_classic:
        return None
    if group.state is not ConsumerGroupState.STABLE:
        return f"group {group_id} is {group.state}"
    if len(group.members) != len(running):
        return f"group {group_id} has {len(group.members)} members, and {len(running)} run"
    names = world.topic_names
    unowned = world.subscribed_partitions(group_id)
    for name, each in running.items():
        if each.consumer.state is not MemberState.STABLE:
            return f"{name} has not reconciled"
        share = group.targets.get(each.consumer.generation.member_id, {})
        if not share.keys() <= names.keys():
            return f"the target of {name} has a topic that was deleted"
        target = {TopicPartition(names[topic_id], index) for topic_id, index in every_partition(share)}
        owned = set(each.consumer.assigned_partitions)
        if owned != target:
            return f"{name} owns {_listed(owned) or 'nothing'}, and its target is {_listed(target) or 'nothing'}"
        unowned -= owned
    return f"{min(unowned)} has no owner" if unowned else None


class ReadingProgress(NamedTuple):
    """How many records groups have processed, and how many offsets they have committed, by group id."""

    processed: Mapping[str, int]
    committed: Mapping[str, int]

    @classmethod
    def of(cls, world: World) -> Self:
        """The progress of the groups up to now."""
        return cls(dict(world.members.processed), dict(world.members.committed))


NO_PROGRESS: Final = ReadingProgress({}, {})


def reading_obstacle(world: World, before: ReadingProgress) -> str | None:
    """Describe what a recovered group does not read or commit; None if it reads everything, and commits.

    `before` is the progress at the last step of the plan: a group that has processed and committed something since then
    need not do more, so that the run of a group that has recovered ends with its faults. There is nothing to read in a
    run without records. Members that transform records commit in transactions, which other invariants are about.
    """
    if not world.members.has_workload:
        return None
    outputs = {each.transforms_to for each in world.plan.members.values()}  # their records come from other members
    for group_id in dict.fromkeys(planned.group for planned in world.plan.members.values()):
        running = world.members.running_members(group_id)
        subscribed = world.subscribed_partitions(group_id)
        for name, member in running.items():
            for partition in member.consumer.assigned_partitions:
                if partition in subscribed and partition not in world.members.read_by(name):
                    return f"{name} owns {partition}, and does not read it"
        has_records = any(each.topic not in outputs for each in subscribed)
        if not running or not has_records:
            continue
        if world.members.processed[group_id] <= before.processed.get(group_id, 0):
            return f"group {group_id} has processed no record since the last step"
        commits = not any(world.plan.members[name].transforms_to for name in running)
        if commits and world.members.committed[group_id] <= before.committed.get(group_id, 0):
            return f"group {group_id} has committed no offset since the last step"
    return None


def _listed(partitions: Iterable[TopicPartition]) -> str:
    return ", ".join(str(each) for each in sorted(partitions))


def _awaited_deadline(world: World, group: Group) -> str:
    deadline = next_deadline(group, {})
    if deadline is None:
        return "it waits for no deadline"
    text = f"it waits for the {deadline.kind.value} deadline"
    if not deadline.member_id:
        return text
    return f"{text} of {world.members.name_of(deadline.member_id) or deadline.member_id}"
