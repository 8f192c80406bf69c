"""`regroup export`: the three forms, parts of a history, files, and what is refused."""

import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

from regroup.classroom.wrapping import columns_of
from regroup.lab.plan.yaml_format import read_plan
from regroup.lab.search.swarm import draw_plan
from regroup.lab.simulation.run import play
from regroup.storage.sqlite.inline import open_inline_store
from tests.cli.conftest import RunCommand


@pytest.mark.parametrize(
    ("form", "begin"), [("--svg", "<svg "), ("--mermaid", "sequenceDiagram\n"), ("--text", "Group lab, positions ")]
)
def test_each_form_goes_to_the_output_or_to_a_file(
    lesson_store: Path, tmp_path: Path, run_command: RunCommand, form: str, begin: str
) -> None:
    code, out, err = run_command("export", lesson_store, "--group", "lab", form)
    assert (code, err) == (0, "")
    assert out.startswith(begin)
    file = tmp_path / "picture"
    assert run_command("export", lesson_store, "--group", "lab", form, "--output", file) == (0, "", "")
    assert file.read_text(encoding="utf-8") == out


def test_the_text_and_the_page_are_written_in_chinese(
    lesson_store: Path, tmp_path: Path, run_command: RunCommand
) -> None:
    chosen = ("export", lesson_store, "--group", "lab", "--language", "zh")
    code, out, err = run_command(*chosen, "--text")
    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert lines[0].startswith("group lab，位置 ")
    assert lines[2].split()[:2] == ["时间", "状态"]
    assert max(map(columns_of, lines)) <= 80
    assert run_command(*chosen, "--html", tmp_path / "page.html") == (0, "", "")
    assert '<html lang="zh">' in (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "--svg is in English; --language is for --text and --html" in run_command(*chosen, "--svg").err


def test_a_part_is_drawn_alone(lesson_store: Path, run_command: RunCommand) -> None:
    document = run_command("export", lesson_store, "--group", "lab", "--svg", "--to", "25s").out
    root = ElementTree.fromstring(document)
    texts = [each.text for each in root.iter("{http://www.w3.org/2000/svg}text")]
    assert "carla" in texts
    assert "dora" not in texts


def test_an_unreadable_picture_is_refused_with_the_part_to_choose(tmp_path: Path, run_command: RunCommand) -> None:
    store = tmp_path / "long.db"
    play(draw_plan(22), check_invariants=False, open_store=lambda: open_inline_store(store))
    code, out, err = run_command("export", store, "--group", "lab", "--svg")
    assert (code, out) == (2, "")
    assert re.search(r"a picture of more than 20 members or 100 times cannot be read; --from \d+ --to \d+ ", err)
    part = err.rpartition("; ")[2].split()[:4]
    assert run_command("export", store, "--group", "lab", "--svg", *part).code == 0


@pytest.mark.parametrize("words", [[], ["--svg", "--text"], ["--svg", "--output", "/"]])
def test_a_form_must_be_chosen_and_a_file_must_be_writable(
    lesson_store: Path, run_command: RunCommand, words: list[str]
) -> None:
    code, out, err = run_command("export", lesson_store, "--group", "lab", *words)
    assert (code, out) == (2, "")
    assert err.startswith("regroup export: ")


def test_the_times_of_a_part_count_from_the_first_event_of_the_group(
    lesson_store: Path, run_command: RunCommand
) -> None:
    part = run_command("export", lesson_store, "--text", "--from", "20s").out
    first = next(line for line in part.splitlines() if line.lstrip().startswith("+"))
    assert float(first.split()[0]) >= 20


def test_a_begin_after_the_end_is_said(lesson_store: Path, run_command: RunCommand) -> None:
    for start, end in (("60s", "10s"), ("20", "10")):
        assert "--from is after --to" in run_command("export", lesson_store, "--text", "--from", start, "--to", end).err


def test_one_of_several_groups_has_to_be_named(tmp_path: Path, run_command: RunCommand) -> None:
    store = tmp_path / "groups.db"
    plan = read_plan(
        "scenario: Two groups\ntopics: {orders: 1}\nmembers: {anna: {group: one}, ben: {group: two}}\n"
        "faults end at: 5s\nsteps:\n  - at 0s: [anna joins, ben joins]\n"
    )
    play(plan, check_invariants=False, open_store=lambda: open_inline_store(store))
    assert "several groups (one, two): name one with --group" in run_command("export", store, "--text").err
    assert run_command("export", store, "--text", "--group", "two").code == 0
