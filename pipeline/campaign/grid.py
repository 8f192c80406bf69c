"""A campaign's plan: a question, a scenario, a grid of what varies, and how many seeds of each cell.

Whatever is wrong with it is told when it is read, long before anything is simulated.
"""

from collections.abc import Iterator
from itertools import product
from math import prod
from pathlib import Path
from typing import Any, Final

import msgspec
import yaml

from regroup.lab.plan.plan import Plan
from regroup.lab.plan.validation import check_plan
from regroup.pipeline.campaign.scenarios import SCENARIOS, options_of

MOST_CELLS: Final = 1_000
"""Every cell is looked at before the first is simulated, and nobody reads a report of more."""
MOST_RUNS: Final = 10_000_000


class BadCampaign(ValueError):
    """The file does not say what to simulate, or says it wrongly; or its folder cannot take what it asks for."""


class Campaign(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a campaign's file holds. The grid is every combination of the values; `fixed` is the same in all cells."""

    question: str
    scenario: str = ""
    """Of all cells; empty if the grid varies it."""
    seeds: int = 0
    """Runs of each cell."""
    grid: dict[str, list[Any]] = {}
    fixed: dict[str, Any] = {}

    @property
    def cells(self) -> list[dict[str, Any]]:
        """In the order of the file, the last name's values changing fastest."""
        return [dict(zip(self.grid, values, strict=True)) for values in product(*self.grid.values())]

    @property
    def size(self) -> int:
        """Runs of all cells."""
        return self.seeds * prod(map(len, self.grid.values()))

    def runs(self, first: int = 0, last: int | None = None) -> Iterator["Run"]:
        """Every cell with seed 0, every cell with seed 1, …: so that an unfinished campaign has seen all cells.

        One after the other, from `first` to before `last` of them: there may be a million.
        """
        cells = self.cells
        for number in range(first, self.size if last is None else last):
            yield Run(cells[number % len(cells)], number // len(cells))

    def plan(self, run: "Run") -> Plan:
        """What the lab is to play."""
        options = {**self.fixed, **run.cell}
        scenario = options.pop("scenario", self.scenario)
        return SCENARIOS[scenario](options_of(options), run.seed)


class Run(msgspec.Struct, frozen=True):
    """One simulation of a campaign."""

    cell: dict[str, Any]
    seed: int

    @property
    def cell_name(self) -> str:
        """`assignor=range`: what all runs of a cell have in common."""
        return ",".join(f"{key}={value}" for key, value in self.cell.items())

    @property
    def name(self) -> str:
        """`assignor=range,seed=7`: enough to find it again."""
        return ",".join(filter(None, [self.cell_name, f"seed={self.seed}"]))


def read_campaign(path: Path) -> Campaign:
    """Raises BadCampaign."""
    try:
        campaign = msgspec.convert(yaml.safe_load(path.read_text(encoding="utf-8")), Campaign)
        check(campaign)
    except OSError as error:
        raise BadCampaign(f"{path} cannot be read: {error.strerror}.") from error
    except (yaml.YAMLError, msgspec.ValidationError, ValueError) as error:
        raise BadCampaign(f"{path}: {str(error).removesuffix('.')}.") from error
    return campaign


def check(campaign: Campaign) -> None:
    """Raises ValueError for what cannot be simulated, or could not be told apart afterwards."""
    check_scenarios(campaign)
    if campaign.seeds < 1 or not campaign.size:
        raise ValueError("seeds must be at least 1, and every name of the grid needs a value")
    if campaign.size > MOST_RUNS or campaign.size // campaign.seeds > MOST_CELLS:
        raise ValueError(
            f"that is {campaign.size // campaign.seeds:,} cells and {campaign.size:,} runs, and a campaign has at most "
            f"{MOST_CELLS:,} cells and {MOST_RUNS:,} runs: ask for fewer values or seeds"
        )
    for name in campaign.grid:
        check_name(name, campaign)
    for cell in campaign.cells:
        check_cell(Run(cell, 0), campaign)


def check_scenarios(campaign: Campaign) -> None:
    """One for all cells, or several in the grid."""
    if "scenario" in campaign.fixed or (campaign.scenario and "scenario" in campaign.grid):
        raise ValueError("the scenario is told twice: once for all, beside `seeds`, or else in the grid alone")
    for scenario in campaign.grid.get("scenario", [campaign.scenario]):
        if scenario not in [*SCENARIOS]:  # a value from a file may be anything, also a list
            raise ValueError(f"there is no scenario {scenario!r}; there are {', '.join(SCENARIOS)}")


def check_name(name: str, campaign: Campaign) -> None:
    """Each value makes cells of its own, whose runs have names of their own."""
    if name in campaign.fixed:
        raise ValueError(f"{name} is in the grid and fixed, too: leave one of them out")
    values = campaign.grid[name]
    for number, value in enumerate(values):
        if value in values[:number]:
            raise ValueError(f"the grid has {name} {value} twice: leave one of them out")


def check_cell(run: Run, campaign: Campaign) -> None:
    try:
        check_plan(campaign.plan(run))
    except ValueError as error:
        where = f"in the cell {run.cell_name}: " if run.cell else ""
        raise ValueError(f"{where}{error}") from error


def find(campaign: Campaign, name: str) -> Run:
    """The run of this name. Raises BadCampaign."""
    for run in campaign.runs():
        if run.name == name:
            return run
    first = next(campaign.runs())
    raise BadCampaign(f"this campaign has no run {name!r}; one of its runs is {first.name!r}")
