"""The scenarios that come with the lab: each is played, and its expectations hold."""

import re
from pathlib import Path

import pytest
from msgspec.structs import replace

from regroup.lab.plan.expectations import AtLeastRebalances
from regroup.lab.plan.plan import MemberPlan, PlannedStep, SimulationPlan
from regroup.lab.plan.scenario_files import find_plan, scenario, scenario_names, scenario_text
from regroup.lab.plan.step_sentences import parse_step
from regroup.lab.plan.triggers import parse_trigger
from regroup.lab.plan.yaml_format import InvalidScenario, read_plan, write_plan
from regroup.lab.simulation.expectation_checks import is_expectation
from regroup.lab.simulation.run import play


def test_there_are_more_than_twenty_scenarios() -> None:
    assert len(scenario_names()) > 20
    assert scenario_names() == tuple(sorted(scenario_names()))


SLOW = ("failover-in-reconciliation", "migration-under-load", "rolling-upgrade", "slow-revoker")
"""Longer runs with records; others of their kind are among the rest."""


@pytest.mark.quick(*(f"[{name}]" for name in scenario_names() if name not in SLOW))
@pytest.mark.parametrize("name", scenario_names())
def test_what_a_scenario_expects_holds(name: str) -> None:
    outcome = play(scenario(name))
    assert not outcome.failed, [str(each) for each in outcome.verdict.violations]


@pytest.mark.parametrize("name", scenario_names())
def test_a_scenario_has_an_explanation_a_title_and_an_expectation(name: str) -> None:
    plan = scenario(name)
    assert scenario_text(name).startswith("# ")
    assert plan.title
    assert any(is_expectation(planned.step) for planned in plan.steps)
    assert read_plan(write_plan(plan)) == plan


PAUSE_IN_A_REBALANCE = """\
scenario: Ben pauses during a rebalance, and the others go on without him
topics: {orders: 4}
members:
  anna: {session timeout: 10s, max poll interval: 30s}
  ben: {session timeout: 10s, max poll interval: 30s}
  carla: {session timeout: 10s}
steps:
  - at 0s: [anna joins, ben joins]
  - at 20s: carla joins
  - 17s after generation 1 begins: ben pauses for 46s
  - at 35s: within 25s the group is Stable with anna and carla
  - at 64s: ben was removed
  - at 75s: within 30s the group is Stable with anna, ben and carla
faults end at: 110s
"""
DISK_FULL = """\
scenario: The disk is full for a time that is shorter than every timeout
topics: {orders: 6}
members: [anna, ben, carla]
steps:
  - at 0s: [anna joins, ben joins]
  - at 20s: [the disk is full for 5s, carla joins]
  - at 45s: within 30s the group is Stable with anna, ben and carla
  - at 80s: no member was removed
faults end at: 85s
"""


@pytest.mark.parametrize("text", [PAUSE_IN_A_REBALANCE, DISK_FULL])
def test_the_expectations_of_further_plans_hold(text: str) -> None:
    outcome = play(read_plan(text))
    assert not outcome.failed, [str(each) for each in outcome.verdict.violations]


@pytest.mark.parametrize(("instance_ids", "rebalances"), [(True, 1), (False, 5)])
def test_a_rolling_restart_of_two_members_costs_rebalances_without_instance_ids(
    instance_ids: bool, rebalances: int
) -> None:
    members = {name: MemberPlan(instance_id=f"{name}-1" if instance_ids else None) for name in ("anna", "ben")}
    lines = ("at 0s: anna joins", "at 0s: ben joins", "at 20s: anna leaves", "at 30s: anna joins",
             "at 40s: ben leaves", "at 50s: ben joins", "at 65s: within 10s the group is Stable with anna and ben",
             "at 80s: no member was removed")  # fmt: skip
    steps = (line.split(": ") for line in lines)
    plan = SimulationPlan(
        members=members,
        steps=tuple(PlannedStep(parse_trigger(trigger), parse_step(step)) for trigger, step in steps),
        faults_end_ms=85_000,
    )
    outcome = play(plan)
    assert not outcome.failed, [str(each) for each in outcome.verdict.violations]
    assert outcome.verdict.counts.rebalances == rebalances


def scenarios_with_milestones() -> list[str]:
    return [name for name in scenario_names() if re.search(r"^ *- \S*after ", scenario_text(name), re.MULTILINE)]


@pytest.mark.parametrize("name", scenarios_with_milestones())
def test_every_milestone_of_a_scenario_is_reached(name: str) -> None:
    plan = scenario(name)
    always_true = AtLeastRebalances(0)
    reached = [PlannedStep(each.trigger, always_true) for each in plan.steps if each.trigger.milestone]
    assert not play(replace(plan, steps=(*plan.steps, *reached)), check_invariants=False).failed


def test_eager_members_leave_partitions_unowned_for_longer_than_cooperative_ones() -> None:
    eager, cooperative = (play(scenario(f"{kind}-pause")).verdict.counts for kind in ("eager", "cooperative"))
    assert eager.ownerless_s > 4 * cooperative.ownerless_s > 0


@pytest.mark.slow
def test_after_a_failover_in_reconciliation_members_go_on_with_their_epochs() -> None:
    records = [each for each in play(scenario("failover-in-reconciliation")).records if each.group == "lab"]
    types = [each.type for each in records]
    load = types.index("coordinator-loaded")
    assert b"unrevoked-partitions" in b"".join(each.payload for each in records[:load])
    assert types[load + 1 :].count("member-reconciled") >= 2
    assert "member-subscribed" not in types[load + 1 :], "no member has joined again"


def test_an_unknown_scenario_is_refused_with_a_similar_one() -> None:
    with pytest.raises(ValueError, match="did you mean first-join"):
        scenario("frist-join")
    with pytest.raises(ValueError, match="known are"):
        scenario("qqqq")


def test_a_file_is_found_before_a_scenario_and_its_mistakes_are_reported_with_its_name(tmp_path: Path) -> None:
    own = tmp_path / "mine.yaml"
    own.write_text("scenario: Mine\nmembers: [anna]\nsteps:\n  - at 0s: anna joins\n", encoding="utf-8")
    assert find_plan(str(own)).title == "Mine"
    assert find_plan("first-join") == scenario("first-join")
    own.write_text("scenario: Mine\nmembers: [anna]\nsteps:\n  - at 0s: bob joins\n", encoding="utf-8")
    with pytest.raises(InvalidScenario, match=r"mine.yaml: line 4 .*unknown member: 'bob'"):
        find_plan(str(own))
    own.write_bytes(b"\xff\xfe")
    with pytest.raises(InvalidScenario, match="not a UTF-8 text file"):
        find_plan(str(own))
