"""Plans as YAML files: they are read, or refused with the line and with what to write."""

import pytest

from regroup.lab.plan.plan import MemberPlan, NetworkPlan, PlannedStep, SimulationPlan
from regroup.lab.plan.step_sentences import parse_step
from regroup.lab.plan.steps import Crashes, Joins
from regroup.lab.plan.triggers import StepTrigger
from regroup.lab.plan.yaml_format import InvalidScenario, read_plan, write_plan
from regroup.members.runtime.workload import Workload

SCENARIO = """\
scenario: The leader crashes between its JoinGroup response and its SyncGroup
topics: {orders: 4}
settings: {group.initial.rebalance.delay.ms: 0}
network: {latency: 0.5ms}
workload: {records per s: 20, process: 2ms}
members:
  anna:
  ben: {instance id: ben-1, assignors: [cooperative-sticky], faults: [slow-join:5s]}
steps:
  - at 0s: [anna joins, ben joins]
  - after anna is elected leader: anna crashes
  - 5s after ben is assigned partitions:
      - the network takes 20ms, up to 3ms more, for 2s
faults end at: 90s
"""
PLAN = SimulationPlan(
    title="The leader crashes between its JoinGroup response and its SyncGroup",
    topics={"orders": 4},
    settings={"group.initial.rebalance.delay.ms": 0},
    network=NetworkPlan(latency_ms=0.5),
    workload=Workload(records_per_s=20, process_ms=2),
    members={
        "anna": MemberPlan(),
        "ben": MemberPlan(instance_id="ben-1", assignors=("cooperative-sticky",), faults=("slow-join:5s",)),
    },
    steps=(
        PlannedStep(StepTrigger(), Joins("anna")),
        PlannedStep(StepTrigger(), Joins("ben")),
        PlannedStep(StepTrigger("anna is elected leader"), Crashes("anna")),
        PlannedStep(
            StepTrigger("ben is assigned partitions", 5_000),
            parse_step("the network takes 20ms, up to 3ms more, for 2s"),
        ),
    ),
    faults_end_ms=90_000,
)


def test_a_scenario_file_is_read_as_a_plan() -> None:
    assert read_plan(SCENARIO) == PLAN


def test_a_plan_is_written_as_a_file_that_is_read_as_the_same_plan() -> None:
    text = write_plan(PLAN)
    assert read_plan(text) == PLAN
    assert "  - at 0s: [anna joins, ben joins]\n" in text
    assert "workload: {records per s: 20, process: 2ms}\n" in text
    assert text.endswith("faults end at: 90s\n")


def test_members_without_options_are_a_list_of_names() -> None:
    plan = read_plan("{scenario: Two, members: [anna, ben], steps: [at 0s: anna joins]}")
    assert plan.members == {"anna": MemberPlan(), "ben": MemberPlan()}
    assert "members: [anna, ben]\n" in write_plan(plan)


def test_the_smallest_plan_can_be_written_and_read() -> None:
    assert read_plan(write_plan(SimulationPlan())) == SimulationPlan()


def refusal(right: str, wrong: str) -> str:
    """What is said about the scenario with one part of it replaced."""
    assert right in SCENARIO
    with pytest.raises(InvalidScenario) as refused:
        read_plan(SCENARIO.replace(right, wrong))
    return str(refused.value)


@pytest.mark.parametrize(
    ("right", "wrong", "line", "hint"),
    [
        (
            "anna crashes",
            "dora crashes",
            "line 11 (- after anna is elected leader: dora",
            "known are anna, ben",
        ),
        ("ben joins", "ben jons", "line 10", "unknown step: 'ben jons'; for example 'anna joins'"),
        ("slow-join:5s", "slow-jon:5s", "line 8", "use one of: crash, pause"),
        ("[slow-join:5s]", "[slow-join:5s], client: '2.3', protocol: consumer", "line 8", "a client from 4.0 on"),
        ("delay.ms", "delay", "line 3", "did you mean group.initial.rebalance.delay.ms?"),
        ("delay.ms: 0", "delay.ms: soon", "line 3", "whole number"),
        ("{orders: 4}", "{orders: four}", "line 2", "names with whole numbers"),
        ("{orders: 4}", "{orders: 0}", "line 2", "orders: 4"),
        ("{orders: 4}", "{payments: 4}", "", "unknown topic: 'orders'; known are payments"),
        ("instance id", "instance", "line 8", "did you mean 'instance id'?"),
        ("cooperative-sticky", "cooperative", "line 8", "assignors:"),
        ("[slow-join:5s]", "[slow-join:5s], session timeout: 2s", "line 8", "must be below session timeout (2s)"),
        ("5s after", "in 5s", "line 12", "write for example"),
        ("is elected leader", "is leader", "line 11", "anna is elected leader"),
        ("90s", "90", "line 14", "20s or 5m"),
        ("  ben:", "  anna:", "line 8", "duplicate key: 'anna'"),
        ("{orders: 4}", "{orders: 4", "line 3", "expected"),
        ("process: 2ms", "max poll records: 0", "line 5", "at least 1"),
        ("scenario:", "scnario:", "line 1", "did you mean 'scenario'?"),
        ("anna crashes", "broker 1 stops for 5s", "line 11", "the last one is broker 0"),
        ("anna crashes", "topic order is deleted", "line 11", "did you mean orders?"),
        ("anna crashes", "the group is Stable with anna and bob", "line 11", "unknown member: 'bob'"),
        ("anna crashes", "group payments is Stable", "line 11", "unknown group: 'payments'"),
    ],
)
def test_a_mistake_is_reported_with_its_line_and_with_what_to_write(
    right: str, wrong: str, line: str, hint: str
) -> None:
    message = refusal(right, wrong)
    assert line in message
    assert hint in message


@pytest.mark.parametrize(
    ("right", "old", "line", "hint"),
    [
        ("scenario:", "story:", "line 1", "option 'story' of a scenario is now 'scenario'"),
        ("steps:", "happenings:", "line 9", "option 'happenings' of a scenario is now 'steps'"),
        ("faults: [", "habits: [", "line 8", "option 'habits' of ben is now 'faults'"),
        ("faults end at: 90s", "well again within: 90s", "line 14", "option 'well again within' of a scenario is now"),
        ("anna crashes", "anna was expelled", "line 11", "'was expelled' is now 'was removed'"),
    ],
)
def test_words_of_the_first_version_are_refused_with_their_replacement(
    right: str, old: str, line: str, hint: str
) -> None:
    message = refusal(right, old)
    assert line in message
    assert hint in message


@pytest.mark.parametrize("text", ["", "just text", "- a\n- list", "members: 3", "members: [1]", "members: {anna: ben}"])
def test_a_file_that_is_not_a_scenario_is_refused(text: str) -> None:
    with pytest.raises(InvalidScenario):
        read_plan(text)


@pytest.mark.parametrize("steps", ["soon", "[anna joins]", "[{at 0s: 3}]", "[{at 0s: anna joins, at 1s: none}]"])
def test_steps_are_lines_with_a_trigger_and_sentences(steps: str) -> None:
    with pytest.raises(InvalidScenario):
        read_plan(f"members: [anna]\nsteps: {steps}\n")
