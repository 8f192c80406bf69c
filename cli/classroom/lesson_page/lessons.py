"""The lessons that the page shows: texts at once, runs by a process, and the progress of the terminal."""

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from regroup.classroom.languages import Language
from regroup.classroom.lessons.document import lesson_document, list_document
from regroup.classroom.lessons.format.language import in_language
from regroup.classroom.lessons.format.parts import Lesson
from regroup.classroom.lessons.library import UnknownLesson, lesson, lesson_numbers
from regroup.classroom.lessons.progress import Answered, LessonProgress
from regroup.classroom.lessons.questions import question_kind, read_answer
from regroup.classroom.lessons.runs.answers import UnreadableAnswer
from regroup.classroom.lessons.settings import NoSuchSetting, SettingRefused
from regroup.classroom.lessons.tasks import chosen_values
from regroup.cli.classroom.lesson.dialogue import solution_lines
from regroup.cli.classroom.lesson.keeping import keep_progress, kept_progress, progress_key
from regroup.cli.classroom.lesson.phrases import answer_hint, phrase
from regroup.cli.classroom.lesson_page.run_process import RunProcess
from regroup.cli.classroom.lesson_page.wanted import OWN, AnswerJob, AssignorJob, TaskJob
from regroup.control.errors import ControlRefused, Status
from regroup.control.web.lesson_routes import AnswerInput, InvalidInput, LessonInput, TaskInput

Shown = Mapping[str, Any]


class OwnFile(NamedTuple):
    """A lesson that was read from a user's file, with the path of that file."""

    path: Path
    lesson: Lesson


class PageLessons:
    """The requests of the lessons' page: each method returns the JSON object of one of them.

    The page cannot name a file: the only assignor that it can run is the file named on the command line.
    """

    def __init__(self, own: OwnFile | None, assignor: Path | None, run: RunProcess) -> None:
        self._own, self._assignor, self._run = own, assignor, run

    async def listed(self, language: str) -> Shown:
        """The list of lessons with the learner's progress in each; a lesson from a user's file comes last."""
        shown = Language(language)
        progress = await asyncio.to_thread(kept_progress)
        lessons = list_document(progress, shown)
        if self._own is not None:
            taken = self._own.lesson
            done = progress.of(progress_key(taken.id, None))
            lessons.append(
                {"number": OWN, "id": taken.id, "title": in_language(taken.parts.title, shown)} | _done(done)
            )
        return {"lessons": lessons}

    async def lesson(self, wanted: LessonInput) -> Shown:
        """A lesson as shown before the answer, with the learner's progress and the numbers of its neighbours."""
        taken, number = self._taken(wanted.lesson)
        language = Language(wanted.language)
        progress = await asyncio.to_thread(kept_progress)
        shown = lesson_document(taken, language)
        shown["question"]["hint"] = self._hint(taken, language)
        later = [each for each in lesson_numbers() if number is not None and each > number]
        before = [each for each in lesson_numbers() if number is not None and each < number]
        return shown | {
            "number": number,
            "next": later[0] if later else None,
            "previous": before[-1] if before else None,
            "progress": _done(progress.of(progress_key(taken.id, number))),
            "assignor": None if self._assignor is None else str(self._assignor),
        }

    async def solution(self, wanted: LessonInput) -> Shown:
        """The lines of an example that solves the lesson's task."""
        taken, _ = self._taken(wanted.lesson)
        return {"lines": list(solution_lines(taken.parts.task.right[0]))}

    async def answer(self, wanted: AnswerInput) -> Shown:
        """The verdict on an answer, with the replay of the run. The first answer is saved as the learner's progress.

        If the answer cannot be parsed, nothing is run or saved, and the result is a hint in `unreadable`.
        """
        taken, number = self._taken(wanted.lesson)
        if wanted.answer is not None:
            try:
                read_answer(taken, wanted.answer)
            except UnreadableAnswer:
                return {"unreadable": self._hint(taken, Language(wanted.language))}
        result = await self._run(
            AnswerJob(lesson=self._source(wanted.lesson), language=wanted.language, answer=wanted.answer)
        )
        await self._keep(taken, number, answered=Answered.of(result["is_right"]))
        return result

    async def run_task(self, wanted: TaskInput) -> Shown:
        """The result of a task with these settings; a value that a setting cannot have gives a hint in `unreadable`.

        Raises InvalidInput for a setting that the task does not have.
        """
        taken, number = self._taken(wanted.lesson)
        if taken.parts.task.assignor is not None:
            raise InvalidInput("the task of this lesson is an assignor, and has no settings")
        try:
            chosen_values(taken, wanted.values, Language(wanted.language))
        except NoSuchSetting as error:
            raise InvalidInput(str(error)) from None
        except SettingRefused as error:
            return {"unreadable": str(error)}
        job = TaskJob(lesson=self._source(wanted.lesson), language=wanted.language, values=wanted.values)
        return await self._solved(taken, number, await self._run(job))

    async def run_assignor(self, wanted: LessonInput) -> Shown:
        """The result of a task with the learner's assignor. Raises InvalidInput if the task or the file does not exist.

        Raises ControlRefused for a file that cannot be read.
        """
        taken, number = self._taken(wanted.lesson)
        if taken.parts.task.assignor is None:
            raise InvalidInput("the task of this lesson has settings, and no assignor")
        if self._assignor is None:
            raise InvalidInput(
                f"name the file on the command line: regroup lesson {number or 'LESSON.yaml'} --page --assignor FILE"
            )
        try:
            with self._assignor.open("rb"):
                pass
        except OSError as error:
            language = Language(wanted.language)
            sentence = phrase("no file", language, file=self._assignor, why=error.strerror)
            raise ControlRefused(Status.REFUSED, sentence) from None
        file = str(self._assignor.absolute())
        job = AssignorJob(lesson=self._source(wanted.lesson), language=wanted.language, file=file)
        return await self._solved(taken, number, await self._run(job))

    async def _solved(self, taken: Lesson, number: int | None, result: dict[str, Any]) -> Shown:
        if result["is_solved"]:
            await self._keep(taken, number, is_solved=True)
        return result

    async def _keep(self, taken: Lesson, number: int | None, **done: Any) -> None:
        await asyncio.to_thread(keep_progress, progress_key(taken.id, number), **done)

    def _taken(self, word: str) -> tuple[Lesson, int | None]:
        """The lesson that a word of the page names, and its number; None as number of a user's own lesson.

        Raises ControlRefused for an unknown lesson.
        """
        if word == OWN and self._own is not None:
            return self._own.lesson, None
        numbers = {str(number): number for number in lesson_numbers()}
        try:
            taken = lesson(word)
        except UnknownLesson as error:
            raise ControlRefused(Status.NOT_FOUND, str(error)[:200]) from None
        number = numbers.get(word) or next(each for each in lesson_numbers() if lesson(each) is taken)
        return taken, number

    def _source(self, word: str) -> str:
        """The word by which another process finds the same lesson: a number or id, or the path of the user's file."""
        return str(self._own.path.absolute()) if word == OWN and self._own is not None else word

    def _hint(self, taken: Lesson, language: Language) -> str:
        return answer_hint(question_kind(taken.parts.question), language, ", ".join(taken.plan.members))


def _done(progress: LessonProgress) -> dict[str, Any]:
    return {"question": progress.question.value if progress.question else None, "task_solved": progress.task_solved}
