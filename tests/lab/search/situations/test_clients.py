"""Requests that other clients rarely send are part of few plans, and each kind of group gets those that it knows."""

from collections import Counter
from functools import partial
from random import Random

from msgspec.structs import replace

from regroup.lab.plan.plan import MemberPlan, SimulationPlan
from regroup.lab.plan.steps import GroupIsDeleted
from regroup.lab.plan.validation import CONSUMER
from regroup.lab.search.situations.clients import draw_client_situations
from regroup.members.runtime.workload import Workload

SEEDS = range(300)
ANNA, BEN = MemberPlan(), MemberPlan(protocol=CONSUMER, instance_id="ben-1")


def stream_of(seed: int, part: str) -> Random:
    return Random(f"{seed}/{part}")


def counted(plan: SimulationPlan) -> Counter[str]:
    """In how many plans of these seeds there is each type of step."""
    drawn = [draw_client_situations(partial(stream_of, seed), plan, 60_000) for seed in SEEDS]
    return Counter(name for steps in drawn for name in {type(each.step).__name__ for each in steps})


def test_plans_of_classic_groups_have_few_of_these_requests() -> None:
    steps = counted(SimulationPlan(members={"anna": ANNA}, brokers=2))
    of_deletions = {"Leaves", "MemberIsExpelled", "GroupIsDeleted", "OffsetsAreAltered", "OffsetsAreDeleted", "Joins"}
    of_deletions |= {"AbandonsTransaction"}
    assert steps.keys() == {"CommitsByInstanceIdAlone", "OtherBrokerIsAsked", "OldGenerationIsSent"} | of_deletions
    assert 10 < steps["CommitsByInstanceIdAlone"] < 50
    assert 30 < steps["OtherBrokerIsAsked"] < 80
    assert 50 < steps["OldGenerationIsSent"] < 100


def test_in_half_of_the_plans_with_records_stable_offsets_are_fetched_while_the_log_is_slow() -> None:
    steps = counted(SimulationPlan(members={"anna": ANNA}, workload=Workload(records_per_s=1)))
    assert 120 < steps["StableOffsetsAreFetched"] == steps["SlowKafkaLog"] < 180


def deletions_of(plan: SimulationPlan) -> list[list[str]]:
    """The steps of each plan of these seeds in which group lab is deleted after anna is assigned partitions."""
    drawn = [list(draw_client_situations(partial(stream_of, seed), plan, 60_000)) for seed in SEEDS]
    with_deletion = [each for each in drawn if GroupIsDeleted("lab") in [planned.step for planned in each]]
    return [
        [str(each.step) for each in steps if each.trigger.milestone == "anna is assigned partitions"]
        for steps in with_deletion
    ]


def test_in_few_plans_all_members_of_a_group_leave_and_it_is_deleted_before_they_come_back() -> None:
    plan = SimulationPlan(members={"anna": ANNA, "ben": replace(ANNA, group="audit")})
    found = deletions_of(plan)
    assert 10 < len(found) < 60
    for steps in found:
        assert steps[0] == "anna leaves"
        assert steps[-1] == "anna joins"
        assert "ben leaves" not in steps
    assert any("an administrator removes anna" not in steps for steps in found)
    assert any("anna abandons a transaction" in steps for steps in found)
    deleted = [steps for steps in found if "an administrator deletes the offsets of orders in group lab" in steps]
    assert deleted
    assert all("anna abandons a transaction" in steps for steps in deleted)


def test_half_of_the_groups_of_the_consumer_protocol_are_deleted() -> None:
    assert 120 < len(deletions_of(SimulationPlan(members={"anna": replace(BEN, instance_id=None)}))) < 180


def test_where_members_subscribe_to_patterns_offsets_of_their_topics_are_to_be_deleted() -> None:
    plan = SimulationPlan(members={"anna": replace(ANNA, pattern="orders.*")})
    assert 120 < counted(plan)["OffsetsAreDeleted"] < 200
    assert counted(SimulationPlan(members={"anna": ANNA}))["OffsetsAreDeleted"] < 30


def test_no_other_broker_is_asked_where_there_is_one() -> None:
    assert "OtherBrokerIsAsked" not in counted(SimulationPlan(members={"anna": ANNA}))


def test_half_of_the_plans_with_the_consumer_protocol_have_old_heartbeats() -> None:
    steps = counted(SimulationPlan(members={"ben": BEN}))
    assert 100 < steps["OldEpochIsSent"] < 200
    assert "RackIsLeftOut" not in steps


def test_all_members_of_the_consumer_protocol_leave_a_mixed_group_and_come_back() -> None:
    plan = SimulationPlan(members={"anna": ANNA, "ben": BEN})
    steps = counted(plan)
    for name in ("RackIsLeftOut", "NewMemberFallsSilent", "Leaves", "MemberIsExpelled", "Joins"):
        assert steps[name] == len(SEEDS)
    assert steps["NewMemberCommitsAndJoins"] == len(SEEDS)
    reading = SimulationPlan(members=plan.members, workload=Workload(records_per_s=1))
    assert "NewMemberCommitsAndJoins" not in counted(reading)
