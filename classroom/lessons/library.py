"""The lessons that come with regroup, by number and by id, and files of one's own."""

from difflib import get_close_matches
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Final, NamedTuple

from regroup.classroom.lessons.format.parts import Lesson
from regroup.classroom.lessons.format.reading import InvalidLesson, read_lesson

_SUFFIX: Final = ".yaml"


class UnknownLesson(ValueError):
    """Raised for a number or id that no lesson has; the message lists those that exist."""


class LessonSource(NamedTuple):
    """The file of a lesson that comes with regroup: `03-generations.yaml` is number 3."""

    number: int
    name: str
    """The file's name without number and suffix, which is the lesson's id."""
    text: str


@cache
def lesson_sources() -> tuple[LessonSource, ...]:
    """The files of all lessons, in their order."""
    found = sorted((each for each in _folder().iterdir() if each.name.endswith(_SUFFIX)), key=lambda each: each.name)
    return tuple(_source(each) for each in found)


def _source(file: Traversable) -> LessonSource:
    number, _, name = file.name.removesuffix(_SUFFIX).partition("-")
    return LessonSource(int(number), name, file.read_text(encoding="utf-8"))


def lesson_numbers() -> tuple[int, ...]:
    """The numbers of all lessons."""
    return tuple(source.number for source in lesson_sources())


def lesson(number_or_id: int | str) -> Lesson:
    """The lesson that comes with regroup under this number or id; read once and kept. Raises UnknownLesson."""
    return _lesson_of(_source_of(str(number_or_id)))


def _source_of(word: str) -> LessonSource:
    for source in lesson_sources():
        if word in (str(source.number), source.name):
            return source
    nearest = get_close_matches(word, [source.name for source in lesson_sources()], n=1)
    last = max(lesson_numbers(), default=0)
    hint = (
        f"did you mean {nearest[0]}?" if nearest else f"they are numbered from 1 to {last}; `regroup lesson` lists them"
    )
    raise UnknownLesson(f"unknown lesson: {word!r}; {hint}")


def lesson_text(number_or_id: int | str) -> str:
    """The text of the file of a lesson that comes with regroup. Raises UnknownLesson."""
    return _source_of(str(number_or_id)).text


@cache
def _lesson_of(source: LessonSource) -> Lesson:
    return read_lesson(source.text)


def number_of(taken: Lesson) -> int | None:
    """The number of a lesson that comes with regroup; None for one read from a user's file, even with the same id."""
    found = (source for source in lesson_sources() if source.name == taken.id and _lesson_of(source) is taken)
    return next((source.number for source in found), None)


def find_lesson(text: str) -> Lesson:
    """The lesson that a word names: a number, an id, or the path of a file.

    Raises UnknownLesson, InvalidLesson, OSError.
    """
    path = Path(text)
    is_file = path.suffix in (".yaml", ".yml") or len(path.parts) > 1
    return read_lesson_file(path) if is_file else lesson(text)


def read_lesson_file(path: Path) -> Lesson:
    """Read a lesson from a file. Raises OSError, and InvalidLesson with the file's name."""
    try:
        return read_lesson(path.read_text(encoding="utf-8"))
    except InvalidLesson as error:
        raise InvalidLesson(f"{path}: {error}") from None
    except UnicodeDecodeError:
        raise InvalidLesson(f"{path}: not a UTF-8 text file") from None


def _folder() -> Traversable:
    return files("regroup.classroom.lessons") / "texts"
