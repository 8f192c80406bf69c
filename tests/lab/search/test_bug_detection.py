"""The lab finds planted bugs: each is hunted through a limited number of seeds, and its plan is shrunk.

pytest tests/lab/search/test_bug_detection.py -s      prints after how many seeds a bug is found, and the plan's size
"""

from collections.abc import Callable

import pytest

from regroup.lab.plan.plan import SimulationPlan
from regroup.lab.plan.steps import NewMemberFallsSilent
from regroup.lab.plan.validation import plan_problems
from regroup.lab.plan.yaml_format import read_plan, write_plan
from regroup.lab.planted_bugs.registry import BUGS
from regroup.lab.search.bug_detection import (
    MAX_SEEDS,
    detect_bug,
    draw_small_consumer_plan,
    draw_small_plan,
    draw_small_transform_plan,
    plan_size,
    shows_bug,
)
from regroup.lab.search.seed_run import run_seed

QUICK = (
    "two-leaders",
    "follower-gets-an-empty-assignment",
    "heartbeat-does-not-renew-the-session",
    "replaced-process-is-not-fenced",
    "response-does-not-wait-for-the-disk",
    "step-keeps-one-partition-too-many",
    "classic-member-joins-at-its-former-epoch",
    "classic-member-syncs-its-whole-target",
    "offsets-never-expire",
    "prepared-transaction-loses-its-offsets",
    "reader-takes-aborted-records",
)
"""Found within a few seeds."""
MAX_RUNS = 12
"""Enough to see that shrinking works; `regroup chaos bugs` allows more."""
STORMS = ("generation-does-not-renew-sessions",)
"""Bugs with which groups rebalance without end: each run takes half a minute, so that they are shrunk in one run."""


@pytest.mark.quick("[response-does-not-wait-for-the-disk]")
@pytest.mark.parametrize("bug", QUICK)
def test_a_planted_bug_is_found_within_a_few_seeds(bug: str) -> None:
    detection = detect_bug(bug, max_seeds=30, max_runs=0)
    print(f"{bug}: found after {detection.seeds} seeds")
    assert detection.finding is not None


@pytest.mark.slow
@pytest.mark.timeout(1_800)
@pytest.mark.parametrize("bug", BUGS)
def test_every_planted_bug_is_found_and_the_shrunk_plan_still_shows_it(bug: str) -> None:
    detection = detect_bug(bug, max_seeds=MAX_SEEDS, max_runs=1 if bug in STORMS else MAX_RUNS)
    assert detection.finding is not None
    assert detection.plan is not None
    print(f"{bug}: found after {detection.seeds} seeds; {plan_size(detection.plan)} in {detection.runs} runs")
    assert shows_bug(bug, detection.finding.sentence)(read_plan(write_plan(detection.plan)))


@pytest.mark.parametrize("draw", [draw_small_plan, draw_small_consumer_plan, draw_small_transform_plan])
def test_small_plans_can_be_played(draw: Callable[[int], SimulationPlan]) -> None:
    for seed in (*range(1, 100), 717, 747):  # the group of 717 is `audit`, the first member of 747 is no classic one
        plan = draw(seed)
        groups = {each.group for each in plan.members.values()}
        assert list(plan_problems(plan)) == [], seed
        assert all(each.step.group in groups for each in plan.steps if isinstance(each.step, NewMemberFallsSilent)), (
            seed
        )


@pytest.mark.slow
@pytest.mark.parametrize("draw", [draw_small_plan, draw_small_consumer_plan, draw_small_transform_plan])
def test_without_a_bug_the_first_seeds_find_nothing(draw: Callable[[int], SimulationPlan]) -> None:
    assert [found for seed in range(1, 11) if (found := run_seed(seed, draw=draw))] == []
