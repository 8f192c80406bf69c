"""Draws topics that are deleted and created again while members with a sticky assignor subscribe to them.

    steps = draw_recreation(random_stream("topic created again"), plan, steps, duration_ms)

The new topic has at least as many partitions as the deleted one. With fewer Kafka's sticky assignors keep partitions
that no longer exist. It is created in the same moment, since a client that asks for a deleted topic creates it with one
partition (`auto.create.topics.enable`).
"""

from collections.abc import Iterator, Sequence
from random import Random
from typing import Final

from regroup.lab.plan.plan import MemberPlan, PlannedStep, SimulationPlan
from regroup.lab.plan.steps import TopicGrows, TopicIsCreated, TopicIsDeleted
from regroup.lab.plan.triggers import StepTrigger
from regroup.lab.plan.validation import CLASSIC

RECREATION_SHARE: Final = 1 / 12
"""The share of plans of classic groups with a sticky assignor in which a topic is deleted and created again."""


def draw_recreation(
    rng: Random, plan: SimulationPlan, steps: Sequence[PlannedStep], duration_ms: int
) -> Iterator[PlannedStep]:
    """Draw the steps in which a topic is deleted and created again; mostly none. `steps` are those of the plan so far,
    `duration_ms` is for how long there are faults."""
    members = plan.members.values()
    if any(each.protocol != CLASSIC for each in members) or not any(map(_is_sticky, members)):
        return
    if rng.random() >= RECREATION_SHARE:
        return
    topic = rng.choice(list(plan.topics))
    grown = [each.step.partitions for each in steps if isinstance(each.step, TopicGrows) and each.step.topic == topic]
    partitions = max(plan.topics[topic], *grown, 0) + rng.choice((0, 0, 1, 4))
    trigger = StepTrigger(delay_ms=rng.randrange(duration_ms) // 100 * 100)
    yield PlannedStep(trigger, TopicIsDeleted(topic))
    yield PlannedStep(trigger, TopicIsCreated(topic, partitions))


def _is_sticky(member: MemberPlan) -> bool:
    return any("sticky" in assignor for assignor in member.assignors)
