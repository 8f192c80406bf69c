"""A lesson as plain values for a page: what is shown before the answer, and what after.

list_document(progress, language)           the lessons, and what was done
lesson_document(lesson, language)           title, text, question and task; nothing that gives the answer away
answer_document(lesson, run, "7", language) whether an answer is right, the explanation, and the replay
task_document(result)                       the result of a task
"""

from typing import Any

from regroup.classroom.languages import Language
from regroup.classroom.lessons.format.language import in_language
from regroup.classroom.lessons.format.parts import Lesson
from regroup.classroom.lessons.library import lesson, lesson_numbers
from regroup.classroom.lessons.progress import Progress
from regroup.classroom.lessons.questions import check_answer, question_kind, skipped_answer
from regroup.classroom.lessons.replay import replay_lines
from regroup.classroom.lessons.runs.answers import UnreadableAnswer
from regroup.classroom.lessons.runs.run import LessonRun, record_scenario, run_scenario
from regroup.classroom.lessons.tasks import TaskResult, run_task
from regroup.classroom.timeline import GroupTimeline


def run_lesson(taken: Lesson) -> LessonRun:
    """Run the scenario of a lesson, which takes milliseconds. Raises RunRefused as `run_scenario` does."""
    return run_scenario(taken.plan, taken.parts.group, bug=taken.parts.bug)


def recorded_timeline(taken: Lesson) -> GroupTimeline:
    """The timeline of the lesson's run with exchanges and members' views; its positions equal those of the replay."""
    return record_scenario(taken.plan, taken.parts.group, bug=taken.parts.bug)


def lesson_document(taken: Lesson, language: Language) -> dict[str, Any]:
    """What the page shows of a lesson before the answer: title, text, question and task."""
    parts, question, task = taken.parts, taken.parts.question, taken.parts.task
    return {
        "id": taken.id,
        "language": language.value,
        "title": in_language(parts.title, language),
        "text": in_language(parts.text, language),
        "question": {
            "kind": question_kind(question),
            "ask": in_language(question.ask, language),
            "options": [in_language(option.says, language) for option in question.options],
            "unit": in_language(question.unit, language),
        },
        "task": {
            "kind": "assignor" if task.assignor else "settings",
            "ask": in_language(task.ask, language),
            "settings": [
                {
                    "name": name,
                    "type": setting.type,
                    "says": in_language(setting.says, language) or name,
                    "least": None if setting.least is None else str(setting.least),
                    "most": None if setting.most is None else str(setting.most),
                    "choices": list(setting.choices),
                }
                for name, setting in task.settings.items()
            ],
        },
    }


def list_document(progress: Progress, language: Language) -> list[dict[str, Any]]:
    """The lessons that come with regroup, each with number, title and the learner's progress in it."""
    listed = []
    for number in lesson_numbers():
        each = lesson(number)
        done = progress.of(each.id)
        listed.append(
            {
                "number": number,
                "id": each.id,
                "title": in_language(each.parts.title, language),
                "question": done.question.value if done.question else None,
                "task_solved": done.task_solved,
            }
        )
    return listed


def answer_document(taken: Lesson, run: LessonRun, answer: str | None, language: Language) -> dict[str, Any]:
    """The verdict on an answer, the explanation and the replay; for an answer that cannot be read `unreadable` alone.

    With None as answer the learner skips the question: `is_right` is None then.
    """
    replay = {"replay": [line._asdict() for line in replay_lines(taken, run, language)]}
    if answer is None:
        return skipped_answer(taken, run, language)._asdict() | replay
    try:
        result = check_answer(taken, run, answer, language)
    except UnreadableAnswer as error:
        return {"unreadable": error.detail, "kind": error.kind.value}
    return result._asdict() | replay


def task_document(result: TaskResult) -> dict[str, Any]:
    """The result of a task as plain values, without the run."""
    return {
        "is_solved": result.is_solved,
        "problem": result.problem,
        "conditions": [each._asdict() for each in result.results],
        "done": result.done,
    }


# -- plain values in and out, for a process of their own


def answer_lesson(number_or_id: int | str, answer: str, language: str) -> dict[str, Any]:
    """`answer_document` of a lesson that comes with regroup; `language` is `en` or `zh`.

    A run replaces the configuration of logging, and a planted bug replaces code of coordinators, for the whole process
    while it lasts. So a process that also serves groups calls this in another one (`ProcessPoolExecutor`).
    """
    taken = lesson(number_or_id)
    return answer_document(taken, run_lesson(taken), answer, Language(language))


def solve_lesson(number_or_id: int | str, values: dict[str, str], language: str) -> dict[str, Any]:
    """`task_document` of the lesson's task, run with these values of its settings; see `answer_lesson`."""
    return task_document(run_task(lesson(number_or_id), values, Language(language)))
