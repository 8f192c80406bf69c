"""Reading a campaign's file: a value that would fail later, or give wrong results, is refused with a message."""

import re
from pathlib import Path

import pytest

from regroup.lab.simulation.run import play
from regroup.pipeline.campaign.grid import CampaignRun, InvalidCampaign, read_campaign
from regroup.pipeline.campaign.options import OPTION_LIMITS, ScenarioOptions
from regroup.pipeline.campaign.scenarios import SCENARIOS


def read(folder: Path, *, grid: str = "{}", fixed: str = "{}", scenario: str = "crashes", seeds: str = "1") -> None:
    plan = folder / "plan.yaml"
    plan.write_text(f"question: '?'\nscenario: {scenario}\nseeds: {seeds}\ngrid: {grid}\nfixed: {fixed}\n")
    read_campaign(plan)


@pytest.mark.parametrize(
    ("grid", "message"),
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
        ("{assignor: [range, rang]}", "in the cell assignor=rang: unknown assignor 'rang'; assignors:"),
        ("{members: [3, 3]}", "the grid has members 3 twice"),
        ("{jitter_ms: [1, 1.0]}", "the grid has jitter_ms 1.0 twice"),
        ("{members: []}", "every option of the grid needs a value"),
    ],
)
def test_an_invalid_value_is_refused_with_its_cell(tmp_path: Path, grid: str, message: str) -> None:
    with pytest.raises(InvalidCampaign) as raised:
        read(tmp_path, grid=grid)
    assert message in str(raised.value)


def test_an_option_in_the_grid_and_in_fixed_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidCampaign, match="members is in the grid and in fixed: remove one of them"):
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
    assert [len(campaign.plan(run).steps) for run in campaign.runs(0, 4)] == [3, 3, 4, 4]


@pytest.mark.parametrize(
    ("grid", "scenario", "message"),
    [
        ("{scenario: [crashes]}", "crashes", "the scenario is given twice"),
        ("{scenario: [crashes, crash]}", "", "unknown scenario 'crash'; scenarios:"),
        ("{scenario: [[crashes]]}", "", "unknown scenario"),
        ("{}", "", "unknown scenario ''; scenarios:"),
    ],
)
def test_a_scenario_must_be_known_and_given_once(tmp_path: Path, grid: str, scenario: str, message: str) -> None:
    with pytest.raises(InvalidCampaign, match=re.escape(message)):
        read(tmp_path, grid=grid, scenario=f"'{scenario}'")


def test_brokers_stop_in_the_restarts_of_two_members(tmp_path: Path) -> None:
    with pytest.raises(InvalidCampaign, match=r"in the cell members=1: 2 brokers stop, .*: take 2 members or more"):
        read(tmp_path, grid="{members: [2, 1]}", scenario="failover-restart")


def test_a_scenario_with_pauses_needs_a_second_member(tmp_path: Path) -> None:
    with pytest.raises(
        InvalidCampaign, match="in the cell members=1: one member crashes and others pause: take 2 members"
    ):
        read(tmp_path, grid="{members: [2, 1]}", fixed="{pauses: 1}", scenario="slow-network")
    read(tmp_path, grid="{members: [2, 1]}", scenario="slow-network")


@pytest.mark.parametrize(
    ("grid", "seeds"), [(f"{{members: {[*range(1, 101)]}, partitions: {[*range(1, 101)]}}}", "1"), ("{}", "10000001")]
)
def test_too_many_cells_or_runs_are_refused(tmp_path: Path, grid: str, seeds: str) -> None:
    with pytest.raises(InvalidCampaign, match="at most 1,000 cells and 10,000,000 runs: ask for fewer"):
        read(tmp_path, grid=grid, seeds=seeds)


@pytest.mark.parametrize("scenario", SCENARIOS)
@pytest.mark.parametrize("name", OPTION_LIMITS)
def test_the_limits_of_each_option_make_valid_plans(tmp_path: Path, scenario: str, name: str) -> None:
    minimum, maximum = OPTION_LIMITS[name]
    if (scenario, name) not in (("slow-network", "pauses"), ("failover-restart", "members")):
        read(tmp_path, grid=f"{{{name}: [{minimum}, {maximum}]}}", scenario=scenario)
    read(tmp_path, grid=f"{{{name}: [{maximum}]}}", scenario=scenario)


@pytest.mark.parametrize("session_timeout_ms", OPTION_LIMITS["session_timeout_ms"])
def test_at_both_limits_of_the_session_timeout_the_group_is_stable_without_violations(
    session_timeout_ms: int,
) -> None:
    """Also if a crashed member is removed only after half an hour."""
    options = ScenarioOptions(members=2, partitions=2, session_timeout_ms=session_timeout_ms)
    verdict = play(SCENARIOS["slow-network"](options, 1)).verdict
    assert verdict.counts.rebalances
    assert not verdict.violations


def test_the_name_of_a_run_is_its_cell_and_its_seed() -> None:
    assert CampaignRun({"members": 2, "static": True}, 3).name == "members=2,static=True,seed=3"
    assert CampaignRun({}, 3).name == "seed=3"


def test_the_campaigns_in_pipeline_plans_are_valid() -> None:
    plans = sorted((Path(__file__).parents[3] / "pipeline" / "plans").glob("*.yaml"))
    assert plans
    for each in plans:
        read_campaign(each)
