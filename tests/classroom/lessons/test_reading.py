"""A file that is no lesson is refused with its line and field, and with what to write."""

import re
from pathlib import Path

import pytest

from regroup.classroom.lessons.checking import lesson_problems
from regroup.classroom.lessons.format.reading import MAX_LESSON_BYTES, InvalidLesson, read_lesson
from tests.classroom.lessons.files import SMALL, small_lesson, small_text


def refusal(*changes: tuple[str, str]) -> str:
    with pytest.raises(InvalidLesson) as caught:
        small_lesson(*changes)
    return str(caught.value)


def problems(*changes: tuple[str, str]) -> list[str]:
    return lesson_problems(small_lesson(*changes))


def test_the_small_lesson_is_sound() -> None:
    assert problems() == []


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        pytest.param("title:", "titel:", "line 2, titel: unknown field", id="unknown field"),
        pytest.param(
            "  explain: It is {answer}, {after} later.\n",
            "",
            "line 17, question: the field 'explain' is missing",
            id="missing field",
        ),
        pytest.param("lesson: small", "lesson: Small one", "line 1, lesson: invalid id 'Small one'", id="id"),
        pytest.param(
            "title: {en: Small, zh: 小}", "title: {de: Klein}", "line 2, title.de: unknown field", id="language"
        ),
        pytest.param("title: {en: Small, zh: 小}", "title: 7", "line 2, title: expected", id="text"),
        pytest.param("text: One consumer.", "text: {en: ''}", "line 3, text: a text is empty", id="empty text"),
        pytest.param(
            "    - at 20s: ben crashes",
            "    - at 20s: ben crashs",
            "line 13, scenario (- at 20s: ben crashs):",
            id="step",
        ),
        pytest.param(
            "session timeout: 10s}\n    ben",
            "sesion timeout: 10s}\n    ben",
            "line 9, scenario (anna: ",
            id="option of a member",
        ),
        pytest.param(
            "scenario:\n  scenario: ben crashes\n",
            "scenario:\n  scenery: ben crashes\n",
            "line 5, scenario (scenery: ben crashes): unknown option",
            id="option of the scenario",
        ),
        pytest.param(
            "of: {moment: step, says: ben crashes}",
            "of: {says: ben crashes}",
            "line 15, values[...].of: the field 'moment' is missing",
            id="moment",
        ),
        pytest.param("at most: 15s", "at most: 15s, at most: 16s", "line 33: duplicate key: 'at most'", id="key twice"),
        pytest.param(
            "- {measure: unread, at most: 15s, because: 'It took {found}.'}", "[]", "task", id="no conditions"
        ),
        pytest.param(
            "  right: [{timeout: 8s}]",
            "  right: []",
            "line 24, task: a task needs at least one example",
            id="no example",
        ),
        pytest.param(
            "  settings:\n    timeout: {type: duration, least: 6s, most: 5m}\n",
            "",
            "line 24, task: a task has either `settings` or an `assignor`",
            id="no settings",
        ),
        pytest.param(
            "number of partitions, member: anna}",
            "number of partitions, member: anna, at: soon}",
            "line 19, question.measure.at: invalid duration: 'soon'",
            id="duration",
        ),
        pytest.param(
            "  unit: {en: partitions, zh: 个}",
            "  options: [{says: 1}]",
            "line 20, question.options[0].says: expected",
            id="option",
        ),
        pytest.param(
            "text: One consumer.",
            "text: &one One consumer.\nbug: *one",
            "aliases such as *name are not read",
            id="alias",
        ),
        pytest.param("text: One consumer.", "text: [One", "line 4: ", id="no YAML"),
    ],
)
def test_a_wrong_part_is_named_with_its_line(old: str, new: str, message: str) -> None:
    assert message in refusal((old, new))


@pytest.mark.parametrize("text", ["", "[]", "7", "lesson", "---\n---\n"])
def test_a_file_that_is_no_mapping_is_refused(text: str) -> None:
    with pytest.raises(InvalidLesson):
        read_lesson(text)


def test_a_file_that_is_too_large_or_nested_too_deep_is_refused() -> None:
    with pytest.raises(InvalidLesson, match="larger than"):
        read_lesson(SMALL + "#" * MAX_LESSON_BYTES)
    with pytest.raises(InvalidLesson):
        read_lesson("[" * 50_000)
    with pytest.raises(InvalidLesson):
        read_lesson("lesson: " + "[" * 500 + "]" * 500)


