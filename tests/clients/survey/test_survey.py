"""The survey: what is kept fits what is said, the page is the one of the kept cells, and a run with a real client."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.clients.survey.faults import CUT_ANSWER, FAULTS
from tests.clients.survey.outcome import outcome_of
from tests.clients.survey.page import PAGE, page
from tests.clients.survey.profile import RUNS
from tests.clients.survey.programs.starting import PROGRAMS, WITHOUT_STATIC_MEMBERS
from tests.clients.survey.progress import Step, missing_steps, survey
from tests.clients.survey.results import Cell, WorkFolder, cell_of, read_cells

CELLS = list(read_cells())
ROOT = Path(__file__).parents[3]


def test_every_client_meets_every_fault_as_often_as_the_page_says() -> None:
    has_cut_answers = any(cell.fault == CUT_ANSWER for cell in CELLS)
    expected = {
        (client, name): RUNS
        for client in PROGRAMS
        for name, fault in FAULTS.items()
        if not (fault.is_static and client in WITHOUT_STATIC_MEMBERS) and (name != CUT_ANSWER or has_cut_answers)
    }
    assert {(cell.client, cell.fault): len(cell.outcomes) for cell in CELLS} == expected


@pytest.mark.parametrize("cell", CELLS, ids=lambda cell: f"{cell.client}-{cell.fault}")
def test_the_kept_run_shows_what_the_cell_says(cell: Cell) -> None:
    assert outcome_of(cell.kept) in cell.outcomes
    hit, fault = cell.kept.requests[cell.kept.hit], FAULTS[cell.fault]
    assert hit.at_ms == 0
    assert hit.fault if fault.rule else hit.answer in fault.evidence or hit.api in fault.seen_by


def test_the_page_is_that_of_the_kept_cells() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(CELLS)


def test_no_address_of_a_machine_is_kept() -> None:
    for cell in CELLS:
        assert not {"bootstrap.servers", "bootstrap_servers"} & set(cell.settings)


def test_a_kept_cell_is_shown() -> None:
    command = [sys.executable, "-m", "tests.clients.survey", "--show", "librdkafka", "lost-sync-answer"]
    shown = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert shown.startswith("librdkafka ")
    assert "SyncGroup" in shown
    assert "<- hit" in shown


def test_an_interrupted_survey_goes_on_with_what_is_missing(tmp_path: Path) -> None:
    work = WorkFolder(tmp_path)
    steps = list(missing_steps(work, ["java", "kafkajs"], ["unknown-member", "fenced-static-member"], 2))
    assert steps == [
        *[
            Step("java", "unknown-member", 0),
            Step("kafkajs", "unknown-member", 0),
            Step("java", "fenced-static-member", 0),
        ],
        *[
            Step("java", "unknown-member", 1),
            Step("kafkajs", "unknown-member", 1),
            Step("java", "fenced-static-member", 1),
        ],
    ], "a first run of each cell comes before a second one; kafkajs has no static members"
    kept = next(cell.kept for cell in CELLS if (cell.client, cell.fault) == ("java", "unknown-member"))
    work.save(kept, 0)
    assert steps[0] not in list(missing_steps(work, ["java"], ["unknown-member"], 2))


def test_a_librdkafka_repeats_a_commit_whose_answer_was_lost(tmp_path: Path) -> None:
    assert survey(tmp_path, [Step("librdkafka", "commit-applied-closed", 0)]) == []
    (run,) = WorkFolder(tmp_path / "runs").runs("librdkafka", "commit-applied-closed", 1)
    cell = cell_of([run])
    assert "committed twice" in cell.outcomes[0].steps
    assert cell.outcomes[0].recovered_ms is not None


@pytest.mark.slow
@pytest.mark.parametrize("client", PROGRAMS)
def test_each_client_returns_after_its_removal(client: str, tmp_path: Path) -> None:
    assert survey(tmp_path, [Step(client, "unknown-member", 0)]) == []
    saved = json.loads((tmp_path / "runs" / client / "unknown-member-0.json").read_text())
    assert saved["requests"][saved["hit"]]["answer"] == "UNKNOWN_MEMBER_ID"
