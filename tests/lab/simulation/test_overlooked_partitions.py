"""Partitions that a group overlooks as with Kafka are no failure of its recovery, and all others are."""

import pytest

from regroup.lab.plan.plan import MemberPlan, PlannedStep, SimulationPlan
from regroup.lab.plan.steps import Joins, Restarts, TopicGrows, TopicIsCreated
from regroup.lab.plan.triggers import StepTrigger, parse_trigger
from regroup.lab.simulation.overlooked_partitions import OverlookedPartitions
from regroup.lab.simulation.recovery import RECOVERY_INVARIANT
from regroup.lab.simulation.run import RunOutcome, play

COOPERATIVE = ("cooperative-sticky",)


def topic_grows_while_the_leader_restarts(
    instance_id: str | None, *, grows_ms: int = 20_000, client: str = ""
) -> SimulationPlan:
    return SimulationPlan(
        topics={"orders": 1},
        members={"anna": MemberPlan(instance_id=instance_id, client=client)},
        steps=(
            PlannedStep(StepTrigger(), Joins("anna")),
            PlannedStep(StepTrigger(delay_ms=20_000), Restarts("anna", 1_000)),
            PlannedStep(StepTrigger(delay_ms=grows_ms), TopicGrows("orders", 3)),
        ),
    )


def test_partitions_that_a_static_leader_overlooks_as_in_kafka_need_no_owner() -> None:
    outcome = play(topic_grows_while_the_leader_restarts("anna-1"))
    assert not outcome.failed, violations(outcome)
    assert outcome.verdict.counts.rebalances == 1


@pytest.mark.parametrize(("client", "rebalances"), [("", 2), ("2.8", 1)])
def test_a_static_leader_of_an_older_client_overlooks_what_is_added_after_its_return(
    client: str, rebalances: int
) -> None:
    outcome = play(topic_grows_while_the_leader_restarts("anna-1", grows_ms=40_000, client=client))
    assert not outcome.failed, violations(outcome)
    assert outcome.verdict.counts.rebalances == rebalances


def test_a_dynamic_leader_assigns_added_partitions() -> None:
    outcome = play(topic_grows_while_the_leader_restarts(None))
    assert not outcome.failed, violations(outcome)
    assert outcome.verdict.counts.rebalances == 2


def member_with_a_pattern_restarts(instance_id: str | None) -> SimulationPlan:
    """Ben's process begins again after a topic that his pattern matches was created; anna leads, and has no pattern."""
    return SimulationPlan(
        topics={"orders": 2},
        members={"anna": MemberPlan(), "ben": MemberPlan(pattern="orders.*", instance_id=instance_id)},
        steps=(
            PlannedStep(StepTrigger(), Joins("anna")),
            PlannedStep(StepTrigger(delay_ms=5_000), Joins("ben")),
            PlannedStep(StepTrigger(delay_ms=30_000), TopicIsCreated("orders-2", 1)),
            PlannedStep(StepTrigger(delay_ms=40_000), Restarts("ben", 1_000)),
        ),
    )


@pytest.mark.parametrize(("instance_id", "has_rebalanced"), [("ben-1", False), (None, True)])
def test_a_topic_that_a_static_member_finds_at_its_restart_needs_no_owner(
    instance_id: str | None, has_rebalanced: bool
) -> None:
    outcome = play(member_with_a_pattern_restarts(instance_id))
    assert not outcome.failed, violations(outcome)
    assert (outcome.verdict.counts.rebalances > 2) is has_rebalanced


def revoking_member_restarts(instance_id: str | None) -> SimulationPlan:
    """Ben gives a partition up for anna, who joins later, and restarts before he joins again."""
    return SimulationPlan(
        topics={"orders": 2},
        members={
            "anna": MemberPlan(assignors=COOPERATIVE),
            "ben": MemberPlan(assignors=COOPERATIVE, instance_id=instance_id),
        },
        steps=(
            PlannedStep(parse_trigger("after ben revokes partitions"), Restarts("ben", 1_000)),
            PlannedStep(StepTrigger(), Joins("ben")),
            PlannedStep(StepTrigger(delay_ms=5_000), Joins("anna")),
        ),
    )


def test_a_partition_that_a_static_member_revoked_before_its_restart_needs_no_owner() -> None:
    outcome = play(revoking_member_restarts("ben-1"))
    assert not outcome.failed, violations(outcome)
    assert unowned_at_the_end(outcome) == 1


def test_without_that_knowledge_the_partition_is_a_failure_of_recovery(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(OverlookedPartitions, "of", lambda self, group: frozenset())
    for plan in (revoking_member_restarts("ben-1"), member_with_a_pattern_restarts("ben-1")):
        assert play(plan).first_sentence == RECOVERY_INVARIANT


def test_a_partition_that_a_dynamic_member_revoked_before_its_restart_gets_an_owner() -> None:
    outcome = play(revoking_member_restarts(None))
    assert not outcome.failed, violations(outcome)
    assert unowned_at_the_end(outcome) == 0


def violations(outcome: RunOutcome) -> list[str]:
    return [str(each) for each in outcome.verdict.violations]


def unowned_at_the_end(outcome: RunOutcome) -> int:
    """The number of partitions without an owner when the run ended."""
    numbers = outcome.verdict.unowned_partitions
    return numbers[max(numbers)]
