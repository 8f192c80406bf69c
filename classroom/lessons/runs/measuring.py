"""What a measure of a run is: the kind of its value, its fields, and the time and the partitions that they name."""

from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from regroup.classroom.lessons.format.parts import Measure
from regroup.classroom.lessons.runs.answers import AnswerKind, AnswerValue, Known, parse_answer
from regroup.classroom.lessons.runs.run import LessonRun
from regroup.classroom.timeline import TimelineMoment
from regroup.lab.plan.plan import SimulationPlan
from regroup.protocol.consumer.subscription import TopicPartition

WINDOW: Final = ("from_", "until")
"""The fields of a measure that is about a part of the run."""


class CannotMeasure(ValueError):
    """A measure has no value in a run, for example because a moment that it names never came."""


class MeasureKind(NamedTuple):
    """One measure: the kind of its value, how it is computed, and which fields it needs and may have."""

    kind: AnswerKind
    compute: Callable[[LessonRun, Measure], AnswerValue]
    meaning: str
    needs: tuple[str, ...] = ()
    may_have: tuple[str, ...] = ()


def known_names(plan: SimulationPlan) -> Known:
    """The names of members and topics that an answer about a run of this plan may contain."""
    return Known(tuple(plan.members), tuple(plan.topics))


def window(run: LessonRun, measure: Measure) -> tuple[int, int]:
    """The begin and the end of the time that a measure covers, in milliseconds since the start of the run.

    Without `from` it begins with the run, and without `until` it ends with it.
    """
    return measure.from_ or 0, run.ended_ms if measure.until is None else measure.until


def moments_in(run: LessonRun, measure: Measure, event_type: str) -> Iterator[TimelineMoment]:
    """Yield the group's events of this type within the time that a measure covers."""
    first, last = window(run, measure)
    for moment in run.timeline.moments:
        if moment.type == event_type and first <= run.since_start_ms(moment.at_ms) <= last:
            yield moment


def time_named(run: LessonRun, measure: Measure) -> int:
    """The time in a measure's field `at`, in milliseconds since the run's start; without `at` the end of the run."""
    return run.ended_ms if measure.at is None else measure.at


def partitions_named(plan: SimulationPlan, measure: Measure) -> frozenset[TopicPartition]:
    """The partitions that a measure names. Raises UnreadableAnswer."""
    found = parse_answer(AnswerKind.PARTITIONS, measure.partition, known_names(plan))
    assert isinstance(found, frozenset)
    return frozenset(each for each in found if isinstance(each, TopicPartition))
