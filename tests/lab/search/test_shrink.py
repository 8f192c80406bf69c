"""Shrinking with artificial failures: what a failure needs stays, everything else is removed."""

from collections.abc import Callable
from itertools import pairwise
from zlib import crc32

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from regroup.lab.plan.expectations import GroupIsStable
from regroup.lab.plan.plan import MemberPlan, NetworkPlan, PlannedStep, SimulationPlan
from regroup.lab.plan.steps import BrokerStops, Crashes, CutOff, Joins, Leaves, Pauses, SimulationStep, TopicGrows
from regroup.lab.plan.triggers import StepTrigger
from regroup.lab.search.shrink import is_simpler, rounder_than, shrink
from regroup.members.runtime.workload import Workload

NAMES = ("anna", "ben", "carla", "dora")
members = st.sampled_from(NAMES)
times = st.integers(1, 200_000)
steps: st.SearchStrategy[SimulationStep] = st.one_of(
    st.builds(Joins, members),
    st.builds(Leaves, members),
    st.builds(Crashes, members),
    st.builds(Pauses, members, times),
    st.builds(CutOff, members, st.sampled_from(["broker 0", "broker 1", "all hosts"]), times),
    st.builds(BrokerStops, st.integers(0, 2), times),
    st.builds(TopicGrows, st.sampled_from(["orders", "payments"]), st.integers(7, 9)),
    st.builds(GroupIsStable, members=st.lists(members, min_size=1, unique=True).map(tuple)),
)
triggers = st.builds(StepTrigger, st.sampled_from(["", *(f"{name} has joined" for name in NAMES)]), times)
member_plans = st.builds(
    MemberPlan,
    topics=st.sampled_from([("orders",), ("payments",), ("orders", "payments")]),
    instance_id=st.none() | st.just("till-1"),
    faults=st.lists(st.sampled_from(["pause:20s", "crash", "slow-join:5s"]), max_size=2).map(tuple),
    session_timeout_ms=st.sampled_from([10_000, 45_000]),
)
plans = st.builds(
    SimulationPlan,
    seed=st.integers(0, 9),
    brokers=st.integers(1, 3),
    settings=st.dictionaries(st.sampled_from(["group.max.size", "offsets.commit.timeout.ms"]), st.integers(5, 9)),
    topics=st.just({"orders": 6, "payments": 3}),
    members=st.fixed_dictionaries(dict.fromkeys(NAMES, member_plans)),
    network=st.builds(NetworkPlan, st.floats(0, 50), st.floats(0, 50)),
    workload=st.builds(Workload, st.floats(0, 9)),
    steps=st.lists(st.builds(PlannedStep, triggers, steps), min_size=1, max_size=12).map(tuple),
    faults_end_ms=times,
)


def needs(*needed: SimulationStep) -> Callable[[SimulationPlan], bool]:
    """A failure of every plan with all of these steps."""

    def fails(plan: SimulationPlan) -> bool:
        present = [each.step for each in plan.steps]
        return all(step in present for step in needed)

    return fails


def untimed(plan: SimulationPlan) -> list[SimulationStep]:
    """The steps without a time that shrinking may change."""
    return [each.step for each in plan.steps if isinstance(each.step, Joins | Leaves | Crashes)]


@settings(deadline=None, max_examples=25)
@given(plans, st.data())
def test_needed_parts_stay_and_all_others_are_removed(plan: SimulationPlan, data: st.DataObject) -> None:
    needed = data.draw(st.lists(st.sampled_from(untimed(plan)), unique=True, max_size=3)) if untimed(plan) else []
    small = shrink(plan, needs(*needed))
    assert small.is_minimal
    assert sorted(map(str, untimed(small.plan))) == sorted(map(str, needed))
    assert set(small.plan.members) == {step.member for step in needed}
    assert (small.plan.settings, small.plan.brokers, small.plan.network) == ({}, 1, NetworkPlan())
    assert all(not member.faults and member.instance_id is None for member in small.plan.members.values())
    assert list(small.plan.topics.values()) == [1]


