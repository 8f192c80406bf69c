"""Checks the expectations of a plan against its world."""

import asyncio
from typing import Final, get_args

from regroup.coordinator.group import GroupState
from regroup.lab.plan import expectations as e
from regroup.lab.plan.sentences import Sentence
from regroup.lab.simulation.milestones import Milestones
from regroup.lab.simulation.world import World
from regroup.members.consumer.state import MemberState
from regroup.protocol.errors import ErrorCode

CHECK_INTERVAL_S: Final = 0.1
"""Pause between two checks of a condition that is waited for."""
_EXPECTATIONS: Final = get_args(e.Expectation)


def is_expectation(step: Sentence) -> bool:
    """Whether a step is an expectation, not an action."""
    return isinstance(step, _EXPECTATIONS)


def check_expectation(step: Sentence, world: World, milestones: Milestones) -> None:
    """Check now, or, with `within_ms`, until it holds or the time is over. Report a violation if it does not hold."""
    if getattr(step, "within_ms", 0):
        world.spawn(_wait_for(step, world, milestones))
    elif (found := failure_of(step, world, milestones)) is not None:
        world.report_violation(f"{step}.", found)


async def _wait_for(step: Sentence, world: World, milestones: Milestones) -> None:
    deadline_s = world.loop.time() + getattr(step, "within_ms", 0) / 1000
    while (found := failure_of(step, world, milestones)) is not None:
        if world.loop.time() >= deadline_s:
            world.report_violation(f"{step}.", found)
            return
        await asyncio.sleep(CHECK_INTERVAL_S)


def failure_of(step: Sentence, world: World, milestones: Milestones) -> str | None:
    """Describe what is found instead of what a step expects; None if the expectation holds."""
    rebalances = f"there have been {milestones.generation_count}"
    removed = f"removed: {', '.join(milestones.removed) or 'none'}"
    match step:
        case e.GroupIsStable():
            return _why_not_stable(step, world)
        case e.GroupIsEmpty():
            group = world.brokers.group(step.group)
            if group is None:
                return "it has no coordinator"
            return None if group.state in (GroupState.EMPTY, GroupState.DEAD) else f"it is {group.state}"
        case e.GroupIsInGeneration():
            group = world.brokers.group("lab")
            generation_id = group.generation_id if group else None
            return None if generation_id == step.number else f"it is in generation {generation_id}"
        case e.Leads():
            planned = world.plan.members.get(step.member)
            group = world.brokers.group(planned.group) if planned else None
            leader = world.members.name_of(group.leader_id) if group and group.leader_id else None
            return None if leader == step.member else f"the leader is {leader}"
        case e.KeepsPartitions():
            return milestones.lost_partitions(step.member)
        case e.ReceivedError():
            codes = world.members.errors_of(step.member)
            received = ", ".join(ErrorCode.name_of(code) for code in codes) or "no error"
            return None if ErrorCode[step.code] in codes else f"{step.member} has seen {received}"
        case e.WasRemoved():
            return None if step.member in milestones.removed else removed
        case e.WasNotRemoved():
            return removed if step.member in milestones.removed else None
        case e.NoMemberWasRemoved():
            return removed if milestones.removed else None
        case e.AtMostRebalances():
            return None if milestones.generation_count <= step.count else rebalances
        case e.AtLeastRebalances():
            return None if milestones.generation_count >= step.count else rebalances
        case e.ProcessedTwiceAtMost():
            twice = world.members.processed_twice
            return None if twice <= step.count else f"{twice} were"
        case e.UnownedAtMost():
            if world.checker is None:
                return "it is not counted without invariant checks"
            seconds = world.checker.members.unowned_s(world.now_ms)
            return None if seconds <= step.partition_seconds else f"there were {seconds:.1f}"
    raise NotImplementedError(f"not an expectation: {step}")


def _why_not_stable(step: e.GroupIsStable, world: World) -> str | None:
    group = world.brokers.group(step.group)
    if group is None or group.state is not GroupState.STABLE:
        return f"it is {group.state}" if group else "it has no coordinator"
    names = sorted(world.members.name_of(member_id) or member_id for member_id in group.members)
    if step.members and names != sorted(step.members):
        return f"its members are {', '.join(names)}"
    for name in step.members:
        member = world.members.by_name.get(name)
        if member is None or member.is_stopped:
            return f"{name} is not running"
        if member.consumer.state is not MemberState.STABLE:
            return f"{name} is {member.consumer.state.value}"
    return None
