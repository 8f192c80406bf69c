"""The differences between cells of a campaign, run by run with the same seed. No test needs Spark."""

from random import Random
from statistics import NormalDist, fmean

import pytest

from regroup.pipeline.campaign.grid import Campaign
from regroup.pipeline.report.paired_differences import MEASURES, bootstrap_interval, measured, paired_differences

CAMPAIGN = Campaign("?", "", 4, {"protocol": ["consumer", "eager"], "scenario": ["crashes", "scale-out"]})


def run(protocol: str, scenario: str, seed: int, ownerless_s: float | None) -> dict[str, object]:
    cell = f"protocol={protocol},scenario={scenario}"
    measures = {**dict.fromkeys(MEASURES, 0.0), "disturbed_ownerless_s": ownerless_s}
    return {"cell": cell, "seed": seed, "processed": 9, **measures}


def test_a_cell_is_compared_with_the_first_value_where_all_else_is_equal_and_seed_by_seed() -> None:
    rows = [run("consumer", "crashes", seed, 100.0 * seed) for seed in range(4)]
    rows += [run("eager", "crashes", seed, 100.0 * seed + 5 + seed % 2) for seed in (0, 1, 2)]
    rows += [run("eager", "crashes", 3, None), run("eager", "scale-out", 0, 7.0)]
    found = {each.measure: each for each in paired_differences(CAMPAIGN, measured(rows))}
    difference = found["disturbed_ownerless_s"]
    assert (difference.cell, difference.baseline) == (
        "protocol=eager,scenario=crashes",
        "protocol=consumer,scenario=crashes",
    )
    assert difference.pairs == 3
    assert difference.mean_difference == pytest.approx(16 / 3)
    assert 5 <= difference.low < difference.mean_difference < difference.high <= 6
    assert len(found) == len(MEASURES), "one cell of the other scenario has no run to compare with"


def test_runs_without_records_are_not_compared_by_records_that_were_processed_again() -> None:
    rows = [
        run(protocol, "crashes", seed, 1.0) | {"processed": 0}
        for protocol in CAMPAIGN.grid["protocol"]
        for seed in (0, 1)
    ]
    found = {each.measure for each in paired_differences(CAMPAIGN, measured(rows))}
    assert found == {*MEASURES} - {"processed_twice"}


def test_the_interval_of_equal_differences_is_one_value() -> None:
    assert bootstrap_interval([3.0] * 12) == (3.0, 3.0)


def test_the_interval_is_about_that_of_a_normal_distribution() -> None:
    random = Random(1)
    values = [random.gauss(10, 4) for _ in range(400)]
    low, high = bootstrap_interval(values)
    half = NormalDist().inv_cdf(0.975) * 4 / 400**0.5
    assert low == pytest.approx(fmean(values) - half, abs=0.1)
    assert high == pytest.approx(fmean(values) + half, abs=0.1)
