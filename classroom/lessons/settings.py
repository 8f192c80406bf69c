"""The settings that a learner chooses in a task, and the scenario with their values in the places of `<name>`."""

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

import yaml

from regroup.assignors.interface import Assignor
from regroup.assignors.registry import offering
from regroup.classroom.languages import Language
from regroup.classroom.lessons.format.parts import Lesson, Setting
from regroup.classroom.lessons.questions import parse_choice
from regroup.classroom.lessons.runs.answers import AnswerKind, UnreadableAnswer, parse_answer
from regroup.classroom.lessons.runs.measuring import known_names
from regroup.lab.plan.plan import SimulationPlan
from regroup.lab.plan.yaml_format import InvalidScenario, read_plan
from regroup.notation.durations import format_duration, parse_duration_ms

SETTING_TYPES: Final = ("duration", "number", "choice")
LEAVE_OUT: Final = "none"
"""A value that leaves its field out of the scenario."""
BOOLEANS: Final = {"true": True, "false": False}
_PLACE: Final = re.compile(r"<([A-Za-z][A-Za-z0-9 .-]*)>")
_LINE: Final = re.compile(r"(?s)line \d+ \([^\n]*\): ")
_ABSENT: Final = object()


class SettingRefused(ValueError):
    """Raised for a value that a setting cannot have; the message says which values are possible."""

    def __init__(self, name: str, text: str) -> None:
        super().__init__(text)
        self.name = name


class NoSuchSetting(SettingRefused):
    """Raised for the name of a setting that the task does not have; the task's form never sends one."""


def parse_setting(name: str, setting: Setting, text: str, language: Language) -> str:
    """Check a learner's text for a setting, and return the value as a scenario writes it. Raises SettingRefused."""
    try:
        match setting.type:
            case "duration":
                return format_duration(round(_number(AnswerKind.DURATION, name, setting, text, language)))
            case "number":
                return f"{_number(AnswerKind.NUMBER, name, setting, text, language):g}"
            case _:
                return _choice(setting, text)
    except UnreadableAnswer:
        raise SettingRefused(name, setting_hint(name, setting, language)) from None


def _number(kind: AnswerKind, name: str, setting: Setting, text: str, language: Language) -> float:
    value = parse_answer(kind, text, known_names(SimulationPlan()))
    assert isinstance(value, float)
    least, most = limits_of(setting)
    if value < least or value > most or (kind is AnswerKind.NUMBER and value % 1):
        raise SettingRefused(name, setting_hint(name, setting, language))
    return value


def limits_of(setting: Setting) -> tuple[float, float]:
    """The least and the greatest value that a setting may have; in milliseconds if it is a duration."""

    def limit(given: Any, otherwise: float) -> float:
        if given is None:
            return otherwise
        return float(parse_duration_ms(str(given))) if setting.type == "duration" else float(given)

    return limit(setting.least, 0.0), limit(setting.most, float("inf"))


def _choice(setting: Setting, text: str) -> str:
    """The value in the scenario for a choice that the learner names by its text or its number."""
    choices = list(setting.choices)
    by_lower = {choice.lower(): choice for choice in choices}
    word = text.strip().lower()
    chosen = by_lower[word] if word in by_lower else choices[parse_choice(text, len(choices))]
    return setting.choices[chosen] if isinstance(setting.choices, Mapping) else chosen


def setting_hint(name: str, setting: Setting, language: Language) -> str:
    """A text that says which values a setting takes: `session timeout: a duration from 6s to 5m`."""
    is_english = language is Language.ENGLISH
    if setting.type == "choice":
        choices = ", ".join(setting.choices)
        return f"{name}: one of {choices}" if is_english else f"{name}：{choices} 之一"
    least = "" if setting.least is None else str(setting.least)
    most = "" if setting.most is None else str(setting.most)
    if is_english:
        what = "a duration such as 20s" if setting.type == "duration" else "a whole number"
        return f"{name}: {what}" + (f", from {least}" if least else "") + (f" up to {most}" if most else "")
    what = "时长，例如 20s" if setting.type == "duration" else "整数"
    return f"{name}：{what}" + (f"，不小于 {least}" if least else "") + (f"，不大于 {most}" if most else "")


def setting_problems(setting: Setting) -> Iterator[str]:
    """What is wrong with the definition of a setting."""
    if setting.type not in SETTING_TYPES:
        yield f"unknown type {setting.type!r}; known are {', '.join(SETTING_TYPES)}"
    elif (setting.type == "choice") != bool(setting.choices):
        yield "a setting of type choice has `choices`, and no other one has"
    else:
        try:
            limits_of(setting)
        except (ValueError, TypeError):
            yield f"`least` and `most` of a {setting.type} cannot be {setting.least!r} and {setting.most!r}"


# -- the scenario of a task


def task_scenario(lesson: Lesson) -> Mapping[str, Any]:
    """The scenario of the task, in which `<name>` still stands for the value of each setting."""
    task = lesson.parts.task
    return task.scenario or merged(lesson.scenario, task.change)


def merged(base: Any, change: Any) -> Any:
    """A copy of a scenario with the changes of a task. Mappings are merged, and other values replaced.

    A list of names, as of members, counts as a mapping with an empty value for each name.
    """
    if isinstance(base, list) and isinstance(change, Mapping):
        base = {name: {} for name in base}
    if not isinstance(base, Mapping) or not isinstance(change, Mapping):
        return change
    return {
        **base,
        **{key: merged(base.get(key) or {}, value) if key in base else value for key, value in change.items()},
    }


def placeholders(value: Any) -> set[str]:
    """The names that stand as `<name>` in the keys and values of a scenario."""
    if isinstance(value, Mapping):
        return set().union(*(placeholders(key) | placeholders(each) for key, each in value.items()))
    if isinstance(value, list):
        return set().union(*map(placeholders, value))
    return set(_PLACE.findall(value)) if isinstance(value, str) else set()


def bug_of_task(lesson: Lesson, values: Mapping[str, str]) -> str:
    """The name of the planted bug with which a task runs; empty for none. A setting may choose it."""
    bug = _filled(lesson.parts.task.bug, values, {})
    return "" if bug is _ABSENT else str(bug)


def plan_of_task(lesson: Lesson, values: Mapping[str, str], assignor: Assignor | None = None) -> SimulationPlan:
    """The plan of a task with these values; its members can use `assignor` by its name.

    Raises InvalidScenario for values with which no consumer could work.
    """
    settings = lesson.parts.task.settings
    filled = _filled(task_scenario(lesson), values, {name: each.type for name, each in settings.items()})
    text = yaml.safe_dump(filled, sort_keys=False, allow_unicode=True)
    try:
        with offering(assignor):
            return read_plan(text)
    except InvalidScenario as error:
        raise InvalidScenario(_LINE.sub("", str(error), count=1)) from None


def _filled(part: Any, values: Mapping[str, str], types: Mapping[str, str]) -> Any:
    if isinstance(part, Mapping):
        filled = {_filled(key, values, types): _filled(value, values, types) for key, value in part.items()}
        return {key: value for key, value in filled.items() if value is not _ABSENT}
    if isinstance(part, list):
        return [each for value in part if (each := _filled(value, values, types)) is not _ABSENT]
    if not isinstance(part, str):
        return part
    whole = _PLACE.fullmatch(part)
    if whole and whole[1] in values:
        value = values[whole[1]]
        if types.get(whole[1]) == "number":
            return int(value) if value.isdigit() else float(value)
        return _ABSENT if value == LEAVE_OUT else BOOLEANS.get(value, value)
    return _PLACE.sub(lambda match: values.get(match[1], match[0]), part)
