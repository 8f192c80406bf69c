"""`regroup chaos hunt` and `bugs`: what they find, show and save."""

from argparse import Namespace
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

import pytest
from msgspec.structs import replace

from regroup.lab.plan.yaml_format import read_plan
from regroup.lab.search.bug_detection import BugDetection
from regroup.lab.search.seed_run import Finding
from regroup.lab.simulation.run import NO_REBALANCE_STORM
from tests.cli.conftest import RunCommand


def test_a_hunt_shows_failures_and_saves_a_small_plan(
    wrong_story: Path, tmp_path: Path, chaos: RunCommand, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = read_plan(wrong_story.read_text())
    monkeypatch.setattr("regroup.cli.chaos.hunt.draw_plan", lambda seed: replace(plan, seed=seed))
    code, out, _ = chaos("hunt", "--seeds", "5-6", "--jobs", 1, "--save-in", tmp_path)
    assert code == 1
    assert "2 seeds were run, 2 failed." in out
    assert "regroup chaos run --seed 5\n" in out
    small = read_plan((tmp_path / "chaos-seed-5.yaml").read_text())
    assert f"regroup chaos run --scenario {tmp_path / 'chaos-seed-5.yaml'}" in out
    assert len(small.steps) < len(plan.steps)
    assert chaos("run", "--scenario", tmp_path / "chaos-seed-5.yaml")[0] == 1


def test_a_hunt_without_shrinking_saves_nothing(
    wrong_story: Path, tmp_path: Path, chaos: RunCommand, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = read_plan(wrong_story.read_text())
    monkeypatch.setattr("regroup.cli.chaos.hunt.draw_plan", lambda seed: plan)
    code, out, _ = chaos("hunt", "--seeds", 1, "--jobs", 1, "--no-shrink", "--save-in", tmp_path / "found")
    assert (code, "was reduced to" in out) == (1, False)
    assert not (tmp_path / "found").exists()


def test_a_hunt_that_finds_nothing_ends_with_0(story: Path, chaos: RunCommand, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = read_plan(story.read_text())
    monkeypatch.setattr("regroup.cli.chaos.hunt.draw_plan", lambda seed: replace(plan, seed=seed))
    code, out, err = chaos("hunt", "--seeds", "3", "--jobs", 1)
    assert (code, out, err) == (0, "3 seeds were run, 0 failed.\n", "")


def test_the_printed_commands_find_the_storm_that_a_hunt_has_found(
    story: Path, tmp_path: Path, chaos: RunCommand, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = read_plan(story.read_text())
    for module in ("hunt", "run"):
        monkeypatch.setattr(f"regroup.cli.chaos.{module}.draw_plan", lambda seed: replace(plan, seed=seed))
    monkeypatch.setattr("regroup.lab.search.seed_run.MAX_CALLBACKS", 150)
    code, out, _ = chaos("hunt", "--seeds", 1, "--jobs", 1, "--save-in", tmp_path)
    assert (code, NO_REBALANCE_STORM in out) == (1, True)
    commands = [line.split()[2:] for line in out.splitlines() if line.startswith("  regroup chaos run")]
    assert [command[1] for command in commands] == ["--seed", "--scenario"]
    for command in commands:
        code, out, _ = chaos(*command)
        assert (code, f"Violated: {NO_REBALANCE_STORM}" in out) == (1, True)


def test_each_bug_is_shown_with_its_number_of_seeds_and_one_not_found_ends_with_1(
    story: Path, chaos: RunCommand, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = BugDetection("two-leaders", 17, Finding(17, "There is one leader.", ""), read_plan(story.read_text()), 80)
    monkeypatch.setattr(
        "regroup.cli.chaos.bugs.hunt_bugs", lambda bugs, args: [found, BugDetection("session-never-ends", 200)]
    )
    code, out, _ = chaos("bugs", "--save-in", tmp_path)
    assert code == 1
    assert lines_of(out) == [
        "two-leaders after 17 seeds 2 members, 3 steps There is one leader.",
        "session-never-ends not in 200 seeds",
        "1 of 2 bugs were found.",
    ]
    assert (tmp_path / "two-leaders.yaml").exists()


def test_an_interrupted_command_goes_on_where_it_stopped_unless_its_limits_change(
    chaos: RunCommand, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hunts = []

    def caught(bugs: list[str], args: Namespace) -> Iterator[BugDetection]:
        hunts.append(bugs)
        yield BugDetection(bugs[0], args.seeds)
        raise KeyboardInterrupt

    monkeypatch.setattr("regroup.cli.chaos.bugs.hunt_bugs", caught)
    words = ("bugs", "--bug", "two-leaders", "--bug", "zombie-may-commit", "--save-in", tmp_path)
    for more in ((), (), ("--seeds", 300)):
        chaos(*words, *more)
    assert hunts == [["two-leaders", "zombie-may-commit"], ["zombie-may-commit"], ["two-leaders", "zombie-may-commit"]]
    monkeypatch.setattr("regroup.cli.chaos.bugs.hunt_bugs", lambda bugs, args: [])
    _, out, _ = chaos("bugs", "--bug", "two-leaders", "--save-in", tmp_path, "--seeds", 300)
    assert lines_of(out) == ["two-leaders not in 300 seeds", "0 of 1 bugs were found."]


def lines_of(out: str) -> list[str]:
    return [" ".join(line.split()) for line in out.splitlines()]


def test_a_hunt_writes_a_verdict_for_each_seed(tmp_path: Path, chaos: RunCommand) -> None:
    junit = tmp_path / "verdict.xml"
    chaos("hunt", "--seeds", "6-7", "--jobs", 1, "--no-shrink", "--bug", "unknown-member-is-let-in", "--junit", junit)
    suite = ElementTree.parse(junit).getroot()
    assert [case.get("name") for case in suite] == ["seed 6", "seed 7"]
    assert int(str(suite.get("failures"))) >= 1
