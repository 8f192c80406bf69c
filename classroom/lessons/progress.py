"""What a learner has done, kept in one small JSON file.

progress = load_progress(path)
save_progress(path, progress.with_answer("one-consumer", Answered.RIGHT))
"""

import os
from contextlib import suppress
from enum import Enum
from pathlib import Path
from typing import Final

import msgspec

MAX_PROGRESS_BYTES: Final = 1_000_000


class Answered(Enum):
    """How the question of a lesson was answered first."""

    RIGHT = "right"
    WRONG = "wrong"
    SKIPPED = "skipped"
    """It was left, and the right answer was shown."""

    @classmethod
    def of(cls, is_right: bool | None) -> "Answered":
        """By the verdict on an answer; None is that of a question that was left."""
        return cls.SKIPPED if is_right is None else cls.RIGHT if is_right else cls.WRONG


class LessonProgress(msgspec.Struct, frozen=True, omit_defaults=True):
    """What was done in one lesson."""

    question: Answered | None = None
    """None: not answered yet."""
    task_solved: bool = False


class Progress(msgspec.Struct, frozen=True, omit_defaults=True):
    """What was done, by the id of the lesson."""

    version: int = 1
    lessons: dict[str, LessonProgress] = {}

    def of(self, lesson_id: str) -> LessonProgress:
        """What was done in a lesson."""
        return self.lessons.get(lesson_id, LessonProgress())

    def with_answer(self, lesson_id: str, answered: Answered) -> "Progress":
        """The progress after an answer, or after the question was left. What was first counts."""
        before = self.of(lesson_id)
        return self._with(lesson_id, msgspec.structs.replace(before, question=before.question or answered))

    def with_solved_task(self, lesson_id: str) -> "Progress":
        """The progress after a task was solved."""
        return self._with(lesson_id, msgspec.structs.replace(self.of(lesson_id), task_solved=True))

    def _with(self, lesson_id: str, done: LessonProgress) -> "Progress":
        return msgspec.structs.replace(self, lessons={**self.lessons, lesson_id: done})


class ProgressDamaged(ValueError):
    """The file of the progress cannot be read; it was renamed, and the message says to what."""


def load_progress(path: Path) -> Progress:
    """The progress in a file; an empty one if there is no file.

    A damaged file is set aside under another name, and ProgressDamaged says so; the next load begins with an empty
    progress. Raises OSError.
    """
    try:
        with path.open("rb") as file:
            content = file.read(MAX_PROGRESS_BYTES + 1)
    except FileNotFoundError:
        return Progress()
    try:
        if len(content) > MAX_PROGRESS_BYTES:
            raise ValueError(f"it is larger than {MAX_PROGRESS_BYTES:,} bytes")
        progress = msgspec.json.decode(content, type=Progress)
        if progress.version != Progress().version:
            raise ValueError(f"it has version {progress.version}, which this regroup does not read")
    except (ValueError, RecursionError) as error:
        aside = _free_name(path)
        path.replace(aside)
        raise ProgressDamaged(
            f"the progress of the lessons in {path} cannot be read ({error}); the file is now {aside.name}, and the "
            "progress begins again"
        ) from None
    return progress


def _free_name(path: Path) -> Path:
    """`lessons.json.damaged`, or the first such name with a number that is not taken."""
    aside, number = path.with_name(f"{path.name}.damaged"), 2
    while aside.exists():
        aside, number = path.with_name(f"{path.name}.damaged-{number}"), number + 1
    return aside


def save_progress(path: Path, progress: Progress) -> None:
    """Write the progress so that the file is the former or the new one whenever the process or machine stops.

    Raises OSError.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    written = path.with_name(f"{path.name}.{os.getpid()}.new")
    try:
        with written.open("wb") as file:
            file.write(msgspec.json.format(msgspec.json.encode(progress)) + b"\n")
            file.flush()
            os.fsync(file.fileno())
        written.replace(path)
    finally:
        with suppress(FileNotFoundError):
            written.unlink()
