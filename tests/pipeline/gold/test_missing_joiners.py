"""The members and pending member ids that join phases waited for in vain, from simulated runs. No test needs Spark."""

from typing import Any, Final

import pytest

from regroup.lab.plan.yaml_format import read_plan
from regroup.lab.simulation.run import play
from tests.pipeline.histories import all_rows, rows_of_table

POLL_TIMEOUT: Final = """
members:
  anna: {max poll interval: 60s}
  ben: {max poll interval: 10s}
  carla: {max poll interval: 60s}
steps:
  - at 0s: [anna joins, ben joins]
  - at 55s: ben does not poll for 40s
  - at 60s: carla joins
faults end at: 100s
"""
"""In the join phase from 60 s on ben's consumer leaves the group at 64 s, since its last poll was 10 s ago."""
REBALANCE_TIMEOUT: Final = """
members:
  anna: {max poll interval: 10s}
  ben: {max poll interval: 10s}
  carla: {max poll interval: 10s}
steps:
  - at 0s: [anna joins, ben joins]
  - at 59s: ben pauses for 25s
  - at 60s: carla joins
faults end at: 100s
"""
"""The join phase from 60 s on ends at 70 s, without ben."""
PENDING_ID: Final = """
members:
  anna: {session timeout: 10s}
  ben: {session timeout: 10s}
  carla: {session timeout: 10s}
steps:
  - at 0s: [anna joins, ben joins]
  - at 59s: the response to carla's next JoinGroup is lost
  - at 60s: carla joins
faults end at: 100s
"""
"""carla joins with a second id at 60 s; its first one is pending until 70 s, and all others join before 64 s."""
PENDING_AT_THE_END: Final = PENDING_ID.replace("{session", "{max poll interval: 5s, session")
"""The join phase from 60 s on ends at 65 s, when carla's first id is still pending."""


def missing_joiners(plan: str) -> list[dict[str, Any]]:
    return rows_of_table(all_rows(play(read_plan(plan)).records), "missing_joiners")


@pytest.mark.parametrize(
    ("plan", "client_id", "ended_by", "after_ms"),
    [
        pytest.param(POLL_TIMEOUT, "ben", "left", 64_000, id="poll timeout"),
        pytest.param(REBALANCE_TIMEOUT, "ben", "removed", 70_000, id="rebalance timeout"),
        pytest.param(PENDING_ID, "carla", "pending-removed", 70_000, id="pending id"),
        pytest.param(PENDING_AT_THE_END, "carla", "pending", 65_000, id="pending id at the end"),
    ],
)
def test_what_a_join_phase_waited_for_in_vain_has_a_row(
    plan: str, client_id: str, ended_by: str, after_ms: int
) -> None:
    [row] = missing_joiners(plan)
    assert (row["generation_id"], row["client_id"], row["ended_by"]) == (2, client_id, ended_by)
    assert row["until_ms"] == row["started_ms"]
    assert 0 <= row["until_ms"] - (1_700_000_000_000 + after_ms) < 200


def test_a_static_member_that_missed_the_join_phase_is_no_missing_joiner() -> None:
    assert missing_joiners(REBALANCE_TIMEOUT.replace("ben: {", "ben: {instance id: ben-1, ")) == []


def test_the_initial_rebalance_delay_waits_for_no_pending_id() -> None:
    plan = PENDING_ID.replace("at 59s: the", "at 0s: the").replace("at 60s", "at 0.1s")
    assert missing_joiners(plan) == []
