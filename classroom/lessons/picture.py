"""The picture of a lesson's run for a terminal: the text picture of its timeline, with the times of the replay."""

import re
from textwrap import fill
from typing import Final

from regroup.classroom.lessons.format.language import Language
from regroup.classroom.lessons.runs.run import LessonRun
from regroup.classroom.pictures.part import Unreadable
from regroup.classroom.pictures.text import text_picture

_TIME: Final = re.compile(r"^( *)\+(\d+\.\d{3})(?=  )")
_LEGEND: Final = re.compile(r"owners, one character for each row above: (.*), · no\s+member, !\s+several", re.DOTALL)

LEGEND_CHARACTERS: Final = 72
"""Of a line in Chinese, where some characters are two columns wide."""


def lesson_picture(run: LessonRun, language: Language) -> list[str]:
    """The lines; none where a picture would be unreadable."""
    try:
        picture = text_picture(run.timeline)
    except Unreadable:
        return []
    # A replay shows some of what is in no event, so the line about that is left out, and so is the heading.
    body = picture.split("\n\nNot recorded")[0].split("\n\n", 1)[1]
    if language is Language.CHINESE:
        body = _LEGEND.sub(_chinese_legend, body)
    shift_ms = run.since_start_ms(run.timeline.began.at_ms)
    return [_TIME.sub(lambda match: _since_start(match, shift_ms), line) for line in body.rstrip().split("\n")]


def _chinese_legend(match: re.Match[str]) -> str:
    return f"拥有者，每个字符对应上面的一行：\n{fill(f'{match[1]}，· 没有，! 多个', LEGEND_CHARACTERS)}"


def _since_start(match: re.Match[str], shift_ms: int) -> str:
    """A time since the group's first event as one since the start of the run, as wide as before."""
    text = f"+{float(match[2]) + shift_ms / 1000:.3f}"
    return text.rjust(len(match[0]))
