"""A lesson in the terminal: it prints and reads lines, so that it works over SSH and from a pipe."""

import io
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol

from regroup.classroom.languages import Language
from regroup.classroom.lessons.assignor.task import run_assignor_task
from regroup.classroom.lessons.document import run_lesson
from regroup.classroom.lessons.format.language import in_language
from regroup.classroom.lessons.format.parts import Lesson
from regroup.classroom.lessons.library import lesson_numbers
from regroup.classroom.lessons.picture import lesson_picture
from regroup.classroom.lessons.progress import Answered
from regroup.classroom.lessons.questions import AnswerResult, check_answer, question_kind, skipped_answer
from regroup.classroom.lessons.replay import replay_lines
from regroup.classroom.lessons.runs.answers import UnreadableAnswer
from regroup.classroom.lessons.runs.conditions import ConditionResult
from regroup.classroom.lessons.settings import SettingRefused, parse_setting, setting_hint
from regroup.classroom.lessons.tasks import TaskResult, run_task
from regroup.classroom.wording import since_text
from regroup.cli.classroom.lesson.assignor_process import AssignorProcess
from regroup.cli.classroom.lesson.phrases import answer_hint, file_error, phrase
from regroup.cli.classroom.lesson.text import WIDTH, paragraphs, wrapped
from regroup.cli.terminal.text import printable, printable_lines

TIME_WIDTH = len("+123.456 s  ")
SKIP, SHOW = "skip", "show"
MAX_SHOWN_OUTPUT = 2_000
MAX_SHOWN_LINES = 20
MAX_LINE = 2_000


class Keep(Protocol):
    """A function that saves the learner's progress in a lesson: the answer, or that the task is solved."""

    def __call__(self, *, answered: Answered | None = None, is_solved: bool = False) -> None: ...


class Ended(Exception):
    """Raised at the end of the input: the learner has ended the lesson."""


