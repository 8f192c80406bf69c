"""`regroup story`: lines of a terminal, parts of a history, and what it refuses."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from regroup.classroom.wrapping import columns_of
from regroup.cli.classroom.selection import Place, parse_place
from regroup.lab.plan.scenario_files import scenario
from regroup.lab.search.swarm import draw_plan
from regroup.lab.simulation.run import play
from regroup.storage.sqlite.inline import open_inline_store
from tests.cli.conftest import RunCommand


def test_a_story_is_80_columns_wide_and_says_what_is_not_recorded(lesson_store: Path, run_command: RunCommand) -> None:
    code, out, err = run_command("story", lesson_store)
    assert (code, err) == (0, "")
    assert max(map(len, out.splitlines())) <= 80
    assert "Group lab: " in out
    assert "Not recorded: session clocks, lost messages, refused requests" in out


def test_a_story_in_chinese_is_as_wide_as_the_terminal(lesson_store: Path, run_command: RunCommand) -> None:
    code, out, err = run_command("story", lesson_store, "--language", "zh")
    assert (code, err) == (0, "")
    assert max(map(columns_of, out.splitlines())) <= 80
    assert out.startswith("group lab：")
    assert "generation 1 开始：" in out
    assert "未记录：session 计时、丢失的消息、被拒绝的请求、成员自己的视角。" in out
    refused = run_command("story", lesson_store, "--language", "de")
    assert "unknown language: 'de'; give en (English) or zh (Simplified Chinese)" in refused.err


def test_a_damaged_recording_is_one_clear_error(tmp_path: Path, run_command: RunCommand) -> None:
    store = tmp_path / "run.db"
    play(scenario("first-join"), open_store=lambda: open_inline_store(store), record=True)
    assert "Not recorded" not in run_command("story", store).out
    with closing(sqlite3.connect(store)) as connection, connection:
        connection.execute("UPDATE observations SET payload = x'00'")
    for words in (("story", store), ("export", store, "--group", "lab", "--text")):
        code, out, err = run_command(*words)
        assert (code, out, len(err.splitlines())) == (2, "", 1)
        assert "is damaged: block 1 of its observations" in err
    assert run_command("events", store).code == 0


def test_a_part_of_a_story_has_only_the_events_of_that_part(lesson_store: Path, run_command: RunCommand) -> None:
    whole = run_command("story", lesson_store, "--group", "lab").out
    first = run_command("story", lesson_store, "--to", "15s").out
    rest = run_command("story", lesson_store, "--from", "15s").out
    assert "Generation 1 started" in whole
    assert "Generation 1 started" in first
    assert "Generation 1 started" not in rest
    assert "Generation 2 started" not in first
    assert "Generation 2 started" in rest


def test_groups_without_an_event_in_the_part_are_left_out(tmp_path: Path, run_command: RunCommand) -> None:
    store = tmp_path / "two.db"
    play(draw_plan(11), check_invariants=False, open_store=lambda: open_inline_store(store))
    out = run_command("story", store).out
    assert "Group audit: " in out
    assert "Group lab: " in out
    first = next(line for line in out.splitlines() if line.startswith("Group lab: "))
    position = first.partition("positions ")[2].split()[0]
    alone = run_command("story", store, "--from", position, "--to", position)
    assert alone.code == 0
    assert "Group audit: " not in alone.out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--group", "other"], "unknown group 'other'; groups in this store: lab"),
        (["--from", "5000"], "no event of group 'lab' there; its events are at positions "),
        (["--from", "23:00:00"], "no event of group 'lab' there"),
        (["--to", "soon"], "invalid place: 'soon'; write a position (120), a time since the start (90s)"),
    ],
)
def test_a_part_that_is_not_there_is_refused(
    lesson_store: Path, run_command: RunCommand, words: list[str], message: str
) -> None:
    code, out, err = run_command("story", lesson_store, *words)
    assert (code, out) == (2, "")
    assert message in err


def test_a_missing_store_is_refused_in_one_line(tmp_path: Path, run_command: RunCommand) -> None:
    code, out, err = run_command("story", tmp_path / "none.db")
    assert (code, out) == (2, "")
    assert err.count("\n") == 1


def test_a_place_is_a_position_a_time_since_the_start_or_a_time() -> None:
    assert parse_place("120") == Place(position=120)
    assert parse_place("1.5m") == Place(since_start_ms=90_000)
    time = parse_place("2026-11-22T13:05:20.25").time
    assert time is not None
    assert time.at_ms(0) == 1_795_352_720_250
    for text in ("25:00:00", "-1", "", "120x"):
        with pytest.raises(ValueError, match="invalid place"):
            parse_place(text)
