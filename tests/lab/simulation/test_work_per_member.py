"""The work of a rebalance for each member does not grow with the group, in the coordinator and in the checker."""

import sys
from types import FrameType

import pytest

from regroup.lab.plan.plan import MemberPlan, PlannedStep, SimulationPlan
from regroup.lab.plan.steps import Joins, RequestsRebalance
from regroup.lab.plan.triggers import StepTrigger
from regroup.lab.simulation.run import play


def plan(members: int, rebalances: int) -> SimulationPlan:
    names = [f"member-{number}" for number in range(members)]
    requests = [
        PlannedStep(StepTrigger(delay_ms=10_000 + number * 4_000), RequestsRebalance(names[0]))
        for number in range(rebalances)
    ]
    return SimulationPlan(
        settings={"group.initial.rebalance.delay.ms": 0},
        topics={"orders": members * 2},
        members={name: MemberPlan(assignors=("range",)) for name in names},
        steps=(*(PlannedStep(StepTrigger(), Joins(name)) for name in names), *requests),
        faults_end_ms=14_000 + rebalances * 4_000,
    )


def calls_of(members: int, rebalances: int, *, check_invariants: bool) -> int:
    """How many Python functions a run calls, which is the same on every machine."""
    calls = 0

    def count(frame: FrameType, event: str, argument: object) -> None:
        nonlocal calls
        calls += event == "call"

    sys.setprofile(count)
    try:
        outcome = play(plan(members, rebalances), check_invariants=check_invariants)
    finally:
        sys.setprofile(None)
    assert not outcome.failed
    return calls


def calls_per_rebalance_and_member(members: int, *, check_invariants: bool) -> float:
    once, twice = (calls_of(members, each, check_invariants=check_invariants) for each in (1, 2))
    return (twice - once) / members


@pytest.mark.slow
@pytest.mark.parametrize("check_invariants", [False, True], ids=["without the checker", "with it"])
def test_a_rebalance_costs_each_of_three_hundred_members_what_it_costs_each_of_thirty(check_invariants: bool) -> None:
    calls_of(3, 1, check_invariants=check_invariants)  # codecs are compiled when they are first used
    few = calls_per_rebalance_and_member(30, check_invariants=check_invariants)
    many = calls_per_rebalance_and_member(300, check_invariants=check_invariants)
    assert many < 1.2 * few
