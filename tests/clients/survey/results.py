"""The runs on disk: all of them in a work folder, and what is kept of each cell beside the tests."""

import gzip
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import msgspec

from tests.clients.survey.observation import Run
from tests.clients.survey.outcome import Outcome, outcome_of

OBSERVED: Final = Path(__file__).parent.parent / "observed"
"""One file of JSON lines for each client, one line for each fault, compressed."""


class Cell(msgspec.Struct, frozen=True, kw_only=True):
    """What is kept of one client and one fault."""

    client: str
    fault: str
    version: str
    runtime: str
    settings: dict[str, object]
    outcomes: list[Outcome]
    """One for each run."""
    kept: Run
    """The run whose exchanges are kept: the first that had the most frequent outcome."""


class WorkFolder:
    """All runs, one file each, so that a survey can be interrupted and classified again."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def _path(self, client: str, fault: str, number: int) -> Path:
        return self._folder / client / f"{fault}-{number}.json"

    def has(self, client: str, fault: str, number: int) -> bool:
        return self._path(client, fault, number).exists()

    def save(self, run: Run, number: int) -> None:
        path = self._path(run.client, run.fault, number)
        path.parent.mkdir(parents=True, exist_ok=True)
        unfinished = path.with_suffix(f".{os.getpid()}")
        unfinished.write_bytes(msgspec.json.encode(run))
        unfinished.replace(path)

    def runs(self, client: str, fault: str, count: int) -> list[Run]:
        """The runs that exist, in their order."""
        paths = [self._path(client, fault, number) for number in range(count)]
        return [msgspec.json.decode(path.read_bytes(), type=Run) for path in paths if path.exists()]


def cell_of(runs: list[Run]) -> Cell:
    """What is kept of the runs of a cell."""
    outcomes = [outcome_of(run) for run in runs]
    steps = [each.steps for each in outcomes]
    kept = runs[steps.index(max(steps, key=steps.count))]
    return Cell(
        client=kept.client,
        fault=kept.fault,
        version=kept.version,
        runtime=kept.runtime,
        settings=kept.settings,
        outcomes=outcomes,
        kept=kept,
    )


def write_cells(client: str, cells: list[Cell]) -> None:
    """Write the file of one client."""
    OBSERVED.mkdir(exist_ok=True)
    lines = b"".join(msgspec.json.encode(cell) + b"\n" for cell in cells)
    (OBSERVED / f"{client}.jsonl.gz").write_bytes(gzip.compress(lines, mtime=0))


def read_cells() -> Iterator[Cell]:
    """The cells of all clients that are kept."""
    for path in sorted(OBSERVED.glob("*.jsonl.gz")):
        for line in gzip.decompress(path.read_bytes()).splitlines():
            yield msgspec.json.decode(line, type=Cell)
