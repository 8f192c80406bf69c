"""Makes a failing plan small: removes parts as long as the plan without them still fails (delta debugging).

    result = shrink(plan, fails_with("A request has at most one response."))
    result.plan, result.runs

A plan is taken apart piece by piece, and a piece stays away if the plan without it fails as before. The predicate that
decides this is an argument, so nothing here depends on what a run is.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Final, TypeAlias

import msgspec
from msgspec.structs import replace

from regroup.lab.plan.plan import NO_WORKLOAD, MemberPlan, NetworkPlan, PlannedStep, SimulationPlan
from regroup.lab.plan.step_sentences import brokers_named, members_named
from regroup.lab.plan.triggers import StepTrigger, milestone_members
from regroup.notation.durations import format_duration

FailurePredicate: TypeAlias = Callable[[SimulationPlan], bool]
DEFAULT_MAX_RUNS: Final = 500


@dataclass(frozen=True, slots=True)
class ShrinkResult:
    """The smallest failing plan that `shrink` has found, and how many runs that took."""

    plan: SimulationPlan
    runs: int
    """Number of plans played."""
    is_minimal: bool
    """Whether every single further edit was tried, and none gave a smaller plan that fails."""


OnShrinkProgress: TypeAlias = Callable[[SimulationPlan, int], None]
"""Called after every run with the smallest plan so far and the number of runs."""


def shrink(
    plan: SimulationPlan,
    fails: FailurePredicate,
    *,
    max_runs: int = DEFAULT_MAX_RUNS,
    on_progress: OnShrinkProgress = lambda plan, runs: None,
) -> ShrinkResult:
    """Remove from a failing plan what can be removed without making it pass. `plan` itself is not played again.

    Deterministic, as long as `fails` is. Ends when no single edit helps, or after `max_runs` runs.
    """
    shrinking = _Shrinking(plan, fails, max_runs, on_progress)
    while shrinking.try_all_edits() and not shrinking.is_out_of_runs:
        pass
    return ShrinkResult(shrinking.plan, shrinking.runs, is_minimal=not shrinking.is_out_of_runs)


class _Shrinking:
    def __init__(
        self, plan: SimulationPlan, fails: FailurePredicate, max_runs: int, on_progress: OnShrinkProgress
    ) -> None:
        self.plan = plan
        self.runs = 0
        self._fails = fails
        self._max_runs = max_runs
        self._on_progress = on_progress
        self._tried = {msgspec.json.encode(plan)}

    @property
    def is_out_of_runs(self) -> bool:
        return self.runs >= self._max_runs

    def try_all_edits(self) -> bool:
        """Try every edit once, and keep those after which the plan still fails. True if at least one was kept."""
        before = self.plan
        for edits in EDITS:
            for edit in edits(self.plan):
                self._try(edit(self.plan))
        return self.plan is not before

    def _try(self, candidate: SimulationPlan) -> None:
        """Play a plan that an edit has made smaller; it becomes the smallest plan so far if it still fails.

        A plan that was tried before is not played again.
        """
        encoded = msgspec.json.encode(candidate)
        if encoded in self._tried or self.is_out_of_runs:
            return
        self._tried.add(encoded)
        self.runs += 1
        if self._fails(candidate):
            self.plan = candidate
        self._on_progress(self.plan, self.runs)


# An edit takes a plan and returns a smaller one, or the same one if there is nothing to do. No edit makes anything
# larger, so applying them again and again comes to an end.

Edit: TypeAlias = Callable[[SimulationPlan], SimulationPlan]

# -- steps


def fewer_steps(plan: SimulationPlan) -> Iterator[Edit]:
    """Edits that remove a half of the steps, a quarter, and so on down to single steps.

    The last steps come first, since late steps matter least.
    """
    size = len(plan.steps)
    while size:
        for end in range(len(plan.steps), 0, -size):
            chunk = plan.steps[max(0, end - size) : end]
            yield partial(_without_steps, identities=frozenset(id(each) for each in chunk))
        size //= 2


def _without_steps(plan: SimulationPlan, identities: frozenset[int]) -> SimulationPlan:
    return replace(plan, steps=tuple(each for each in plan.steps if id(each) not in identities))


def fewer_milestones(plan: SimulationPlan) -> Iterator[Edit]:
    """Edits that give a step a fixed time in place of a milestone after which it happens."""
    for index, planned in enumerate(plan.steps):
        if planned.trigger.milestone:
            at_a_time = replace(planned, trigger=StepTrigger("", planned.trigger.delay_ms))
            yield partial(_with_step, index=index, planned=at_a_time)


def _with_step(plan: SimulationPlan, index: int, planned: PlannedStep) -> SimulationPlan:
    return replace(plan, steps=(*plan.steps[:index], planned, *plan.steps[index + 1 :]))


# -- members


def fewer_members(plan: SimulationPlan) -> Iterator[Edit]:
    """Edits that remove a member, with the steps that name it."""
    for name in reversed(list(plan.members)):
        yield partial(_without_member, name=name)


def _without_member(plan: SimulationPlan, name: str) -> SimulationPlan:
    return replace(
        plan,
        members={each: member for each, member in plan.members.items() if each != name},
        steps=tuple(kept for each in plan.steps if (kept := _without_name(each, name))),
    )


def _without_name(planned: PlannedStep, name: str) -> PlannedStep | None:
    """A step of a plan without the member of this name; None if nothing is left of the step.

    An expectation about several members keeps the others.
    """
    members = [each for each in getattr(planned.step, "members", ()) if each != name]
    named_by_milestone = milestone_members(planned.trigger.milestone)
    if members and name not in named_by_milestone:
        return replace(planned, step=replace(planned.step, members=tuple(members)))
    return None if name in (*members_named(planned.step), *named_by_milestone) else planned


def plainer_members(plan: SimulationPlan) -> Iterator[Edit]:
    """Edits that let a member subscribe to the first topic only, remove one of its faults, or reset one option."""
    for name, member in plan.members.items():
        yield partial(_change_member, name=name, change=partial(replace, topics=tuple(plan.topics)[:1]))
        for fault in member.faults:
            yield partial(_change_member, name=name, change=partial(_without_fault, fault=fault))
        for field in msgspec.structs.fields(MemberPlan):
            if field.name not in ("faults", "group", "topics"):
                default = partial(replace, **{field.name: field.default})
                yield partial(_change_member, name=name, change=default)


def _change_member(plan: SimulationPlan, name: str, change: Callable[[MemberPlan], MemberPlan]) -> SimulationPlan:
    return replace(plan, members={**plan.members, name: change(plan.members[name])})


def _without_fault(member: MemberPlan, fault: str) -> MemberPlan:
    return replace(member, faults=tuple(each for each in member.faults if each != fault))


# -- everything around the members


def plainer_surroundings(plan: SimulationPlan) -> Iterator[Edit]:
    """Edits that remove the workload, a setting or brokers, or reset the network or the disk latency to the default."""
    yield partial(replace, workload=NO_WORKLOAD)
    yield partial(replace, network=NetworkPlan())
    yield partial(replace, disk_latency_ms=0.0)
    for setting in plan.settings:
        yield partial(_without_setting, setting=setting)
    for brokers in range(1, plan.brokers):
        yield partial(_with_brokers, brokers=brokers)


def _without_setting(plan: SimulationPlan, setting: str) -> SimulationPlan:
    return replace(plan, settings={name: value for name, value in plan.settings.items() if name != setting})


def _with_brokers(plan: SimulationPlan, brokers: int) -> SimulationPlan:
    """A plan with at most this many brokers, without the steps that name one of the others."""
    steps = tuple(each for each in plan.steps if all(broker < brokers for broker in brokers_named(each.step)))
    return replace(plan, brokers=min(brokers, plan.brokers), steps=steps)


def fewer_partitions(plan: SimulationPlan) -> Iterator[Edit]:
    """Edits that remove a topic, or partitions of a topic."""
    for topic in reversed(list(plan.topics)):
        yield partial(_without_topic, topic=topic)
    for topic, partitions in plan.topics.items():
        for fewer in dict.fromkeys((1, partitions // 2, partitions - 1)):
            if 1 <= fewer < partitions:
                yield partial(_with_partitions, topic=topic, partitions=fewer)


def _without_topic(plan: SimulationPlan, topic: str) -> SimulationPlan:
    """A plan without a topic, and without the members that subscribe to no other. The last topic is kept."""
    if plan.topics.keys() <= {topic}:
        return plan
    for name in [name for name, member in plan.members.items() if member.topics == (topic,)]:
        plan = _without_member(plan, name)
    members = {
        name: replace(member, topics=tuple(each for each in member.topics if each != topic))
        for name, member in plan.members.items()
    }
    topics = {name: partitions for name, partitions in plan.topics.items() if name != topic}
    steps = tuple(each for each in plan.steps if getattr(each.step, "topic", "") != topic)
    return replace(plan, topics=topics, members=members, steps=steps)


def _with_partitions(plan: SimulationPlan, topic: str, partitions: int) -> SimulationPlan:
    if plan.topics.get(topic, 0) <= partitions:
        return plan
    return replace(plan, topics={**plan.topics, topic: partitions})


# -- times

_STEP_TIMES: Final = ("duration_ms", "delay_ms", "latency_ms", "jitter_ms")
"""Fields of steps with times that may be rounded. The times of expectations are not changed."""
_ROUND_TO_MS: Final = (60_000, 10_000, 5_000, 1_000, 500, 100)


def simpler_times(plan: SimulationPlan) -> Iterator[Edit]:
    """Edits that replace a time by a simpler one (see `is_simpler`)."""
    for index, planned in enumerate(plan.steps):
        for rounder in rounder_than(planned.trigger.delay_ms):
            yield partial(_with_delay, index=index, delay_ms=rounder)
        for field in _STEP_TIMES:
            for rounder in rounder_than(getattr(planned.step, field, 0)):
                yield partial(_with_time, index=index, field=field, time_ms=rounder)
    for rounder in rounder_than(plan.faults_end_ms):
        yield partial(_with_faults_end, faults_end_ms=rounder)


def is_simpler(one_ms: int, other_ms: int) -> bool:
    """Whether the first time is simpler: written with fewer characters, or with as many and smaller.

    Zero is the simplest of all.
    """
    return _complexity(one_ms) < _complexity(other_ms)


def _complexity(time_ms: int) -> tuple[int, int]:
    return (len(format_duration(time_ms)) if time_ms else 0, time_ms)


def rounder_than(time_ms: int) -> Iterable[int]:
    """The times near this one that are simpler by `is_simpler`, the simplest first."""
    near = {round(time_ms / step) * step for step in _ROUND_TO_MS} | {0, time_ms // 2 // 1_000 * 1_000}
    return sorted((each for each in near if is_simpler(each, time_ms)), key=_complexity)


def _with_delay(plan: SimulationPlan, index: int, delay_ms: int) -> SimulationPlan:
    planned = plan.steps[index]
    if not is_simpler(delay_ms, planned.trigger.delay_ms):
        return plan
    return _with_step(plan, index, replace(planned, trigger=StepTrigger(planned.trigger.milestone, delay_ms)))


def _with_time(plan: SimulationPlan, index: int, field: str, time_ms: int) -> SimulationPlan:
    planned = plan.steps[index]
    if time_ms <= 0 or not is_simpler(time_ms, getattr(planned.step, field)):
        return plan
    return _with_step(plan, index, replace(planned, step=replace(planned.step, **{field: time_ms})))


def _with_faults_end(plan: SimulationPlan, faults_end_ms: int) -> SimulationPlan:
    return replace(plan, faults_end_ms=faults_end_ms) if is_simpler(faults_end_ms, plan.faults_end_ms) else plan


EDITS: Final[tuple[Callable[[SimulationPlan], Iterator[Edit]], ...]] = (
    fewer_steps,
    fewer_milestones,
    fewer_members,
    plainer_surroundings,
    plainer_members,
    fewer_partitions,
    simpler_times,
)
"""The kinds of edits, in the order in which they are tried."""
