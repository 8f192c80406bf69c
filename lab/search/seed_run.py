"""Runs the plan of a seed and returns its first violation, with a planted bug if one is named.

finding = run_seed(7, draw=draw_plan)
result = shrink(plan, fails_with(finding.sentence))
"""

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Final

from regroup.lab.plan.plan import SimulationPlan
from regroup.lab.plan.validation import check_plan
from regroup.lab.planted_bugs.bug import BugContext
from regroup.lab.planted_bugs.registry import bug_named
from regroup.lab.search.shrink import FailurePredicate
from regroup.lab.simulation.disk import StoreOpener
from regroup.lab.simulation.recovery import READS_INVARIANT, RECOVERY_INVARIANT
from regroup.lab.simulation.run import RunOutcome, play
from regroup.lab.simulation.timeline import Timeline

MAX_CALLBACKS: Final = 1_000_000
"""The bound on the work of one run of `regroup chaos`, in callbacks of its event loop: some ten times what long drawn
runs need, and one to five minutes of processor time."""


@dataclass(frozen=True, slots=True)
class Finding:
    """A seed whose run has violations: the sentence of the first one, and what was found."""

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
    is_recovery_failure = outcome.verdict.sentences in [(RECOVERY_INVARIANT,), (READS_INVARIANT,)]
    return Finding(outcome.plan.seed, first.sentence, first.detail, is_recovery_failure)


def run_seed(seed: int, *, draw: Callable[[int], SimulationPlan], bug: str = "") -> Finding | None:
    """Draw the plan of a seed, play it, and return its first violation as a finding; None if nothing is violated.

    `bug` is the name of a planted bug to play the plan with; empty for none.
    """
    with plant_bug(bug):
        return finding_of(play_bounded(draw(seed)))


def play_bounded(
    plan: SimulationPlan,
    *,
    max_callbacks: int | None = None,
    open_store: StoreOpener | None = None,
    timeline: Timeline | None = None,
    record: bool = False,
) -> RunOutcome:
    """Play a plan as `play` does, and end the run after `max_callbacks` callbacks of its event loop.

    Without `max_callbacks` it ends after `MAX_CALLBACKS`. A run beyond the limit is reported as a violation: its groups
    rebalance without end.
    """
    return play(
        plan,
        open_store=open_store,
        timeline=timeline,
        record=record,
        max_callbacks=MAX_CALLBACKS if max_callbacks is None else max_callbacks,
        reports_storms=True,
    )


def fails_with(sentence: str, bug: str = "") -> FailurePredicate:
    """A function of a plan, for `shrink`: whether a run of the plan violates this sentence before any other.

    `bug` is planted for the run if given. The function is false for a plan that cannot be played.
    """

    def fails(plan: SimulationPlan) -> bool:
        try:
            check_plan(plan)
        except ValueError:
            return False
        with plant_bug(bug):
            return play_bounded(plan).first_sentence == sentence

    return fails