def by_chance(plan: SimulationPlan) -> bool:
    """No reason at all, and hard to shrink by."""
    return crc32(msgspec.json.encode(plan)) % 3 == 0


@settings(deadline=None, max_examples=25)
@given(plans, st.integers(0, 120))
def test_a_shrunk_plan_still_fails_and_the_runs_are_bounded(plan: SimulationPlan, max_runs: int) -> None:
    tried: list[SimulationPlan] = []

    def fails(candidate: SimulationPlan) -> bool:
        tried.append(candidate)
        return by_chance(candidate)

    small = shrink(plan, fails, max_runs=max_runs)
    assert small.plan == plan or by_chance(small.plan)
    assert small.runs == len(tried) <= max_runs
    assert len({msgspec.json.encode(each) for each in tried}) == len(tried), "nothing is tried twice"


@settings(deadline=None, max_examples=15)
@given(plans)
def test_shrinking_is_deterministic_and_a_minimal_plan_stays_as_it_is(plan: SimulationPlan) -> None:
    small = shrink(plan, by_chance)
    assert shrink(plan, by_chance) == small
    if small.is_minimal:
        assert shrink(small.plan, by_chance).plan == small.plan


@settings(deadline=None, max_examples=25)
@given(plans)
def test_no_intermediate_plan_names_missing_members_or_brokers(plan: SimulationPlan) -> None:
    def fails(candidate: SimulationPlan) -> bool:
        for planned in candidate.steps:
            step = planned.step
            first_word = planned.trigger.milestone.partition(" ")[0]
            named = {getattr(step, "member", None), *getattr(step, "members", ()), first_word or None} & set(NAMES)
            assert named <= set(candidate.members)
            assert getattr(step, "broker", 0) < candidate.brokers or candidate.brokers == plan.brokers
        assert all(member.topics for member in candidate.members.values())
        return by_chance(candidate)

    shrink(plan, fails)


def test_times_are_rounded_as_far_as_the_plan_still_fails() -> None:
    pause = PlannedStep(StepTrigger("anna has joined", 12_345), Pauses("anna", 47_113))
    plan = SimulationPlan(members={"anna": MemberPlan()}, steps=(pause,), faults_end_ms=61_234)

    def fails(candidate: SimulationPlan) -> bool:
        return any(isinstance(each.step, Pauses) and each.step.duration_ms > 45_000 for each in candidate.steps)

    small = shrink(plan, fails).plan
    assert small.steps == (PlannedStep(StepTrigger(), Pauses("anna", 60_000)),)
    assert small.faults_end_ms == 0


@given(st.integers(0, 10_000_000))
def test_rounder_times_are_simpler_and_the_simplest_comes_first(time_ms: int) -> None:
    rounder = list(rounder_than(time_ms))
    assert all(is_simpler(each, time_ms) for each in rounder)
    assert all(is_simpler(one, other) for one, other in pairwise(rounder))


def test_progress_is_reported_after_every_run() -> None:
    plan = SimulationPlan(members={"anna": MemberPlan()}, steps=(PlannedStep(StepTrigger(), Joins("anna")),))
    reported: list[tuple[int, int]] = []
    small = shrink(plan, needs(Joins("anna")), on_progress=lambda plan, runs: reported.append((len(plan.steps), runs)))
    assert reported == [(1, run) for run in range(1, small.runs + 1)]


def test_settings_that_are_needed_stay() -> None:
    plan = SimulationPlan(settings={"group.max.size": 2, "group.initial.rebalance.delay.ms": 0}, brokers=3)
    small = shrink(plan, lambda candidate: "group.max.size" in candidate.settings and candidate.brokers > 1)
    assert small.plan == replace(plan, settings={"group.max.size": 2}, brokers=2, topics={"orders": 1}, faults_end_ms=0)
