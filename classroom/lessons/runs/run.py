"""Runs the scenario of a lesson in the lab, within bounds, and keeps what can be shown, counted and asked about it.

A run is bounded before it begins (`check_bounds`: virtual time, members, partitions, records) and while it runs
(callbacks of its event loop), so that no settings of a learner can make it long.
"""

import asyncio
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import nullcontext
from functools import cached_property
from threading import Lock
from typing import Any, Final, NamedTuple

from msgspec.structs import replace

from regroup.assignors.interface import Assignor
from regroup.assignors.registry import offering
from regroup.classroom.fold.build import timeline_of
from regroup.classroom.reading import read_timelines
from regroup.classroom.timeline import GroupTimeline
from regroup.coordinator.group import MemberId
from regroup.lab.plan.plan import SimulationPlan
from regroup.lab.planted_bugs.registry import bug_named
from regroup.lab.simulation.run import RunOutcome, play
from regroup.lab.simulation.timeline import Timeline, TimelineEntry
from regroup.lab.simulation.virtual_clock import START_MS, TooManyCallbacks
from regroup.notation.durations import format_duration
from regroup.storage.memory import MemoryStore

MAX_VIRTUAL_MS: Final = 2 * 60 * 60 * 1000
"""Faults and recovery together may last so long."""
MAX_CALLBACKS: Final = 40_000
"""Of a run's event loop. The lessons that come with regroup take 80 to 17,000. The most expensive callbacks, those of
30 members and 400 partitions with records, take a quarter of a millisecond on average."""
MAX_MEMBERS: Final = 30
MAX_PARTITIONS: Final = 500
MAX_RECORDS: Final = 20_000
MAX_VALUE_BYTES: Final = 1_000
MAX_STEPS: Final = 200
MAX_BROKERS: Final = 9
MIN_INTERVAL_MS: Final = 100
"""Of heartbeats and automatic commits."""


ONE_RUN: Final = Lock()
"""A run replaces the configuration of logging, and a planted bug replaces code, for the whole process."""


class RunRefused(ValueError):
    """Raised for a scenario that would take too long, or whose run has no event of the group that is to be shown."""


class LessonRun:
    """One run of a scenario in the lab, with the history of the one group that a lesson shows."""

    def __init__(self, plan: SimulationPlan, outcome: RunOutcome, observed: Timeline, timeline: GroupTimeline) -> None:
        self.plan, self.outcome, self.timeline = plan, outcome, timeline
        self.entries: tuple[TimelineEntry, ...] = tuple(observed.entries)
        """What the plan, members and coordinators did, and refused requests."""
        self._observed = observed
        self._names = {**timeline.names, **observed.names}
        self._of_groups: dict[str, LessonRun] = {timeline.group_id: self}

    def of_group(self, group: str) -> "LessonRun":
        """The same run, seen as the history of another group. Raises RunRefused if it has no event of that group."""
        if group not in self._of_groups:
            self._of_groups[group] = _run_of_group(self.plan, self.outcome, self._observed, group)
        return self._of_groups[group]

    def name_of(self, member_id: MemberId | None) -> str:
        """The member's name in the scenario; the id itself if the scenario has no such member, and empty for None."""
        return self._names.get(member_id, member_id) if member_id else ""

    def since_start_ms(self, at_ms: int) -> int:
        """Convert epoch milliseconds to milliseconds since the start of the run."""
        return at_ms - START_MS

    def epoch_ms(self, since_start_ms: int) -> int:
        """Convert milliseconds since the start of the run to epoch milliseconds."""
        return START_MS + since_start_ms

    @cached_property
    def ended_ms(self) -> int:
        """Milliseconds from the start of the run to its end."""
        return self.outcome.ended_ms


def run_scenario(plan: SimulationPlan, group: str, *, bug: str = "", assignor: Assignor | None = None) -> LessonRun:
    """Simulate the plan of a scenario, and return the run with the history of this group.

    `bug` is the name of a planted bug, empty for none. Members whose configuration names `assignor` can use it. Raises
    RunRefused for a plan that exceeds a bound, or that takes longer than a run may.
    """
    observed = Timeline()
    outcome = _play(plan, bug, assignor, timeline=observed)
    return _run_of_group(plan, outcome, observed, group)


