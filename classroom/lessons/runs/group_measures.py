"""Measures of a group: when its moments came, and its state, leader and members at a time."""

from typing import Final

from regroup.classroom.lessons.format.parts import Measure
from regroup.classroom.lessons.runs.answers import AnswerKind
from regroup.classroom.lessons.runs.measuring import WINDOW, CannotMeasure, MeasureKind, moments_in, window
from regroup.classroom.lessons.runs.moments import find_moment, matching_moments, selector_text
from regroup.classroom.lessons.runs.run import LessonRun
from regroup.classroom.timeline import TimelineMoment


def _state_at(run: LessonRun, measure: Measure) -> TimelineMoment | None:
    """The group's last event at or before the time in the measure's field `at`; None if there is none."""
    at_ms = run.ended_ms if measure.at is None else measure.at
    earlier = [moment for moment in run.timeline.moments if run.since_start_ms(moment.at_ms) <= at_ms]
    return earlier[-1] if earlier else None


def _number_of_rebalances(run: LessonRun, measure: Measure) -> float:
    return float(sum(1 for _ in moments_in(run, measure, "generation-started")))


def _number_of_moments(run: LessonRun, measure: Measure) -> float:
    assert measure.of is not None
    first, last = window(run, measure)
    return float(sum(1 for moment in matching_moments(run, measure.of) if first <= moment.at_ms <= last))


def _time_of(run: LessonRun, measure: Measure) -> float:
    assert measure.of is not None
    moment = find_moment(run, measure.of)
    if moment is None:
        raise CannotMeasure(f"the run has no moment {{{selector_text(measure.of)}}}")
    return float(moment.at_ms)


def _time_between(run: LessonRun, measure: Measure) -> float:
    assert measure.to is not None
    ended = find_moment(run, measure.to)
    if ended is None:
        raise CannotMeasure(f"the run has no moment {{{selector_text(measure.to)}}}")
    return ended.at_ms - _time_of(run, measure)


def _generation(run: LessonRun, measure: Measure) -> float:
    moment = _state_at(run, measure)
    return float(moment.generation_id if moment else 0)


def _state(run: LessonRun, measure: Measure) -> str:
    moment = _state_at(run, measure)
    return moment.state.value if moment else "Dead"


def _leader(run: LessonRun, measure: Measure) -> frozenset[str]:
    moment = _state_at(run, measure)
    return frozenset({run.name_of(moment.leader_id)} if moment and moment.leader_id else ())


def members_at(run: LessonRun, measure: Measure) -> frozenset[str]:
    """The names of the members at the time that a measure names."""
    at_ms = run.epoch_ms(run.ended_ms if measure.at is None else measure.at)
    lanes = (lane for lane in run.timeline.lanes if lane.began.at_ms <= at_ms)
    return frozenset(run.name_of(each.member_id) for each in lanes if each.ended is None or each.ended.at_ms > at_ms)


def _removed(run: LessonRun, measure: Measure) -> frozenset[str]:
    removals = moments_in(run, measure, "member-removed")
    return frozenset(run.name_of(getattr(moment.event, "member_id", None)) for moment in removals)


def _assignor(run: LessonRun, measure: Measure) -> str:
    at_ms = run.epoch_ms(run.ended_ms if measure.at is None else measure.at)
    names = [each.protocol_name for each in run.timeline.generations if each.began.at_ms <= at_ms and each.leader_id]
    return (names[-1] if names else None) or ""


GROUP_MEASURES: Final[dict[str, MeasureKind]] = {
    "rebalances": MeasureKind(
        AnswerKind.NUMBER, _number_of_rebalances, "generations with members that began", (), WINDOW
    ),
    "moments": MeasureKind(AnswerKind.NUMBER, _number_of_moments, "how often the moment `of` came", ("of",), WINDOW),
    "time of": MeasureKind(AnswerKind.DURATION, _time_of, "when the moment `of` came, since the start", ("of",)),
    "time between": MeasureKind(
        AnswerKind.DURATION, _time_between, "from the moment `of` to the moment `to`", ("of", "to")
    ),
    "generation": MeasureKind(AnswerKind.NUMBER, _generation, "the generation id", (), ("at",)),
    "state": MeasureKind(AnswerKind.WORD, _state, "the state of the group", (), ("at",)),
    "leader": MeasureKind(AnswerKind.NAMES, _leader, "the leader", (), ("at",)),
    "members": MeasureKind(AnswerKind.NAMES, members_at, "the members of the group", (), ("at",)),
    "removed": MeasureKind(AnswerKind.NAMES, _removed, "members that the coordinator removed", (), WINDOW),
    "assignor": MeasureKind(AnswerKind.WORD, _assignor, "the assignor of the generation", (), ("at",)),
}
