"""Draws topics that are deleted and created again while members of the consumer protocol, or with a sticky assignor,
subscribe to them, topics of which brokers have yet to learn, and members that subscribe to one topic for a while.

    steps = draw_recreation(random_stream("topic created again"), plan, steps, duration_ms)
    steps = draw_growth(random_stream("growth"), plan, duration_ms)
    steps = draw_narrow_subscriptions(random_stream("narrow subscriptions"), plan, duration_ms)
    plan = with_unknown_topic(random_stream("unknown topic"), plan)

A topic that is created again has at least as many partitions as the deleted one. With fewer Kafka's sticky assignors
keep partitions that no longer exist. It is created in the same moment, since a client that asks for a deleted topic
creates it with one partition (`auto.create.topics.enable`).
"""

from collections.abc import Iterator, Sequence
from random import Random
from typing import Final

from msgspec.structs import replace

from regroup.lab.plan.plan import MemberPlan, PlannedStep, SimulationPlan
from regroup.lab.plan.rare_steps import SubscribesToOneTopic, TopicIsUnknown
from regroup.lab.plan.steps import TopicGrows, TopicIsCreated, TopicIsDeleted
from regroup.lab.plan.triggers import StepTrigger
from regroup.lab.plan.validation import CLASSIC, CONSUMER

RECREATION_SHARE: Final = 1 / 12
"""The share of plans of classic groups with a sticky assignor in which a topic is deleted and created again."""
CONSUMER_RECREATION_SHARE: Final = 1 / 3
"""The share of plans of the consumer protocol alone in which all topics are."""

GROWTH_SHARE: Final = 1 / 3
"""The share of plans of classic groups whose members subscribe to different topics in which one of these grows."""

NARROW_SUBSCRIPTION_SHARE: Final = 1 / 3
"""The share of plans with classic members of several topics in which one subscribes to a single topic for a while."""

UNKNOWN_TOPIC_SHARE: Final = 1 / 12
"""The share of plans of classic groups in which brokers tell a member for a while that its topic does not exist."""


def draw_recreation(
    rng: Random, plan: SimulationPlan, steps: Sequence[PlannedStep], duration_ms: int
) -> Iterator[PlannedStep]:
    """Draw the steps in which a topic is deleted and created again; mostly none. `steps` are those of the plan so far,
    `duration_ms` is for how long there are faults."""
    members = plan.members.values()
    is_of_consumers = all(each.protocol == CONSUMER for each in members)
    is_sticky = all(each.protocol == CLASSIC for each in members) and any(map(_is_sticky, members))
    share = CONSUMER_RECREATION_SHARE if is_of_consumers else RECREATION_SHARE if is_sticky else 0.0
    if rng.random() >= share:
        return
    # A member that asks for the new id of one topic may learn that of another one before it is assigned that.
    topics = rng.sample(list(plan.topics), len(plan.topics)) if is_of_consumers else [rng.choice(list(plan.topics))]
    at_ms = rng.randrange(duration_ms) // 100 * 100
    for topic in topics:
        yield from _recreation(rng, plan, steps, topic, StepTrigger(delay_ms=min(at_ms, duration_ms - 1)))
        at_ms += rng.choice((5, 20, 100, 500))


def _recreation(
    rng: Random, plan: SimulationPlan, steps: Sequence[PlannedStep], topic: str, trigger: StepTrigger
) -> Iterator[PlannedStep]:
    grown = [each.step.partitions for each in steps if isinstance(each.step, TopicGrows) and each.step.topic == topic]
    partitions = max(plan.topics[topic], *grown, 0) + rng.choice((0, 0, 1, 4))
    yield PlannedStep(trigger, TopicIsDeleted(topic))
    yield PlannedStep(trigger, TopicIsCreated(topic, partitions))


def draw_growth(rng: Random, plan: SimulationPlan, duration_ms: int) -> Iterator[PlannedStep]:
    """Draw the step in which a topic grows to which some members of a classic group subscribe, and others do not.

    A leader that does not subscribe to it has to ask for its metadata, too, and to start a rebalance. Mostly there is
    none.
    """
    members = plan.members.values()
    uneven = [
        topic
        for topic in plan.topics
        if 0 < sum(topic in each.topics and not each.pattern for each in members) < len(members)
    ]
    if rng.random() >= GROWTH_SHARE or not uneven or any(each.protocol != CLASSIC for each in members):
        return
    topic = rng.choice(uneven)
    trigger = StepTrigger(delay_ms=rng.randrange(duration_ms) // 100 * 100)
    yield PlannedStep(trigger, TopicGrows(topic, plan.topics[topic] + rng.choice((1, 2, 4))))


def draw_narrow_subscriptions(rng: Random, plan: SimulationPlan, duration_ms: int) -> Iterator[PlannedStep]:
    """Draw the steps in which a classic member subscribes to one of its topics alone, and later to all of them again:
    while its JoinGroup or SyncGroup is in flight, and at drawn times; mostly none."""
    names = [
        name
        for name, each in plan.members.items()
        if each.protocol == CLASSIC and not each.pattern and not each.transforms_to and len(each.topics) > 1
    ]
    if not names or rng.random() >= NARROW_SUBSCRIPTION_SHARE:
        return
    name = rng.choice(names)
    for request, delay_ms in (("JoinGroup", rng.choice((0, 100, 1_000))), ("SyncGroup", 0)):
        yield PlannedStep(StepTrigger(f"{name} sends {request}", delay_ms), _narrow(rng, name, plan.members[name]))
    for _ in range(3):
        at_ms = rng.randrange(duration_ms) // 100 * 100
        yield PlannedStep(StepTrigger(delay_ms=at_ms), _narrow(rng, name, plan.members[name]))


def _narrow(rng: Random, name: str, member: MemberPlan) -> SubscribesToOneTopic:
    return SubscribesToOneTopic(name, rng.choice(member.topics), rng.choice((100, 5_000, 20_000)))


def with_unknown_topic(rng: Random, plan: SimulationPlan) -> SimulationPlan:
    """A plan in which brokers tell a member that its topic does not exist, when it joins and later; mostly the plan as
    it is. Where records are read, the member could not read them meanwhile."""
    members = plan.members
    if plan.workload.records_per_s or any(each.protocol != CLASSIC for each in members.values()):
        return plan
    if rng.random() >= UNKNOWN_TOPIC_SHARE:
        return plan
    name = rng.choice(list(members))
    topic = rng.choice(members[name].topics)
    steps = [
        PlannedStep(StepTrigger(delay_ms=at_ms), TopicIsUnknown(name, topic, rng.choice((3_000, 20_000))))
        for at_ms in (0, rng.randrange(plan.faults_end_ms) // 100 * 100)
    ]
    return replace(plan, steps=(*steps, *plan.steps))


def _is_sticky(member: MemberPlan) -> bool:
    return any("sticky" in assignor for assignor in member.assignors)
