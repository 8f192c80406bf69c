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
    """The progress; where its file is damaged, a message says so and it begins again."""
    try:
        return load_progress(progress_path())
    except ProgressDamaged as error:
        print_error("lesson", str(error))
        return Progress()


def keep_progress(key: str, *, answered: Answered | None = None, is_solved: bool = False) -> None:
    """Keep what was done in the lesson with this key. Another terminal may have changed the file. Raises OSError."""
    progress = kept_progress()
    if answered is not None:
        progress = progress.with_answer(key, answered)
    if is_solved:
        progress = progress.with_solved_task(key)
    save_progress(progress_path(), progress)


def progress_key(lesson_id: str, number: int | None) -> str:
    """Under what the progress in a lesson is kept; one of a file of one's own is kept apart from those of regroup."""
    return lesson_id if number else f"own/{lesson_id}"
