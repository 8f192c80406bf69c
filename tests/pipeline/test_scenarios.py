"""A campaign's plan as it is read: whatever would end in a trace, or in a wrong answer, is told in words."""

import re
from pathlib import Path

import pytest

from regroup.lab.simulation.world import play
from regroup.pipeline.campaign.grid import BadCampaign, Run, read_campaign
from regroup.pipeline.campaign.scenarios import LIMITS, SCENARIOS, Options


def read(folder: Path, *, grid: str = "{}", fixed: str = "{}", scenario: str = "crashes", seeds: str = "1") -> None:
    plan = folder / "plan.yaml"
    plan.write_text(f"question: '?'\nscenario: {scenario}\nseeds: {seeds}\ngrid: {grid}\nfixed: {fixed}\n")
    read_campaign(plan)


@pytest.mark.parametrize(
    ("grid", "said"),
    [
        ("{members: [3, 0]}", "in the cell members=0: members must be from 1 to 1,000, not 0"),
        ("{between_ms: [0]}", "between_ms must be from 1 to 3,600,000, not 0"),
        ("{crashes: [-1]}", "crashes must be from 0 to 1,000, not -1"),
        ("{pause_ms: [0]}", "pause_ms must be from 1 to 3,600,000, not 0"),
        ("{session_timeout_ms: [500]}", "session_timeout_ms must be from 1,000 to 1,800,000, not 500"),
        ("{session_timeout_ms: [9000000]}", "session_timeout_ms must be from 1,000 to 1,800,000, not 9,000,000"),
        ("{latency_ms: [-5]}", "latency_ms must be from 0 to 10,000, not -5"),
        ("{latency_ms: [.nan]}", "latency_ms must be from 0 to 10,000, not nan"),
        ("{partitions: [-1]}", "partitions must be from 1 to 10,000, not -1"),
        ("{members: [true]}", "members takes a whole number, not True"),
        ("{static: [1]}", "static takes true or false, not 1"),
        ("{latency_ms: [quick]}", "latency_ms takes a number, not 'quick'"),
        ("{assignor: [range, rang]}", "in the cell assignor=rang: there is no assignor rang; known are"),
        ("{members: [3, 3]}", "the grid has members 3 twice"),
        ("{jitter_ms: [1, 1.0]}", "the grid has jitter_ms 1.0 twice"),
        ("{members: []}", "every name of the grid needs a value"),
    ],
)
def test_a_value_that_cannot_be_meant_is_told_with_its_cell(tmp_path: Path, grid: str, said: str) -> None:
    with pytest.raises(BadCampaign) as told:
        read(tmp_path, grid=grid)
    assert said in str(told.value)


def test_a_name_in_the_grid_and_fixed_too_is_told(tmp_path: Path) -> None:
    with pytest.raises(BadCampaign, match="members is in the grid and fixed, too: leave one of them out"):
        read(tmp_path, grid="{members: [2, 3]}", fixed="{members: 4}")


def test_a_grid_of_scenarios_has_cells_of_each(tmp_path: Path) -> None:
    plan = tmp_path / "plan.yaml"
    plan.write_text(
        "question: What costs more?\nseeds: 2\nfixed: {members: 2, partitions: 2, crashes: 1}\n"
        "grid: {scenario: [crashes, rolling-restart], assignor: [range, sticky]}\n"
    )
    campaign = read_campaign(plan)
    assert [run.name for run in campaign.runs(0, 2)] == [
        "scenario=crashes,assignor=range,seed=0",
        "scenario=crashes,assignor=sticky,seed=0",
    ]
    assert [len(campaign.plan(run).happenings) for run in campaign.runs(0, 4)] == [3, 3, 4, 4]


@pytest.mark.parametrize(
    ("grid", "scenario", "said"),
    [
        ("{scenario: [crashes]}", "crashes", "the scenario is told twice"),
        ("{scenario: [crashes, crash]}", "", "there is no scenario 'crash'; there are"),
        ("{scenario: [[crashes]]}", "", "there is no scenario"),
        ("{}", "", "there is no scenario ''; there are"),
    ],
)
def test_a_scenario_is_told_once(tmp_path: Path, grid: str, scenario: str, said: str) -> None:
    with pytest.raises(BadCampaign, match=re.escape(said)):
        read(tmp_path, grid=grid, scenario=f"'{scenario}'")


def test_one_member_cannot_die_and_pause_as_well(tmp_path: Path) -> None:
    with pytest.raises(BadCampaign, match="in the cell members=1: one member dies and others pause: take 2 members"):
        read(tmp_path, grid="{members: [2, 1]}", fixed="{pauses: 1}", scenario="slow-network")
    read(tmp_path, grid="{members: [2, 1]}", scenario="slow-network")


@pytest.mark.parametrize(
    ("grid", "seeds"), [(f"{{members: {[*range(1, 101)]}, partitions: {[*range(1, 101)]}}}", "1"), ("{}", "10000001")]
)
def test_more_than_anybody_could_read_is_refused_at_once(tmp_path: Path, grid: str, seeds: str) -> None:
    with pytest.raises(BadCampaign, match="at most 1,000 cells and 10,000,000 runs: ask for fewer"):
        read(tmp_path, grid=grid, seeds=seeds)


@pytest.mark.parametrize("scenario", SCENARIOS)
@pytest.mark.parametrize("name", LIMITS)
def test_both_limits_of_each_number_make_a_plan(tmp_path: Path, scenario: str, name: str) -> None:
    least, most = LIMITS[name]
    if (scenario, name) != ("slow-network", "pauses"):
        read(tmp_path, grid=f"{{{name}: [{least}, {most}]}}", scenario=scenario)
    read(tmp_path, grid=f"{{{name}: [{most}]}}", scenario=scenario)


@pytest.mark.parametrize("session_timeout_ms", LIMITS["session_timeout_ms"])
def test_at_both_limits_of_the_session_timeout_the_group_is_stable_and_nothing_is_broken(
    session_timeout_ms: int,
) -> None:
    """Even where the dead are missed only after the session's half hour."""
    options = Options(members=2, partitions=2, session_timeout_ms=session_timeout_ms)
    verdict = play(SCENARIOS["slow-network"](options, 1)).verdict
    assert verdict.counts.rebalances
    assert not verdict.broken


def test_the_name_of_a_run_is_its_cell_and_its_seed() -> None:
    assert Run({"members": 2, "static": True}, 3).name == "members=2,static=True,seed=3"
    assert Run({}, 3).name == "seed=3"


def test_the_plans_that_come_with_the_pipeline_can_be_read() -> None:
    plans = sorted((Path(__file__).parent.parent.parent / "pipeline" / "plans").glob("*.yaml"))
    assert len([read_campaign(plan) for plan in plans]) == 3
