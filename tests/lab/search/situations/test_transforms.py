"""Few plans have members that transform records; these have readers, and nothing else that changes offsets."""

from random import Random

from regroup.lab.plan.steps import AbandonsTransaction, IsFencedInTransaction, Joins
from regroup.lab.plan.validation import CONSUMER, plan_problems
from regroup.lab.search.situations.transforms import OTHER_OFFSETS, OUTPUT_TOPIC, with_transform
from regroup.lab.search.swarm import draw_plan

SEEDS = range(30)


def test_a_plan_with_transforming_members_can_be_played_and_changes_offsets_in_transactions_alone() -> None:
    for seed in SEEDS:
        plan = draw_plan(seed, consumer_share=0, transform_share=1)
        assert list(plan_problems(plan)) == []
        assert not any(isinstance(each.step, OTHER_OFFSETS) for each in plan.steps)
        readers = [name for name, each in plan.members.items() if each.isolation_level == "read_committed"]
        assert {plan.members[name].topics for name in readers} == {(OUTPUT_TOPIC,)}
        assert {each.step.member for each in plan.steps if isinstance(each.step, Joins)} >= set(readers)
        writers = [each for name, each in plan.members.items() if name not in readers]
        assert {each.transforms_to for each in writers} == {OUTPUT_TOPIC}
        assert plan.workload.records_per_s > 0
        before = draw_plan(seed, consumer_share=0, transform_share=0).members.values()
        assert [each.group for each in writers] == [each.group for each in before], "steps name these groups"


def test_transactions_that_change_no_offsets_stay_in_plans_with_transforming_members() -> None:
    drawn = {
        type(each.step)
        for seed in range(60)
        for each in draw_plan(seed, consumer_share=0, transform_share=1, max_members=3).steps
    }
    assert {AbandonsTransaction, IsFencedInTransaction} <= drawn


def test_most_plans_stay_as_they_are() -> None:
    plan = draw_plan(3, transform_share=0)
    drawn = [with_transform(Random(seed), plan) for seed in range(300)]
    assert 260 < sum(each is plan for each in drawn) < 300


def test_a_plan_with_members_of_the_consumer_protocol_stays_as_it_is() -> None:
    for seed in SEEDS:
        plan = draw_plan(seed, consumer_share=1, transform_share=0)
        assert any(each.protocol == CONSUMER for each in plan.members.values())
        assert with_transform(Random(seed), plan, 1) is plan
