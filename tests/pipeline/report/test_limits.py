"""The limits on the page of a campaign, which depend on its scenarios and options. No test needs Spark."""

from typing import Any

import pytest

from regroup.pipeline.campaign.grid import Campaign
from regroup.pipeline.report.limits import limits_of

SURGE = "deployments that start new members before they stop old ones"
SEVERAL = "pauses of several members at once"
BROKERS = "brokers that stop or fail"
SLOW = "processing that delays poll()"


def limits(*scenarios: str, **options: Any) -> str:
    return " ".join(limits_of(Campaign("?", "", 1, {"scenario": [*scenarios]}, options)))


@pytest.mark.parametrize(
    ("scenario", "options", "simulated"),
    [
        ("surge", {}, SURGE),
        ("paused-node", {}, SEVERAL),
        ("failover-restart", {}, BROKERS),
        ("crashes", {"process_ms": 10, "records_per_s": 1}, SLOW),
    ],
)
def test_what_a_campaign_simulates_is_not_among_its_limits(
    scenario: str, options: dict[str, Any], simulated: str
) -> None:
    found = limits(scenario, **options)
    assert simulated not in found
    for other in {SURGE, SEVERAL, BROKERS, SLOW} - {simulated}:
        assert other in found
    assert simulated in limits("scale-out")


def test_without_records_or_with_one_paused_member_nothing_is_delayed_and_no_several_pause() -> None:
    assert SLOW in limits("crashes", process_ms=10)
    assert SEVERAL in limits("paused-node", paused=1)


def test_a_campaign_that_simulates_everything_says_nothing_of_what_is_missing() -> None:
    everything = ("surge", "paused-node", "failover-restart", "crashes")
    assert "Not simulated here" not in limits(*everything, process_ms=10, records_per_s=1)


@pytest.mark.parametrize("scenario", ["crashes", "slow-network", "rolling-restart", "failover-restart"])
def test_numbers_of_members_that_are_killed_apply_to_crashes(scenario: str) -> None:
    found = limits(scenario)
    assert "is killed and sends no LeaveGroup" in found
    assert "apply these numbers to crashes, not to clean restarts" in found


@pytest.mark.parametrize("scenario", ["surge", "scale-in", "rolling-restart", "failover-restart"])
def test_numbers_of_members_that_are_closed_apply_to_clean_restarts(scenario: str) -> None:
    found = limits(scenario, graceful=True)
    assert "is killed and sends" not in found
    assert "apply these numbers to clean restarts, not to crashes" in found


def test_the_scenarios_are_named_where_members_end_in_both_ways() -> None:
    found = limits("surge", "crashes", "rolling-restart")
    assert "killed, and send nothing at their end, in crashes, rolling-restart (not graceful)" in found
    assert "closed in order in surge." in found


def test_static_members_leave_no_group_when_they_are_closed() -> None:
    assert "dynamic" not in limits("crashes", static=True)
    assert "dynamic" in limits("crashes", static=False)


@pytest.mark.parametrize("scenario", ["scale-out", "paused-node", "topic-growth"])
def test_where_no_process_ends_nothing_is_said_of_it(scenario: str) -> None:
    found = limits(scenario)
    assert "killed" not in found
    assert "closed" not in found


def test_a_paused_member_is_said_to_count_as_an_owner() -> None:
    words = "A paused member counts as an owner"
    assert words in limits("paused-node")
    assert words not in limits("slow-network")
    assert words in limits("slow-network", pauses=3)
