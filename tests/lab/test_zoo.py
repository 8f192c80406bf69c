"""Does the lab find anything? Each bug of the zoo is planted, hunted through a bounded number of seeds, and shrunk.

pytest tests/lab/test_zoo.py -s        after how many seeds each was found, and how small its scenario is
"""

import pytest

from regroup.lab.plan.yaml_format import read_plan, write_plan
from regroup.lab.planted_bugs.registry import BUGS
from regroup.lab.search.bug_detection import MOST_SEEDS, catch, draw_small, shows
from regroup.lab.search.trial import try_seed

QUICK = (
    "two-leaders",
    "follower-gets-nothing",
    "heartbeat-does-not-count",
    "replaced-process-is-not-fenced",
    "answer-does-not-wait-for-the-disk",
)
"""Found within a few seeds."""
FEW_RUNS = 30
"""Enough to see that shrinking works; `regroup chaos zoo` takes its time."""


@pytest.mark.parametrize("bug", QUICK)
def test_a_planted_bug_is_found_within_a_few_seeds(bug: str) -> None:
    found = catch(bug, draw_small, most_seeds=30, most_runs=0)
    print(f"{bug}: found after {found.seeds} seeds")
    assert found.finding is not None


@pytest.mark.slow
@pytest.mark.timeout(1_800)
@pytest.mark.parametrize("bug", BUGS)
def test_every_planted_bug_is_found_and_the_smallest_scenario_still_shows_it(bug: str) -> None:
    found = catch(bug, draw_small, most_seeds=MOST_SEEDS, most_runs=FEW_RUNS)
    print(f"{bug}: found after {found.seeds} seeds; {found.size} in {found.runs} runs")
    assert found.finding is not None
    assert found.plan is not None
    assert shows(bug, found.finding.sentence)(read_plan(write_plan(found.plan)))


def test_without_a_bug_the_first_seeds_find_nothing() -> None:
    assert [found for seed in range(1, 11) if (found := try_seed(seed, draw=draw_small))] == []
