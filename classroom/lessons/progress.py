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
    """How the learner answered the question of a lesson the first time."""

    RIGHT = "right"
    WRONG = "wrong"
    SKIPPED = "skipped"
    """It was left, and the right answer was shown."""

    @classmethod
    def of(cls, is_right: bool | None) -> "Answered":
        """RIGHT or WRONG by the verdict on an answer; SKIPPED for None, the verdict if the question was skipped."""
        return cls.SKIPPED if is_right is None else cls.RIGHT if is_right else cls.WRONG


class LessonProgress(msgspec.Struct, frozen=True, omit_defaults=True):
    """A learner's progress in one lesson: the first answer to the question, and whether the task is solved."""

    question: Answered | None = None
    """None: not answered yet."""
    task_solved: bool = False


class Progress(msgspec.Struct, frozen=True, omit_defaults=True):
    """A learner's progress in all lessons, by the id of the lesson."""

    version: int = 1
    lessons: dict[str, LessonProgress] = {}

    def of(self, lesson_id: str) -> LessonProgress:
        """The learner's progress in the lesson with this id."""
        return self.lessons.get(lesson_id, LessonProgress())

    def with_answer(self, lesson_id: str, answered: Answered) -> "Progress":
        """A copy of the progress with this answer; unchanged if the lesson's question was answered before."""
        before = self.of(lesson_id)
        return self._with(lesson_id, msgspec.structs.replace(before, question=before.question or answered))

    def with_solved_task(self, lesson_id: str) -> "Progress":
        """A copy of the progress in which the task of this lesson is solved."""
        return self._with(lesson_id, msgspec.structs.replace(self.of(lesson_id), task_solved=True))

    def _with(self, lesson_id: str, done: LessonProgress) -> "Progress":
        return msgspec.structs.replace(self, lessons={**self.lessons, lesson_id: done})


class ProgressDamaged(ValueError):
    """Raised if the file of the progress cannot be read. The file was renamed; the message has its new name."""


def load_progress(path: Path) -> Progress:
    """Read the progress from a file; without a file it is empty.

    A damaged file is renamed, and ProgressDamaged raised; the next call finds no file and returns an empty progress.
    Raises OSError.
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
    """A free name for a damaged file beside it: `lessons.json.damaged`, `lessons.json.damaged-2` and so on."""
    aside, number = path.with_name(f"{path.name}.damaged"), 2
    while aside.exists():
        aside, number = path.with_name(f"{path.name}.damaged-{number}"), number + 1
    return aside


def save_progress(path: Path, progress: Progress) -> None:
    """Write the progress to a new file and rename it, so that a crash leaves the former or the new content.

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
