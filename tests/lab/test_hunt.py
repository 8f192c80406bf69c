"""Hunting through seeds: in order, over processes, grouped, and stopped in good time."""

import pytest

from regroup.lab.search.hunt import BATCH, BROKEN, NOT_HEALED, NOTHING_FOUND, Findings, hunt
from regroup.lab.search.trial import Finding
from tests.lab.hunted import interrupted_at_20, never, thirteens


def test_what_is_found_comes_in_the_order_of_the_seeds_and_is_grouped() -> None:
    findings = hunt(range(1, 101), 1, thirteens)
    assert findings.played == 100
    assert [each.seed for each in findings.found] == [13, 26, 39, 52, 65, 78, 91]
    assert {sentence: [each.seed for each in found] for sentence, found in findings.by_sentence.items()} == {
        "Odd.": [13, 39, 65, 91],
        "Even.": [26, 52, 78],
    }


def test_two_processes_find_the_same_in_the_same_order_as_one() -> None:
    assert hunt(range(1, 101), 2, thirteens) == hunt(range(1, 101), 1, thirteens)


@pytest.mark.parametrize("jobs", [1, 2])
def test_it_may_stop_at_the_first_seed_that_fails(jobs: int) -> None:
    findings = hunt(range(1, 101), jobs, thirteens, stop_at_first=True)
    assert ([each.seed for each in findings.found], findings.played) == ([13], 13)


def test_progress_is_told_after_every_batch() -> None:
    told: list[tuple[int, int]] = []
    hunt(range(1, 31), 1, thirteens, progress=lambda findings: told.append((findings.played, len(findings.found))))
    assert told == [(8, 0), (16, 1), (24, 1), (30, 2)]
    assert BATCH == 8


@pytest.mark.usefixtures("heeds_ctrl_c")
@pytest.mark.parametrize("jobs", [1, 2])
def test_ctrl_c_ends_it_with_what_was_found_so_far(jobs: int, monkeypatch: pytest.MonkeyPatch) -> None:
    if jobs > 1:
        monkeypatch.setenv("HUNTED", "in another process")
    findings = hunt(range(1, 101), jobs, interrupted_at_20)
    assert findings.was_interrupted
    assert findings.played < 100
    assert findings.found == [each for each in map(thirteens, range(1, findings.played + 1)) if each]


@pytest.mark.parametrize(
    ("found", "code"),
    [
        ([], NOTHING_FOUND),
        ([Finding(1, "Broken.", "")], BROKEN),
        ([Finding(1, "No rest.", "", is_unrest=True)], NOT_HEALED),
        ([Finding(1, "No rest.", "", is_unrest=True), Finding(2, "Broken.", "")], BROKEN),
    ],
)
def test_the_exit_code_tells_what_was_found(found: list[Finding], code: int) -> None:
    assert Findings(played=2, found=found).exit_code == code
    assert len({NOTHING_FOUND, BROKEN, NOT_HEALED}) == 3


def test_no_seeds_are_no_findings() -> None:
    assert hunt((), 4, never) == Findings()
