"""Rare situations are part of few plans, are played within the time of the faults, and find nothing in the project."""

from collections import Counter
from functools import partial
from random import Random

import pytest

from regroup.lab.plan.plan import MemberPlan, SimulationPlan
from regroup.lab.plan.rare_steps import ErrorIsUnknown, ResponseIsLate, Unsubscribes
from regroup.lab.plan.validation import CLASSIC, CONSUMER, check_plan
from regroup.lab.search.seed_run import run_seed
from regroup.lab.search.situations.mixed_groups import draw_mixed_situations
from regroup.lab.search.situations.unusual import draw_situations, with_variations
from regroup.lab.search.swarm import draw_plan
from regroup.lab.search.swarm_members import draw_doubling_leaders
from regroup.members.runtime.workload import Workload

SEEDS = range(300)
RECORDS = Workload(records_per_s=1, keys=7)
ANNA, BEN = MemberPlan(instance_id="anna-1"), MemberPlan(protocol=CONSUMER)


def stream_of(seed: int, part: str) -> Random:
    return Random(f"{seed}/{part}")


def steps_of(seed: int, plan: SimulationPlan) -> list[str]:
    steps = draw_situations(partial(stream_of, seed), plan, 60_000)
    return [type(each.step).__name__ for each in steps]


def test_most_plans_without_records_have_no_such_situation() -> None:
    plan = SimulationPlan(members={"anna": ANNA})
    drawn = [steps_of(seed, plan) for seed in SEEDS]
    assert 0.5 < drawn.count([]) / len(SEEDS) < 0.75
    counted = Counter(name for each in drawn for name in set(each))
    assert all(counted[name] > 10 for name in ("CommitsWithoutGeneration", "ErrorIsUnknown", "Unsubscribes"))


def test_members_are_removed_only_where_they_read_records() -> None:
    members = {"anna": MemberPlan()}
    without, reading = SimulationPlan(members=members), SimulationPlan(members=members, workload=RECORDS)
    removed = [[seed for seed in SEEDS if "MemberIsExpelled" in steps_of(seed, plan)] for plan in (without, reading)]
    assert removed[0] == []
    assert 200 < len(removed[1]) < 260


def test_in_half_of_the_plans_with_records_a_member_is_removed_while_its_fetch_is_in_flight() -> None:
    reading = SimulationPlan(members={"anna": MemberPlan()}, workload=RECORDS)
    late = [seed for seed in SEEDS if "ResponseIsLate" in steps_of(seed, reading)]
    assert 120 < len(late) < 180
    for seed in late:
        assert steps_of(seed, reading).count("StaysOutsidePoll") >= 4
    short = [draw_situations(partial(stream_of, seed), reading, 10_000) for seed in SEEDS]
    assert not any(isinstance(each.step, ResponseIsLate) for steps in short for each in steps), "it takes ten seconds"
    static = SimulationPlan(members={"anna": MemberPlan(instance_id="anna-1")}, workload=RECORDS)
    assert not any("ResponseIsLate" in steps_of(seed, static) for seed in SEEDS)


def test_half_of_the_plans_with_records_have_a_member_that_unsubscribes_again_and_again() -> None:
    reading = SimulationPlan(members={"anna": MemberPlan(), "ben": MemberPlan()}, workload=RECORDS)
    counts = [steps_of(seed, reading).count("Unsubscribes") for seed in SEEDS]
    assert 0.4 < sum(count >= 4 for count in counts) / len(SEEDS) < 0.6


def test_in_some_plans_a_join_group_is_refused_after_its_member_has_unsubscribed() -> None:
    plan = SimulationPlan(members={"anna": MemberPlan()})
    drawn = 0
    for seed in SEEDS:
        steps = list(draw_situations(partial(stream_of, seed), plan, 60_000))
        at = [each.trigger for each in steps if isinstance(each.step, Unsubscribes) and each.trigger.milestone]
        refused = {each.trigger: each.step.api for each in steps if isinstance(each.step, ErrorIsUnknown)}
        assert all((each.milestone, refused[each]) == ("anna sends JoinGroup", "JoinGroup") for each in at)
        drawn += bool(at)
    assert 0.04 < drawn / len(SEEDS) < 0.13


def test_only_mixed_groups_have_members_that_change_their_protocol() -> None:
    for protocols in ([CLASSIC], [CONSUMER], [CLASSIC, CONSUMER]):
        members = {name: MemberPlan(protocol=each) for name, each in zip(("anna", "ben"), protocols, strict=False)}
        steps = list(draw_mixed_situations(Random(1), SimulationPlan(members=members), 60_000))
        assert bool(steps) is (len(protocols) == 2)


def test_keys_have_drawn_lengths_and_some_mixed_groups_get_records() -> None:
    def varied(seed: int, plan: SimulationPlan) -> SimulationPlan:
        return with_variations(partial(stream_of, seed), plan)

    plan = SimulationPlan(members={"anna": ANNA}, workload=RECORDS)
    assert {varied(seed, plan).workload.key_bytes for seed in SEEDS} == {0, 8, 11, 12}
    mixed = SimulationPlan(members={"anna": ANNA, "ben": BEN})
    assert {varied(seed, mixed).workload.records_per_s for seed in SEEDS} == {0, 0.2, 0.5}


def test_some_plans_with_records_have_built_in_partitioners_and_a_slow_network() -> None:
    plan = SimulationPlan(members={"anna": ANNA}, workload=RECORDS)
    varied = [with_variations(partial(stream_of, seed), plan) for seed in SEEDS]
    built_in = [each for each in varied if each.workload.partitioner.partitioner_class == "BuiltInPartitioner"]
    assert 50 < len(built_in) < 100
    assert {each.workload.partitioner.batch_size for each in built_in} == {1, 64, 128, 200}
    for seed, each in zip(SEEDS, varied, strict=True):
        assert ("SlowNetwork" in steps_of(seed, each)) is (each in built_in)
    without = SimulationPlan(members={"anna": ANNA})
    assert all(not with_variations(partial(stream_of, seed), without).workload.records_per_s for seed in SEEDS)


def test_in_some_plans_all_members_of_a_classic_group_assign_a_partition_twice() -> None:
    members = {"anna": MemberPlan(), "ben": MemberPlan(faults=("slow-sync:5s",)), "zoe": MemberPlan(group="audit")}
    drawn = [draw_doubling_leaders(stream_of(seed, "doubling leaders"), members) for seed in SEEDS]
    faults = Counter(tuple(each.faults for each in some.values()) for some in drawn)
    assert faults[(), ("slow-sync:5s",), ()] > 270
    doubles = "assignor-doubles"
    assert faults[(doubles,), ("slow-sync:5s", doubles), ()] + faults[(), ("slow-sync:5s",), (doubles,)] > 5
    assert faults.total() == len(SEEDS)
    assert len(faults) == 3
    mixed = {"anna": ANNA, "ben": BEN}
    assert all(draw_doubling_leaders(stream_of(seed, "doubling leaders"), mixed) == mixed for seed in SEEDS)


def test_a_plan_that_is_drawn_with_such_situations_can_be_played() -> None:
    for seed in range(100):
        check_plan(draw_plan(seed, consumer_share=0.5))


@pytest.mark.slow
def test_twenty_seeds_of_mixed_groups_find_nothing() -> None:
    draw = partial(draw_plan, consumer_share=1)
    assert [run_seed(seed, draw=draw) for seed in range(20)] == [None] * 20
