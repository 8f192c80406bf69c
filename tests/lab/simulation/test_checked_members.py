"""What the simulation passes to the checker for each member of a plan, which decides by which rules it is checked."""

from typing import Any

import pytest

from regroup.lab.checker.members.observed_members import ObservedMembers
from regroup.lab.plan.plan import MemberPlan, PlannedStep, SimulationPlan
from regroup.lab.plan.step_sentences import parse_step
from regroup.lab.plan.steps import Joins
from regroup.lab.plan.triggers import StepTrigger
from regroup.lab.simulation.run import play
from regroup.members.faults import parse_fault
from regroup.members.runtime.workload import Workload


def passed_to_checker(monkeypatch: pytest.MonkeyPatch, member: MemberPlan, **options: Any) -> dict[str, Any]:
    """The arguments with which the checker begins to check anna, who joins as this member of a plan."""
    passed: list[dict[str, Any]] = []
    add_member = ObservedMembers.add_member

    def note(members: ObservedMembers, name: str, group_id: str, **known: Any) -> None:
        passed.append(known)
        add_member(members, name, group_id, **known)

    monkeypatch.setattr(ObservedMembers, "add_member", note)
    plan = SimulationPlan(members={"anna": member}, steps=(PlannedStep(StepTrigger(), Joins("anna")),), **options)
    assert not play(plan).failed
    (known,) = passed
    return known


@pytest.mark.parametrize(
    ("member", "name", "value"),
    [
        (MemberPlan(), "is_classic", True),
        (MemberPlan(protocol="consumer"), "is_classic", False),
        (MemberPlan(), "faults", []),
        (MemberPlan(faults=("slow-join:1s",)), "faults", [parse_fault("slow-join:1s")]),
        (MemberPlan(), "asks_for_metadata_alone", True),
        (MemberPlan(faults=("slow-join:1s",)), "asks_for_metadata_alone", False),
        (MemberPlan(pattern="ord.*"), "has_pattern", True),
        (MemberPlan(pattern="ord.*", protocol="consumer"), "has_pattern", False),
        (MemberPlan(), "has_pattern", False),
        (MemberPlan(isolation_level="read_committed"), "reads_committed", True),
        (MemberPlan(), "reads_committed", False),
        (MemberPlan(), "is_well_behaved", True),
        (MemberPlan(faults=("zombie@100s",)), "is_well_behaved", False),
        (MemberPlan(), "has_sound_assignor", True),
        (MemberPlan(faults=("assignor-doubles",)), "has_sound_assignor", False),
        (MemberPlan(), "auto_commits", True),
    ],
)
def test_the_checker_gets_of_a_member_what_its_plan_says(
    monkeypatch: pytest.MonkeyPatch, member: MemberPlan, name: str, value: object
) -> None:
    assert passed_to_checker(monkeypatch, member)[name] == value


def test_a_member_that_reads_records_asks_for_metadata_for_its_fetches_too(monkeypatch: pytest.MonkeyPatch) -> None:
    known = passed_to_checker(monkeypatch, MemberPlan(), workload=Workload(records_per_s=1))
    assert known["asks_for_metadata_alone"] is False


def test_a_member_that_transforms_records_commits_by_its_transactions_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    member = MemberPlan(topics=("orders",), transforms_to="totals")
    known = passed_to_checker(
        monkeypatch, member, topics={"orders": 1, "totals": 1}, workload=Workload(records_per_s=1)
    )
    assert known["auto_commits"] is False


def test_the_checker_learns_when_a_member_is_to_unsubscribe_and_to_subscribe(monkeypatch: pytest.MonkeyPatch) -> None:
    due: list[str] = []
    on_due = ObservedMembers.on_subscription_call_due

    def note(members: ObservedMembers, name: str) -> None:
        due.append(name)
        on_due(members, name)

    monkeypatch.setattr(ObservedMembers, "on_subscription_call_due", note)
    steps = [(0, "anna joins"), (10_000, "anna unsubscribes for 10s")]
    plan = SimulationPlan(
        members={"anna": MemberPlan()},
        steps=tuple(PlannedStep(StepTrigger(delay_ms=at_ms), parse_step(text)) for at_ms, text in steps),
        faults_end_ms=30_000,
    )
    assert not play(plan).failed
    assert due == ["anna", "anna"]
