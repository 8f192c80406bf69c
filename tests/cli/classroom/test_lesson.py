"""`regroup lesson`: the list, a lesson from lines of input, files of one's own, and the progress."""

import io
import json
import os
import pty
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from rich.cells import cell_len

from regroup.classroom import wrapping
from regroup.classroom.languages import Language
from regroup.classroom.lessons.format.language import in_language
from regroup.classroom.lessons.library import lesson, lesson_numbers
from regroup.cli.classroom.lesson.dialogue import SKIP
from regroup.cli.classroom.lesson.text import WIDTH, paragraphs, wrapped
from tests.classroom.lessons.files import SMALL, small_text
from tests.cli.conftest import CommandResult, RunCommand

Take = Callable[..., CommandResult]


@pytest.fixture(autouse=True)
def state_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return tmp_path / "state"


@pytest.fixture
def take(run_command: RunCommand, monkeypatch: pytest.MonkeyPatch) -> Take:
    """`take("7", "9", words=["1"])` runs `regroup lesson 1` with these lines of input."""

    def run(*lines: str, words: list[str]) -> CommandResult:
        monkeypatch.setattr("sys.stdin", io.StringIO("".join(f"{line}\n" for line in lines)))
        return run_command("lesson", *words)

    return run


def test_a_lesson_is_taken_from_lines_of_input_and_the_progress_is_kept(take: Take, state_folder: Path) -> None:
    result = take("many", "7", "7", "9", words=["1"])
    assert result.code == 0
    assert result.err == ""
    for text in (
        "Lesson 1: One consumer, seven partitions",
        "Please answer with a number.",
        "Right: 7 partitions.",
        "anna joined",
        "┃ anna has sent JoinGroup.",
        "orders-6",
        "Not solved yet.",
        "✗ number of partitions of carla at +10 s: 2; required: at least 3",
        "Solved.",
        "Next: regroup lesson 2",
    ):
        assert text in result.out
    kept = json.loads((state_folder / "regroup" / "lessons.json").read_bytes())
    assert kept["lessons"] == {"one-consumer-seven-partitions": {"question": "right", "task_solved": True}}
    assert "   1  ✓ ✓  One consumer, seven partitions" in take(words=[]).out


def test_a_lesson_in_chinese_is_as_wide_as_the_terminal(take: Take) -> None:
    result = take("6", "9", words=["1", "--language", "zh"])
    assert result.code == 0
    assert "不对。正确答案：7 个 partition。" in result.out
    assert "任务完成。" in result.out
    assert max(map(cell_len, result.out.splitlines())) <= WIDTH


@pytest.mark.parametrize("language", ["en", "zh"])
@pytest.mark.parametrize("number", [pytest.param(each, id=f"lesson-{each}") for each in lesson_numbers()])
@pytest.mark.quick("lesson-1-en", "lesson-12-zh")
def test_every_lesson_is_as_wide_as_the_terminal(take: Take, number: int, language: str) -> None:
    """Without what the learner types: choices are answered by their numbers, which are short."""
    task = lesson(number).parts.task
    answers = (
        [SKIP]
        if task.assignor
        else [
            str(list(setting.choices).index(task.right[0][name]) + 1 if setting.choices else task.right[0][name])
            for name, setting in task.settings.items()
        ]
    )
    result = take(SKIP, *answers, words=[str(number), "--language", language])
    assert result.code == 0
    too_wide = [line for line in result.out.splitlines() if cell_len(line) > WIDTH]
    assert too_wide == []


def test_skip_and_show_and_the_end_of_the_input(take: Take, state_folder: Path) -> None:
    result = take("skip", "show", "skip", words=["1"])
    assert "The right answer: 7 partitions." in result.out
    assert "partitions: 9" in result.out
    kept = json.loads((state_folder / "regroup" / "lessons.json").read_bytes())
    assert kept["lessons"] == {"one-consumer-seven-partitions": {"question": "skipped"}}
    assert "   1  – ·  One consumer" in take(words=[]).out
    for lines in ((), ("7",), ("7", "7")):
        ended = take(*lines, words=["1"])
        assert ended.code == 0
        assert ended.out.endswith("Ended. What you have done is kept.\n")


@pytest.mark.parametrize(("number", "right", "language"), [("1", "7", "en"), ("9", "2", "zh")])
def test_a_skipped_question_is_explained_as_an_answered_one(take: Take, number: str, right: str, language: str) -> None:
    def said(answer: str) -> list[str]:
        out = take(answer, words=[number, "--language", language]).out
        _verdict, *lines = out.partition(f"\n> {answer}\n\n")[2].split("\n")
        return lines[: lines.index("─" * WIDTH)]

    assert "".join(said("skip")).strip()
    assert said("skip") == said(right)


