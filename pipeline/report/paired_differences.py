"""Differences between the cells of a campaign, run by run with the same seed, with bootstrap intervals.

The first value of the grid's first option is the baseline; each other value is compared with it where all other options
are the same. An interval holds 95 % of the means of as many differences, drawn again and again from those found.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import product
from random import Random
from statistics import fmean
from typing import Any, Final, NamedTuple

from regroup.pipeline.campaign.grid import Campaign, CampaignRun

MEASURES: Final[Mapping[str, str]] = {
    "disturbed_ownerless_s": "partition-seconds without an owner",
    "processed_twice": "records processed again",
    "convergence_s": "seconds to convergence",
}
"""The columns of `DIR/runs` that are compared, with their names."""
RESAMPLES: Final = 2_000
TAIL: Final = 0.025
MIN_PAIRS: Final = 2

Measured = Mapping[tuple[str, int], Mapping[str, Any]]
"""The measures of each run, by the name of its cell and its seed."""


class PairedDifference(NamedTuple):
    """How much more a cell costs than the one with the baseline, in one measure."""

    cell: str
    baseline: str
    """The name of the cell that it is compared with."""
    measure: str
    pairs: int
    """The number of seeds of which both cells have a run."""
    mean_difference: float
    low: float
    high: float
    """The interval of the mean difference, from `low` to `high`: 95 % of the bootstrap's means."""


def paired_differences(campaign: Campaign, runs: Measured) -> Iterator[PairedDifference]:
    """Every comparison for which there are runs of both cells with the same seeds."""
    if not campaign.grid:
        return
    first, *others = campaign.grid
    baseline, *values = campaign.grid[first]
    for measure in MEASURES:
        for rest in product(*(campaign.grid[name] for name in others)):
            where = dict(zip(others, rest, strict=True))
            for value in values:
                cell, other = (CampaignRun({first: each, **where}, 0).cell_name for each in (value, baseline))
                found = [*differences(runs, cell, other, measure, campaign.seeds)]
                if len(found) >= MIN_PAIRS:
                    yield PairedDifference(cell, other, measure, len(found), fmean(found), *bootstrap_interval(found))


def differences(runs: Measured, cell: str, baseline: str, measure: str, seeds: int) -> Iterator[float]:
    for seed in range(seeds):
        values = [runs.get((each, seed), {}).get(measure) for each in (cell, baseline)]
        if values[0] is not None and values[1] is not None:
            yield float(values[0]) - float(values[1])


def bootstrap_interval(values: Sequence[float], resamples: int = RESAMPLES) -> tuple[float, float]:
    """The interval that holds 95 % of the means of samples of the same size, drawn with repetition."""
    random = Random(len(values))
    means = sorted(fmean(random.choices(values, k=len(values))) for _ in range(resamples))
    cut = int(TAIL * resamples)
    return means[cut], means[-1 - cut]


def measured(rows: Iterable[Any]) -> Measured:
    """The rows of `DIR/runs`, by cell and seed."""
    return {(row["cell"], row["seed"]): measures_of(row) for row in rows}


def measures_of(row: Any) -> dict[str, Any]:
    """The measures of a run; one without records has none that were processed again."""
    found = {name: row[name] for name in MEASURES}
    return found if row["processed"] else found | {"processed_twice": None}
