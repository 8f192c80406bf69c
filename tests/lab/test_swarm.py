"""Plans drawn from seeds: always playable, always the same, and as different from one another as can be."""

import os
import subprocess
import sys
from collections import Counter

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from regroup.lab.plan.plan import Happening, MemberPlan, Plan, When
from regroup.lab.plan.steps import TurnsZombie, members_named
from regroup.lab.plan.triggers import members_in
from regroup.lab.plan.validation import problems
from regroup.lab.plan.yaml_format import read_plan, write_plan
from regroup.lab.search.swarm import FAULTS, describe, draw_plan, kinds_drawn
from regroup.lab.simulation.members import is_sound

SEEDS = st.integers(0, 2**64 - 1)
HUNDRED = [draw_plan(seed) for seed in range(100)]


@given(SEEDS)
@settings(max_examples=60, deadline=None)
def test_every_plan_can_be_played(seed: int) -> None:
    plan = draw_plan(seed)
    assert list(problems(plan)) == []
    assert plan.seed == seed
    assert all(happening.when.delay_ms < plan.heal_ms for happening in plan.happenings if not happening.when.after)


@given(SEEDS)
@settings(max_examples=25, deadline=None)
def test_every_plan_is_the_same_after_yaml_and_json(seed: int) -> None:
    plan = draw_plan(seed)
    assert read_plan(write_plan(plan)) == plan
    assert msgspec.json.decode(msgspec.json.encode(plan), type=Plan) == plan


def test_the_same_seed_is_the_same_plan_whatever_the_hash_seed() -> None:
    program = (
        "import msgspec; from regroup.lab.search.swarm import draw_plan;"
        "print(msgspec.json.encode([draw_plan(seed) for seed in range(30)]))"
    )
    printed = {
        subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            capture_output=True,
            check=True,
        ).stdout
        for hash_seed in ("1", "2")
    }
    assert len(printed) == 1
    assert printed == {repr(msgspec.json.encode([draw_plan(seed) for seed in range(30)])).encode() + b"\n"}


def test_another_seed_is_another_plan() -> None:
    assert len({msgspec.json.encode(replace(plan, seed=0, title="")) for plan in HUNDRED}) == len(HUNDRED)


def test_a_hundred_seeds_draw_every_option() -> None:
    assert {plan.brokers for plan in HUNDRED} == {1, 2, 3}
    assert {len(plan.members) for plan in HUNDRED} >= {1, 2, 3, 4, 5, 6}
    assert any(len(plan.members) > 6 for plan in HUNDRED)
    assert {bool(plan.workload.records_per_s) for plan in HUNDRED} == {True, False}
    members = [member for plan in HUNDRED for member in plan.members.values()]
    assert {member.instance_id is None for member in members} == {True, False}
    assert {member.assignors for member in members} >= {("range",), ("cooperative-sticky",), ("sticky",)}
    assert {bool(member.habits) for member in members} == {True, False}
    assert {bool(happening.when.after) for plan in HUNDRED for happening in plan.happenings} == {True, False}
    assert {kind for seed in range(100) for kind in kinds_drawn(seed)} == set(FAULTS)


def test_most_runs_know_only_some_kinds_of_faults() -> None:
    known = Counter(len(kinds_drawn(seed)) for seed in range(100))
    assert min(known) == 1
    assert sum(count for kinds, count in known.items() if kinds <= len(FAULTS) / 2) > 80


def test_limits_leave_only_what_they_allow() -> None:
    for seed in range(30):
        plan = draw_plan(seed, most_members=2, faults=["a member turns into a zombie"], for_ms=30_000)
        assert len(plan.members) <= 2
        assert plan.heal_ms == 30_000
        assert {type(happening.step).__name__ for happening in plan.happenings} == {"Joins", TurnsZombie.__name__}
    with pytest.raises(ValueError, match="known are a member leaves"):
        draw_plan(0, faults=["a meteor falls"])


def test_the_description_names_every_option_and_every_happening() -> None:
    for plan in HUNDRED[:20]:
        told = describe(plan)
        assert all(str(happening) in told for happening in plan.happenings)
        assert all(f"  {name}: " in told for name in plan.members)
        assert all(setting in told for setting in plan.settings)
        assert all(topic in told for topic in plan.topics)
        assert all(f"{option} " in told for option in ("latency", "jitter", "records per s", "process"))


def test_whoever_spoils_an_assignment_is_not_well_behaved_and_is_said_to_be() -> None:
    assert is_sound(MemberPlan(habits=("slow-join:5s",)))
    assert not is_sound(MemberPlan(habits=("assignor-doubles",)))
    told = describe(Plan(members={"anna": MemberPlan(habits=("assignor-doubles",)), "ben": MemberPlan()}))
    assert "anna: habits assignor-doubles (not well-behaved)" in told
    assert "ben: not at all" in told


def test_points_are_waited_for_by_members_that_are_there() -> None:
    for plan in HUNDRED:
        for happening in plan.happenings:
            assert {*members_in(happening.when.after), *members_named(happening.step)} <= set(plan.members)
    assert list(problems(Plan(happenings=(Happening(When("anna has joined"), TurnsZombie("anna")),))))
