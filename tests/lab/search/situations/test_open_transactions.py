"""In some plans members begin to read while transactions with their partitions are open."""

from functools import partial
from random import Random

from regroup.lab.plan.plan import MemberPlan, SimulationPlan
from regroup.lab.plan.steps import AbandonsTransaction
from regroup.lab.plan.validation import CONSUMER
from regroup.lab.search.situations.open_transactions import LASTS_MS, draw_open_transactions

SEEDS = range(200)
PLAN = SimulationPlan(
    members={"anna": MemberPlan(), "ben": MemberPlan(protocol=CONSUMER), "carla": MemberPlan(group="audit")}
)


def stream_of(seed: int, part: str) -> Random:
    return Random(f"{seed}/{part}")


def sentences(seed: int, plan: SimulationPlan, duration_ms: int = 60_000) -> list[str]:
    return [str(each.step) for each in draw_open_transactions(partial(stream_of, seed), plan, duration_ms)]


def test_a_member_leaves_or_restarts_while_transactions_of_its_group_are_open() -> None:
    drawn = [steps for seed in SEEDS if (steps := sentences(seed, PLAN))]
    assert 30 < len(drawn) < 75
    for steps in drawn:
        assert "abandons a transaction" in steps[0]
        assert any(each.endswith("leaves") or "restarts" in each for each in steps)
        assert any("fetches the stable offsets" in each for each in steps)
    together = [steps for steps in drawn if "anna abandons a transaction" in steps[:2]]
    assert all("ben abandons a transaction" in steps[:2] for steps in together)


def test_a_short_plan_and_one_whose_members_transform_records_have_none() -> None:
    transforming = SimulationPlan(members={"anna": MemberPlan(transforms_to="totals")})
    assert not any(sentences(seed, transforming) or sentences(seed, PLAN, LASTS_MS) for seed in SEEDS)


def test_all_steps_happen_while_there_are_faults() -> None:
    for seed in SEEDS:
        for each in draw_open_transactions(partial(stream_of, seed), PLAN, 60_000):
            assert each.trigger.delay_ms < 60_000
            assert not isinstance(each.step, AbandonsTransaction) or each.step.member in PLAN.members
