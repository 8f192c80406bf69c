"""Conditions on a run: a measure and what it is compared with, and the sentence about what was found."""

from collections.abc import Iterator
from typing import Final, NamedTuple

from regroup.classroom.languages import Language
from regroup.classroom.lessons.format.language import filled_in, in_language
from regroup.classroom.lessons.format.parts import FOUND, Measure, RunCondition
from regroup.classroom.lessons.runs.answers import (
    AnswerKind,
    AnswerValue,
    UnreadableAnswer,
    answer_text,
    number_of,
    read_value,
)
from regroup.classroom.lessons.runs.measures import measure_kind, measure_problems, measure_value
from regroup.classroom.lessons.runs.measuring import CannotMeasure, known_names
from regroup.classroom.lessons.runs.moments import selector_text
from regroup.classroom.lessons.runs.run import LessonRun
from regroup.lab.plan.plan import SimulationPlan
from regroup.notation.durations import parse_duration_ms
from regroup.server.explanation.sentences import duration_text

LIMITS: Final = ("at least", "at most")


class ConditionResult(NamedTuple):
    """Whether a condition holds in a run, and a sentence with the value that was found."""

    holds: bool
    text: str
    because: str = ""
    """What the lesson says if it does not hold."""


def condition_holds(run: LessonRun, condition: RunCondition) -> bool:
    """Whether a condition holds. Raises CannotMeasure if its measure has no value in this run."""
    kind, value = measure_kind(condition), measure_value(run, condition)
    return all(_compares(run, kind, value, name, given) for name, given in condition.comparisons.items())


def check_condition(run: LessonRun, condition: RunCondition, language: Language) -> ConditionResult:
    """Whether a condition holds in a run, with a sentence about the value that was found.

    It does not hold if its measure has no value in this run.
    """
    try:
        value = measure_value(run, condition)
    except CannotMeasure:
        found = "never" if language is Language.ENGLISH else "从未发生"
        because = in_language(condition.never, language) or _because(condition, found, language)
        return ConditionResult(False, _sentence(condition, found, language), because)
    found = answer_text(measure_kind(condition), value, language)
    holds = condition_holds(run, condition)
    because = "" if holds else _because(condition, found, language)
    return ConditionResult(holds, _sentence(condition, found, language), because)


def _because(condition: RunCondition, found: str, language: Language) -> str:
    return filled_in(in_language(condition.because, language), {FOUND: found})


def _compares(run: LessonRun, kind: AnswerKind, value: AnswerValue, name: str, given: object) -> bool:
    known = known_names(run.plan)
    if name in LIMITS:
        limit = number_of(read_value(_limit_kind(kind), given, known))
        return number_of(value) >= limit if name == "at least" else number_of(value) <= limit
    is_equal = value == read_value(kind, given, known)
    return is_equal if name == "is" else not is_equal


def _limit_kind(kind: AnswerKind) -> AnswerKind:
    """How the limit in `at least` and `at most` is written: as a number, for a measure of names or partitions too."""
    return AnswerKind.NUMBER if kind in (AnswerKind.NAMES, AnswerKind.PARTITIONS) else kind


def condition_problems(condition: RunCondition, plan: SimulationPlan) -> Iterator[str]:
    """Yield what is wrong with a condition itself, such as an unknown field; it needs no run."""
    problems = list(measure_problems(condition, plan))
    yield from problems
    if problems:
        return
    if not condition.comparisons:
        yield "a condition compares: add `is`, `is not`, `at least` or `at most`"
    kind = measure_kind(condition)
    for name, given in condition.comparisons.items():
        if name in LIMITS and kind is AnswerKind.WORD:
            yield f"{condition.measure!r} is a word; compare it with `is` or `is not`"
            continue
        try:
            read_value(_limit_kind(kind) if name in LIMITS else kind, given, known_names(plan))
        except UnreadableAnswer as error:
            yield f"`{name}` takes {WRITTEN_AS[error.kind]}, not {given!r}"


WRITTEN_AS: Final = {
    AnswerKind.NUMBER: "a number",
    AnswerKind.DURATION: "a duration such as 500ms, 20s or 5m",
    AnswerKind.NAMES: "names of members, such as [anna, ben]",
    AnswerKind.PARTITIONS: "partitions such as 'orders 0-3'",
    AnswerKind.WORD: "a word",
}


# -- sentences

