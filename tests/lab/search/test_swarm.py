"""Plans drawn from seeds: playable, reproducible, and different from one another."""

import itertools
import os
import subprocess
import sys
from collections import Counter
from re import fullmatch

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from regroup.lab.plan.plan import NO_WORKLOAD, MemberPlan, PlannedStep, SimulationPlan
from regroup.lab.plan.sound_members import is_well_behaved
from regroup.lab.plan.step_sentences import members_named
from regroup.lab.plan.steps import BecomesZombie, TopicIsCreated
from regroup.lab.plan.triggers import StepTrigger, milestone_members
from regroup.lab.plan.validation import plan_problems
from regroup.lab.plan.yaml_format import read_plan, write_plan
from regroup.lab.search.plan_text import describe_plan
from regroup.lab.search.swarm import FAULT_KINDS, draw_plan, drawn_faults
from regroup.lab.search.swarm_protocols import MIGRATION_POLICY, SLOW_REVOKER_FAULTS, has_consumer_protocol
from regroup.lab.simulation.run import play

SEEDS = st.integers(0, 2**64 - 1)
HUNDRED = [draw_plan(seed) for seed in range(100)]


@given(SEEDS)
@settings(max_examples=60, deadline=None)
def test_every_plan_can_be_played(seed: int) -> None:
    plan = draw_plan(seed)
    assert list(plan_problems(plan)) == []
    assert plan.seed == seed
    assert all(planned.trigger.delay_ms < plan.faults_end_ms for planned in plan.steps if not planned.trigger.milestone)


@given(SEEDS)
@settings(max_examples=25, deadline=None)
def test_every_plan_is_the_same_after_yaml_and_json(seed: int) -> None:
    plan = draw_plan(seed)
    assert read_plan(write_plan(plan)) == plan
    assert msgspec.json.decode(msgspec.json.encode(plan), type=SimulationPlan) == plan


@pytest.mark.slow
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
    assert {bool(member.faults) for member in members} == {True, False}
    assert {bool(planned.trigger.milestone) for plan in HUNDRED for planned in plan.steps} == {True, False}
    assert {kind for seed in range(100) for kind in drawn_faults(seed)} == set(FAULT_KINDS)


def test_most_runs_have_only_some_kinds_of_faults() -> None:
    counts = Counter(len(drawn_faults(seed)) for seed in range(100))
    assert min(counts) == 1
    assert sum(count for kinds, count in counts.items() if kinds <= len(FAULT_KINDS) / 2) > 80


def test_a_plan_keeps_to_the_limits_it_is_drawn_with() -> None:
    for seed in range(30):
        plan = draw_plan(seed, max_members=2, faults=["a member becomes a zombie"], duration_ms=30_000)
        assert len(plan.members) <= 2
        assert plan.faults_end_ms == 30_000
        assert {type(planned.step).__name__ for planned in plan.steps} == {"Joins", BecomesZombie.__name__}
    with pytest.raises(ValueError, match="known are a member leaves"):
        draw_plan(0, faults=["a meteor falls"])


def test_the_description_has_every_option_that_is_not_a_default_and_every_step() -> None:
    for plan in HUNDRED[:20]:
        text = describe_plan(plan)
        assert all(str(planned) in text for planned in plan.steps)
        assert all(f"  {name}: " in text for name in plan.members)
        assert all(setting in text for setting in plan.settings)
        assert all(topic in text for topic in plan.topics)
        assert ("workload: " in text) == (plan.workload != NO_WORKLOAD)
        assert ("brokers: " in text) == (plan.brokers != 1)


def test_a_member_with_an_unsound_assignor_is_described_as_not_well_behaved() -> None:
    assert is_well_behaved(MemberPlan(faults=("slow-join:5s",)))
    assert not is_well_behaved(MemberPlan(faults=("assignor-doubles",)))
    text = describe_plan(
        SimulationPlan(members={"anna": MemberPlan(faults=("assignor-doubles",)), "ben": MemberPlan()})
    )
    assert "anna: faults assignor-doubles (not well-behaved)" in text
    assert "ben: none" in text


def test_milestones_and_steps_name_members_of_the_plan() -> None:
    for plan in HUNDRED:
        for planned in plan.steps:
            assert {*milestone_members(planned.trigger.milestone), *members_named(planned.step)} <= set(plan.members)
    assert list(
        plan_problems(SimulationPlan(steps=(PlannedStep(StepTrigger("anna has joined"), BecomesZombie("anna")),)))
    )


def test_some_plans_have_the_consumer_protocol_and_some_of_these_both() -> None:
    protocols = [frozenset(each.protocol for each in plan.members.values()) for plan in HUNDRED]
    assert {frozenset({"classic"}), frozenset({"consumer"}), frozenset({"classic", "consumer"})} == set(protocols)
    assert 8 <= sum("consumer" in each for each in protocols) <= 30


def test_some_members_of_the_consumer_protocol_have_patterns_that_match_topics_created_later() -> None:
    plans = [plan for plan in map(draw_plan, range(300)) if any(each.pattern for each in plan.members.values())]
    created = [each.step.topic for plan in plans for each in plan.steps if isinstance(each.step, TopicIsCreated)]
    patterns = [each.pattern for plan in plans for each in plan.members.values() if each.pattern]
    assert 10 < len(plans) < 40
    assert any(fullmatch(pattern, topic) for pattern in patterns for topic in created)


def test_a_slow_revoker_needs_longer_than_its_rebalance_timeout() -> None:
    plans = [plan for plan in map(draw_plan, range(300)) if has_consumer_protocol(plan.members)]
    slow = [each for plan in plans for each in plan.members.values() if each.faults == SLOW_REVOKER_FAULTS]
    assert len(plans) / 12 < len(slow) < len(plans) / 3
    assert {(each.protocol, each.max_poll_interval_ms) for each in slow} == {("consumer", 30_000)}


def test_a_batch_is_processed_in_half_of_the_shortest_poll_interval() -> None:
    slow = [each for each in map(draw_plan, range(300)) if each.workload.process_ms]
    assert {each.workload.max_poll_records for each in slow} > {2, 10, 500}
    for plan in slow:
        shortest_ms = min(each.max_poll_interval_ms for each in plan.members.values())
        assert 2 * plan.workload.process_ms * plan.workload.max_poll_records <= shortest_ms


def test_only_new_brokers_with_classic_groups_have_a_drawn_migration_policy() -> None:
    plans = [plan for plan in map(draw_plan, range(300)) if MIGRATION_POLICY in plan.settings]
    assert 10 < len(plans) < 40
    assert {plan.settings[MIGRATION_POLICY] for plan in plans} == {"disabled", "downgrade", "bidirectional"}
    assert not any(plan.release or has_consumer_protocol(plan.members) for plan in plans)


@pytest.mark.slow
def test_twenty_seeds_with_the_consumer_protocol_find_nothing() -> None:
    plans = (draw_plan(seed) for seed in itertools.count(1))
    drawn = itertools.islice((plan for plan in plans if has_consumer_protocol(plan.members)), 20)
    found = {plan.seed: play(plan).verdict.sentences for plan in drawn}
    assert {seed: sentences for seed, sentences in found.items() if sentences} == {}
