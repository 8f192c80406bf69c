"""One run as a question: does it fail, and with which sentence? With a planted bug, if asked.

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
    """A seed that fails: the sentence and the detail of its first violation."""

    seed: int
    sentence: str
    detail: str
    is_recovery_failure: bool = False
    """Nothing else is violated than that the groups did not recover in time."""


def plant_bug(name: str) -> BugContext:
    """The bug of this name, planted while a block lasts; no bug for an empty name. UnknownBug for an unknown one."""
    return bug_named(name).plant() if name else nullcontext()


def finding_of(outcome: RunOutcome) -> Finding | None:
    """The finding of a run; None if nothing is violated."""
    if not outcome.failed:
        return None
    first = outcome.verdict.violations[0]
    is_recovery_failure = not outcome.recovered and len(outcome.verdict.sentences) == 1
    return Finding(outcome.plan.seed, first.sentence, first.detail, is_recovery_failure)


def run_seed(seed: int, *, draw: Callable[[int], SimulationPlan], bug: str = "") -> Finding | None:
    """Draw the plan of a seed and play it."""
    with plant_bug(bug):
        return finding_of(play(draw(seed)))


def fails_with(sentence: str, bug: str = "") -> FailurePredicate:
    """Whether a plan violates this sentence before any other. A plan that cannot be played does not."""

    def fails(plan: SimulationPlan) -> bool:
        try:
            check_plan(plan)
        except ValueError:
            return False
        with plant_bug(bug):
            return play(plan).first_sentence == sentence

    return fails
