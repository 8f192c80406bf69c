"""Draws what happens in groups with members of both protocols: the classic ones change their protocol, are removed by
their instance ids, or lose records; those of the consumer protocol leave, and come back.

    steps = draw_mixed_situations(random_stream("mixed groups"), plan, duration_ms)

It has a random stream of its own, for the few plans that have such groups.
"""

from collections.abc import Iterator, Sequence
from random import Random
from typing import Final

from regroup.lab.plan.plan import PlannedStep, SimulationPlan
from regroup.lab.plan.rare_steps import OldMemberComesAndGoes, ProtocolIsChanged
from regroup.lab.plan.steps import Joins, KafkaLogFails, Leaves, MemberIsExpelled, RequestsRebalance
from regroup.lab.plan.triggers import StepTrigger
from regroup.lab.plan.validation import CLASSIC, CONSUMER
from regroup.lab.search.swarm_faults import LOG_ERROR_NAMES

ABSENCE_SHARE: Final = 1 / 2
"""The share of these plans in which all members of the consumer protocol leave for a while."""


def draw_mixed_situations(rng: Random, plan: SimulationPlan, duration_ms: int) -> Iterator[PlannedStep]:
    """Draw the situations of a plan that has members of both protocols; none of any other plan."""
    classic = [name for name, each in plan.members.items() if each.protocol == CLASSIC]
    consumers = [name for name, each in plan.members.items() if each.protocol == CONSUMER]
    if not classic or not consumers:
        return
    group = plan.members[consumers[0]].group

    def at_drawn_time() -> StepTrigger:
        return StepTrigger(delay_ms=rng.randrange(duration_ms) // 100 * 100)

    for _ in range(2):
        yield PlannedStep(at_drawn_time(), OldMemberComesAndGoes(group))
        yield PlannedStep(at_drawn_time(), ProtocolIsChanged(rng.choice(classic)))
    for name in classic:
        if plan.members[name].instance_id is not None:
            yield PlannedStep(at_drawn_time(), MemberIsExpelled(name))
    for _ in range(2):
        yield from draw_lost_joins(rng, classic, duration_ms)
    if rng.random() < ABSENCE_SHARE:
        yield from draw_absence(rng, classic, consumers)


def draw_lost_joins(rng: Random, classic: Sequence[str], duration_ms: int) -> Iterator[PlannedStep]:
    """Draw the steps in which classic members join while records wait for Kafka's log, which then refuses them."""
    at_ms = rng.randrange(duration_ms) // 100 * 100
    refuses = KafkaLogFails(rng.choice(LOG_ERROR_NAMES), 30_000, latency_ms=rng.choice((500, 2_000)))
    yield PlannedStep(StepTrigger(delay_ms=at_ms), refuses)
    for _ in range(4):
        rejoins = StepTrigger(delay_ms=min(at_ms + rng.randrange(20_000), duration_ms - 1) // 100 * 100)
        yield PlannedStep(rejoins, RequestsRebalance(rng.choice(classic)))


def draw_absence(rng: Random, classic: Sequence[str], consumers: Sequence[str]) -> Iterator[PlannedStep]:
    """Draw the steps in which all members of the consumer protocol leave when a classic one has joined and not yet
    synced, and come back: the group becomes a classic one, and changes again."""
    milestone = f"{rng.choice(classic)} receives the JoinGroup response"
    delay_ms = rng.choice((0, 20_000))
    away_ms = rng.choice((500, 5_000, 20_000))
    for name in consumers:
        yield PlannedStep(StepTrigger(milestone, delay_ms), Leaves(name))
        yield PlannedStep(StepTrigger(milestone, delay_ms + away_ms), Joins(name))
