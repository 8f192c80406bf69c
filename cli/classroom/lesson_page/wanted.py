"""What the page asks a process for, and how the process is started: one JSON value in, and one out."""

from typing import Any, Final, TypeAlias

import msgspec

OWN: Final = "own"
"""The lesson in the file that the command line names."""


class LessonJob(msgspec.Struct, frozen=True, kw_only=True):
    """A lesson, by its number or id or as the path of its file, and the language of texts."""

    lesson: str
    language: str


class AnswerJob(LessonJob, frozen=True, kw_only=True, tag="answer"):
    """Check an answer, and show the run."""

    answer: str | None
    """None leaves the question."""


class TaskJob(LessonJob, frozen=True, kw_only=True, tag="task"):
    """Run the task with these settings."""

    values: dict[str, str]


class AssignorJob(LessonJob, frozen=True, kw_only=True, tag="assignor"):
    """Run the task with the learner's file."""

    file: str


Job: TypeAlias = AnswerJob | TaskJob | AssignorJob
Result: TypeAlias = dict[str, Any]
