"""Runs what a learner chose in a task, and decides by the conditions of the lesson whether it is solved."""

from collections.abc import Mapping
from typing import NamedTuple

from regroup.classroom.languages import Language
from regroup.classroom.lessons.format.language import in_language
from regroup.classroom.lessons.format.parts import Lesson
from regroup.classroom.lessons.problems import problem_text
from regroup.classroom.lessons.runs.conditions import ConditionResult, check_condition
from regroup.classroom.lessons.runs.run import LessonRun, RunRefused, run_scenario
from regroup.classroom.lessons.settings import NoSuchSetting, SettingRefused, bug_of_task, parse_setting, plan_of_task
from regroup.lab.plan.yaml_format import InvalidScenario


class TaskResult(NamedTuple):
    """Whether a task is solved, and the result of each of its conditions."""

    is_solved: bool
    problem: str = ""
    """Why nothing was run: a value that a setting or a consumer cannot have."""
    results: tuple[ConditionResult, ...] = ()
    run: LessonRun | None = None
    done: str = ""
    """What the lesson says when the task is solved."""


def run_task(lesson: Lesson, values: Mapping[str, str], language: Language) -> TaskResult:
    """Run the task of a lesson with the values of the settings that a learner chose, and check its conditions.

    The run takes milliseconds, and has the bounds of every lesson's run. Do not call this in a thread whose event loop
    is running.
    """
    try:
        chosen = chosen_values(lesson, values, language)
        run = run_scenario(plan_of_task(lesson, chosen), lesson.parts.group, bug=bug_of_task(lesson, chosen))
    except (SettingRefused, InvalidScenario, RunRefused) as error:
        return TaskResult(False, problem=problem_text(error, language))
    return judged(lesson, run, language)


def chosen_values(lesson: Lesson, values: Mapping[str, str], language: Language) -> dict[str, str]:
    """Every setting of the task with its value as a scenario writes it. Raises SettingRefused."""
    settings = lesson.parts.task.settings
    for name in values:
        if name not in settings:
            raise NoSuchSetting(name, f"unknown setting {name!r}; the task has {', '.join(settings)}")
    return {name: parse_setting(name, each, str(values.get(name, "")), language) for name, each in settings.items()}


def judged(lesson: Lesson, run: LessonRun, language: Language) -> TaskResult:
    """The result of a task by its run: it is solved if every condition holds."""
    task = lesson.parts.task
    results = tuple(check_condition(run, condition, language) for condition in task.conditions)
    is_solved = all(result.holds for result in results)
    done = in_language(task.done, language) if is_solved else ""
    return TaskResult(is_solved, results=results, run=run, done=done)
