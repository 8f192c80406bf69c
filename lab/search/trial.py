"""One run of the lab as a question: does it fail, and of what? With a bug planted, if wished.

finding = try_seed(7, draw=swarm.draw)
small = shrink(plan, fails_with(finding.sentence))
"""

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass

from regroup.lab.plan.plan import Plan
from regroup.lab.plan.validation import check_plan
from regroup.lab.planted_bugs.bug import Planted
from regroup.lab.planted_bugs.registry import bug_named
from regroup.lab.search.shrink import Fails
from regroup.lab.simulation.world import Outcome, play


@dataclass(frozen=True, slots=True)
class Finding:
    """A seed that fails: the sentence that broke first, and the case.

    `is_unrest`: nothing else is broken than that the groups were not well again within their bound.
    """

    seed: int
    sentence: str
    detail: str
    is_unrest: bool = False


def planted(bug: str) -> Planted:
    """The bug of this name while a block lasts; none if the name is empty. UnknownBug if there is no such bug."""
    return bug_named(bug).plant() if bug else nullcontext()


def finding_in(outcome: Outcome) -> Finding | None:
    """None if nothing is broken."""
    if not outcome.failed:
        return None
    first = outcome.verdict.broken[0]
    is_unrest = not outcome.healed and len(outcome.verdict.sentences) == 1
    return Finding(outcome.plan.seed, first.sentence, first.detail, is_unrest)


def try_seed(seed: int, *, draw: Callable[[int], Plan], bug: str = "") -> Finding | None:
    """Draw a plan and play it."""
    with planted(bug):
        return finding_in(play(draw(seed)))


def fails_with(sentence: str, bug: str = "") -> Fails:
    """Whether a plan breaks this sentence before any other. A plan that cannot be played does not."""

    def fails(plan: Plan) -> bool:
        try:
            check_plan(plan)
        except ValueError:
            return False
        with planted(bug):
            return play(plan).first_sentence == sentence

    return fails
