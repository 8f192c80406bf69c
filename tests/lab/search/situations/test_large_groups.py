"""A few drawn plans have a group of more than 256 members, which the coordinator keeps in mappings of layers."""

from random import Random

import pytest

from regroup.coordinator.layered_mapping import LAYERED_FROM, LayeredMapping
from regroup.lab.plan.plan import SimulationPlan
from regroup.lab.plan.validation import CLASSIC, CONSUMER, check_plan
from regroup.lab.search.seed_run import run_seed
from regroup.lab.search.situations.large_groups import draw_large_group
from regroup.lab.search.swarm import draw_plan
from regroup.lab.simulation.run import play

SEEDS = range(30)
SEED = 9_400_006
"""A seed with a large group of classic members."""


def drawn(seed: int, consumer_share: float = 0.5) -> SimulationPlan:
    return draw_large_group(Random(f"{seed}/large"), seed, consumer_share)


def test_the_members_of_a_large_group_have_one_protocol_and_are_more_than_a_small_mapping_holds() -> None:
    protocols = set()
    for seed in SEEDS:
        plan = drawn(seed)
        check_plan(plan)
        (protocol,) = {each.protocol for each in plan.members.values()}
        protocols.add(protocol)
        assert len(plan.members) > LAYERED_FROM
        assert all(each.trigger.delay_ms < plan.faults_end_ms for each in plan.steps)
    assert protocols == {CLASSIC, CONSUMER}
    assert {each.protocol for seed in SEEDS for each in drawn(seed, 0).members.values()} == {CLASSIC}


def test_only_plans_with_all_faults_and_as_many_members_as_usual_have_a_large_group() -> None:
    large = draw_plan(SEED)
    assert len(large.members) > LAYERED_FROM
    assert len(draw_plan(SEED, max_members=4).members) <= 4
    assert len(draw_plan(SEED, faults=["a member crashes"]).members) <= 12
    assert len(draw_plan(SEED, large_group_share=0).members) <= 12


@pytest.mark.slow
def test_a_large_group_has_no_violation() -> None:
    assert run_seed(SEED, draw=draw_plan) is None


def test_a_mapping_that_has_keys_which_were_never_set_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        LayeredMapping, "__contains__", lambda self, key: key in self._shared or key not in self._removed
    )
    outcome = play(draw_plan(SEED), max_callbacks=15_000, reports_storms=True)
    assert any("KeyError" in each.detail for each in outcome.verdict.violations)
