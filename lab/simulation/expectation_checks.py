"""Whether what a plan expects of its world holds, and if not, what is found instead."""

import asyncio
from functools import singledispatch
from typing import TYPE_CHECKING, Final, get_args

from regroup.coordinator.group import State
from regroup.lab.plan import expectations as e
from regroup.lab.plan.sentences import Sentence
from regroup.members.consumer.state import Phase
from regroup.protocol.errors import ErrorCode

if TYPE_CHECKING:
    from regroup.lab.simulation.world import World

LOOK_S: Final = 0.1
"""How often somebody looks whether what is waited for has come true."""
_KINDS: Final = get_args(e.Expectation)


def is_expectation(step: Sentence) -> bool:
    """Whether a step only looks, and does nothing."""
    return isinstance(step, _KINDS)


def expect(step: Sentence, world: "World") -> None:
    """Look now, or, if it may take its time, as often as needed until that is over. What does not hold breaks."""
    if getattr(step, "within_ms", 0):
        world.spawn(_wait_for(step, world))
    elif (found := what_is_wrong(step, world)) is not None:
        world.breaks(f"{step}.", found)


async def _wait_for(step: Sentence, world: "World") -> None:
    deadline_s = world.loop.time() + getattr(step, "within_ms", 0) / 1000
    while (found := what_is_wrong(step, world)) is not None:
        if world.loop.time() >= deadline_s:
            world.breaks(f"{step}.", found)
            return
        await asyncio.sleep(LOOK_S)


@singledispatch
def what_is_wrong(step: Sentence, world: "World") -> str | None:
    """What is found instead of what a step expects; None if it holds."""
    raise NotImplementedError(f"nobody knows how to look whether {step}")


@what_is_wrong.register(e.GroupIsStable)
def _(step: e.GroupIsStable, world: "World") -> str | None:
    group = world.brokers.group(step.group)
    if group is None or group.state is not State.STABLE:
        return f"it is {group.state if group else 'not coordinated by anybody'}"
    names = sorted(world.company.name_of(member_id) or member_id for member_id in group.members)
    if step.members and names != sorted(step.members):
        return f"its members are {', '.join(names)}"
    return next((_unstable(world, name) for name in step.members if _unstable(world, name)), None)


def _unstable(world: "World", name: str) -> str | None:
    member = world.company.members.get(name)
    if member is None or member.is_over:
        return f"{name} is not there"
    phase = member.consumer.phase
    return None if phase is Phase.STABLE else f"{name} is {phase.value}"


@what_is_wrong.register(e.GroupIsEmpty)
def _(step: e.GroupIsEmpty, world: "World") -> str | None:
    group = world.brokers.group(step.group)
    if group is None:
        return "nobody coordinates it"
    return None if group.state in (State.EMPTY, State.DEAD) else f"it is {group.state}"


@what_is_wrong.register(e.Leads)
def _(step: e.Leads, world: "World") -> str | None:
    planned = world.plan.members.get(step.member)
    group = world.brokers.group(planned.group) if planned else None
    leader = world.company.name_of(group.leader) if group and group.leader else None
    return None if leader == step.member else f"{leader or 'nobody'} leads"


@what_is_wrong.register(e.WasExpelled)
def _(step: e.WasExpelled, world: "World") -> str | None:
    return None if step.member in world.herald.expelled else _expelled(world)


@what_is_wrong.register(e.WasNotExpelled)
def _(step: e.WasNotExpelled, world: "World") -> str | None:
    return _expelled(world) if step.member in world.herald.expelled else None


@what_is_wrong.register(e.NobodyWasExpelled)
def _(step: e.NobodyWasExpelled, world: "World") -> str | None:
    return _expelled(world) if world.herald.expelled else None


def _expelled(world: "World") -> str:
    return f"expelled: {', '.join(world.herald.expelled) or 'nobody'}"


@what_is_wrong.register(e.AtMostRebalances)
def _(step: e.AtMostRebalances, world: "World") -> str | None:
    return None if world.herald.generations <= step.count else f"there have been {world.herald.generations}"


@what_is_wrong.register(e.AtLeastRebalances)
def _(step: e.AtLeastRebalances, world: "World") -> str | None:
    return None if world.herald.generations >= step.count else f"there have been {world.herald.generations}"


@what_is_wrong.register(e.Generation)
def _(step: e.Generation, world: "World") -> str | None:
    group = world.brokers.group("lab")
    generation = group.generation if group else None
    return None if generation == step.number else f"it is in generation {generation}"


@what_is_wrong.register(e.SawError)
def _(step: e.SawError, world: "World") -> str | None:
    seen = world.company.errors_of(step.member)
    if ErrorCode[step.code] in seen:
        return None
    return f"{step.member} has seen {', '.join(ErrorCode.named(code) for code in seen) or 'no error'}"


@what_is_wrong.register(e.ProcessedTwiceAtMost)
def _(step: e.ProcessedTwiceAtMost, world: "World") -> str | None:
    twice = world.company.processed_twice
    return None if twice <= step.count else f"{twice} were"


@what_is_wrong.register(e.KeepsItsPartitions)
def _(step: e.KeepsItsPartitions, world: "World") -> str | None:
    return world.herald.what_was_given_up(step.member)


@what_is_wrong.register(e.UnownedAtMost)
def _(step: e.UnownedAtMost, world: "World") -> str | None:
    if world.judge is None:
        return "nobody has counted: let the judge watch"
    seconds = world.judge.members.ownerless_s(world.now_ms)
    return None if seconds <= step.partition_seconds else f"there were {seconds:.1f}"
