"""What a run of a campaign costs, for both protocols of groups. No test needs Spark."""

from pathlib import Path
from statistics import fmean

import msgspec
import pytest

from regroup.coordinator.consumer.events import MemberSubscribed, StaticConsumerReplaced
from regroup.coordinator.consumer_group import ConsumerProfile
from regroup.coordinator.events import Event, MemberJoined, MemberLeft, MemberRemoved, StaticMemberReplaced
from regroup.coordinator.group import MemberProfile
from regroup.lab.plan.plan import PlannedStep, SimulationPlan
from regroup.lab.plan.steps import Crashes, Joins, Leaves, Pauses, Restarts, SimulationStep
from regroup.lab.plan.triggers import StepTrigger
from regroup.lab.simulation.run import play
from regroup.lab.simulation.virtual_clock import START_MS
from regroup.pipeline.campaign.grid import Campaign, read_campaign
from regroup.pipeline.campaign.measures import (
    convergences_ms,
    has_stable_member,
    live_removals,
    measures_of,
    ownerless_ms,
)
from regroup.pipeline.campaign.options import PROTOCOLS, parse_options
from regroup.pipeline.campaign.runner import require_stable
from regroup.pipeline.campaign.scenarios import SCENARIOS, disturbances_ms

SMALL = {"members": 2, "partitions": 4, "between_ms": 60_000}


def test_the_time_without_an_owner_is_counted_from_a_moment_on() -> None:
    unowned = {1_000: 0, 5_000: 3, 8_000: 1, 9_000: 0}
    assert ownerless_ms(unowned, 0, 20_000) == 3 * 3_000 + 1_000
    assert ownerless_ms(unowned, 7_000, 20_000) == 3 * 1_000 + 1_000
    assert ownerless_ms({5_000: 2}, 0, 9_000) == 2 * 4_000


def test_a_group_has_converged_with_the_last_change_of_an_owner_before_the_next_disturbance() -> None:
    unowned = {1_000: 0, 30_500: 1, 42_000: 0, 91_000: 0}
    assert [*convergences_ms([30_000, 60_000, 90_000], unowned)] == [12_000, 0, 1_000]


def plan_of(*steps: tuple[int, SimulationStep]) -> SimulationPlan:
    return SimulationPlan(steps=tuple(PlannedStep(StepTrigger("", at_s * 1_000), step) for at_s, step in steps))


def joined(at_s: int, name: str, member_id: str) -> Event:
    profile = MemberProfile(
        client_id=name, session_timeout_ms=10_000, rebalance_timeout_ms=60_000, supported_protocols=()
    )
    return MemberJoined(at_ms=START_MS + at_s * 1_000, member_id=member_id, protocol_type="consumer", profile=profile)


def removed(at_s: int, member_id: str) -> Event:
    return MemberRemoved(at_ms=START_MS + at_s * 1_000, member_id=member_id)


def test_a_removal_counts_as_one_of_a_live_member_while_the_process_that_joined_goes_on() -> None:
    plan = plan_of((1, Joins("anna")), (2, Joins("ben")), (20, Pauses("anna", 30_000)), (40, Crashes("ben")))
    events = [joined(1, "anna", "a-1"), joined(2, "ben", "b-1"), removed(31, "a-1"), joined(50, "anna", "a-2")]
    assert live_removals(plan, [*events, removed(50, "b-1")]) == 1
    assert live_removals(plan, [*events, removed(39, "b-1")]) == 2, "ben was removed before he crashed"
    assert live_removals(plan, [*events, removed(60, "a-2"), removed(60, "b-1")]) == 2


def test_a_member_that_crashed_is_none_although_its_next_process_has_started() -> None:
    plan = plan_of((1, Joins("anna")), (20, Restarts("anna", 5_000)))
    events = [joined(1, "anna", "a-1"), joined(25, "anna", "a-2")]
    assert live_removals(plan, [*events, removed(30, "a-1")]) == 0
    assert live_removals(plan, [*events, removed(30, "a-1"), removed(40, "a-2")]) == 1
    late = joined(21, "anna", "a-1")
    assert live_removals(plan, [late, removed(31, "a-1")]) == 0, "its JoinGroup arrived after the crash"


def test_a_closed_static_member_is_none_and_its_next_process_counts_by_itself() -> None:
    plan = plan_of((1, Joins("anna")), (20, Leaves("anna")), (25, Joins("anna")))
    profile = MemberProfile(instance_id="i", session_timeout_ms=1, rebalance_timeout_ms=1, supported_protocols=())
    replaced = StaticMemberReplaced(
        at_ms=START_MS + 25_000,
        instance_id="i",
        member_id="a-2",
        replaced_member_id="a-1",
        profile=profile,
        awaits_join=False,
    )
    assert live_removals(plan, [joined(1, "anna", "a-1"), removed(30, "a-1")]) == 0
    assert live_removals(plan, [joined(1, "anna", "a-1"), replaced, removed(40, "a-2")]) == 1


