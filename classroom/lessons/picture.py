"""The picture of a lesson's run for a terminal: the text picture of its timeline, with the times of the replay."""

import re
from typing import Final

from regroup.classroom.languages import Language
from regroup.classroom.lessons.runs.run import LessonRun
from regroup.classroom.pictures.part import Unreadable
from regroup.classroom.pictures.text import text_picture

_TIME: Final = re.compile(r"^( *)\+(\d+\.\d{3})(?=  )")


def lesson_picture(run: LessonRun, language: Language) -> list[str]:
    """The lines of the picture; none if it would have too many members, events or partitions to be readable."""
    try:
        # A replay shows some of what is in no event, so the line about that is left out.
        body = text_picture(run.timeline, language=language, is_framed=False)
    except Unreadable:
        return []
    shift_ms = run.since_start_ms(run.timeline.began.at_ms)
    return [_TIME.sub(lambda match: _since_start(match, shift_ms), line) for line in body.rstrip().split("\n")]


def _since_start(match: re.Match[str], shift_ms: int) -> str:
    """Convert a time in the picture, since the group's first event, to one since the start of the run, equally wide."""
    text = f"+{float(match[2]) + shift_ms / 1000:.3f}"
    return text.rjust(len(match[0]))
