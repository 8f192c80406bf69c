"""What docs/chaos.md and docs/mutants.md say of the mutants, beside the verdicts in `judged.jsonl.gz`."""

import gzip
import re
from pathlib import Path

import pytest

from tests.mutants.results import Verdicts, is_killed, read_trials
from tests.mutants.sites import KINDS, Mutation

ROOT = Path(__file__).parents[2]
COUNTS = re.compile(r"^\| ([a-z ]+) \| (\d+) \| (\d+) \| (\d+) \| (\d+) \| (\d+) \|$", re.MULTILINE)
SECTIONS = re.compile(r"^## (.+?)\n(.*?)(?=^## |\Z)", re.MULTILINE | re.DOTALL)
ROW = re.compile(r"^\| `([\w/]+\.py)`(?:, `([^`]+)`)? \| (removed: )?`(.+?)`(?: → `(.+?)`)? \| ", re.MULTILINE)
KILLED_SECTION = "Killed by the rules and situations that were added"


@pytest.fixture(scope="module")
def trials(tmp_path_factory: pytest.TempPathFactory) -> Verdicts:
    file = tmp_path_factory.mktemp("mutants") / "judged.jsonl"
    file.write_bytes(gzip.decompress((ROOT / "tests" / "mutants" / "judged.jsonl.gz").read_bytes()))
    return read_trials(file)


def test_the_counts_of_each_table_of_mutants_add_up() -> None:
    page = (ROOT / "docs" / "chaos.md").read_text("utf-8").partition("### Mutants")[2]
    rows = [(name, [*map(int, counts)]) for name, *counts in COUNTS.findall(page)]
    assert len(rows) % (len(KINDS) + 1) == 0
    assert len(rows) >= len(KINDS) + 1
    for first in range(0, len(rows), len(KINDS) + 1):
        *kinds, (name, all_counts) = rows[first : first + len(KINDS) + 1]
        assert ([each for each, _ in kinds], name) == ([*KINDS], "all")
        assert [sum(column) for column in zip(*(counts for _, counts in kinds), strict=True)] == all_counts
        for judged, lab, stories, tests, survivors in (counts for _, counts in (*kinds, (name, all_counts))):
            # Stories and tests may kill the same mutant.
            assert max(stories, tests) <= judged - lab - survivors <= stories + tests


def shown(text: str) -> str:
    """The beginning of a text as a row shows it, without the dots of one that is cut off."""
    return " ".join(text.split()).removesuffix("…")


def is_of(mutation: Mutation, row: tuple[str, ...]) -> bool:
    path, function, removed, before, after = row
    return (
        (mutation.path, mutation.function) == (path, function)
        and (mutation.kind == "removed statement") == bool(removed)
        and shown(mutation.before).startswith(shown(before))
        and (bool(removed) or shown(mutation.after).startswith(shown(after)))
    )


def test_each_mutant_of_the_page_is_in_the_file_with_its_verdict(trials: Verdicts) -> None:
    page = (ROOT / "docs" / "mutants.md").read_text("utf-8")
    rows = {heading: ROW.findall(text) for heading, text in SECTIONS.findall(page)}
    listed = {
        heading: int(count) for heading, count in re.findall(r"^\| ([A-Z][^|]+) \| (\d+) \|$", page, re.MULTILINE)
    }
    # Of those that were refuted some are of other versions than the one whose verdicts the file has.
    refuted = listed.pop("Called equivalent once, and refuted")
    assert {heading: len(rows[heading]) for heading in listed} == listed
    judged = [each["lab"] for each in trials.values() if "lab" in each]
    for heading in listed:
        for row in rows[heading]:
            verdicts = [is_killed({"lab": each}, "lab") for each in judged if is_of(each.mutation, row)]
            assert (heading == KILLED_SECTION) in verdicts, row
    in_the_file = [any(is_of(each.mutation, row) for each in judged) for row in rows["Called equivalent, and refuted"]]
    assert sum(in_the_file) >= refuted