@pytest.mark.parametrize(("number", "hint"), [("5", "orders 0-2"), ("1", "a number"), ("9", "the number of an option")])
def test_an_empty_line_is_no_answer(take: Take, state_folder: Path, number: str, hint: str) -> None:
    result = take("", "  ", words=[number])
    assert result.out.count("Please answer with") == 2
    assert hint in result.out
    assert not (state_folder / "regroup").exists(), "nothing was answered"


def test_the_list_names_every_lesson(run_command: RunCommand) -> None:
    out = run_command("lesson").out
    assert [int(line.split()[0]) for line in out.splitlines() if line[:4].strip().isdigit()] == list(lesson_numbers())
    assert "一个 consumer，七个 partition" in run_command("lesson", "--language", "zh").out


def test_a_shown_lesson_can_be_checked_and_taken_as_a_file(take: Take, tmp_path: Path, state_folder: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text(take(words=["show", "1"]).out, encoding="utf-8")
    assert take(words=["check", str(file)]) == (0, f"{file}: the lesson is sound\n", "")
    assert "Lesson: One consumer, seven partitions" in take("7", "9", words=[str(file)]).out
    kept = json.loads((state_folder / "regroup" / "lessons.json").read_bytes())
    assert list(kept["lessons"]) == ["own/one-consumer-seven-partitions"]


def test_a_wrong_file_is_refused_and_its_check_names_everything(run_command: RunCommand, tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text(small_text(("member: anna}", "member: ana}"), ("type: duration,", "type: time,")), encoding="utf-8")
    checked = run_command("lesson", "check", file)
    assert checked.code == 1
    assert [line.split(", ")[0] for line in checked.out.splitlines()] == [f"{file}: line 19", f"{file}: line 27"]
    taken = run_command("lesson", file)
    assert taken.code == 2
    assert "unknown member 'ana'" in taken.err
    assert f"`regroup lesson check {file}` shows everything" in taken.err
    file.write_text("titel: x", encoding="utf-8")
    assert run_command("lesson", "check", file).code == 1
    assert run_command("lesson", file).code == 2


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["99"], "unknown lesson: '99'; they are numbered from 1 to"),
        (["one-consumer-seven-partition"], "did you mean one-consumer-seven-partitions?"),
        (["check"], "a file after `check`"),
        (["1", "2"], "write one lesson"),
        (["show", "99"], "unknown lesson"),
        (["check", "no-such.yaml"], "no-such.yaml: No such file"),
        (["no-such.yaml"], "no-such.yaml: No such file"),
    ],
)
def test_what_cannot_be_carried_out_is_one_line(run_command: RunCommand, words: list[str], message: str) -> None:
    result = run_command("lesson", *words)
    assert result.code == 2
    assert message in result.err
    assert len(result.err.splitlines()) == 1


