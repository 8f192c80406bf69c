"""What a lesson can count or look up in a run: for the answer of a question, for conditions, and for texts.

    - {measure: rebalances, from: 20s, at most: 0}

`MEASURES` is the whole list; a lesson's file cannot contain code.
"""

from collections.abc import Iterator
from difflib import get_close_matches
from typing import Final

from regroup.classroom.lessons.format.parts import Measure
from regroup.classroom.lessons.runs.answers import AnswerKind, AnswerValue, UnreadableAnswer
from regroup.classroom.lessons.runs.group_measures import GROUP_MEASURES
from regroup.classroom.lessons.runs.measuring import (
    CannotMeasure,
    MeasureKind,
    partitions_named,
)
from regroup.classroom.lessons.runs.moments import selector_problems
from regroup.classroom.lessons.runs.partition_measures import PARTITION_MEASURES
from regroup.classroom.lessons.runs.run import LessonRun, RunRefused
from regroup.classroom.lessons.runs.run_measures import RUN_MEASURES
from regroup.lab.plan.plan import SimulationPlan

MEASURES: Final[dict[str, MeasureKind]] = {**GROUP_MEASURES, **PARTITION_MEASURES, **RUN_MEASURES}


def measure_value(run: LessonRun, measure: Measure) -> AnswerValue:
    """The value of a measure in a run. Raises CannotMeasure."""
    try:
        group = run.of_group(measure.group) if measure.group else run
    except RunRefused as error:
        raise CannotMeasure(str(error)) from None
    return MEASURES[measure.measure].compute(group, measure)


def measure_kind(measure: Measure) -> AnswerKind:
    """Of which kind the value of a measure is, such as a number or a duration."""
    return MEASURES[measure.measure].kind


def measure_problems(measure: Measure, plan: SimulationPlan) -> Iterator[str]:
    """Yield what is wrong with a measure itself, such as an unknown name; it needs no run."""
    kind = MEASURES.get(measure.measure)
    if kind is None:
        nearest = get_close_matches(measure.measure, MEASURES, n=1)
        hint = f"did you mean {nearest[0]!r}?" if nearest else f"known are {', '.join(MEASURES)}"
        yield f"unknown measure {measure.measure!r}; {hint}"
        return
    fields = ("member", "partition", "at", "from_", "until", "of", "to", "key", "partitions")
    given = [name for name in fields if getattr(measure, name) not in (None, "")]
    for name in kind.needs:
        if name not in given:
            yield f"the measure {measure.measure!r} needs `{name}`"
    for name in given:
        if name not in (*kind.needs, *kind.may_have):
            yield f"the measure {measure.measure!r} does not take `{name.strip('_')}`"
    members = tuple(plan.members)
    if measure.member and measure.member not in members:
        yield f"unknown member {measure.member!r}; known are {', '.join(members)}"
    groups = sorted({member.group for member in plan.members.values()})
    if measure.group and measure.group not in groups:
        yield f"unknown group {measure.group!r}; known are {', '.join(groups)}"
    for selector in filter(None, (measure.of, measure.to)):
        yield from selector_problems(selector, members)
    if measure.partition:
        yield from _partition_problems(plan, measure)


def _partition_problems(plan: SimulationPlan, measure: Measure) -> Iterator[str]:
    try:
        named = partitions_named(plan, measure)
    except UnreadableAnswer:
        yield f"not a partition: {measure.partition!r}; write for example 'orders 0'"
        return
    if len(named) != 1 and "partition" in MEASURES[measure.measure].needs:
        yield f"`partition` of the measure {measure.measure!r} is one partition, not {measure.partition!r}"
