"""A lesson's file with any damage is refused with a message, or is a lesson: nothing else can happen."""

from random import Random

import pytest

from regroup.classroom.lessons.checking import lesson_problems
from regroup.classroom.lessons.format.reading import InvalidLesson, read_lesson
from regroup.classroom.lessons.library import lesson_numbers, lesson_sources
from tests.classroom.lessons.files import SMALL

WORDS = ["", "7", "-1", "1e9", "[]", "{}", "null", "anna", "'", ": ", "- ", "<x>", "{answer}", "\t", "é", "true", "99h"]


def damaged(text: str, rng: Random) -> str:
    """The text with one line removed, doubled, indented, or one of its words replaced."""
    lines = text.splitlines()
    at = rng.randrange(len(lines))
    kind = rng.randrange(5)
    if kind == 0:
        del lines[at]
    elif kind == 1:
        lines.insert(at, lines[at])
    elif kind == 2:
        lines[at] = f"  {lines[at]}"
    else:
        words = lines[at].split(" ")
        words[rng.randrange(len(words))] = rng.choice(WORDS)
        lines[at] = " ".join(words)
    return "\n".join(lines) + "\n"


def check(text: str) -> None:
    try:
        problems = lesson_problems(read_lesson(text))
    except InvalidLesson as error:
        problems = [str(error)]
    for problem in problems:
        assert problem.startswith(("line ", "not ")), problem


@pytest.mark.quick("[0]")
@pytest.mark.parametrize("seed", range(4))
def test_a_damaged_small_lesson_is_refused_or_sound(seed: int) -> None:
    rng = Random(f"damage {seed}")
    for _ in range(15):
        check(damaged(SMALL, rng))


@pytest.mark.slow
@pytest.mark.parametrize("number", lesson_numbers())
def test_a_damaged_lesson_is_refused_or_sound(number: int) -> None:
    rng = Random(f"damage of lesson {number}")
    (source,) = [each for each in lesson_sources() if each.number == number]
    for _ in range(8):
        check(damaged(source.text, rng))