class LessonDialogue:
    """Leads a learner through one lesson in the terminal: text, question, replay and task."""

    def __init__(self, lesson: Lesson, language: Language, number: int | None, keep: Keep) -> None:
        self._lesson, self._language, self._number, self._keep = lesson, language, number, keep
        self._run = run_lesson(lesson)
        self._is_terminal = sys.stdin.isatty() and sys.stdout.isatty()
        if isinstance(sys.stdin, io.TextIOWrapper):
            sys.stdin.reconfigure(errors="replace")

    def run(self) -> None:
        """Print the parts of the lesson and read the learner's answers, until the lesson or the input ends."""
        try:
            self._introduce()
            self._ask_question()
            self._show_replay()
            self._do_task()
            self._show_next()
        except Ended:
            print()
            self._say(self._phrase("ended"))

    # -- text, question, replay

    def _introduce(self) -> None:
        parts = self._lesson.parts
        title = in_language(parts.title, self._language)
        name = "own lesson" if self._number is None else "lesson"
        self._heading(self._phrase(name, number=self._number, title=title))
        self._say(in_language(parts.text, self._language))

    def _ask_question(self) -> None:
        question = self._lesson.parts.question
        self._heading(self._phrase("question"))
        self._say(in_language(question.ask, self._language))
        for index, option in enumerate(question.options, start=1):
            for line in wrapped(in_language(option.says, self._language), "     ", f"  {index}. "):
                print(line)
        print(f"({self._phrase('commands')})")
        while (answer := self._read()) != SKIP:
            try:
                result = check_answer(self._lesson, self._run, answer, self._language)
            except UnreadableAnswer:
                names = ", ".join(self._run.plan.members)
                self._say(answer_hint(question_kind(question), self._language, names))
                continue
            self._show_verdict(result)
            return
        self._show_verdict(skipped_answer(self._lesson, self._run, self._language))

    def _show_verdict(self, result: AnswerResult) -> None:
        answered = Answered.of(result.is_right)
        self._keep(answered=answered)
        print()
        self._say(self._phrase(answered.value, answer=result.right_answer.rstrip(".。")))
        if result.because:
            self._say(result.because)
        self._say(result.explanation)

    def _show_replay(self) -> None:
        self._heading(self._phrase("replay"))
        for line in replay_lines(self._lesson, self._run, self._language):
            time = since_text(line.at_ms).rjust(TIME_WIDTH - 2) + "  "
            for text in wrapped(line.text, " " * TIME_WIDTH, time):
                print(text)
            if line.note:
                for text in paragraphs(line.note, " " * (TIME_WIDTH - 2) + "┃ "):
                    print(text)
                if self._is_terminal:
                    self._read(f"{' ' * (TIME_WIDTH - 2)}{self._phrase('next')} ")
        self._show_picture()

    def _show_picture(self) -> None:
        lines = lesson_picture(self._run, self._language)
        if lines:
            self._heading(self._phrase("picture"))
            print(printable_lines("\n".join(lines)))

    # -- task

    def _do_task(self) -> None:
        task = self._lesson.parts.task
        self._heading(self._phrase("task"))
        self._say(in_language(task.ask, self._language))
        print(f"({self._phrase('task commands')})")
        attempt = self._attempt_assignor if task.assignor else self._attempt_settings
        while (result := attempt()) is not None:
            self._show_result(result)
            if result.is_solved:
                self._keep(is_solved=True)
                return

    def _attempt_settings(self) -> TaskResult | None:
        """Read a value for every setting and run the task; None if the learner skips the task."""
        values = {}
        for name, setting in self._lesson.parts.task.settings.items():
            says = in_language(setting.says, self._language)
            if says:
                self._say(says)
            hint = setting_hint(name, setting, self._language)
            while True:
                answer = self._read(f"{hint}: " if self._language is Language.ENGLISH else f"{hint}：")
                if answer == SKIP:
                    return None
                if answer == SHOW:
                    self._show_solution()
                    continue
                try:
                    parse_setting(name, setting, answer, self._language)
                    values[name] = answer
                    break
                except SettingRefused as error:
                    self._say(str(error))
        return run_task(self._lesson, values, self._language)

    def _attempt_assignor(self) -> TaskResult | None:
        """Read the name of a file, and run the task with the assignor in it; None if the learner skips the task."""
        while (answer := self._read(self._phrase("file"))) != SKIP:
            if answer == SHOW:
                self._show_solution()
                continue
            if not answer:
                self._say(self._phrase("file wanted"))
                continue
            file = Path(answer).expanduser()
            try:
                with file.open("rb"):
                    pass
            except OSError as error:
                self._say(self._phrase("no file", file=file, why=file_error(error, self._language)))
                continue
            process = AssignorProcess(file)
            result = run_assignor_task(self._lesson, process, self._language)
            self._show_printed(process.printed)
            return result
        return None

    def _show_printed(self, printed: str) -> None:
        if printed:
            self._say(self._phrase("printed"))
            lines = printed[:MAX_SHOWN_OUTPUT].rstrip().split("\n")
            shown = lines if len(lines) <= MAX_SHOWN_LINES else [*lines[:MAX_SHOWN_LINES], "…"]
            print(printable_lines("\n".join(shown)))

    def _show_solution(self) -> None:
        self._say(self._phrase("solution"))
        for line in solution_lines(self._lesson.parts.task.right[0]):
            print(f"    {printable(line)}")

    def _show_result(self, result: TaskResult) -> None:
        print()
        for line in result.problem.split("\n") if result.problem else ():
            self._say(line)
        for each in result.results:
            self._show_condition(each)
        self._say(self._phrase("solved" if result.is_solved else "not solved"))
        if result.done:
            self._say(result.done)
        print()

    def _show_condition(self, result: ConditionResult) -> None:
        for line in wrapped(result.text, "    ", f"  {'✓' if result.holds else '✗'} "):
            print(line)
        for part in result.because.split("\n") if result.because else ():
            for line in wrapped(part, "    "):
                print(line)

    def _show_next(self) -> None:
        if self._number is None:
            return
        later = [number for number in lesson_numbers() if number > self._number]
        self._say(self._phrase("go on", number=later[0]) if later else self._phrase("nothing left"))

    # -- lines

    def _phrase(self, name: str, **values: object) -> str:
        return phrase(name, self._language, **values)

    def _heading(self, text: str) -> None:
        print()
        for line in wrapped(text):
            print(line)
        print("─" * WIDTH)

    def _say(self, text: str) -> None:
        for line in paragraphs(text):
            print(line)

    def _read(self, prompt: str = "> ") -> str:
        """The next line without blanks around it. Raises Ended at the end of the input."""
        print(prompt, end="", flush=True)
        line = sys.stdin.readline(MAX_LINE)
        if not line:
            raise Ended
        if not self._is_terminal:
            print(printable(line.strip()))
        answer = line.strip()
        return answer.lower() if answer.lower() in (SKIP, SHOW) else answer


def solution_lines(example: Any) -> Iterator[str]:
    """Yield the lines that show an example: one for each setting, or the text of an assignor."""
    if isinstance(example, str):
        yield from example.strip().split("\n")
    else:
        yield from (f"{name}: {value}" for name, value in example.items())
