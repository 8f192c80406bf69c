"""Runs the plan of a seed and returns its first violation, with a planted bug if one is named.

finding = run_seed(7, draw=draw_plan)
result = shrink(plan, fails_with(finding.sentence))
"""

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass

from regroup.lab.plan.plan import SimulationPlan
from regroup.lab.plan.validation import check_plan
from regroup.lab.planted_bugs.bug import BugContext
from regroup.lab.planted_bugs.registry import bug_named
from regroup.lab.search.shrink import FailurePredicate
from regroup.lab.simulation.run import RunOutcome, play


@dataclass(frozen=True, slots=True)
class Finding:
    """A seed whose run has a violation: the sentence and the detail of the first one."""

    seed: int
    sentence: str
    detail: str
    is_recovery_failure: bool = False
    """Whether the run's only violation is that groups did not recover in time."""


def plant_bug(name: str) -> BugContext:
    """A context manager that plants the bug of this name; with an empty name it does nothing.

    Raises UnknownBug if there is no such bug.
    """
    return bug_named(name).plant() if name else nullcontext()


def finding_of(outcome: RunOutcome) -> Finding | None:
    """The finding of a run; None if nothing is violated."""
    if not outcome.failed:
        return None
    first = outcome.verdict.violations[0]
    is_recovery_failure = not outcome.recovered and len(outcome.verdict.sentences) == 1
    return Finding(outcome.plan.seed, first.sentence, first.detail, is_recovery_failure)


def run_seed(seed: int, *, draw: Callable[[int], SimulationPlan], bug: str = "") -> Finding | None:
    """Draw the plan of a seed, play it, and return its finding; None if nothing is violated.

    `bug` is planted if given.
    """
    with plant_bug(bug):
        return finding_of(play(draw(seed)))


def fails_with(sentence: str, bug: str = "") -> FailurePredicate:
    """A predicate of plans for `shrink`: whether a run of the plan violates this sentence before any other.

    It is false for a plan that cannot be played.
    """

    def fails(plan: SimulationPlan) -> bool:
        try:
            check_plan(plan)
        except ValueError:
            return False
        with plant_bug(bug):
            return play(plan).first_sentence == sentence

    return fails
