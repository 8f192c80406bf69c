"""Shrinking, with made-up reasons to fail: what is needed stays, all else goes."""

from collections.abc import Callable
from itertools import pairwise
from zlib import crc32

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from regroup.lab.plan.expectations import GroupIsStable
from regroup.lab.plan.plan import Happening, MemberPlan, NetworkPlan, Plan, When
from regroup.lab.plan.steps import BrokerStops, Crashes, CutOff, Joins, Leaves, Pauses, Step, TopicGrows
from regroup.lab.search.reductions import is_simpler, rounder_than
from regroup.lab.search.shrink import shrink
from regroup.members.runtime.workload import Workload

NAMES = ("anna", "ben", "carla", "dora")
members = st.sampled_from(NAMES)
times = st.integers(1, 200_000)
steps: st.SearchStrategy[Step] = st.one_of(
    st.builds(Joins, members),
    st.builds(Leaves, members),
    st.builds(Crashes, members),
    st.builds(Pauses, members, times),
    st.builds(CutOff, members, st.sampled_from(["broker 0", "broker 1", "everybody"]), times),
    st.builds(BrokerStops, st.integers(0, 2), times),
    st.builds(TopicGrows, st.sampled_from(["orders", "payments"]), st.integers(7, 9)),
    st.builds(GroupIsStable, members=st.lists(members, min_size=1, unique=True).map(tuple)),
)
moments = st.builds(When, st.sampled_from(["", *(f"{name} has joined" for name in NAMES)]), times)
member_plans = st.builds(
    MemberPlan,
    topics=st.sampled_from([("orders",), ("payments",), ("orders", "payments")]),
    instance_id=st.none() | st.just("till-1"),
    habits=st.lists(st.sampled_from(["pause:20s", "crash", "slow-join:5s"]), max_size=2).map(tuple),
    session_timeout_ms=st.sampled_from([10_000, 45_000]),
)
plans = st.builds(
    Plan,
    seed=st.integers(0, 9),
    brokers=st.integers(1, 3),
    settings=st.dictionaries(st.sampled_from(["group.max.size", "offsets.commit.timeout.ms"]), st.integers(5, 9)),
    topics=st.just({"orders": 6, "payments": 3}),
    members=st.fixed_dictionaries(dict.fromkeys(NAMES, member_plans)),
    network=st.builds(NetworkPlan, st.floats(0, 50), st.floats(0, 50)),
    workload=st.builds(Workload, st.floats(0, 9)),
    happenings=st.lists(st.builds(Happening, moments, steps), min_size=1, max_size=12).map(tuple),
    heal_ms=times,
)


def needs(*needed: Step) -> Callable[[Plan], bool]:
    """Fails whenever all of these happen."""

    def fails(plan: Plan) -> bool:
        happening = [each.step for each in plan.happenings]
        return all(step in happening for step in needed)

    return fails


def untimed(plan: Plan) -> list[Step]:
    """What happens in it, without steps whose times shrinking may change."""
    return [each.step for each in plan.happenings if isinstance(each.step, Joins | Leaves | Crashes)]


@settings(deadline=None, max_examples=25)
@given(plans, st.data())
def test_what_is_needed_stays_and_all_else_goes(plan: Plan, data: st.DataObject) -> None:
    needed = data.draw(st.lists(st.sampled_from(untimed(plan)), unique=True, max_size=3)) if untimed(plan) else []
    small = shrink(plan, needs(*needed))
    assert small.is_minimal
    assert sorted(map(str, untimed(small.plan))) == sorted(map(str, needed))
    assert set(small.plan.members) == {step.member for step in needed}
    assert (small.plan.settings, small.plan.brokers, small.plan.network) == ({}, 1, NetworkPlan())
    assert all(not member.habits and member.instance_id is None for member in small.plan.members.values())
    assert list(small.plan.topics.values()) == [1]


def by_chance(plan: Plan) -> bool:
    """No reason at all, and hard to shrink by."""
    return crc32(msgspec.json.encode(plan)) % 3 == 0


@settings(deadline=None, max_examples=25)
@given(plans, st.integers(0, 120))
def test_whatever_the_reason_it_still_fails_and_the_runs_are_bounded(plan: Plan, most_runs: int) -> None:
    tried: list[Plan] = []

    def fails(candidate: Plan) -> bool:
        tried.append(candidate)
        return by_chance(candidate)

    small = shrink(plan, fails, most_runs=most_runs)
    assert small.plan == plan or by_chance(small.plan)
    assert small.runs == len(tried) <= most_runs
    assert len({msgspec.json.encode(each) for each in tried}) == len(tried), "nothing is tried twice"


@settings(deadline=None, max_examples=15)
@given(plans)
def test_the_same_plan_shrinks_to_the_same_and_what_is_small_stays_as_it_is(plan: Plan) -> None:
    small = shrink(plan, by_chance)
    assert shrink(plan, by_chance) == small
    if small.is_minimal:
        assert shrink(small.plan, by_chance).plan == small.plan


@settings(deadline=None, max_examples=25)
@given(plans)
def test_no_plan_on_the_way_speaks_of_who_or_what_is_not_there(plan: Plan) -> None:
    def fails(candidate: Plan) -> bool:
        for happening in candidate.happenings:
            step = happening.step
            first_word = happening.when.after.partition(" ")[0]
            named = {getattr(step, "member", None), *getattr(step, "members", ()), first_word or None} & set(NAMES)
            assert named <= set(candidate.members)
            assert getattr(step, "broker", 0) < candidate.brokers or candidate.brokers == plan.brokers
        assert all(member.topics for member in candidate.members.values())
        return by_chance(candidate)

    shrink(plan, fails)


def test_times_become_round_as_far_as_it_still_fails() -> None:
    pause = Happening(When("anna has joined", 12_345), Pauses("anna", 47_113))
    plan = Plan(members={"anna": MemberPlan()}, happenings=(pause,), heal_ms=61_234)

    def fails(candidate: Plan) -> bool:
        return any(isinstance(each.step, Pauses) and each.step.for_ms > 45_000 for each in candidate.happenings)

    small = shrink(plan, fails).plan
    assert small.happenings == (Happening(When(), Pauses("anna", 60_000)),)
    assert small.heal_ms == 0


@given(st.integers(0, 10_000_000))
def test_what_is_rounder_is_simpler_and_the_simplest_comes_first(time_ms: int) -> None:
    rounder = list(rounder_than(time_ms))
    assert all(is_simpler(each, time_ms) for each in rounder)
    assert all(is_simpler(one, other) for one, other in pairwise(rounder))


def test_progress_is_told_after_every_run() -> None:
    plan = Plan(members={"anna": MemberPlan()}, happenings=(Happening(When(), Joins("anna")),))
    told: list[tuple[int, int]] = []
    small = shrink(plan, needs(Joins("anna")), progress=lambda plan, runs: told.append((len(plan.happenings), runs)))
    assert told == [(1, run) for run in range(1, small.runs + 1)]


def test_settings_that_are_needed_stay() -> None:
    plan = Plan(settings={"group.max.size": 2, "group.initial.rebalance.delay.ms": 0}, brokers=3)
    small = shrink(plan, lambda candidate: "group.max.size" in candidate.settings and candidate.brokers > 1)
    assert small.plan == replace(plan, settings={"group.max.size": 2}, brokers=2, topics={"orders": 1}, heal_ms=0)
