"""The jobs of `regroup lesson`: the list, a lesson in the terminal, and the check of a file."""

import os
from argparse import Namespace
from pathlib import Path

from regroup.classroom.lessons.checking import lesson_problems
from regroup.classroom.lessons.format.language import Language, in_language
from regroup.classroom.lessons.format.parts import Lesson
from regroup.classroom.lessons.format.reading import InvalidLesson
from regroup.classroom.lessons.library import (
    UnknownLesson,
    find_lesson,
    lesson,
    lesson_numbers,
    lesson_text,
    number_of,
    read_lesson_file,
)
from regroup.classroom.lessons.progress import (
    Answered,
    LessonProgress,
    Progress,
    ProgressDamaged,
    load_progress,
    save_progress,
)
from regroup.cli.classroom.lesson.assignor_process import example_problems
from regroup.cli.classroom.lesson.dialogue import LessonDialogue
from regroup.cli.classroom.lesson.phrases import phrase
from regroup.cli.classroom.lesson.text import paragraphs
from regroup.cli.jobs import FILE_ERRORS, CannotRun, cannot_run_after
from regroup.cli.terminal.output import print_error
from regroup.cli.terminal.text import printable

MAX_SHOWN_PROBLEMS = 20


@cannot_run_after(UnknownLesson, *FILE_ERRORS)
def run(args: Namespace) -> int:
    """List, check or take lessons. Raises CannotRun."""
    language = Language(args.language)
    match args.what:
        case []:
            return show_list(language)
        case ["check", file]:
            return check(Path(file), language)
        case ["show", word]:
            print(lesson_text(word), end="")
            return 0
        case [word] if word not in ("check", "show"):
            return take(word, language)
    raise CannotRun(
        "write one lesson (regroup lesson 3), a file after `check` (regroup lesson check mine.yaml), or a lesson after "
        "`show` (regroup lesson show 3)"
    )


def progress_path() -> Path:
    """The file of the learner's progress, in the user's folder for the state of programs."""
    folder = Path(os.environ.get("XDG_STATE_HOME", ""))
    return (folder if folder.is_absolute() else Path.home() / ".local" / "state") / "regroup" / "lessons.json"


def kept_progress() -> Progress:
    """The progress; where its file is damaged, a message says so and it begins again."""
    try:
        return load_progress(progress_path())
    except ProgressDamaged as error:
        print_error("lesson", str(error))
        return Progress()


def show_list(language: Language) -> int:
    """Print the lessons with what was done."""
    progress = kept_progress()
    print(phrase("list", language))
    for number in lesson_numbers():
        each = lesson(number)
        marks = _marks(progress.of(each.id))
        print(f"{number:4}  {marks}  {in_language(each.parts.title, language)}")
    print()
    for line in paragraphs(phrase("list help", language)):
        print(line)
    return 0


def _marks(done: LessonProgress) -> str:
    question = {None: "·", Answered.RIGHT: "✓", Answered.WRONG: "✗"}[done.question]
    return f"{question} {'✓' if done.task_solved else '·'}"


def check(file: Path, language: Language) -> int:
    """Print what is wrong with a file; the exit code is 1 if anything is."""
    try:
        checked = read_lesson_file(file)
        problems = [f"{file}: {problem}" for problem in (*lesson_problems(checked), *example_problems(checked))]
    except InvalidLesson as error:
        problems = [str(error)]
    for problem in problems[:MAX_SHOWN_PROBLEMS]:
        print(printable(problem))
    if not problems:
        print(printable(phrase("sound", language, file=file)))
    return 1 if problems else 0


def take(word: str, language: Language) -> int:
    """Take a lesson in the terminal, and keep what was done."""
    try:
        taken = find_lesson(word)
    except InvalidLesson as error:
        raise CannotRun(f"{error}; `regroup lesson check {word}` shows everything that is wrong") from None
    number = number_of(taken)
    refuse_unsound(taken, word, number)
    key = taken.id if number else f"own/{taken.id}"
    kept_progress()  # a damaged file is named before the lesson begins

    def keep(*, is_right: bool | None = None, is_solved: bool = False) -> None:
        progress = kept_progress()  # another terminal may have changed it
        if is_right is not None:
            progress = progress.with_answer(key, is_right=is_right)
        if is_solved:
            progress = progress.with_solved_task(key)
        save_progress(progress_path(), progress)

    LessonDialogue(taken, language, number, keep).run()
    return 0


def refuse_unsound(taken: Lesson, word: str, number: int | None) -> None:
    """Raise CannotRun for a file of one's own in which something is wrong; those that come with regroup are tested."""
    problems = lesson_problems(taken) if number is None else []
    if problems:
        raise CannotRun(f"{word}: {problems[0]}; `regroup lesson check {word}` shows everything that is wrong")
