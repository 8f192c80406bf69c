"""Does the lab find a bug? After how many seeds, and how little does it take to show it?"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Final

from msgspec.structs import replace

from regroup.lab.plan.plan import QUIET, Plan
from regroup.lab.search.hunt import hunt
from regroup.lab.search.shrink import Fails, shrink
from regroup.lab.search.swarm import TEN_MINUTES_MS, draw_plan
from regroup.lab.search.trial import Finding, fails_with, try_seed
from regroup.lab.simulation.world import play
from regroup.members.runtime.workload import Workload

MOST_SEEDS: Final = 200
MOST_RUNS: Final = 150
PATIENT: Final = {"session_timeout_ms": 60_000, "heartbeat_interval_ms": 3_000, "max_poll_interval_ms": 10_000}
FEW_RECORDS: Final = Workload(records_per_s=0.5)


@dataclass(frozen=True, slots=True)
class Catch:
    """One bug: the first seed that shows it, and the smallest plan that still does. Nothing if it was not found.

    `seeds` were played, and `runs` more to make the plan small.
    """

    bug: str
    seeds: int
    finding: Finding | None = None
    plan: Plan | None = None
    runs: int = 0

    @property
    def size(self) -> str:
        return "" if self.plan is None else size_of(self.plan)


def size_of(plan: Plan) -> str:
    """In words."""
    return f"{_count(len(plan.members), 'member')}, {_count(len(plan.happenings), 'happening')}"


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


def draw_small(seed: int) -> Plan:
    """A swarm of small groups whose leaders deal soundly, since the others rebalance without end and are judged less.

    Most runs are short. Every third is long, and has no records, since those cost most. In every fifth, sessions
    outlast rebalances, so that a group goes on without members that it still has; in half of these everybody is
    static, and there are records to commit.
    """
    is_long = seed % 3 == 0
    plan = draw_plan(seed, most_members=4, for_ms=TEN_MINUTES_MS if is_long else 120_000)
    members = {name: replace(each, habits=tuple(filter(is_sound, each.habits))) for name, each in plan.members.items()}
    workload = QUIET if is_long else plan.workload
    if seed % 5 == 0:
        members = {name: replace(each, **PATIENT) for name, each in members.items()}
    if seed % 10 == 5:
        members = {name: replace(each, instance_id=f"{name}-1") for name, each in members.items()}
        workload = FEW_RECORDS
    return replace(plan, members=members, workload=workload)


def is_sound(habit: str) -> bool:
    return not habit.startswith("assignor-")


def shown_by(seed: int, *, draw: Callable[[int], Plan], bug: str) -> Finding | None:
    """What a seed finds with the bug, provided that it finds nothing without it."""
    finding = try_seed(seed, draw=draw, bug=bug)
    return finding if finding and try_seed(seed, draw=draw) is None else None


def shows(bug: str, sentence: str) -> Fails:
    """Whether a plan breaks this sentence with the bug, and nothing without it."""
    with_it = fails_with(sentence, bug)
    return lambda plan: with_it(plan) and not play(plan).failed


def catch(bug: str, draw: Callable[[int], Plan], *, most_seeds: int = MOST_SEEDS, most_runs: int = MOST_RUNS) -> Catch:
    """Hunt a bug through the seeds from 1 on, and shrink the first that shows it. `most_runs=0` does not shrink."""
    findings = hunt(range(1, most_seeds + 1), 1, partial(shown_by, draw=draw, bug=bug), stop_at_first=True)
    if not findings.found:
        return Catch(bug, findings.played)
    [finding] = findings.found
    small = shrink(draw(finding.seed), shows(bug, finding.sentence), most_runs=most_runs)
    return Catch(bug, findings.played, finding, titled(small.plan, finding, bug), small.runs)


def titled(plan: Plan, finding: Finding, bug: str = "") -> Plan:
    """A plan that says what it shows."""
    because = f", with the bug {bug}" if bug else ""
    return replace(plan, title=f"What is left of seed {finding.seed}{because}: {finding.sentence}")
