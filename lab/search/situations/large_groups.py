"""Draws plans with a group of more than 256 members, which a coordinator keeps and checks in other ways than a few.

    plan = draw_large_group(random_stream("large group"), seed, consumer_share=1 / 6)

A run of it costs as much as ten others, so it is short, few plans have it, and only a few of the members change.
"""

from collections.abc import Iterator, Sequence
from random import Random
from typing import Final

from regroup.lab.plan.plan import MemberPlan, PlannedStep, SimulationPlan
from regroup.lab.plan.steps import (
    BrokersCrash,
    Crashes,
    Joins,
    Leaves,
    MemberIsExpelled,
    Pauses,
    RequestsRebalance,
    ResponseLost,
    Restarts,
    SimulationStep,
)
from regroup.lab.plan.triggers import StepTrigger
from regroup.lab.plan.validation import CLASSIC, CONSUMER

LARGE_GROUP_SHARE: Final = 1 / 80
"""The share of plans with a large group."""
SMALLEST: Final = 258
"""Regroup copies a mapping of fewer than 256 entries for each change. Some members of the plan leave."""
SESSION_TIMEOUT_MS: Final = 10_000
JOINED_MS: Final = 12_000
"""When all members have joined."""
FAULTS_END_MS: Final = 60_000
CHANGING_MEMBERS: Final = 12
"""How many of the members crash, leave and join again."""


def draw_large_group(rng: Random, seed: int, consumer_share: float) -> SimulationPlan:
    """Draw the plan of a seed with one large group. All of its members have one protocol, with the chance
    `consumer_share` that of KIP-848."""
    protocol = CONSUMER if rng.random() < consumer_share else CLASSIC
    names = [f"member-{number}" for number in range(SMALLEST + rng.randrange(20))]
    static_share = rng.choice((0.0, 0.5, 1.0))
    assignor = rng.choice(("range", "roundrobin", "cooperative-sticky"))
    return SimulationPlan(
        title=f"Seed {seed}",
        seed=seed,
        settings={
            "group.initial.rebalance.delay.ms": 3_000,
            "group.consumer.max.size": 1_000,
            "group.consumer.session.timeout.ms": SESSION_TIMEOUT_MS,
            "group.consumer.min.session.timeout.ms": SESSION_TIMEOUT_MS,
        },
        topics={"orders": len(names) + rng.choice((-40, 0, 40))},
        members={
            name: MemberPlan(
                assignors=(assignor,),
                protocol=protocol,
                instance_id=f"{name}-1" if rng.random() < static_share else None,
                session_timeout_ms=SESSION_TIMEOUT_MS,
            )
            for name in names
        },
        steps=(*_joins(rng, names), *_changes(rng, rng.sample(names, CHANGING_MEMBERS))),
        faults_end_ms=FAULTS_END_MS,
    )


def _joins(rng: Random, names: Sequence[str]) -> Iterator[PlannedStep]:
    for name in names:
        yield PlannedStep(StepTrigger(delay_ms=rng.randrange(30) * 100), Joins(name))


def _changes(rng: Random, names: Sequence[str]) -> Iterator[PlannedStep]:
    """Draw what happens to these members; most that are gone join again, before their session has ended or after it."""
    for name in names:
        at_ms = rng.randrange(JOINED_MS, FAULTS_END_MS - 20_000) // 100 * 100
        step = rng.choice(_changes_of(name, rng.randrange(100, 20_000) // 100 * 100))
        yield PlannedStep(StepTrigger(delay_ms=at_ms), step)
        if isinstance(step, Crashes | Leaves) and rng.random() < 0.8:
            again_ms = at_ms + rng.randrange(100, 20_000) // 100 * 100
            yield PlannedStep(StepTrigger(delay_ms=again_ms), Joins(name))
    if rng.random() < 1 / 3:
        at_ms = rng.randrange(JOINED_MS, FAULTS_END_MS - 10_000) // 100 * 100
        yield PlannedStep(StepTrigger(delay_ms=at_ms), BrokersCrash(rng.choice((100, 5_000))))


def _changes_of(name: str, duration_ms: int) -> list[SimulationStep]:
    """What can happen to a member."""
    return [
        Crashes(name),
        Crashes(name),
        Leaves(name),
        Restarts(name, duration_ms),
        Pauses(name, duration_ms),
        MemberIsExpelled(name),
        RequestsRebalance(name),
        ResponseLost(name, "Heartbeat"),
    ]
