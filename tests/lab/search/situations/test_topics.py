"""Topics in drawn plans that are deleted and created again, and those of which brokers have yet to learn."""

from random import Random

import msgspec

from regroup.lab.plan.plan import MemberPlan, PlannedStep, SimulationPlan
from regroup.lab.plan.rare_steps import SubscribesToOneTopic, TopicIsUnknown
from regroup.lab.plan.steps import TopicGrows, TopicIsCreated, TopicIsDeleted
from regroup.lab.plan.validation import CLASSIC, CONSUMER
from regroup.lab.search.situations.topics import (
    CONSUMER_RECREATION_SHARE,
    GROWTH_SHARE,
    NARROW_SUBSCRIPTION_SHARE,
    RECREATION_SHARE,
    UNKNOWN_TOPIC_SHARE,
    draw_growth,
)
from regroup.lab.search.swarm import draw_plan
from regroup.lab.search.swarm_protocols import has_consumer_protocol, is_mixed

PLANS = [draw_plan(seed) for seed in range(600)]


def is_sticky(plan: SimulationPlan) -> bool:
    return any("sticky" in assignor for member in plan.members.values() for assignor in member.assignors)


def is_recreation(step: PlannedStep) -> bool:
    return isinstance(step.step, TopicIsDeleted)


def deleted_topics(plan: SimulationPlan) -> list[str]:
    return [each.step.topic for each in plan.steps if isinstance(each.step, TopicIsDeleted)]


def test_a_topic_of_a_sticky_assignor_is_created_again_with_as_many_partitions_or_more() -> None:
    drawn = 0
    for plan in filter(is_sticky, PLANS):
        steps = [each.step for each in plan.steps]
        deleted = [each.topic for each in steps if isinstance(each, TopicIsDeleted)]
        drawn += bool(deleted)
        for topic in deleted:
            [created] = [each for each in steps if isinstance(each, TopicIsCreated) and each.topic == topic]
            grown = [each.partitions for each in steps if isinstance(each, TopicGrows) and each.topic == topic]
            assert created.partitions >= max(plan.topics[topic], *grown, 0)
    assert drawn > 600 * RECREATION_SHARE / 2


def test_topics_of_the_consumer_protocol_are_created_again_and_those_of_mixed_groups_are_not_deleted() -> None:
    pure = [plan for plan in PLANS if all(each.protocol == CONSUMER for each in plan.members.values())]
    mixed = [plan for plan in PLANS if is_mixed(plan.members)]
    deleting = [plan for plan in pure if deleted_topics(plan)]
    assert len(pure) * CONSUMER_RECREATION_SHARE / 2 < len(deleting) < len(pure) * CONSUMER_RECREATION_SHARE * 2
    assert all(sorted(deleted_topics(plan)) == sorted(plan.topics) for plan in deleting)
    assert {plan.workload.records_per_s > 0 for plan in deleting} == {True, False}
    assert len(mixed) > 7
    assert not any(deleted_topics(plan) for plan in mixed)
    at_ms = [[each.trigger.delay_ms for each in plan.steps if is_recreation(each)] for plan in deleting]
    assert any(len(set(each)) > 1 for each in at_ms), "topics are created again one after the other"
    assert all(max(each) < plan.faults_end_ms for each, plan in zip(at_ms, deleting, strict=True))


def test_brokers_do_not_know_the_topic_of_a_member_where_no_records_are_read() -> None:
    drawn = [plan for plan in PLANS if any(isinstance(each.step, TopicIsUnknown) for each in plan.steps)]
    assert len(drawn) > 600 * UNKNOWN_TOPIC_SHARE / 2
    assert not any(plan.workload.records_per_s or has_consumer_protocol(plan.members) for plan in drawn)
    counts = {sum(isinstance(each.step, TopicIsUnknown) for each in plan.steps) for plan in drawn}
    assert counts == {2}, "when the member joins, and later"
    assert all(
        each.step.topic in plan.members[each.step.member].topics
        for plan in drawn
        for each in plan.steps
        if isinstance(each.step, TopicIsUnknown)
    )


def test_a_topic_to_which_some_members_subscribe_and_others_do_not_grows_in_some_classic_groups() -> None:
    members = {"anna": MemberPlan(topics=("orders",)), "ben": MemberPlan(topics=("orders", "clicks"))}
    plan = SimulationPlan(topics={"orders": 4, "clicks": 2}, members=members)
    drawn = [list(draw_growth(Random(seed), plan, 60_000)) for seed in range(300)]
    grown = [each.step for steps in drawn for each in steps]
    assert 300 * GROWTH_SHARE / 2 < len(grown) < 300 * GROWTH_SHARE * 2
    assert all(isinstance(each, TopicGrows) and each.topic == "clicks" and each.partitions > 2 for each in grown)
    even = msgspec.structs.replace(plan, members={"anna": members["anna"]})
    assert not any(list(draw_growth(Random(seed), even, 60_000)) for seed in range(50))


def has_narrow_subscription(plan: SimulationPlan) -> bool:
    return any(isinstance(each.step, SubscribesToOneTopic) for each in plan.steps)


def test_some_classic_members_of_several_topics_subscribe_to_one_alone_for_a_while() -> None:
    several = [
        plan
        for plan in PLANS
        if any(each.protocol == CLASSIC and len(each.topics) > 1 and not each.pattern for each in plan.members.values())
    ]
    drawn = [plan for plan in several if has_narrow_subscription(plan)]
    assert 0.5 < len(drawn) / (NARROW_SUBSCRIPTION_SHARE * len(several)) < 1.2
    for plan in drawn:
        [step, *_] = [each.step for each in plan.steps if isinstance(each.step, SubscribesToOneTopic)]
        assert step.topic in plan.topics
        assert plan.members[step.member].protocol == CLASSIC