def test_a_member_that_left_and_that_a_failover_brings_back_is_none() -> None:
    plan = plan_of((1, Joins("anna")), (20, Leaves("anna")))
    left = MemberLeft(at_ms=START_MS + 20_000, member_id="a-1")
    assert live_removals(plan, [joined(1, "anna", "a-1"), left, removed(65, "a-1")]) == 0


def test_members_of_the_consumer_protocol_count_as_classic_ones_do() -> None:
    plan = plan_of((1, Joins("anna")), (20, Leaves("anna")), (25, Joins("anna")), (60, Crashes("anna")))
    profile = ConsumerProfile(client_id="anna")
    subscribed = MemberSubscribed(at_ms=START_MS + 1_000, member_id="a", profile=profile)
    again = MemberSubscribed(at_ms=START_MS + 50_000, member_id="a", profile=profile)
    replaced = StaticConsumerReplaced(at_ms=START_MS + 25_000, instance_id="i", member_id="b", replaced_member_id="a")
    left = MemberLeft(at_ms=START_MS + 20_000, member_id="a")
    assert live_removals(plan, [subscribed, removed(10, "a")]) == 1
    assert live_removals(plan, [subscribed, replaced, removed(40, "b")]) == 1
    assert live_removals(plan, [subscribed, replaced, removed(70, "b")]) == 0
    assert live_removals(plan, [subscribed, left, again, removed(55, "a"), again, removed(65, "a")]) == 1


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_member_that_leaves_and_returns_disturbs_its_group_once(protocol: str) -> None:
    options = {**SMALL, "protocol": protocol, "graceful": True}
    assert len(disturbances_ms(SCENARIOS["rolling-restart"](parse_options(options), 1))) == 2
    assert len(disturbances_ms(SCENARIOS["scale-out"](parse_options(options), 1))) == 2
    assert len(disturbances_ms(SCENARIOS["slow-member"](parse_options(options), 1))) == 2
    assert len(disturbances_ms(SCENARIOS["topic-growth"](parse_options(options), 1))) == 1


def test_members_whose_heartbeats_are_out_of_step_have_paused_before_anything_happened() -> None:
    plan = SCENARIOS["scale-out"](parse_options({**SMALL, "out_of_step": True, "joins": 1}), 1)
    pauses = [each for each in plan.steps if isinstance(each.step, Pauses)]
    assert [each.trigger.delay_ms for each in pauses] == [18_000, 18_000]
    assert all(3_000 <= each.step.duration_ms < 6_000 for each in pauses if isinstance(each.step, Pauses))
    assert len(disturbances_ms(plan)) == 1


@pytest.mark.parametrize(
    ("protocol", "assignor", "is_static"),
    [("eager", "range", False), ("cooperative", "cooperative-sticky", False), ("static", "cooperative-sticky", True)],
)
def test_a_protocol_of_classic_members_decides_their_assignor_and_instance_ids(
    protocol: str, assignor: str, is_static: bool
) -> None:
    plan = SCENARIOS["crashes"](parse_options({**SMALL, "protocol": protocol}), 1)
    for member in plan.members.values():
        assert (member.protocol, member.assignors, member.instance_id is not None) == (
            "classic",
            (assignor,),
            is_static,
        )
        assert (member.session_timeout_ms, member.heartbeat_interval_ms) == (45_000, 3_000)


