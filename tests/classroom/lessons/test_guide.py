"""docs/lessons.md: its example is a sound lesson, and its tables are the measures, moments and properties there are."""

import re

from regroup.classroom.lessons.assignor.properties import PROPERTIES
from regroup.classroom.lessons.checking import lesson_problems
from regroup.classroom.lessons.format.reading import read_lesson
from regroup.classroom.lessons.runs import run as bounds
from regroup.classroom.lessons.runs.conditions import MEASURE_WORDS
from regroup.classroom.lessons.runs.measures import MEASURES
from regroup.classroom.lessons.runs.measuring import MeasureKind
from regroup.classroom.lessons.runs.moments import OTHER_MOMENTS
from tests.documents import ROOT, blocks

GUIDE = ROOT / "docs" / "lessons.md"


def rows() -> dict[str, str]:
    """The rows of the page's tables by their first cell."""
    lines = GUIDE.read_text(encoding="utf-8").splitlines()
    return {match[1]: line for line in lines if (match := re.match(r"\| `([^`]+)` \|", line))}


def row_of(name: str, measure: MeasureKind) -> str:
    fields = [f"`{each.strip('_')}`" for each in measure.needs] + [f"`{each.strip('_')}`?" for each in measure.may_have]
    return f"| `{name}` | {measure.kind.value} | {', '.join(fields)} | {measure.meaning} |"


def test_the_example_is_a_sound_lesson() -> None:
    (example,) = [block.text for block in blocks(GUIDE) if block.text.startswith("lesson:")]
    assert lesson_problems(read_lesson(example)) == []


def test_every_measure_has_its_row_and_its_words() -> None:
    shown = rows()
    for name, measure in MEASURES.items():
        assert shown[name] == row_of(name, measure)
    assert set(MEASURE_WORDS) == set(MEASURES)


def test_every_moment_and_every_property_has_its_row() -> None:
    shown = rows()
    for name, meaning in OTHER_MOMENTS.items():
        assert shown[name] == f"| `{name}` | {meaning} |"
    for name, held in PROPERTIES.items():
        assert shown[name] == f"| `{name}` | {held.english} |"


def test_the_bounds_are_those_of_the_code() -> None:
    text = " ".join(GUIDE.read_text(encoding="utf-8").split())
    hours = bounds.MAX_VIRTUAL_MS // 3_600_000
    assert hours == 2
    assert (
        f"at most {bounds.MAX_MEMBERS} members, {bounds.MAX_PARTITIONS} partitions, {bounds.MAX_BROKERS} brokers, "
        f"{bounds.MAX_STEPS} steps, {bounds.MAX_RECORDS:,} records of {bounds.MAX_VALUE_BYTES:,} bytes and two hours "
        f"of virtual time, and ends with a message after {bounds.MAX_CALLBACKS:,} callbacks" in text
    )
