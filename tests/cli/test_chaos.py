"""`regroup chaos`: runs, hunts, lists and the zoo."""

from argparse import Namespace
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from regroup.cli.main import main
from regroup.lab.plan.yaml_format import read_plan
from regroup.lab.planted_bugs.registry import BUGS
from regroup.lab.search.bug_detection import Catch
from regroup.lab.search.trial import Finding

STORY = """\
story: Two share a topic
topics: {orders: 2}
members: [anna, ben]
faults end at: 30s
happenings:
  - at 0s: [anna joins, ben joins]
  - at 20s: EXPECTATION
"""
LATE = """\
story: There is no time to come to rest
members: [anna]
faults end at: 30s
well again within: 1ms
happenings:
  - at 29.9s: anna joins
"""
SOUND = "within 1s the group is stable with anna and ben"


@pytest.fixture
def story(tmp_path: Path) -> Path:
    path = tmp_path / "two-share.yaml"
    path.write_text(STORY.replace("EXPECTATION", SOUND))
    return path


@pytest.fixture
def wrong_story(tmp_path: Path) -> Path:
    path = tmp_path / "one-is-missing.yaml"
    path.write_text(STORY.replace("EXPECTATION", "within 1s the group is stable with anna"))
    return path


def said_by(capsys: pytest.CaptureFixture[str], *words: object) -> tuple[int, str, str]:
    """Exit code, standard output and standard error."""
    try:
        code = main(["chaos", *map(str, words)])
    except SystemExit as end:
        code = int(end.code or 0)
    said = capsys.readouterr()
    return code, said.out, said.err


