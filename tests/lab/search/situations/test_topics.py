"""Topics that are deleted and created again in drawn plans with a sticky assignor."""

from regroup.lab.plan.plan import SimulationPlan
from regroup.lab.plan.steps import TopicGrows, TopicIsCreated, TopicIsDeleted
from regroup.lab.search.situations.topics import RECREATION_SHARE
from regroup.lab.search.swarm import draw_plan
from regroup.lab.search.swarm_protocols import has_consumer_protocol

PLANS = [draw_plan(seed) for seed in range(600)]


def is_sticky(plan: SimulationPlan) -> bool:
    return any("sticky" in assignor for member in plan.members.values() for assignor in member.assignors)


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


def test_plans_with_the_consumer_protocol_delete_no_topic() -> None:
    plans = [plan for plan in PLANS if has_consumer_protocol(plan.members)]
    assert len(plans) > 50
    assert [plan.seed for plan in plans for each in plan.steps if isinstance(each.step, TopicIsDeleted)] == []
