"""Sequences of steps are part of few plans, and those draw what they have to show."""

from functools import partial
from random import Random

from regroup.lab.plan.flawed_requests import CLASSIC_FLAWED_REQUESTS, FLAWED_REQUESTS, UPGRADE_ATTEMPTS
from regroup.lab.plan.plan import MemberPlan, PlannedStep, SimulationPlan
from regroup.lab.plan.steps import (
    AbortsTransaction,
    BrokerStops,
    CommitsInTransaction,
    InvalidRequestIsSent,
    Joins,
    KafkaLogFails,
    Leaves,
    NewMemberFallsSilent,
    Restarts,
    StaysOutsidePoll,
)
from regroup.lab.plan.triggers import StepTrigger
from regroup.lab.plan.validation import CLASSIC, CONSUMER
from regroup.lab.search.situations.sequences import (
    departure_of,
    draw_coordinator_death,
    draw_death_in_transaction,
    draw_deletions,
    draw_lost_return,
    draw_sequences,
    draw_upgrade_attempts,
)
from regroup.lab.simulation.run import play

SEEDS = range(400)


def stream_of(seed: int, part: str) -> Random:
    return Random(f"{seed}/{part}")


def sequences_of(seed: int) -> list[str]:
    plan = SimulationPlan(brokers=2, members={"anna": MemberPlan(), "ben": MemberPlan()})
    steps = draw_sequences(partial(stream_of, seed), plan, 60_000)
    return [type(each.step).__name__ for each in steps]


def test_most_plans_have_no_sequence_and_some_have_several() -> None:
    drawn = [sequences_of(seed) for seed in SEEDS]
    assert 0.55 < drawn.count([]) / len(SEEDS) < 0.75
    assert any({"Leaves", "GroupIsDescribed"} <= set(each) for each in drawn)


def test_requests_of_the_consumer_protocol_are_sent_to_groups_of_that_protocol_alone() -> None:
    def flaws(protocol: str) -> set[str]:
        plan = SimulationPlan(members={"anna": MemberPlan(protocol=protocol)})
        steps = (each.step for seed in SEEDS for each in draw_sequences(partial(stream_of, seed), plan, 60_000))
        return {each.flaw for each in steps if isinstance(each, InvalidRequestIsSent)}

    assert flaws(CLASSIC) == set(CLASSIC_FLAWED_REQUESTS)
    assert flaws(CONSUMER) == set(FLAWED_REQUESTS)


def test_the_log_refuses_writes_from_before_a_static_member_returns_until_after_it() -> None:
    for seed in SEEDS:
        restart, refusal = draw_lost_return(Random(seed), "anna", 60_000)
        assert isinstance(restart.step, Restarts)
        assert isinstance(refusal.step, KafkaLogFails)
        assert restart.trigger.delay_ms == refusal.trigger.delay_ms < 60_000
        assert restart.step.delay_ms < refusal.step.duration_ms


def test_only_plans_with_static_members_have_a_return_that_is_lost() -> None:
    def has_lost_return(seed: int, instance_id: str | None) -> bool:
        plan = SimulationPlan(members={"anna": MemberPlan(instance_id=instance_id)})
        return any(
            isinstance(each.step, KafkaLogFails) for each in draw_sequences(partial(stream_of, seed), plan, 60_000)
        )

    assert any(has_lost_return(seed, "anna-1") for seed in SEEDS)
    assert not any(has_lost_return(seed, None) for seed in SEEDS)


def test_a_new_member_waits_longer_than_kafka_allows_for_a_member_that_is_patient() -> None:
    def long_joins(max_poll_interval_ms: int) -> list[tuple[int, int]]:
        """How long the member stays outside poll(), and when the new member comes, in each plan that has both."""
        plan = SimulationPlan(members={"anna": MemberPlan(max_poll_interval_ms=max_poll_interval_ms)})
        found = []
        for seed in SEEDS:
            steps = list(draw_sequences(partial(stream_of, seed), plan, 60_000))
            outside = [each.step.duration_ms for each in steps if isinstance(each.step, StaysOutsidePoll)]
            joins = [each.trigger.delay_ms for each in steps if isinstance(each.step, NewMemberFallsSilent)]
            found += list(zip(outside, joins, strict=True))
        return found

    assert all(outside_ms - join_ms > 300_000 for outside_ms, join_ms in long_joins(600_000))
    assert long_joins(600_000)
    assert long_joins(300_000) == []


def test_members_of_the_consumer_protocol_stay_outside_poll_for_too_long() -> None:
    def outside(protocol: str) -> list[int]:
        plan = SimulationPlan(members={"anna": MemberPlan(protocol=protocol, max_poll_interval_ms=60_000)})
        steps = (each.step for seed in SEEDS for each in draw_sequences(partial(stream_of, seed), plan, 60_000))
        return [each.duration_ms for each in steps if isinstance(each, StaysOutsidePoll)]

    assert min(outside(CONSUMER)) > 60_000
    assert outside(CLASSIC) == []


def test_a_departure_lets_every_member_leave_at_one_time() -> None:
    steps = list(departure_of(["anna", "ben"], 5_000))
    assert [each.step for each in steps] == [Leaves("anna"), Leaves("ben")]
    assert {each.trigger.delay_ms for each in steps} == {5_000}


def test_offsets_are_deleted_only_after_the_departure_of_the_members() -> None:
    plan = SimulationPlan(topics={"orders": 1}, members={"anna": MemberPlan()})
    drawn = [list(draw_deletions(Random(seed), plan, ["lab"], 5_000, 60_000)) for seed in SEEDS]
    assert {len(each) for each in drawn} == {0, 1, 3}
    assert all(5_000 < each.trigger.delay_ms < 60_000 for steps in drawn for each in steps)


def test_attempts_to_change_a_group_are_made_while_it_rebalances_and_at_other_times() -> None:
    steps = [each for seed in SEEDS for each in draw_upgrade_attempts(Random(seed), ["lab"], 60_000)]
    assert {each.trigger.milestone for each in steps} == {
        "",
        "the group is PreparingRebalance",
        "the group is CompletingRebalance",
    }
    assert {each.step.flaw for each in steps if isinstance(each.step, InvalidRequestIsSent)} == set(UPGRADE_ATTEMPTS)


def test_a_coordinator_dies_when_the_outcome_of_a_transaction_is_stored() -> None:
    pairs = [list(draw_coordinator_death(Random(seed), "anna", 1)) for seed in SEEDS]
    assert {type(end.step) for end, _ in pairs} == {CommitsInTransaction, AbortsTransaction}
    assert {death.trigger.milestone for _, death in pairs} == {"anna's transaction is prepared"}
    assert not any(isinstance(death.step, BrokerStops) for _, death in pairs), "one broker cannot give its groups away"


def test_a_coordinator_dies_between_the_offsets_of_a_transaction_and_its_end() -> None:
    for seed in range(3):
        steps = (PlannedStep(StepTrigger(), Joins("anna")), *draw_death_in_transaction(Random(seed), "anna"))
        outcome = play(SimulationPlan(members={"anna": MemberPlan()}, steps=steps, faults_end_ms=120_000))
        assert not outcome.failed
        types = [each.type for each in outcome.records]
        written, loaded, ended = map(
            types.index, ("transactional-offsets-written", "coordinator-loaded", "transaction-ended")
        )
        assert written < loaded < ended


def test_one_of_several_brokers_may_stop() -> None:
    deaths = [list(draw_coordinator_death(Random(seed), "anna", 2))[1].step for seed in SEEDS]
    assert any(isinstance(each, BrokerStops) for each in deaths)
