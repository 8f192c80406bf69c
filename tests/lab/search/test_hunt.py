"""Hunts through seeds: in order, over processes, with grouped findings, and stopped in time."""

import pytest

from regroup.lab.search.hunt import EXIT_NOT_RECOVERED, EXIT_NOTHING_FOUND, EXIT_VIOLATION, Findings, hunt
from regroup.lab.search.seed_run import Finding
from tests.lab.search.seed_functions import fails_every_13th, interrupts_at_20, never_fails


def test_findings_are_in_the_order_of_the_seeds_and_grouped_by_sentence() -> None:
    findings = hunt(range(1, 101), 1, fails_every_13th)
    assert findings.played == 100
    assert [each.seed for each in findings.found] == [13, 26, 39, 52, 65, 78, 91]
    assert {sentence: [each.seed for each in found] for sentence, found in findings.by_sentence.items()} == {
        "Odd.": [13, 39, 65, 91],
        "Even.": [26, 52, 78],
    }


@pytest.mark.slow
def test_two_processes_find_the_same_in_the_same_order_as_one() -> None:
    assert hunt(range(1, 101), 2, fails_every_13th) == hunt(range(1, 101), 1, fails_every_13th)


@pytest.mark.quick("[1]")
@pytest.mark.parametrize("jobs", [1, 2])
def test_a_hunt_can_stop_at_the_first_seed_that_fails(jobs: int) -> None:
    findings = hunt(range(1, 101), jobs, fails_every_13th, stop_at_first=True)
    assert ([each.seed for each in findings.found], findings.played) == ([13], 13)


@pytest.mark.parametrize(
    ("stop_at_first", "expected"), [(False, [(1, 0), (2, 1), (3, 1)]), (True, [(1, 0), (2, 1)])], ids=["all", "first"]
)
def test_progress_is_reported_after_every_seed(stop_at_first: bool, expected: list[tuple[int, int]]) -> None:
    reported: list[tuple[int, int]] = []
    hunt(
        range(12, 15),
        1,
        fails_every_13th,
        stop_at_first=stop_at_first,
        on_progress=lambda findings: reported.append((findings.played, len(findings.found))),
    )
    assert reported == expected


@pytest.mark.usefixtures("default_sigint")
@pytest.mark.quick("[1]")
@pytest.mark.parametrize("jobs", [1, 2])
def test_ctrl_c_ends_a_hunt_with_the_findings_so_far(jobs: int, monkeypatch: pytest.MonkeyPatch) -> None:
    if jobs > 1:
        monkeypatch.setenv("IN_CHILD_PROCESS", "in another process")
    findings = hunt(range(1, 101), jobs, interrupts_at_20)
    assert findings.was_interrupted
    assert findings.played < 100
    assert findings.found == [each for each in map(fails_every_13th, range(1, findings.played + 1)) if each]


@pytest.mark.parametrize(
    ("found", "code"),
    [
        ([], EXIT_NOTHING_FOUND),
        ([Finding(1, "Broken.", "")], EXIT_VIOLATION),
        ([Finding(1, "No rest.", "", is_recovery_failure=True)], EXIT_NOT_RECOVERED),
        ([Finding(1, "No rest.", "", is_recovery_failure=True), Finding(2, "Broken.", "")], EXIT_VIOLATION),
    ],
)
def test_the_exit_code_depends_on_the_findings(found: list[Finding], code: int) -> None:
    assert Findings(played=2, found=found).exit_code == code
    assert len({EXIT_NOTHING_FOUND, EXIT_VIOLATION, EXIT_NOT_RECOVERED}) == 3


def test_no_seeds_are_no_findings() -> None:
    assert hunt((), 4, never_fails) == Findings()