COMPARISON_WORDS: Final = {
    Language.ENGLISH: {"is": "is", "is not": "is not", "at least": "at least", "at most": "at most"},
    Language.CHINESE: {"is": "等于", "is not": "不等于", "at least": "不少于", "at most": "不超过"},
}
MEASURE_WORDS: Final[dict[str, tuple[str, str]]] = {
    "rebalances": ("rebalances", "rebalance 次数"),
    "moments": ("how often {of} happened", "{of} 发生的次数"),
    "time of": ("time of {of}", "{of} 的时刻"),
    "time between": ("time from {of} to {to}", "从 {of} 到 {to} 的时间"),
    "generation": ("generation", "generation"),
    "state": ("state of the group", "group 的状态"),
    "leader": ("leader", "leader"),
    "members": ("members", "成员"),
    "removed": ("removed members", "被移除的成员"),
    "assignor": ("assignor", "assignor"),
    "partitions": ("partitions of {member}", "{member} 拥有的 partition"),
    "number of partitions": ("number of partitions of {member}", "{member} 拥有的 partition 数"),
    "owner": ("owner of {partition}", "{partition} 的拥有者"),
    "difference": ("difference between the largest and the smallest share", "最多与最少的 partition 数之差"),
    "moved": ("partitions that changed their owner", "换了拥有者的 partition"),
    "kept": ("partitions that kept their owner", "拥有者不变的 partition"),
    "longest gap": ("longest time without an owner", "没有拥有者的最长时间"),
    "ownerless time": ("time without an owner, summed over partitions", "各 partition 没有拥有者的时间之和"),
    "unread": ("longest time that a partition was not read", "partition 无人读取的最长时间"),
    "unread time": ("time that nothing was read, summed over partitions", "各 partition 无人读取的时间之和"),
    "read by two": ("partitions read by two members at once", "同时被两个成员读取的 partition"),
    "violations": ("violated invariants", "被违反的不变量"),
    "failed expectations": ("expectations that failed", "未满足的预期"),
    "records processed": ("records processed", "处理的记录数"),
    "records read twice": ("records read twice", "重复读取的记录数"),
    "records skipped": ("records lost", "丢失的记录数"),
    "committed offset": ("committed offset of {partition}", "{partition} 已提交的 offset"),
    "difference of offsets": (
        "largest committed offset less the smallest",
        "最大与最小的已提交 offset 之差",
    ),
    "partitions with records": ("partitions with records", "有记录的 partition"),
    "coordinator partition": ("partition of __consumer_offsets", "__consumer_offsets 的 partition"),
    "coordinator broker": ("broker of the coordinator", "coordinator 所在的 broker"),
    "coordinator loads": ("times a coordinator loaded the group", "coordinator 加载 group 的次数"),
    "partition of key": ("partition of key {key}", "key {key} 的 partition"),
}


def measure_text(measure: Measure, language: Language) -> str:
    """A measure in words, for sentences about a condition: `rebalances from +20 s on`."""
    words = MEASURE_WORDS[measure.measure][0 if language is Language.ENGLISH else 1]
    phrase = words.format(
        of=selector_text(measure.of).removeprefix("moment: ") if measure.of else "",
        to=selector_text(measure.to).removeprefix("moment: ") if measure.to else "",
        member=measure.member,
        partition=measure.partition,
        key=measure.key,
    )
    return phrase + _when(measure, language)


def _when(measure: Measure, language: Language) -> str:
    def time(value: int | None) -> str:
        return f"+{duration_text(value or 0)}"

    is_english = language is Language.ENGLISH
    if measure.at is not None:
        return f" at {time(measure.at)}" if is_english else f"（在 {time(measure.at)}）"
    if measure.from_ is None and measure.until is None:
        return ""
    if measure.until is None:
        return f" from {time(measure.from_)} on" if is_english else f"（从 {time(measure.from_)} 起）"
    between = time(measure.from_), time(measure.until)
    return " between {} and {}".format(*between) if is_english else "（{} 到 {} 之间）".format(*between)


def _sentence(condition: RunCondition, found: str, language: Language) -> str:
    """What was found and what the condition requires: `rebalances from +20 s on: 2; required: at most 0`."""
    words = COMPARISON_WORDS[language]
    wanted = [
        f"{words[name]} {_given_text(measure_kind(condition), given)}" for name, given in condition.comparisons.items()
    ]
    what = in_language(condition.what, language) or measure_text(condition, language)
    if language is Language.ENGLISH:
        return f"{what}: {found}; required: {' and '.join(wanted)}"
    return f"{what}：{found}；要求：{'，'.join(wanted)}"


def _given_text(kind: AnswerKind, given: object) -> str:
    if kind is AnswerKind.DURATION:
        return duration_text(parse_duration_ms(str(given)))
    return ", ".join(map(str, given)) if isinstance(given, list) else str(given)
