"""Where a learner's progress is kept, for the terminal and the page alike."""

import os
from pathlib import Path

from regroup.classroom.lessons.progress import Answered, Progress, ProgressDamaged, load_progress, save_progress
from regroup.cli.terminal.output import print_error


def progress_path() -> Path:
    """The file of the learner's progress, in the user's folder for the state of programs."""
    folder = Path(os.environ.get("XDG_STATE_HOME", ""))
    return (folder if folder.is_absolute() else Path.home() / ".local" / "state") / "regroup" / "lessons.json"


def kept_progress() -> Progress:
    """The learner's progress from its file. If the file is damaged, print so and return an empty progress."""
    try:
        return load_progress(progress_path())
    except ProgressDamaged as error:
        print_error("lesson", str(error))
        return Progress()


def keep_progress(key: str, *, answered: Answered | None = None, is_solved: bool = False) -> None:
    """Add an answer or a solved task to the saved progress under this key. Raises OSError.

    The file is read again before, since another terminal may have changed it.
    """
    progress = kept_progress()
    if answered is not None:
        progress = progress.with_answer(key, answered)
    if is_solved:
        progress = progress.with_solved_task(key)
    save_progress(progress_path(), progress)


def progress_key(lesson_id: str, number: int | None) -> str:
    """The key under which the progress in a lesson is saved; `own/` stands before the id of a user's own lesson.

    `number` is None for a lesson that does not come with regroup.
    """
    return lesson_id if number else f"own/{lesson_id}"
