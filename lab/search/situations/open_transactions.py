"""Draws transactions that stay open while others ask for their offsets: until they time out, committed offsets of their
partitions are unstable, and a consumer that asks for them waits (KIP-447).

    steps = draw_open_transactions(random_stream, plan, duration_ms)
"""

from collections.abc import Callable, Iterator
from random import Random
from typing import Final

from regroup.lab.plan.plan import PlannedStep, SimulationPlan
from regroup.lab.plan.rare_steps import StableOffsetsAreFetched
from regroup.lab.plan.steps import (
    AbandonsTransaction,
    Joins,
    Leaves,
    MemberIsExpelled,
    RequestsRebalance,
    Restarts,
    SimulationStep,
)
from regroup.lab.plan.triggers import StepTrigger

OPEN_TRANSACTION_SHARE: Final = 1 / 4
"""The share of plans in which members begin to read while transactions with their partitions are open."""
LASTS_MS: Final = 20_000
"""More than the time from the first to the last of the steps."""


def draw_open_transactions(
    random_stream: Callable[[str], Random], plan: SimulationPlan, duration_ms: int
) -> Iterator[PlannedStep]:
    """Draw the steps in which producers beside two members of a group leave transactions open, an administrator fetches
    its stable offsets, and one of the members leaves or restarts, so that others or its next process begin to read;
    mostly none."""
    rng = random_stream("open transactions")
    names = [name for name, each in plan.members.items() if not each.transforms_to]
    if rng.random() >= OPEN_TRANSACTION_SHARE or not names or duration_ms <= LASTS_MS:
        return
    for _ in range(3):
        name, at_ms = rng.choice(names), rng.randrange(duration_ms - LASTS_MS) // 100 * 100
        group = plan.members[name].group
        others = [each for each in names if each != name and plan.members[each].group == group]
        for each in (name, *others[:1]):
            yield _at(at_ms, AbandonsTransaction(each))
        for delay_ms in (1_000, 3_500):
            yield _at(at_ms + delay_ms, StableOffsetsAreFetched(group))
        if rng.random() < 0.5:
            yield _at(at_ms + 4_000, Restarts(name, rng.choice((500, 2_000))))
        else:
            yield _at(at_ms + 4_000, Leaves(name))
            yield _at(at_ms + 4_100, MemberIsExpelled(name))  # a static member that leaves is still in its group
            yield _at(at_ms + 8_000, Joins(name))
        for delay_ms in (6_000, 9_000):
            yield _at(at_ms + delay_ms, RequestsRebalance(name))


def _at(at_ms: int, step: SimulationStep) -> PlannedStep:
    return PlannedStep(StepTrigger(delay_ms=at_ms), step)
