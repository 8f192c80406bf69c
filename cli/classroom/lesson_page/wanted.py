"""What the page asks a process for, and how the process is started: one JSON value in, and one out."""

from typing import Any, Final, TypeAlias

import msgspec

OWN: Final = "own"
"""The lesson in the file that the command line names."""


class LessonJob(msgspec.Struct, frozen=True, kw_only=True):
    """The base of all jobs: a lesson, by its number, id or path, and the language of the texts in the result."""

    lesson: str
    language: str


class AnswerJob(LessonJob, frozen=True, kw_only=True, tag="answer"):
    """The job to check an answer and return the run of the lesson."""

    answer: str | None
    """None leaves the question."""


class TaskJob(LessonJob, frozen=True, kw_only=True, tag="task"):
    """The job to run the lesson's task with these values of its settings."""

    values: dict[str, str]


class AssignorJob(LessonJob, frozen=True, kw_only=True, tag="assignor"):
    """The job to run the lesson's task with the assignor in the learner's file."""

    file: str


Job: TypeAlias = AnswerJob | TaskJob | AssignorJob
Result: TypeAlias = dict[str, Any]
