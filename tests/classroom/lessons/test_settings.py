"""The settings of a task: what a learner may choose, and what becomes of it in the scenario."""

from collections.abc import Sequence
from typing import Any

import pytest

from regroup.classroom.languages import Language
from regroup.classroom.lessons.assignor.cases import MadeUpCase
from regroup.classroom.lessons.assignor.properties import check_properties
from regroup.classroom.lessons.format.parts import Setting
from regroup.classroom.lessons.problems import ASSIGNOR_PROBLEMS, in_chinese
from regroup.classroom.lessons.settings import (
    SettingRefused,
    bug_of_task,
    merged,
    parse_setting,
    placeholders,
    plan_of_task,
)
from regroup.classroom.lessons.tasks import run_task
from tests.classroom.lessons.files import small_lesson

DURATION = Setting(type="duration", least="6s", most="5m")
NUMBER = Setting(type="number", least=1, most=50)
CHOICE = Setting(type="choice", choices=("range", "sticky"))
STATIC = Setting(type="choice", choices={"static": "ben-1", "dynamic": "none"})


@pytest.mark.parametrize(
    ("setting", "text", "value"),
    [
        (DURATION, "20", "20s"),
        (DURATION, "1.5 m", "90s"),
        (DURATION, "6500 ms", "6500ms"),
        (DURATION, "20 秒", "20s"),
        (NUMBER, " 7 ", "7"),
        (CHOICE, "Sticky", "sticky"),
        (CHOICE, "2", "sticky"),
        (STATIC, "static", "ben-1"),
        (STATIC, "2", "none"),
    ],
)
def test_a_value_is_read(setting: Setting, text: str, value: str) -> None:
    assert parse_setting("it", setting, text, Language.ENGLISH) == value


@pytest.mark.parametrize(
    ("setting", "text", "message"),
    [
        (DURATION, "5s", "it: a duration such as 20s, from 6s up to 5m"),
        (DURATION, "6m", "it: a duration such as 20s, from 6s up to 5m"),
        (DURATION, "soon", "it: a duration such as 20s, from 6s up to 5m"),
        (DURATION, "9" * 400, "it: a duration"),
        (NUMBER, "0", "it: a whole number, from 1 up to 50"),
        (NUMBER, "1.5", "it: a whole number, from 1 up to 50"),
        (NUMBER, "9" * 5_000, "it: a whole number, from 1 up to 50"),
        (Setting(type="number"), "9" * 12, "it: a whole number"),
        (CHOICE, "roundrobin", "it: one of range, sticky"),
        (CHOICE, "3", "it: one of range, sticky"),
        (CHOICE, "", "it: one of range, sticky"),
        (STATIC, "none", "it: one of static, dynamic"),
    ],
)
def test_any_other_value_is_refused_with_what_is_possible(setting: Setting, text: str, message: str) -> None:
    with pytest.raises(SettingRefused, match=message):
        parse_setting("it", setting, text, Language.ENGLISH)
    with pytest.raises(SettingRefused, match=r"^it："):
        parse_setting("it", setting, text, Language.CHINESE)


@pytest.mark.parametrize(
    ("base", "change", "result"),
    [
        ({"a": 1, "b": 2}, {"b": 3}, {"a": 1, "b": 3}),
        ({"members": ["anna"]}, {"members": {"ben": {}}}, {"members": {"anna": {}, "ben": {}}}),
        (
            {"members": {"anna": {"session timeout": "10s"}}},
            {"members": {"anna": {"heartbeat interval": "1s"}}},
            {"members": {"anna": {"session timeout": "10s", "heartbeat interval": "1s"}}},
        ),
        ({"steps": ["a", "b"]}, {"steps": ["c"]}, {"steps": ["c"]}),
        ({}, {"topics": {"orders": 4}}, {"topics": {"orders": 4}}),
    ],
)
def test_a_change_is_merged_into_a_scenario(base: Any, change: Any, result: Any) -> None:
    assert merged(base, change) == result


def test_places_are_found_everywhere_in_a_scenario() -> None:
    scenario = {
        "topics": {"orders": "<partitions>"},
        "steps": [{"at <when>": ["ben restarts after <down time>"]}],
        "x": 7,
    }
    assert placeholders(scenario) == {"partitions", "when", "down time"}


