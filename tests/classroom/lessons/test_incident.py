"""The log that the lesson about an incident quotes is what its run says."""

import re

import pytest

from regroup.classroom.languages import Language
from regroup.classroom.lessons.document import run_lesson
from regroup.classroom.lessons.format.language import in_language
from regroup.classroom.lessons.library import lesson
from regroup.classroom.lessons.replay import replay_lines

QUOTED = re.compile(r"^ +\+(\d+\.\d) s +(.*)$", re.MULTILINE)
NUMBER_OF_THE_MEMBER = re.compile(r"#\d+")


@pytest.mark.slow
@pytest.mark.parametrize("language", tuple(Language), ids=[each.value for each in Language])
def test_every_quoted_line_stands_in_the_replay_at_its_time(language: Language) -> None:
    taken = lesson("reading-a-real-incident")
    quoted = QUOTED.findall(in_language(taken.parts.text, language))
    lines = [
        (f"{line.at_ms / 1000:.1f}", NUMBER_OF_THE_MEMBER.sub("", line.text))
        for line in replay_lines(taken, run_lesson(taken), language)
    ]
    assert len(quoted) == 15
    for at_s, text in quoted:
        assert any(at_s == other_at_s and text in other for other_at_s, other in lines), (at_s, text)
