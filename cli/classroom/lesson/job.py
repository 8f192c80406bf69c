"""The jobs of `regroup lesson`: the list, a lesson in the terminal, and the check of a file."""

from argparse import Namespace
from functools import partial
from pathlib import Path

from regroup.classroom.languages import Language
from regroup.classroom.lessons.checking import lesson_problems
from regroup.classroom.lessons.format.language import in_language
from regroup.classroom.lessons.format.reading import InvalidLesson
from regroup.classroom.lessons.library import (
    UnknownLesson,
    lesson,
    lesson_numbers,
    lesson_text,
    number_of,
    read_lesson_file,
)
from regroup.classroom.lessons.progress import Answered, LessonProgress
from regroup.cli.classroom.lesson.assignor_process import example_problems
from regroup.cli.classroom.lesson.dialogue import LessonDialogue
from regroup.cli.classroom.lesson.keeping import keep_progress, kept_progress, progress_key
from regroup.cli.classroom.lesson.phrases import phrase
from regroup.cli.classroom.lesson.sound import sound_lesson
from regroup.cli.classroom.lesson.text import paragraphs
from regroup.cli.jobs import FILE_ERRORS, CannotRun, cannot_run_after, need_packages
from regroup.cli.terminal.arguments import load
from regroup.cli.terminal.text import printable

MAX_SHOWN_PROBLEMS = 20


@cannot_run_after(UnknownLesson, *FILE_ERRORS)
def run(args: Namespace) -> int:
    """Carry out `regroup lesson`: list the lessons, check a file, or take a lesson. Raises CannotRun."""
    language = Language(args.language)
    for option in ("port", "assignor"):
        if getattr(args, option) is not None and not args.page:
            raise CannotRun(f"--{option} needs --page")
    match args.what:
        case [] | [_] if args.page and args.what not in (["check"], ["show"]):
            return serve_page(args)
        case []:
            return show_list(language)
        case ["check", file] if not args.page:
            return check(Path(file), language)
        case ["show", word] if not args.page:
            print(lesson_text(word), end="")
            return 0
        case [word] if word not in ("check", "show"):
            return take(word, language)
    raise CannotRun(
        "write one lesson (regroup lesson 3), a file after `check` (regroup lesson check mine.yaml), or a lesson after "
        "`show` (regroup lesson show 3)"
    )


def show_list(language: Language) -> int:
    """Print all lessons, each with marks for the learner's answer and for a solved task."""
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
    question = {None: "·", Answered.RIGHT: "✓", Answered.WRONG: "✗", Answered.SKIPPED: "–"}[done.question]
    return f"{question} {'✓' if done.task_solved else '·'}"


def check(file: Path, language: Language) -> int:
    """Check the lesson in a file, and print its problems; return the exit code, 1 if there are any."""
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
    """Run a lesson in the terminal and save the learner's progress. `word` is a number, an id or a file."""
    taken = sound_lesson(word)
    number = number_of(taken)
    kept_progress()  # a damaged file is named before the lesson begins
    LessonDialogue(taken, language, number, partial(keep_progress, progress_key(taken.id, number))).run()
    return 0


def serve_page(args: Namespace) -> int:
    """Serve the page of lessons for a browser. Raises CannotRun."""
    need_packages(("starlette", "uvicorn"), "pip install starlette uvicorn")
    return int(load("regroup.cli.classroom.lesson_page.serving:run")(args))