TASK = """  settings:
    timeout: {type: duration, least: 6s, most: 5m}
  change:
    members:
      anna: {session timeout: <timeout>}
      ben: {session timeout: <timeout>}
"""
OTHER_TASK = """  settings:
    partitions: {type: number, least: 1, most: 50}
    ben: {type: choice, choices: {static: ben-1, dynamic: none}}
    end: {type: choice, choices: [crashes, leaves]}
    when: {type: duration}
    fault: {type: choice, choices: {none: none, skips: member-starts-one-offset-too-far}}
  bug: <fault>
  change:
    topics: {orders: <partitions>}
    members: {ben: {instance id: <ben>}}
    steps:
      - at 0s: [anna joins, ben joins]
      - at <when>: ben <end>
"""
EXAMPLES = ("right: [{timeout: 8s}]", "wrong: [{timeout: 45s}]")


def test_values_stand_in_the_plan_of_a_task() -> None:
    lesson = small_lesson((TASK, OTHER_TASK))
    values = {"partitions": "7", "ben": "ben-1", "end": "leaves", "when": "15s", "fault": "none"}
    plan = plan_of_task(lesson, values)
    assert plan.topics == {"orders": 7}
    assert plan.members["ben"].instance_id == "ben-1"
    assert plan.members["ben"].session_timeout_ms == 10_000
    assert str(plan.steps[-1]) == "at 15s: ben leaves"
    assert bug_of_task(lesson, values) == ""
    other = {**values, "ben": "none", "fault": "member-starts-one-offset-too-far"}
    assert plan_of_task(lesson, other).members["ben"].instance_id is None
    assert bug_of_task(lesson, other) == "member-starts-one-offset-too-far"


def test_a_choice_of_true_and_false_stands_for_a_boolean() -> None:
    task = """  settings:
    ignore: {type: choice, choices: ['true', 'false']}
  change:
    workload: {partitioner: {partitioner ignore keys: <ignore>}}
"""
    lesson = small_lesson((TASK, task))
    for value in (True, False):
        plan = plan_of_task(lesson, {"ignore": str(value).lower()})
        assert plan.workload.partitioner.partitioner_ignore_keys is value


def test_a_task_is_run_with_all_its_settings_or_not_at_all() -> None:
    lesson = small_lesson()
    assert run_task(lesson, {"timeout": "8"}, Language.ENGLISH).is_solved
    for values, problem in (
        ({}, "timeout: a duration"),
        ({"timeout": "45m"}, "timeout: a duration"),
        ({"timeout": "8s", "other": "1"}, "unknown setting 'other'; the task has timeout"),
    ):
        result = run_task(lesson, values, Language.ENGLISH)
        assert not result.is_solved
        assert result.problem.startswith(problem)
        assert result.run is None


def test_settings_with_which_no_consumer_works_are_a_problem_of_the_task() -> None:
    lesson = small_lesson(
        ("    timeout: {type: duration, least: 6s, most: 5m}", "    timeout: {type: duration}"),
    )
    assert "heartbeat interval (3s) must be below" in run_task(lesson, {"timeout": "2s"}, Language.ENGLISH).problem
    assert run_task(lesson, {"timeout": "3h"}, Language.ENGLISH).is_solved is False


def test_what_is_wrong_with_settings_is_said_in_chinese() -> None:
    lesson = small_lesson(("    timeout: {type: duration, least: 6s, most: 5m}", "    timeout: {type: duration}"))
    problem = run_task(lesson, {"timeout": "2s"}, Language.CHINESE).problem
    assert problem == "heartbeat interval（3s）必须小于 session timeout（2s）"


@pytest.mark.parametrize(
    ("english", "chinese"),
    [
        ("which does not exist: the topic has 2 partitions", "结果把 orders-7 分给了 anna，而这个 partition 不存在"),
        ("to which it is not subscribed", "结果把 orders-7 分给了 anna，而它没有订阅 orders"),
        ("which member ben has already", "结果把 orders-7 分给了 anna，而它已经分给 ben"),
    ],
)
def test_what_is_wrong_with_an_assignment_is_said_in_chinese(english: str, chinese: str) -> None:
    reason = f"assignor mine assigned member anna partition 7 of topic orders, {english}"
    assert in_chinese(reason, ASSIGNOR_PROBLEMS) == chinese


def test_the_properties_of_an_assignor_are_sentences_in_both_languages() -> None:
    def nothing(cases: Sequence[MadeUpCase]) -> list[Any]:
        return [{name: [] for name in case.members} for case in cases]

    (english,) = check_properties(nothing, ["complete"], Language.ENGLISH)
    (chinese,) = check_properties(nothing, ["complete"], Language.CHINESE)
    assert english.text == "Case 1 of 63 has a wrong result:"
    assert english.because.startswith("no member got these partitions: orders-0, ")
    assert chinese.because.startswith("没有成员得到这些 partition：orders-0, ")
    assert "成员：anna（订阅 orders）" in chinese.because
