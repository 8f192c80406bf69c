"""Runs the task of writing an assignor: its properties in made-up cases, then a live group in which it leads."""

from regroup.classroom.languages import Language
from regroup.classroom.lessons.assignor.failures import AssignorFailure
from regroup.classroom.lessons.assignor.own_assignor import ComputeCases, OwnAssignor
from regroup.classroom.lessons.assignor.properties import check_properties
from regroup.classroom.lessons.format.parts import Lesson
from regroup.classroom.lessons.problems import problem_text
from regroup.classroom.lessons.runs.run import RunRefused, run_scenario
from regroup.classroom.lessons.settings import plan_of_task
from regroup.classroom.lessons.tasks import TaskResult, judged


def run_assignor_task(lesson: Lesson, compute: ComputeCases, language: Language) -> TaskResult:
    """Check the properties of a learner's assignor, then let it run in a live group."""
    assert lesson.parts.task.assignor is not None
    assignor = OwnAssignor(compute)
    try:
        properties = check_properties(compute, lesson.parts.task.assignor.properties, language)
        if not all(result.holds for result in properties):
            return TaskResult(False, results=properties)
        run = run_scenario(
            plan_of_task(lesson, {}, assignor), lesson.parts.group, bug=lesson.parts.task.bug, assignor=assignor
        )
    except AssignorFailure as failure:
        return TaskResult(False, problem=failure.text(language))
    except RunRefused as error:
        return TaskResult(False, problem=problem_text(error, language))
    if assignor.failure is not None:
        return TaskResult(False, problem=assignor.failure.text(language))
    result = judged(lesson, run, language)
    return result._replace(results=(*properties, *result.results))