def _run_of_group(plan: SimulationPlan, outcome: RunOutcome, observed: Timeline, group: str) -> LessonRun:
    records = [record for record in outcome.records if record.group in (None, group)]
    if not any(record.group == group for record in records):
        raise RunRefused(f"the run has no event of group {group!r}; `group` names the one that is shown")
    return LessonRun(plan, outcome, observed, _with_names_of_scenario(timeline_of(group, records), observed.names))


def _with_names_of_scenario(timeline: GroupTimeline, names: Mapping[MemberId, str]) -> GroupTimeline:
    """The timeline with the members' names of the scenario in its lanes.

    If a member of the scenario, such as `ben`, has joined under several member ids, the second one is named `ben#2`,
    and so on.
    """
    processes: dict[str, dict[MemberId, int]] = defaultdict(dict)
    lanes = []
    for lane in timeline.lanes:
        name = names.get(lane.member_id)
        if name is not None:
            number = processes[name].setdefault(lane.member_id, len(processes[name]) + 1)
            lane = replace(lane, name=name if number == 1 else f"{name}#{number}")
        lanes.append(lane)
    return replace(timeline, lanes=tuple(lanes))


def record_scenario(plan: SimulationPlan, group: str, *, bug: str = "") -> GroupTimeline:
    """Simulate the plan with recording on, and return the group's timeline with exchanges and the members' views.

    The events and their positions are those of `run_scenario`, which is quicker because it records nothing. Raises
    RunRefused in the same cases.
    """
    store, observed = MemoryStore(), Timeline()
    _play(plan, bug, None, open_store=store.open, record=True, timeline=observed)
    return _with_names_of_scenario(asyncio.run(read_timelines(store, [group]))[group], observed.names)


def _play(plan: SimulationPlan, bug: str, assignor: Assignor | None, **options: Any) -> RunOutcome:
    check_bounds(plan)
    try:
        with ONE_RUN, offering(assignor), bug_named(bug).plant() if bug else nullcontext():
            return play(plan, max_callbacks=MAX_CALLBACKS, **options)
    except TooManyCallbacks as error:
        raise RunRefused(f"the run was ended, because it takes too long: {error}") from None


class Bound(NamedTuple):
    """An upper limit for scenarios: what is limited, a function that computes it for a plan, and the largest value."""

    what: str
    value_in: Callable[[SimulationPlan], float]
    largest: int


def _virtual_ms(plan: SimulationPlan) -> float:
    times = [planned.trigger.delay_ms for planned in plan.steps]
    waits = [getattr(planned.step, "within_ms", 0) for planned in plan.steps]
    return max([plan.faults_end_ms, *times]) + max([plan.recovery_timeout_ms, *waits])


BOUNDS: Final = (
    Bound("members", lambda plan: len(plan.members), MAX_MEMBERS),
    Bound("partitions of all topics", lambda plan: sum(plan.topics.values()), MAX_PARTITIONS),
    Bound("brokers", lambda plan: plan.brokers, MAX_BROKERS),
    Bound("steps", lambda plan: len(plan.steps), MAX_STEPS),
    Bound("milliseconds of virtual time, with the time for recovery", _virtual_ms, MAX_VIRTUAL_MS),
    Bound("bytes of a record", lambda plan: plan.workload.value_bytes, MAX_VALUE_BYTES),
    Bound(
        "records",
        lambda plan: plan.workload.records_per_s * len(plan.topics) * _virtual_ms(plan) / 1000,
        MAX_RECORDS,
    ),
)


def bound_problems(plan: SimulationPlan) -> Iterator[str]:
    """Yield a sentence about each bound that the plan exceeds."""
    for bound in BOUNDS:
        if (value := bound.value_in(plan)) > bound.largest:
            yield f"a lesson may have at most {bound.largest:,} {bound.what}, not {value:,.0f}"
    for name, member in plan.members.items():
        for what in ("heartbeat_interval_ms", "auto_commit_interval_ms"):
            if getattr(member, what) < MIN_INTERVAL_MS:
                shown = what.removesuffix("_ms").replace("_", " ")
                yield f"the {shown} of {name} must be at least {format_duration(MIN_INTERVAL_MS)} in a lesson"


def check_bounds(plan: SimulationPlan) -> None:
    """Raise RunRefused, with every exceeded bound, unless the plan is within all bounds."""
    for problem in bound_problems(plan):
        raise RunRefused(problem)
