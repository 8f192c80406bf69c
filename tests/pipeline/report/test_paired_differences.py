"""The differences between cells of a campaign, run by run with the same seed. No test needs Spark."""

from statistics import NormalDist

import numpy as np
import pytest

from regroup.pipeline.campaign.grid import Campaign
from regroup.pipeline.report.paired_differences import (
    MEASURES,
    MIN_TRUSTED_PAIRS,
    critical_value,
    means_and_errors,
    measured,
    paired_differences,
    pairs_needed,
)

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
    assert difference.low < difference.mean_difference < difference.high
    assert len(found) == len(MEASURES), "one cell of the other scenario has no run to compare with"


def test_runs_without_records_are_not_compared_by_records_that_were_processed_again() -> None:
    rows = [
        run(protocol, "crashes", seed, 1.0) | {"processed": 0}
        for protocol in CAMPAIGN.grid["protocol"]
        for seed in (0, 1)
    ]
    found = {each.measure for each in paired_differences(CAMPAIGN, measured(rows))}
    assert found == {*MEASURES} - {"processed_twice"}


def test_removals_of_live_members_are_compared_where_both_runs_know_them() -> None:
    rows = [run("consumer", "crashes", seed, 1.0) | {"live_removals": 1} for seed in range(4)]
    rows += [run("eager", "crashes", seed, 1.0) | {"live_removals": 3} for seed in range(3)]
    rows.append(run("eager", "crashes", 3, 1.0) | {"live_removals": None})
    found = {each.measure: each for each in paired_differences(CAMPAIGN, measured(rows))}
    assert found["live_removals"][3:5] == (3, 2.0)


def test_the_interval_of_equal_differences_is_one_value() -> None:
    rows = [run("consumer", "crashes", seed, 1.0) for seed in range(4)]
    rows += [run("eager", "crashes", seed, 4.0) for seed in range(4)]
    found = {each.measure: each for each in paired_differences(CAMPAIGN, measured(rows))}
    assert found["disturbed_ownerless_s"][4:] == (3.0, 3.0, 3.0, 2)
    assert found["convergence_s"][4:] == (0.0, 0.0, 0.0, None)


def test_one_comparison_has_the_interval_of_a_normal_distribution() -> None:
    random = np.random.default_rng(1)
    assert critical_value(random.normal(10, 4, (1, 400))) == pytest.approx(NormalDist().inv_cdf(0.975), abs=0.1)


def test_many_independent_comparisons_have_wider_intervals_and_copies_of_one_do_not() -> None:
    random = np.random.default_rng(1)
    rows = random.normal(0, 1, (50, 400))
    of_each_alone = 0.95 ** (1 / 50)
    assert critical_value(rows) == pytest.approx(NormalDist().inv_cdf((1 + of_each_alone) / 2), abs=0.15)
    assert critical_value(np.repeat(rows[:1], 50, axis=0)) == pytest.approx(critical_value(rows[:1]))


def held_campaigns(pairs: int) -> int:
    """In how many of a hundred campaigns the intervals of eight comparisons hold all true means."""
    random = np.random.default_rng(2)
    held = 0
    for _ in range(100):
        rows = random.exponential(1, (8, pairs)) - random.exponential(1, (8, pairs))
        means, errors, _ = means_and_errors(rows)
        held += bool(np.all(np.abs(means) <= errors * critical_value(rows, resamples=300)))
    return held


def test_simultaneous_intervals_hold_all_true_means_of_nineteen_campaigns_in_twenty() -> None:
    assert 88 <= held_campaigns(pairs=40) <= 100


def test_with_fewer_pairs_than_are_trusted_the_intervals_are_too_narrow() -> None:
    assert held_campaigns(MIN_TRUSTED_PAIRS) >= 85
    assert held_campaigns(pairs=5) <= 70
    assert held_campaigns(pairs=2) == 0


def test_a_missing_run_takes_part_in_no_mean() -> None:
    rows = np.array([[1.0, 3.0, np.nan, 2.0], [5.0, 6.0, 7.0, 8.0]])
    means, errors, pairs = means_and_errors(rows)
    assert [*means] == [2.0, 6.5]
    assert [*pairs] == [3, 4]
    assert errors[0] == pytest.approx(1 / 3**0.5)
    assert critical_value(rows) > 0


def test_the_pairs_needed_fall_with_the_square_of_the_difference() -> None:
    assert pairs_needed(mean=10.0, width=5.0, pairs=100) == 25
    assert pairs_needed(mean=5.0, width=5.0, pairs=100) == 100
    assert pairs_needed(mean=1.0, width=5.0, pairs=100) == 2_500
    assert pairs_needed(mean=100.0, width=1.0, pairs=100) == 2
