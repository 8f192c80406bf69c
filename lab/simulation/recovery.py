"""The second half of a run: faults are over, and every group has to find its way back."""

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from regroup.coordinator.classic.deadlines import next_deadline
from regroup.coordinator.group import Group, State
from regroup.coordinator.invariants import owned_partitions
from regroup.members.consumer.state import Phase
from regroup.members.faults import Kind, parse_habit
from regroup.protocol.consumer.subscription import TopicPartition

if TYPE_CHECKING:
    from regroup.lab.simulation.world import World


ALL_IS_WELL: Final = "Once the faults are over, every group is Stable again and all partitions are owned."


async def heal(world: "World") -> None:
    """Network, disk and brokers are well again, and members that cannot behave are taken away."""
    world.network.mend_all()
    world.disk.is_full = world.disk.fails_once = False
    world.disk.latency_ms = world.plan.disk_latency_ms
    for name, member in world.company.members.items():
        habits = [parse_habit(text) for text in world.plan.members[name].habits]
        if member.is_zombie or any(habit.kind.lasts for habit in habits):
            world.company.misbehave(name, Kind.CRASH)
    with suppress(TimeoutError):  # then `why_not_well` says so
        async with asyncio.timeout(world.plan.bound_ms / 1000):
            await world.brokers.heal()


def why_not_well(world: "World") -> str | None:
    """What is still missing until every group with living members is Stable and owns everything; None if nothing is."""
    if world.brokers.emulator is None:
        return "the brokers do not come back"
    groups = dict.fromkeys(planned.group for planned in world.plan.members.values())
    return next((missing for name in groups if (missing := _missing(world, name))), None)


def _missing(world: "World", name: str) -> str | None:
    living = world.company.living(name)
    if not living:
        return None
    group = world.brokers.group(name)
    if group is None:
        return f"nobody coordinates group {name}"
    if group.state is not State.STABLE:
        return f"group {name} is {group.state}; {_waits_for(world, group)}"
    for member_name, member in living.items():
        if member.consumer.phase is not Phase.STABLE:
            return f"{member_name} is {member.consumer.phase.value}, generation {member.consumer.generation.number}"
    strangers = [each for each in group.members if world.company.name_of(each) not in living]
    if strangers:
        return f"{world.company.name_of(strangers[0])} is gone and still a member; {_waits_for(world, group)}"
    unowned = wanted(world, name) - set(owned_partitions(group)) - world.herald.taken_for_dealt_out(group)
    return f"{_first(unowned)} belongs to nobody" if unowned else None


def _waits_for(world: "World", group: Group) -> str:
    deadline = next_deadline(group, {})
    if deadline is None:
        return "it waits for no deadline"
    who = world.company.name_of(deadline.member) if deadline.member else None
    return f"it waits for the {deadline.kind.value} deadline" + (
        f" of {who or deadline.member}" if deadline.member else ""
    )


def wanted(world: "World", group: str) -> set[TopicPartition]:
    """Every partition of every topic that a living member subscribes to."""
    cluster = world.brokers.cluster
    topics = cluster.topics.by_name if cluster else {}
    subscribed = {topic for name in world.company.living(group) for topic in world.plan.members[name].topics}
    return {
        TopicPartition(topic, number)
        for topic in sorted(subscribed & topics.keys())
        for number in range(topics[topic].partitions)
    }


def _first(partitions: set[TopicPartition]) -> str:
    topic, number = min(partitions)
    return f"{topic}-{number}"
