"""Mutants in a copy of the project, and the file of verdicts."""

import sys
from pathlib import Path

import pytest

from tests.mutants import judges
from tests.mutants.judges import FIRST_SEED, JUDGES, Verdict, judge_by_lab, judge_by_stories, judge_by_tests
from tests.mutants.project_copy import ROOT, ProjectCopy
from tests.mutants.results import Trial, append_trial, format_survivors, format_table, read_trials
from tests.mutants.sites import Mutation, mutations_of
from tests.mutants.trials import MissingTrial, make_trial


def a_mutation(after: str = "(b <= c)") -> Mutation:
    return Mutation("coordinator/decide.py", "operator", "decide", 1, 1, 0, 5, "b < c", after)


def a_trial(judge: str, verdict: Verdict, mutation: Mutation | None = None) -> Trial:
    mutation = mutation or a_mutation()
    return Trial(mutation.key, judge, mutation, verdict, seeds=7)


def test_verdicts_are_read_as_they_were_written(tmp_path: Path) -> None:
    file = tmp_path / "mutants.jsonl"
    trials = [
        a_trial("lab", Verdict("killed", "seed 9000001: a sentence", 1.5)),
        a_trial("tests", Verdict("survived", "", 9.0)),
    ]
    for each in trials:
        append_trial(file, each)
    assert read_trials(file) == {a_mutation().key: {"lab": trials[0], "tests": trials[1]}}


def test_a_line_that_an_interrupted_run_left_unfinished_is_replaced(tmp_path: Path) -> None:
    file = tmp_path / "mutants.jsonl"
    append_trial(file, a_trial("lab", Verdict("survived", "", 1.0)))
    file.write_bytes(file.read_bytes() + b'{"key": "unfin')
    assert set(read_trials(file)[a_mutation().key]) == {"lab"}
    append_trial(file, a_trial("tests", Verdict("survived", "", 1.0)))
    assert set(read_trials(file)[a_mutation().key]) == {"lab", "tests"}


def test_the_table_counts_mutants_that_the_lab_kills_or_every_judge_has_seen() -> None:
    seen, unseen, killed_at_once = a_mutation(), a_mutation("(c < b)"), a_mutation("(b > c)")
    killed, survived = Verdict("killed", "a test", 1.0), Verdict("out of time", "", 120.0)
    trials = {
        seen.key: {judge: a_trial(judge, killed if judge == "tests" else survived) for judge in JUDGES},
        unseen.key: {"lab": a_trial("lab", survived, unseen)},
        killed_at_once.key: {"lab": a_trial("lab", killed, killed_at_once)},
    }
    table = format_table([seen, unseen, killed_at_once], trials)
    assert "| operator | 2 | 1 | 0 | 1 | 0 |" in table
    assert "| constant | 0 | 0 | 0 | 0 | 0 |" in table
    assert format_survivors([seen, killed_at_once], trials, "lab")[1:] == ["    7 seeds execute it; tests: a test"]


def test_a_mutant_of_the_members_survives_the_stories_without_a_trial(tmp_path: Path) -> None:
    mutation = Mutation("members/faults.py", "operator", "parse_fault", 1, 1, 0, 5, "b < c", "(b <= c)")
    trial = make_trial(tmp_path, MissingTrial(mutation, "stories", []))
    assert trial.verdict == Verdict("survived", "", 0.0)
    assert not list(tmp_path.iterdir()), "no copy was made"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("program", "outcome"), [("import time; time.sleep(60)", "killed"), ("while True: pass", "out of time")]
)
def test_a_process_that_waits_is_killed_and_one_that_works_is_out_of_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, program: str, outcome: str
) -> None:
    monkeypatch.setattr(judges, "WALL_S", 3)
    monkeypatch.setattr(judges, "WAITING_SHARE", 0.1)
    verdict = judges._run_process(ProjectCopy(tmp_path), [sys.executable, "-c", program], 60, str)
    assert verdict.outcome == outcome


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_each_judge_kills_a_mutant_that_refuses_every_right_generation(tmp_path: Path) -> None:
    path = Path("coordinator/classic/member_checks.py")
    original = (ROOT / path).read_bytes()
    [mutation] = [
        each for each in mutations_of(path, original) if each.before == "generation_id != group.generation_id"
    ]
    copy = ProjectCopy(tmp_path)
    with copy.mutated(mutation):
        verdicts = [
            judge(copy, range(FIRST_SEED, FIRST_SEED + 20))
            for judge in (judge_by_lab, judge_by_stories, judge_by_tests)
        ]
    assert [each.outcome for each in verdicts] == ["killed"] * 3
    assert (copy.folder / path).read_bytes() == original