def test_a_sound_run_tells_its_options_what_happened_its_counts_and_ends_with_0(
    story: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, err = said_by(capsys, "run", "--scenario", story)
    assert (code, err) == (0, "")
    assert "at 0s: anna joins" in out
    assert "generation-started" in out
    assert "rebalances 1" in out
    assert "Nothing is broken" in out


def test_a_run_that_breaks_something_ends_with_1_and_the_line_that_replays_it(
    wrong_story: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, _ = said_by(capsys, "run", "--scenario", wrong_story, "--seed", 3)
    assert code == 1
    assert "Broken: " in out
    assert f"Once more: regroup chaos run --seed 3 --scenario {wrong_story}" in out


def test_a_group_that_never_comes_to_rest_ends_with_3(story: Path, capsys: pytest.CaptureFixture[str]) -> None:
    story.write_text(LATE)
    code, out, _ = said_by(capsys, "run", "--scenario", story)
    assert code == 3, out


def test_a_store_holds_the_history_for_every_other_command(
    story: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store = tmp_path / "groups.db"
    story.write_text(story.read_text() + "  - at 22s: the brokers crash for 2s\n  - at 26s: the disk fails once\n")
    code, out, _ = said_by(capsys, "run", "--scenario", story, "--store", store)
    assert (code, "coordinator-loaded" in out) == (0, True)
    assert main(["verify", str(store)]) == 0
    assert main(["events", str(store)]) == 0
    assert "assignment-committed" in capsys.readouterr().out


def test_a_store_that_is_there_already_is_left_alone(
    story: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store = tmp_path / "groups.db"
    store.write_text("something of somebody's")
    code, _, err = said_by(capsys, "run", "--scenario", story, "--store", store)
    assert (code, store.read_text()) == (2, "something of somebody's")
    assert "name another file" in err


def test_two_processes_with_different_hash_seeds_have_the_same_history(
    story: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, _ = said_by(capsys, "run", "--scenario", story, "--check-determinism")
    assert (code, "Deterministic: " in out) == (0, True)


def test_two_runs_that_differ_end_with_4(
    story: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("regroup.cli.chaos.run.rows_with", lambda hash_seed, plan, bug: ["same", f"by {hash_seed}"])
    code, out, _ = said_by(capsys, "run", "--scenario", story, "--check-determinism")
    assert code == 4
    assert "Row 2 was\n  by 1\nand then\n  by 2" in out


def test_until_leaves_out_what_comes_later(story: Path, capsys: pytest.CaptureFixture[str]) -> None:
    story.write_text(story.read_text() + "  - at 25s: ben crashes\n")
    _, out, _ = said_by(capsys, "run", "--scenario", story, "--until", "21s")
    assert "ben crashes" not in out
    assert "faults end at: 21s" in out


def test_a_plan_that_was_saved_is_played_as_the_seed_it_came_from(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    saved = tmp_path / "seed.yaml"
    _, drawn, _ = said_by(capsys, "run", "--seed", 8, "--until", "20s", "--save", saved)
    _, read, _ = said_by(capsys, "run", "--scenario", saved)
    assert read.replace(str(saved), "") == drawn


def test_a_hunt_names_what_it_finds_and_shrinks_and_saves_it(
    wrong_story: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = read_plan(wrong_story.read_text())
    monkeypatch.setattr("regroup.cli.chaos.hunt.draw_plan", lambda seed: replace(plan, seed=seed))
    code, out, _ = said_by(capsys, "hunt", "--seeds", "5-6", "--jobs", 1, "--save-in", tmp_path)
    assert code == 1
    assert "2 seeds were played, 2 of them fail." in out
    assert "regroup chaos run --seed 5\n" in out
    small = read_plan((tmp_path / "chaos-seed-5.yaml").read_text())
    assert f"regroup chaos run --scenario {tmp_path / 'chaos-seed-5.yaml'}" in out
    assert len(small.happenings) < len(plan.happenings)
    assert said_by(capsys, "run", "--scenario", tmp_path / "chaos-seed-5.yaml")[0] == 1


def test_a_hunt_leaves_what_it_finds_as_it_is_if_that_is_wished(
    wrong_story: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = read_plan(wrong_story.read_text())
    monkeypatch.setattr("regroup.cli.chaos.hunt.draw_plan", lambda seed: plan)
    code, out, _ = said_by(capsys, "hunt", "--seeds", 1, "--jobs", 1, "--no-shrink", "--save-in", tmp_path / "found")
    assert (code, "came down to" in out) == (1, False)
    assert not (tmp_path / "found").exists()


def test_a_hunt_that_finds_nothing_ends_with_0(
    story: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = read_plan(story.read_text())
    monkeypatch.setattr("regroup.cli.chaos.hunt.draw_plan", lambda seed: replace(plan, seed=seed))
    code, out, err = said_by(capsys, "hunt", "--seeds", "3", "--jobs", 1)
    assert (code, out, err) == (0, "3 seeds were played, 0 of them fail.\n", "")


def test_the_list_names_every_scenario_and_every_bug(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = said_by(capsys, "list")
    assert code == 0
    for bug in BUGS.values():
        assert bug.name in out
        assert bug.sentence in out


def test_the_zoo_tells_after_how_many_seeds_a_bug_is_found_and_ends_with_1_if_one_is_not(
    story: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = Catch("two-leaders", 17, Finding(17, "There is one leader.", ""), read_plan(story.read_text()), 80)
    monkeypatch.setattr("regroup.cli.chaos.bugs.caught", lambda bugs, args: [found, Catch("session-never-ends", 200)])
    code, out, _ = said_by(capsys, "zoo", "--save-in", tmp_path)
    assert code == 1
    assert lines_of(out) == [
        "two-leaders after 17 seeds 2 members, 3 happenings There is one leader.",
        "session-never-ends not in 200 seeds",
        "1 of 2 bugs were found.",
    ]
    assert (tmp_path / "two-leaders.yaml").exists()


def test_a_zoo_that_was_interrupted_goes_on_where_it_was_unless_more_is_asked_of_it(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hunts = []

    def caught(bugs: list[str], args: Namespace) -> Iterator[Catch]:
        hunts.append(bugs)
        yield Catch(bugs[0], args.seeds)
        raise KeyboardInterrupt

    monkeypatch.setattr("regroup.cli.chaos.bugs.caught", caught)
    words = ("zoo", "--bug", "two-leaders", "--bug", "zombie-may-commit", "--save-in", tmp_path)
    for more in ((), (), ("--seeds", 300)):
        said_by(capsys, *words, *more)
    assert hunts == [["two-leaders", "zombie-may-commit"], ["zombie-may-commit"], ["two-leaders", "zombie-may-commit"]]
    monkeypatch.setattr("regroup.cli.chaos.bugs.caught", lambda bugs, args: [])
    _, out, _ = said_by(capsys, "zoo", "--bug", "two-leaders", "--save-in", tmp_path, "--seeds", 300)
    assert lines_of(out) == ["two-leaders not in 300 seeds", "0 of 1 bugs were found."]


def lines_of(out: str) -> list[str]:
    return [" ".join(line.split()) for line in out.splitlines()]


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (("run", "--scenario", "no-such-story"), "there is no scenario"),
        (("run", "--bug", "two-leader"), "Did you mean two-leaders?"),
        (("hunt", "--bug", "nonsense"), "There is no bug 'nonsense'"),
        (("zoo", "--bug", "nonsense"), "There is no bug 'nonsense'"),
        (("run", "--until", "soon"), "no duration"),
        (("run", "--scenario", "first-join", "--save", "no-such-folder/plan.yaml"), "No such file or directory"),
        (("run", "--scenario", "first-join", "--store", "no-such-folder/groups.db"), "no-such-folder"),
        (("run", "--check-determinism", "--store", "groups.db"), "leave out --store"),
        (("hunt", "--seeds", "9-3"), "should be a number"),
        (("hunt", "--jobs", "0"), "at least 1"),
        ((), "required"),
    ],
)
def test_a_mistake_ends_with_2_and_a_hint(
    words: tuple[str, ...], hint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code, _, err = said_by(capsys, *words)
    assert code == 2
    assert hint in err


@pytest.mark.parametrize("word", ["run", "hunt", "list", "zoo"])
def test_the_help_of_every_word_has_an_example(word: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = said_by(capsys, word, "--help")
    assert code == 0
    assert f"\nregroup chaos {word}" in out
