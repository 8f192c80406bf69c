"""The definition of a campaign: a question, a scenario, a grid of options, and the number of seeds of each cell.

`read_campaign` checks the definition completely, so nothing invalid is found only when simulations run.
"""

from collections.abc import Iterator
from itertools import product
from math import prod
from pathlib import Path
from typing import Any, Final

import msgspec
import yaml

from regroup.lab.plan.plan import SimulationPlan
from regroup.lab.plan.validation import check_plan
from regroup.pipeline.campaign.options import parse_options
from regroup.pipeline.campaign.scenarios import SCENARIOS

MAX_CELLS: Final = 1_000
"""The most cells of a campaign. Every cell is checked before the first run, and becomes a bar in the report's plots."""
MAX_RUNS: Final = 10_000_000


class InvalidCampaign(ValueError):
    """Raised for an invalid campaign file, and for an output folder that holds another campaign."""


class CampaignRun(msgspec.Struct, frozen=True):
    """One simulation of a campaign: a cell, which is a combination of option values, and a seed."""

    cell: dict[str, Any]
    seed: int

    @property
    def cell_name(self) -> str:
        """The options of the run's cell as text, such as `assignor=range`; the same for all runs of the cell."""
        return ",".join(f"{key}={value}" for key, value in self.cell.items())

    @property
    def name(self) -> str:
        """The name of the run, unique in the campaign: options and seed, such as `assignor=range,seed=7`."""
        return ",".join(filter(None, [self.cell_name, f"seed={self.seed}"]))


class Campaign(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The content of a campaign's file.

    Each combination of the values in `grid` is a cell; the options in `fixed` are the same in all cells.
    """

    question: str
    scenario: str = ""
    """The scenario of all cells; empty if `scenario` is an option of the grid."""
    seeds: int = 0
    """The number of runs of each cell. Their seeds are 0 to `seeds` - 1."""
    grid: dict[str, list[Any]] = {}
    fixed: dict[str, Any] = {}

    @property
    def cells(self) -> list[dict[str, Any]]:
        """All cells in the order of the file: from one cell to the next the value of the last option changes first."""
        return [dict(zip(self.grid, values, strict=True)) for values in product(*self.grid.values())]

    @property
    def run_count(self) -> int:
        """The number of runs of the whole campaign."""
        return self.seeds * prod(map(len, self.grid.values()))

    def runs(self, first: int = 0, last: int | None = None) -> Iterator[CampaignRun]:
        """Yield the runs with the numbers `first` to `last` - 1, by default to the end.

        They are numbered by seed: all cells with seed 0, then all cells with seed 1, and so on. So an unfinished
        campaign has runs of all cells.
        """
        cells = self.cells
        for number in range(first, self.run_count if last is None else last):
            yield CampaignRun(cells[number % len(cells)], number // len(cells))

    def plan(self, run: CampaignRun) -> SimulationPlan:
        """The simulation plan for a run, made by the run's scenario."""
        options = {**self.fixed, **run.cell}
        scenario = options.pop("scenario", self.scenario)
        return SCENARIOS[scenario](parse_options(options), run.seed)


def read_campaign(path: Path) -> Campaign:
    """Read and check the campaign in a YAML file. Raises InvalidCampaign."""
    try:
        campaign = msgspec.convert(yaml.safe_load(path.read_text(encoding="utf-8")), Campaign)
        check_campaign(campaign)
    except OSError as error:
        raise InvalidCampaign(f"{path} cannot be read: {error.strerror}.") from error
    except (yaml.YAMLError, msgspec.ValidationError, ValueError) as error:
        raise InvalidCampaign(f"{path}: {str(error).removesuffix('.')}.") from error
    return campaign


def check_campaign(campaign: Campaign) -> None:
    """Raise ValueError if some cell has no valid plan, the campaign is too large, or two runs would have one name."""
    check_scenarios(campaign)
    if campaign.seeds < 1 or not campaign.run_count:
        raise ValueError("seeds must be at least 1, and every option of the grid needs a value")
    cell_count = campaign.run_count // campaign.seeds
    if campaign.run_count > MAX_RUNS or cell_count > MAX_CELLS:
        raise ValueError(
            f"{cell_count:,} cells and {campaign.run_count:,} runs are too many, a campaign has at most "
            f"{MAX_CELLS:,} cells and {MAX_RUNS:,} runs: ask for fewer values or seeds"
        )
    for name, values in campaign.grid.items():
        if name in campaign.fixed:
            raise ValueError(f"{name} is in the grid and in fixed: remove one of them")
        for number, value in enumerate(values):
            if value in values[:number]:
                raise ValueError(f"the grid has {name} {value} twice: remove one of them")
    for cell in campaign.cells:
        run = CampaignRun(cell, 0)
        try:
            check_plan(campaign.plan(run))
        except ValueError as error:
            where = f"in the cell {run.cell_name}: " if cell else ""
            raise ValueError(f"{where}{error}") from error


def check_scenarios(campaign: Campaign) -> None:
    """Raise ValueError unless each scenario is known, and `scenario` is given either by itself or in the grid."""
    if "scenario" in campaign.fixed or (campaign.scenario and "scenario" in campaign.grid):
        raise ValueError("the scenario is given twice: write it beside `seeds`, or in the grid only")
    for scenario in campaign.grid.get("scenario", [campaign.scenario]):
        if scenario not in [*SCENARIOS]:  # a value of any type, also an unhashable one
            raise ValueError(f"unknown scenario {scenario!r}; scenarios: {', '.join(SCENARIOS)}")


def find_run(campaign: Campaign, name: str) -> CampaignRun:
    """The run with this name, such as `assignor=range,seed=7`. Raises InvalidCampaign if the campaign has none."""
    for run in campaign.runs():
        if run.name == name:
            return run
    raise InvalidCampaign(f"unknown run {name!r} of this campaign; one of its runs: {next(campaign.runs()).name!r}")