def test_a_file_that_is_no_text_is_refused(run_command: RunCommand, tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_bytes(b"\xff\xfe")
    assert run_command("lesson", "check", file) == (1, f"{file}: not a UTF-8 text file\n", "")
    assert run_command("lesson", "check", tmp_path).code == 2


def test_damaged_progress_is_named_and_begins_again(take: Take, state_folder: Path) -> None:
    file = state_folder / "regroup" / "lessons.json"
    file.parent.mkdir(parents=True)
    file.write_text("{", encoding="utf-8")
    result = take("7", "9", words=["1"])
    assert result.code == 0
    assert str(file) in result.err
    assert json.loads(file.read_bytes())["lessons"]
    assert (file.parent / "lessons.json.damaged").read_text(encoding="utf-8") == "{"


def test_progress_that_cannot_be_written_is_one_line(take: Take, state_folder: Path) -> None:
    state_folder.write_text("a file where the folder should be", encoding="utf-8")
    result = take("7", words=["1"])
    assert result.code == 2
    assert str(state_folder) in result.err


def test_a_folder_for_state_that_is_not_absolute_is_not_used(
    take: Take, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", "state")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    take("7", words=["1"])
    assert (tmp_path / "home" / ".local" / "state" / "regroup" / "lessons.json").exists()
    assert not (tmp_path / "state").exists()


def test_names_in_a_file_cannot_control_the_terminal(take: Take, tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text(small_text(("text: One consumer.", 'text: "One \\x1b[31mconsumer."')), encoding="utf-8")
    result = take("7\x1b[2J", "4", "8s", words=[str(file)])
    assert result.code == 0
    assert "\x1b" not in result.out
    assert "\\x1b[31m" in result.out


def test_paragraphs_are_wrapped_and_indented_lines_are_kept() -> None:
    text = in_language("one two\nthree\n\n    kept   as it is\n    too\n\n" + "word " * 40, Language.ENGLISH)
    lines = list(paragraphs(text))
    assert lines[:6] == ["one two three", "", "    kept   as it is", "    too", "", " ".join(["word"] * 16)]


def test_chinese_is_wrapped_between_characters_and_never_before_a_stop() -> None:
    text = "分担工作的 consumer 使用相同的 group.id，" * 8
    for indent in ("", "  ┃ "):
        lines = list(wrapped(text, indent))
        assert all(cell_len(line) <= WIDTH for line in lines)
        assert not any(line.removeprefix(indent)[0] in "，。" for line in lines)
        joined = "".join(line.removeprefix(indent) for line in lines)
        assert joined.replace(" ", "") == text.replace(" ", "")


@pytest.mark.slow
def test_on_a_terminal_each_note_waits_for_enter(tmp_path: Path, state_folder: Path) -> None:
    master, slave = pty.openpty()
    environment = {**os.environ, "XDG_STATE_HOME": str(state_folder)}
    with subprocess.Popen(
        [sys.executable, "-m", "regroup", "lesson", "1"], stdin=slave, stdout=slave, stderr=slave, env=environment
    ) as process:
        os.close(slave)
        os.write(master, b"7\n\n\n\n9\n")
        shown = b""
        try:
            while chunk := os.read(master, 4096):
                shown += chunk
        except OSError:
            pass  # Linux ends a pseudo-terminal with EIO
        assert process.wait(30) == 0
    os.close(master)
    assert shown.count(b"(Enter goes on)") == 3
    assert b"Solved." in shown


def test_the_small_lesson_of_the_tests_can_be_taken(take: Take, tmp_path: Path) -> None:
    file = tmp_path / "small.yaml"
    file.write_text(SMALL, encoding="utf-8")
    result = take("4", "1s", "44s", "8 s", words=[str(file)])
    assert result.code == 0
    assert "timeout: a duration such as 20s, from 6s up to 5m" in result.out
    assert "It took 43.028 s." in result.out
    assert result.out.rstrip().endswith("Good.")


@pytest.mark.parametrize("answer", ["short", "1"])
def test_a_choice_that_stands_for_another_word_can_be_taken(take: Take, tmp_path: Path, answer: str) -> None:
    duration, choice = "{type: duration, least: 6s, most: 5m}", "{type: choice, choices: {short: 8s, long: 45s}}"
    file = tmp_path / "small.yaml"
    file.write_text(
        small_text((duration, choice), ("right: [{timeout: 8s}]", "right: [{timeout: short}]"),
                   ("wrong: [{timeout: 45s}]", "wrong: [{timeout: long}]")),
        encoding="utf-8",
    )  # fmt: skip
    result = take("4", "medium", "long", answer, words=[str(file)])
    assert result.out.count("timeout: one of short, long") == 4, "the question three times, and why `medium` is none"
    assert result.out.count("Not solved yet.") == 1
    assert "It took " in result.out
    assert result.out.rstrip().endswith("Good.")


def test_skip_is_read_in_any_case_and_an_empty_answer_to_the_file_question_says_what_is_wanted(take: Take) -> None:
    english = take("SKIP", "", "/", "Skip", words=["8"]).out
    assert "Skipped. The right answer: Both members read the partition, and its records are" in english
    assert ".." not in english.replace("...", "")
    assert "Please write the name of a Python file" in english
    assert "Next: regroup lesson 9" in english
    chinese = take("Skip", "", "/", "/no/such/file", "Skip", words=["8", "--language", "zh"]).out
    assert "。。" not in chinese
    assert "请输入一个 Python 文件的名字" in chinese
    assert "无法读取 /: 这是一个目录" in chinese.replace("：", ": ")
    assert "文件不存在" in chinese


def test_a_member_that_had_left_by_itself_is_not_called_removed_too_late(take: Take) -> None:
    out = take("skip", "10s", "30s", "3s", "skip", words=["9"]).out
    assert "after never" not in out
    assert "she had left" in " ".join(out.split())


def test_a_number_and_its_unit_stay_on_one_line() -> None:
    text = " ".join(["After 20 s, or 300 ms, and 5 min, it is over."] * 20)
    for width in range(20, 60):
        lines = list(wrapping.wrapped(text, width))
        assert " ".join(lines) == text
        assert not any(re.match(r"(s|ms|min)\b", line) for line in lines)
