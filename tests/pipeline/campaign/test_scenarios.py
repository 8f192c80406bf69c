"""The plans of campaigns' scenarios."""

import pytest

from regroup.coordinator.events import MemberLeft, MemberRemoved
from regroup.coordinator.serialization import decode_event
from regroup.lab.plan.steps import BrokerStops, Joins, Leaves
from regroup.lab.simulation.run import play
from regroup.pipeline.campaign.measures import measures_of
from regroup.pipeline.campaign.options import parse_options
from regroup.pipeline.campaign.scenarios import SCENARIOS, STEADY_MS

RESTARTS = {"members": 6, "partitions": 24, "graceful": True, "between_ms": 60_000, "restart_ms": 10_000}
HEARTBEAT_INTERVAL_MS = 3_000


@pytest.mark.parametrize("seed", range(20))
def test_brokers_stop_while_a_member_is_away_or_the_group_rebalances_for_its_return(seed: int) -> None:
    plan = SCENARIOS["failover-restart"](parse_options(RESTARTS), seed)
    left_ms = [each.trigger.delay_ms for each in plan.steps if isinstance(each.step, Leaves)]
    stops = [(each.step.broker, each.trigger.delay_ms) for each in plan.steps if isinstance(each.step, BrokerStops)]
    assert [broker for broker, _ in stops] == [0, 1]
    for _, at_ms in stops:
        assert 0 <= at_ms - max(each for each in left_ms if each <= at_ms) < 10_000 + HEARTBEAT_INTERVAL_MS


def test_a_failover_restart_has_the_members_of_a_rolling_restart_at_the_same_times() -> None:
    plans = [SCENARIOS[each](parse_options(RESTARTS), 5) for each in ("rolling-restart", "failover-restart")]
    one, other = ([each for each in plan.steps if isinstance(each.step, Joins | Leaves)] for plan in plans)
    assert one == other


def test_the_coordinator_of_the_group_moves_to_the_other_broker_and_back() -> None:
    records = play(SCENARIOS["failover-restart"](parse_options(RESTARTS), 0)).records
    loaded = [each.at_ms - records[0].at_ms for each in records if each.type == "coordinator-loaded"]
    moved = [each for each in loaded if each > STEADY_MS]
    assert len(moved) == 2
    assert 9_900 < moved[1] - moved[0] < 12_000


def test_a_failover_brings_back_a_member_that_has_just_left_and_an_eager_group_waits_for_it() -> None:
    options = parse_options({**RESTARTS, "between_ms": 90_000, "out_of_step": True, "protocol": "eager"})
    outcome = play(SCENARIOS["failover-restart"](options, 87))
    events = [decode_event(each) for each in outcome.records if each.type in ("member-left", "member-removed")]
    [removed] = [each for each in events if isinstance(each, MemberRemoved)]
    assert removed.member_id in {each.member_id for each in events if isinstance(each, MemberLeft)}
    assert 24 * 45 < measures_of(outcome).disturbed_ownerless_s < 24 * 55, "a row of the table in docs/pipeline.md"