@pytest.mark.parametrize(("protocol", "is_static"), [("consumer", False), ("static-consumer", True)])
def test_members_of_the_consumer_protocol_have_the_timeouts_of_the_broker(protocol: str, is_static: bool) -> None:
    def settings(**options: int) -> tuple[str | int, ...]:
        plan = SCENARIOS["crashes"](parse_options({**SMALL, "protocol": protocol, **options}), 1)
        for member in plan.members.values():
            assert (member.protocol, member.instance_id is not None) == ("consumer", is_static)
        return tuple(plan.settings[f"group.consumer.{each}.ms"] for each in ("session.timeout", "heartbeat.interval"))

    assert settings() == (45_000, 5_000)
    assert settings(session_timeout_ms=12_000) == (12_000, 4_000)
    assert settings(heartbeat_interval_ms=3_000) == (45_000, 3_000)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"protocol": "kip-848"}, "unknown protocol 'kip-848'; protocols: classic, eager"),
        ({"protocol": "eager", "assignor": "sticky"}, "the protocol eager decides the option assignor"),
        ({"protocol": "static", "static": False}, "the protocol static decides the option static"),
        ({"protocol": "consumer", "assignor": "range"}, "the protocol consumer decides the option assignor"),
    ],
)
def test_an_unknown_protocol_and_an_option_that_it_decides_are_refused(
    options: dict[str, object], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        parse_options(options)


@pytest.mark.slow
@pytest.mark.parametrize("protocol", ["cooperative", "consumer"])
def test_a_crash_costs_the_partitions_of_the_member_until_its_session_ends(protocol: str) -> None:
    options = parse_options({**SMALL, "protocol": protocol, "crashes": 1, "session_timeout_ms": 12_000})
    outcome = require_stable(play(SCENARIOS["crashes"](options, 1)))
    assert not outcome.verdict.violations
    assert has_stable_member(outcome) == (protocol == "consumer")
    measures = measures_of(outcome)
    assert measures.disturbances == 1
    assert (measures.reconciliations > 0) == (protocol == "consumer")
    # Two partitions for at least 12 s since the last heartbeat, and until the next owner has heard of them.
    assert 2 * 8 < measures.disturbed_ownerless_s < 2 * 20
    assert 8 < measures.convergence_s < 20
    unowned = outcome.verdict.unowned_partitions
    assert ownerless_ms(unowned, 0, outcome.ended_ms) / 1000 == pytest.approx(outcome.verdict.counts.ownerless_s)


PLANS = Path(__file__).parents[3] / "pipeline" / "plans"


def means(campaign: Campaign, seeds: int, measure: str) -> dict[tuple[object, ...], float]:
    """The mean of a measure over the first seeds of each cell, by the values of its options."""
    found: dict[tuple[object, ...], list[float]] = {}
    for run in campaign.runs(0, seeds * len(campaign.cells)):
        outcome = play(campaign.plan(run))
        assert not outcome.verdict.violations
        found.setdefault(tuple(run.cell.values()), []).append(getattr(measures_of(outcome), measure))
    return {cell: fmean(values) for cell, values in found.items()}


@pytest.mark.slow
def test_eager_members_lose_little_only_as_long_as_their_heartbeats_are_in_step() -> None:
    """The small finding of docs/pipeline.md, with fewer seeds."""
    found = means(read_campaign(PLANS / "protocols-out-of-step.yaml"), 6, "disturbed_ownerless_s")
    assert found["eager", False] < 1
    assert found["eager", True] > 2 * found["consumer", True]
    assert found["consumer", True] < found["cooperative", True] < 10


@pytest.mark.slow
def test_a_crash_and_a_slow_member_cost_what_the_finding_says() -> None:
    """Two rows of the tables in docs/pipeline.md, with fewer seeds."""
    campaign = read_campaign(PLANS / "protocols.yaml")
    grid = campaign.grid | {"scenario": ["crashes", "slow-member"]}
    found = means(msgspec.structs.replace(campaign, grid=grid), 3, "disturbed_ownerless_s")
    assert found["eager", "crashes"] > 4 * found["consumer", "crashes"]
    assert found["static", "crashes"] == pytest.approx(40, abs=1)
    assert found["consumer", "crashes"] == pytest.approx(found["cooperative", "crashes"], abs=20)
    assert found["static-consumer", "crashes"] > 4 * found["static", "crashes"]
    assert found["eager", "slow-member"] > 20 * found["consumer", "slow-member"]


@pytest.mark.slow
def test_members_that_are_closed_cost_little_and_killed_ones_wait_for_their_sessions() -> None:
    """A column of the table in docs/pipeline.md, with fewer seeds."""
    campaign = read_campaign(PLANS / "static-or-dynamic.yaml")
    grid = campaign.grid | {"assignor": ["range"], "restart_ms": [5_000]}
    found = means(msgspec.structs.replace(campaign, grid=grid), 3, "disturbed_ownerless_s")
    assert found[False, True, "range", 5_000] < 60
    assert found[False, False, "range", 5_000] > 3_000
    assert found[True, True, "range", 5_000] == pytest.approx(120, abs=1)
    assert found[True, False, "range", 5_000] == pytest.approx(120, abs=1)


@pytest.mark.slow
def test_static_members_that_do_not_return_cost_their_whole_sessions() -> None:
    """The row of two fewer members in a table of docs/pipeline.md, with fewer seeds: 22, +14, -6 and +379 there."""
    campaign = read_campaign(PLANS / "deploys-and-stalls.yaml")
    found = means(
        msgspec.structs.replace(campaign, grid=campaign.grid | {"scenario": ["scale-in"]}), 3, "disturbed_ownerless_s"
    )
    assert found["consumer", "scale-in"] == pytest.approx(22, abs=10)
    assert found["eager", "scale-in"] == pytest.approx(36, abs=20)
    assert found["cooperative", "scale-in"] == pytest.approx(16, abs=6)
    assert found["static", "scale-in"] == pytest.approx(401, abs=40)
