"""The smallest plan that still fails: delta debugging.

    small = shrink(plan, fails_with("A parked request is answered at most once."))
    small.plan, small.runs

A plan is taken apart piece by piece, and a piece stays away if the plan without it fails as before. What fails is a
predicate that is handed in, so that nothing here knows what a run is.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, TypeAlias

import msgspec

from regroup.lab.plan.plan import Plan
from regroup.lab.search.reductions import PASSES

Fails: TypeAlias = Callable[[Plan], bool]
MOST_RUNS: Final = 500


@dataclass(frozen=True, slots=True)
class Shrunk:
    """The smallest plan that was found, and how many runs that took. `is_minimal`: no single edit makes it smaller."""

    plan: Plan
    runs: int
    is_minimal: bool


Progress: TypeAlias = Callable[[Plan, int], None]
"""Told the smallest plan so far, and the runs so far, after every run."""


class _Shrinking:
    def __init__(self, plan: Plan, fails: Fails, most_runs: int, progress: Progress) -> None:
        self.plan = plan
        self.runs = 0
        self._fails = fails
        self._most_runs = most_runs
        self._progress = progress
        self._tried = {_text(plan)}

    @property
    def is_out_of_runs(self) -> bool:
        return self.runs >= self._most_runs

    def attempt(self, candidate: Plan) -> None:
        """Keep it if it fails, too. What was tried once is not tried again."""
        text = _text(candidate)
        if text in self._tried or self.is_out_of_runs:
            return
        self._tried.add(text)
        self.runs += 1
        if self._fails(candidate):
            self.plan = candidate
        self._progress(self.plan, self.runs)

    def round(self) -> bool:
        """Try every edit once. Whether one of them helped."""
        before = self.plan
        for edits in PASSES:
            for edit in edits(self.plan):
                self.attempt(edit(self.plan))
        return self.plan is not before


def _text(plan: Plan) -> bytes:
    return msgspec.json.encode(plan)


def shrink(
    plan: Plan, fails: Fails, *, most_runs: int = MOST_RUNS, progress: Progress = lambda plan, runs: None
) -> Shrunk:
    """Take away what can be taken away. `plan` itself must fail; it is not tried again.

    Deterministic, as long as `fails` is; ends after `most_runs` runs at the latest.
    """
    shrinking = _Shrinking(plan, fails, most_runs, progress)
    while shrinking.round() and not shrinking.is_out_of_runs:
        pass
    return Shrunk(shrinking.plan, shrinking.runs, is_minimal=not shrinking.is_out_of_runs)
