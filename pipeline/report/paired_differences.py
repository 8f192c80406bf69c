"""Differences between the cells of a campaign, run by run with the same seed, with bootstrap intervals.

The first value of the grid's first option is the baseline; each other value is compared with it where all other options
are the same. Many comparisons find some difference by chance, so the intervals are simultaneous: in 95 % of campaigns
every one of them holds its true mean. They are those of the studentized bootstrap: the seeds are drawn with repetition,
the same for all comparisons, and an interval is as many standard errors wide as the most distant of all means is.
"""

from collections.abc import Iterable, Iterator, Mapping
from itertools import product
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from regroup.pipeline.campaign.grid import Campaign, CampaignRun

MEASURES: Final[Mapping[str, str]] = {
    "disturbed_ownerless_s": "partition-seconds without an owner",
    "processed_twice": "records processed again",
    "convergence_s": "seconds to convergence",
    "live_removals": "removals of members whose processes went on",
}
"""The columns of `DIR/runs` that are compared, with their names."""
RESAMPLES: Final = 2_000
CONFIDENCE: Final = 0.95
MIN_PAIRS: Final = 2
MIN_TRUSTED_PAIRS: Final = 15
"""With fewer pairs the bootstrap's intervals are too narrow: those of five pairs hold all true means of eight skewed
comparisons in 61 of 100 campaigns, those of two in none."""

Measured = Mapping[tuple[str, int], Mapping[str, Any]]
"""The measures of each run, by the name of its cell and its seed."""
Matrix = NDArray[np.float64]


class PairedDifference(NamedTuple):
    """How much a cell exceeds the cell with the baseline in one measure, as mean over the seeds, with its interval."""

    cell: str
    baseline: str
    """The name of the cell that it is compared with."""
    measure: str
    pairs: int
    """The number of seeds of which both cells have a run."""
    mean_difference: float
    low: float
    high: float
    """The interval of the mean difference, from `low` to `high`."""
    pairs_needed: int | None
    """With so many pairs of the same spread the interval begins to exclude 0; None if the mean difference is 0."""


class Comparison(NamedTuple):
    """A cell, the cell with the baseline that it is compared with, and the measure."""

    cell: str
    baseline: str
    measure: str


def paired_differences(campaign: Campaign, runs: Measured) -> list[PairedDifference]:
    """The result of every comparison for which both cells have runs with the same seeds."""
    rows = [(each, differences_by_seed(runs, each, campaign.seeds)) for each in comparisons(campaign)]
    found = [(each, row) for each, row in rows if np.count_nonzero(~np.isnan(row)) >= MIN_PAIRS]
    if not found:
        return []
    matrix = np.array([row for _, row in found])
    means, errors, pairs = means_and_errors(matrix)
    widths = errors * critical_value(matrix)
    return [
        PairedDifference(
            *each,
            pairs=int(count),
            mean_difference=float(mean),
            low=float(mean - width),
            high=float(mean + width),
            pairs_needed=pairs_needed(float(mean), float(width), int(count)),
        )
        for (each, _), mean, width, count in zip(found, means, widths, pairs, strict=True)
    ]


def comparisons(campaign: Campaign) -> Iterator[Comparison]:
    """Yield the comparisons: in each measure, each cell with the one that differs from it in the first option alone.

    The latter has the first value of that option, the baseline.
    """
    if not campaign.grid:
        return
    first, *others = campaign.grid
    baseline, *values = campaign.grid[first]
    for measure in MEASURES:
        for rest in product(*(campaign.grid[name] for name in others)):
            where = dict(zip(others, rest, strict=True))
            for value in values:
                cell, other = (CampaignRun({first: each, **where}, 0).cell_name for each in (value, baseline))
                yield Comparison(cell, other, measure)


def differences_by_seed(runs: Measured, comparison: Comparison, seeds: int) -> Matrix:
    """The difference between the two cells for each seed; NaN if a run or its measure is missing."""
    cells = (comparison.cell, comparison.baseline)
    values = [
        [runs.get((cell, seed), {}).get(comparison.measure) for seed in range(seeds)]  # None becomes NaN below
        for cell in cells
    ]
    of_cell, of_baseline = np.array(values, dtype=np.float64)
    difference: Matrix = of_cell - of_baseline
    return difference


def means_and_errors(matrix: Matrix) -> tuple[Matrix, Matrix, Matrix]:
    """The mean of each row, its standard error, and the number of its values that are not NaN."""
    pairs = np.count_nonzero(~np.isnan(matrix), axis=1)
    return np.nanmean(matrix, axis=1), np.nanstd(matrix, axis=1, ddof=1) / np.sqrt(pairs), pairs


def critical_value(matrix: Matrix, resamples: int = RESAMPLES) -> float:
    """How many standard errors wide each half of the intervals must be: the 95th percentile, over samples of the seeds
    drawn with repetition, of the largest distance of a row's mean from the mean that was found. Rows are comparisons,
    columns are seeds. Rows whose values are all equal are left out; 0 if all are.
    """
    means, errors, pairs = means_and_errors(matrix)
    vary = errors > 0
    if not vary.any():
        return 0.0
    rows, means, errors, pairs = matrix[vary], means[vary], errors[vary], pairs[vary]
    is_known = ~np.isnan(rows)
    centred = np.where(is_known, rows - means[:, None], 0.0)
    random = np.random.default_rng(matrix.shape[1])
    distances = np.empty(resamples)
    for number in range(resamples):
        drawn = random.integers(0, matrix.shape[1], matrix.shape[1])
        weights = np.bincount(drawn, minlength=matrix.shape[1]).astype(np.float64)
        known = np.maximum(is_known @ weights, 1)
        distances[number] = np.max(np.abs(centred @ weights / known) / errors)
    return float(np.quantile(distances, CONFIDENCE))


def pairs_needed(mean: float, width: float, pairs: int) -> int | None:
    """How many pairs of runs with the same spread are needed for an interval that excludes 0; None if the mean is 0.

    An interval's width falls with the square root of the number of pairs.
    """
    return max(MIN_PAIRS, int(np.ceil(pairs * (width / mean) ** 2))) if mean else None


def measured(rows: Iterable[Any]) -> Measured:
    """The measures of each row of `DIR/runs`, by cell and seed."""
    return {(row["cell"], row["seed"]): measures_of(row) for row in rows}


def measures_of(row: Any) -> dict[str, Any]:
    """The measures in a row of `DIR/runs`. A run that processed no records has None for those processed twice."""
    found = {name: row[name] for name in MEASURES}
    return found if row["processed"] else found | {"processed_twice": None}
