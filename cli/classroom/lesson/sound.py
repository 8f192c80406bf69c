"""Finds the lesson that a command names, and refuses a file of one's own in which something is wrong."""

from regroup.classroom.lessons.checking import lesson_problems
from regroup.classroom.lessons.format.parts import Lesson
from regroup.classroom.lessons.format.reading import InvalidLesson
from regroup.classroom.lessons.library import find_lesson, number_of
from regroup.cli.jobs import CannotRun


def sound_lesson(word: str) -> Lesson:
    """The lesson that a word names: a number, an id, or the path of a file. A lesson from a file is checked.

    Raises UnknownLesson, OSError, and CannotRun for a file with problems.
    """
    try:
        taken = find_lesson(word)
    except InvalidLesson as error:
        raise CannotRun(f"{error}; `regroup lesson check {word}` shows everything that is wrong") from None
    problems = lesson_problems(taken) if number_of(taken) is None else []
    if problems:
        raise CannotRun(f"{word}: {problems[0]}; `regroup lesson check {word}` shows everything that is wrong")
    return taken