def test_a_scenario_of_the_lab_can_be_named() -> None:
    start, end = SMALL.index("scenario:"), SMALL.index("values:")
    named = read_lesson(small_text((SMALL[start:end], "scenario: eager-pause\n")))
    assert named.plan.title
    with pytest.raises(InvalidLesson, match="line 4, scenario: unknown scenario"):
        read_lesson(small_text((SMALL[start:end], "scenario: eager-paus\n")))


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        pytest.param(
            "measure: number of partitions, member: anna",
            "measure: partition number, member: anna",
            "line 19, question.measure: unknown measure 'partition number'; did you mean",
            id="measure",
        ),
        pytest.param(
            "number of partitions, member: anna}",
            "number of partitions}",
            "line 19, question.measure: the measure 'number of partitions' needs `member`",
            id="needs a field",
        ),
        pytest.param(
            "number of partitions, member: anna}",
            "rebalances, member: anna}",
            "line 19, question.measure: the measure 'rebalances' does not take `member`",
            id="takes no field",
        ),
        pytest.param(
            "number of partitions, member: anna}",
            "number of partitions, member: ana}",
            "line 19, question.measure: unknown member 'ana'",
            id="member",
        ),
        pytest.param(
            "{moment: member-removed, member: ben",
            "{moment: member-removd, member: ben",
            "line 23, moments[0]: unknown moment 'member-removd'; did you mean member-removed?",
            id="moment",
        ),
        pytest.param(
            "{moment: member-removed, member: ben",
            "{moment: member-removed, member: anna",
            "line 23, moments[0]: the run has no such moment: moment: member-removed, member: anna",
            id="moment that does not come",
        ),
        pytest.param(
            "to: {moment: member-removed}",
            "to: {moment: member-left}",
            "line 16, values.after: the run has no moment {moment: member-left}",
            id="value",
        ),
        pytest.param(
            "note: 'After {after}.'",
            "note: 'After {before}.'",
            "line 23, moments[0].note: {before} is no value; known here are after, answer",
            id="name in a text",
        ),
        pytest.param(
            "text: One consumer.",
            "text: The {answer}",
            "line 3, text: {answer} is no value; no value can stand",
            id="the answer before the question",
        ),
        pytest.param(
            "at most: 15s", "at most: often", "line 33, task.conditions[0]: `at most` takes a duration", id="comparison"
        ),
        pytest.param("at most: 15s, ", "", "line 33, task.conditions[0]: a condition compares", id="no comparison"),
        pytest.param(
            "type: duration,", "type: time,", "line 27, task.settings.timeout: unknown type 'time'", id="type"
        ),
        pytest.param(
            "least: 6s", "least: six", "line 27, task.settings.timeout: `least` and `most` of a duration", id="limit"
        ),
        pytest.param(
            "ben: {session timeout: <timeout>}",
            "ben: {session timeout: <time>}",
            "line 28, task.change: <time> stands for no setting; settings are timeout",
            id="placeholder",
        ),
        pytest.param(
            "right: [{timeout: 8s}]",
            "right: [{timeout: 44s}]",
            "line 34, task.right[0]: this example does not solve the task",
            id="right example",
        ),
        pytest.param(
            "right: [{timeout: 8s}]",
            "right: [{timeout: 1s}]",
            "line 34, task.right[0]: this example does not solve the task (timeout: a duration",
            id="out of bounds",
        ),
        pytest.param(
            "wrong: [{timeout: 45s}]",
            "wrong: [{timeout: 7s}]",
            "line 35, task.wrong[0]: this example solves the task",
            id="wrong example",
        ),
        pytest.param(
            "right: [{timeout: 8s}]",
            "right: [8s]",
            "line 34, task.right[0]: an example is settings",
            id="kind of example",
        ),
        pytest.param("seed: 7", "seed: 7\n  recovers within: 9h", "milliseconds of virtual time", id="virtual time"),
        pytest.param("orders: 4", "orders: 4000", "at most 500 partitions of all topics, not 4,000", id="partitions"),
        pytest.param(
            "anna: {session timeout: 10s}",
            "anna: {heartbeat interval: 1ms}",
            "the heartbeat interval of anna must be at least 100ms",
            id="interval",
        ),
        pytest.param(
            "    - at 20s: ben crashes",
            "    - at 20s: ben crashes\n    - at 21s: ben was removed",
            "the run violates an invariant or an expectation: ben was removed.",
            id="expectation",
        ),
        pytest.param(
            "lesson: small",
            "lesson: small\ngroup: other",
            "line 5, scenario: the run has no event of group",
            id="group",
        ),
        pytest.param(
            "lesson: small", "lesson: small\nbug: two-leader", "line 2, bug: unknown bug: 'two-leader'", id="bug"
        ),
    ],
)
def test_a_check_names_what_is_wrong_with_its_line(old: str, new: str, message: str) -> None:
    found = problems((old, new))
    assert any(message in problem for problem in found), found


def test_a_check_names_everything_that_is_wrong() -> None:
    found = problems(("member: anna}", "member: ana}"), ("type: duration,", "type: time,"))
    assert len(found) == 2


def test_exactly_one_option_of_a_question_is_right() -> None:
    measure = "  measure: {measure: number of partitions, member: anna}\n"
    for right, shown in (("false", "none"), ("true", "1, 2")):
        options = f"  options: [{{says: a, right: {right}}}, {{says: b, right: {right}}}]\n"
        assert f"exactly one option is right in the run; here it is: {shown}" in problems((measure, options))[0]


@pytest.mark.parametrize(
    ("choices", "message"),
    [
        (
            "{yes: ben-1, 'no': none}",
            "line 27, task.settings.timeout.choices: YAML does not read yes as text; put it in",
        ),
        ("{'yes': ben-1, 'no': off}", "line 27, task.settings.timeout.choices.no: YAML does not read off as text"),
        ("[1, 'no']", "line 27, task.settings.timeout.choices[0]: YAML does not read 1 as text; put it in quotes: '1'"),
    ],
)
def test_a_choice_that_yaml_does_not_read_as_text_is_named_with_its_line(choices: str, message: str) -> None:
    text = small_text(("{type: duration, least: 6s, most: 5m}", f"{{type: choice, choices: {choices}}}"))
    with pytest.raises(InvalidLesson, match=f"^{re.escape(message)}"):
        read_lesson(text)


def test_the_choices_of_the_guide_are_read() -> None:
    guide = (Path(__file__).parents[3] / "docs" / "lessons.md").read_text()
    choices = re.search(r"`choices: (\{[^`]*\})`", guide)
    assert choices
    lesson = small_lesson(("{type: duration, least: 6s, most: 5m}", f"{{type: choice, choices: {choices[1]}}}"))
    assert lesson.parts.task.settings["timeout"].choices == {"yes": "ben-1", "no": "none"}
