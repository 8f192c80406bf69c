"""Checks the expectations of a plan against its world."""

import asyncio
from collections.abc import Collection
from typing import Final, get_args

from regroup.coordinator.group import Group, GroupState
from regroup.lab.plan import expectations as e
from regroup.lab.plan.plan import PlannedStep
from regroup.lab.plan.sentences import Sentence, join_names
from regroup.lab.simulation.milestones import Milestones
from regroup.lab.simulation.world import World
from regroup.members.consumer.state import MemberState
from regroup.protocol.errors import ErrorCode

CHECK_INTERVAL_S: Final = 0.1
"""Seconds between two checks of an expectation that waits until it holds."""
_EXPECTATIONS: Final = get_args(e.Expectation)


def is_expectation(step: Sentence) -> bool:
    """Whether a step is an expectation, not an action."""
    return isinstance(step, _EXPECTATIONS)


def check_expectation(planned: PlannedStep, world: World, milestones: Milestones) -> None:
    """Check an expectation and report the result: now, or with `within_ms` as soon as it holds or that time is over."""
    if getattr(planned.step, "within_ms", 0):
        world.spawn(_wait_for(planned, world, milestones))
    else:
        world.report_expectation(planned, failure_of(planned.step, world, milestones))


async def _wait_for(planned: PlannedStep, world: World, milestones: Milestones) -> None:
    deadline_s = world.loop.time() + getattr(planned.step, "within_ms", 0) / 1000
    while (found := failure_of(planned.step, world, milestones)) is not None:
        if world.loop.time() >= deadline_s:
            break
        await asyncio.sleep(CHECK_INTERVAL_S)
    world.report_expectation(planned, found)


def failure_of(step: Sentence, world: World, milestones: Milestones) -> str | None:
    """Describe what is found instead of what a step expects; None if the expectation holds."""
    rebalances = f"there have been {milestones.generation_count} rebalances"
    match step:
        case e.GroupIsStable():
            return _why_not_stable(step, world)
        case e.GroupIsEmpty():
            group = world.brokers.group(step.group)
            if group is None:
                return "the group has no coordinator"
            state, _ = present(group)
            return None if state in (GroupState.EMPTY, GroupState.DEAD) else f"the group is {state}"
        case e.GroupIsInGeneration():
            group = world.brokers.group("lab")
            generation_id = group.generation_id if group else None
            return None if generation_id == step.number else f"the group is in generation {generation_id}"
        case e.Leads():
            planned = world.plan.members.get(step.member)
            group = world.brokers.group(planned.group) if planned else None
            leader = world.members.name_of(group.leader_id) if group and group.leader_id else None
            found = f"the leader is {leader}" if leader else "the group has no leader"
            return None if leader == step.member else found
        case e.KeepsPartitions():
            return milestones.lost_partitions(step.member)
        case e.ReceivedError():
            codes = world.members.errors_of(step.member)
            received = ", ".join(ErrorCode.name_of(code) for code in codes) or "no error"
            return None if ErrorCode[step.code] in codes else f"{step.member} has seen {received}"
        case e.WasRemoved():
            return None if step.member in milestones.removed else _removed(milestones, "only ")
        case e.WasNotRemoved():
            return f"{step.member} was removed" if step.member in milestones.removed else None
        case e.NoMemberWasRemoved():
            return _removed(milestones) if milestones.removed else None
        case e.AtMostRebalances():
            return None if milestones.generation_count <= step.count else rebalances
        case e.AtLeastRebalances():
            return None if milestones.generation_count >= step.count else rebalances
        case e.ProcessedTwiceAtMost():
            twice = world.members.processed_twice
            return None if twice <= step.count else f"{twice} records were"
        case e.UnownedAtMost():
            if world.checker is None:
                return "it is not counted without invariant checks"
            seconds = world.checker.members.unowned_s(world.now_ms)
            return None if seconds <= step.partition_seconds else f"there were {seconds:.1f} partition-seconds"
    raise NotImplementedError(f"not an expectation: {step}")


def present(group: Group) -> tuple[str, Collection[str]]:
    """The state of a group, by name, and the ids of its members, whether it is of the classic or the consumer
    protocol."""
    if group.consumer is not None:
        return group.consumer.state.value, group.consumer.members
    return group.state.value, group.members


def _why_not_stable(step: e.GroupIsStable, world: World) -> str | None:
    group = world.brokers.group(step.group)
    if group is None:
        return "the group has no coordinator"
    state, members = present(group)
    if state != GroupState.STABLE:
        return f"the group is {state}"
    names = sorted(world.members.name_of(member_id) or member_id for member_id in members)
    if step.members and names != sorted(step.members):
        return f"the members of the group are {', '.join(names) or 'none'}"
    for name in step.members:
        member = world.members.by_name.get(name)
        if member is None or member.is_stopped:
            return f"{name} is not running"
        if member.consumer.state is not MemberState.STABLE:
            return f"{name} is {member.consumer.state.value}"
    return None


def _removed(milestones: Milestones, only: str = "") -> str:
    names = list(dict.fromkeys(milestones.removed))
    if not names:
        return "no member was removed"
    return f"{only}{join_names(names)} {'was' if len(names) == 1 else 'were'} removed"
