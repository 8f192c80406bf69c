"""The replay in both languages: every kind of event and step has a sentence, and notes stand beside their moments."""

import re

import pytest

from regroup.classroom.languages import Language
from regroup.classroom.lessons.chinese import STEPS, chinese_step
from regroup.classroom.lessons.document import run_lesson
from regroup.classroom.lessons.library import lesson
from regroup.classroom.lessons.picture import lesson_picture
from regroup.classroom.lessons.replay import EVENT_TEXTS, OTHER_TEXTS, other_text, replay_lines
from regroup.classroom.lessons.runs.moments import OTHER_MOMENTS, RunMoment
from regroup.classroom.lessons.runs.run import run_scenario
from regroup.coordinator.serialization import EVENT_TYPES
from regroup.lab.plan.scenario_files import scenario, scenario_names
from regroup.lab.plan.step_sentences import parse_step
from tests.classroom.lessons.files import small_lesson

CHINESE = re.compile(r"[\u4e00-\u9fff]")


def test_every_moment_that_a_replay_can_have_has_a_text_of_its_own() -> None:
    assert set(EVENT_TEXTS) <= set(EVENT_TYPES)
    assert set(OTHER_TEXTS) == set(OTHER_MOMENTS)


@pytest.mark.parametrize(
    ("english", "chinese"),
    [
        ("anna joins", "anna 启动"),
        ("ben restarts after 20s", "ben 重启，20s 后恢复"),
        ("broker 1 stops for 20s", "broker 1 停止 20s"),
        ("the disk fails once", "the disk fails once"),
    ],
)
def test_steps_are_translated_where_there_is_a_translation(english: str, chinese: str) -> None:
    assert parse_step(english)
    assert chinese_step(english) == chinese


def test_every_translated_step_is_one_that_a_scenario_can_have() -> None:
    words = {r"(\S+)'s next (\S+)": "anna's next JoinGroup", r"grows to (\d+)": "grows to 7", r"with (\d+)": "with 7"}
    for pattern, _ in STEPS:
        sentence = pattern
        for old, new in words.items():
            sentence = sentence.replace(old, new)
        sentence = sentence.replace(r"for (\S+)", "for 20s").replace(r"after (\S+)", "after 20s")
        sentence = sentence.replace(r"(\d+)", "1").replace(r"topic (\S+)", "topic orders").replace("s?", "s")
        sentence = re.sub(r"\(\.\+\)", "anna", sentence, count=1).replace("(.+)", "broker 1").replace(r"(\S+)", "anna")
        parse_step(sentence)
        assert CHINESE.search(chinese_step(sentence)), sentence


def test_the_replay_has_steps_sentences_and_notes_in_the_order_of_time() -> None:
    taken = small_lesson()
    run = run_lesson(taken)
    lines = replay_lines(taken, run, Language.ENGLISH)
    assert [line.text for line in lines if line.is_step] == [
        "The scenario: anna joins.", "The scenario: ben joins.", "The scenario: ben crashes.",
    ]  # fmt: skip
    (noted,) = [line for line in lines if line.note]
    assert noted.text.startswith("ben was removed: session timeout")
    assert re.fullmatch(r"After \d+(\.\d)? s\.", noted.note)
    assert [line.position for line in lines] == sorted(line.position for line in lines)


def test_the_end_of_the_group_is_said_last_and_with_the_last_time() -> None:
    """In lesson 12 a process is refused after the last event of the group."""
    taken = lesson(12)
    run = run_lesson(taken)
    for language, words in ((Language.ENGLISH, "At the end the group"), (Language.CHINESE, "最后，group")):
        lines = replay_lines(taken, run, language)
        assert [index for index, line in enumerate(lines) if line.text.startswith(words)] == [len(lines) - 1]
        assert [line.at_ms for line in lines] == sorted(line.at_ms for line in lines)
        assert lines[-1].at_ms > run.since_start_ms(run.timeline.last.at_ms)


def test_the_picture_has_the_times_of_the_replay() -> None:
    taken = small_lesson()
    run = run_lesson(taken)
    replayed = {f"{line.at_ms / 1000:.3f}" for line in replay_lines(taken, run, Language.ENGLISH)}
    for language in Language:
        lines = lesson_picture(run, language)
        times = re.findall(r"^ *\+(\d+\.\d{3})  ", "\n".join(lines), re.MULTILINE)
        assert len(times) > 5
        assert set(times) & replayed
        assert any(line.startswith("orders-0") for line in lines)
    assert any(CHINESE.search(line) for line in lines)


@pytest.mark.slow
@pytest.mark.parametrize("name", scenario_names())
def test_every_scenario_of_the_lab_can_be_replayed_in_both_languages(name: str) -> None:
    taken, plan = small_lesson(), scenario(name)
    run = run_scenario(plan, "lab")
    for language in Language:
        lines = replay_lines(taken, run, language)
        assert lines
        assert all(line.text for line in lines)
        lesson_picture(run, language)


def test_a_crashed_member_commits_nothing_after_its_crash() -> None:
    taken = lesson(10)
    lines = replay_lines(taken, run_lesson(taken), Language.ENGLISH)
    crash = next(line.at_ms for line in lines if "ben crashes" in line.text)
    commits = [line.at_ms for line in lines if line.text.startswith("ben committed ")]
    assert commits
    assert max(commits) < crash


def test_a_replay_says_which_members_both_believed_that_they_owned_a_partition() -> None:
    taken = lesson(8)
    run = run_lesson(taken)
    (line,) = (each for each in replay_lines(taken, run, Language.ENGLISH) if " both believed " in each.text)
    assert line.text == "anna and ben both believed that they owned orders 1, until +30.000 s."
    assert any("都以为自己拥有" in each.text for each in replay_lines(taken, run, Language.CHINESE))


def test_the_lesson_about_a_faulty_assignor_says_why_its_member_is_removed() -> None:
    taken = lesson(8)
    for language, words in (
        (Language.ENGLISH, "at +30 s the lab stops"),
        (Language.CHINESE, "到 +30 s 时，lab 会停掉"),
    ):
        removed = [line for line in replay_lines(taken, run_lesson(taken), language) if words in line.note]
        assert len(removed) == 1
        assert "anna" in removed[0].text


@pytest.mark.parametrize(("name", "text", "english"), [
    ("fault-began", "pause", "ben stands still."),
    ("fault-ended", "paused", "ben goes on after the pause."),
])  # fmt: skip
def test_a_pause_and_its_end_are_sentences(name: str, text: str, english: str) -> None:
    moment = RunMoment(at_ms=1, name=name, member="ben", text=text)
    assert other_text(moment, Language.ENGLISH) == english
    assert "停顿" in other_text(moment, Language.CHINESE)
