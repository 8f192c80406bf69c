"""Members are closed or fenced at unusual moments, or learn late of topics, in few plans, which can be played."""

from functools import partial
from random import Random

from msgspec.structs import replace

from regroup.lab.plan.plan import MemberPlan, SimulationPlan
from regroup.lab.plan.rare_steps import ResponseIsLate, Unsubscribes
from regroup.lab.plan.steps import CutOff
from regroup.lab.plan.validation import CONSUMER, check_plan
from regroup.lab.search.situations.memberships import (
    draw_departure_while_rejoining,
    draw_memberships,
    with_cut_off_revocation,
    with_different_topics,
    with_taken_instance_id,
)
from regroup.lab.search.swarm_protocols import SESSION_SETTINGS
from regroup.members.runtime.workload import Workload

SEEDS = range(300)
BEN = MemberPlan(protocol=CONSUMER)


def stream_of(seed: int, part: str) -> Random:
    return Random(f"{seed}/{part}")


def sentences(seed: int, plan: SimulationPlan) -> list[str]:
    return [str(each.step) for each in draw_memberships(partial(stream_of, seed), plan, 60_000)]


def test_only_dynamic_members_are_closed_while_their_first_request_to_join_is_in_flight() -> None:
    dynamic, static = (
        SimulationPlan(members={"anna": each}) for each in (MemberPlan(), MemberPlan(instance_id="anna-1"))
    )
    closed = [seed for seed in SEEDS if sentences(seed, dynamic)[:2] == ["anna leaves", "anna joins"]]
    assert 10 < len(closed) < 50
    assert not any("leaves" in sentence for seed in SEEDS for sentence in sentences(seed, static))


def test_few_dynamic_members_are_closed_or_unsubscribe_while_they_join_again() -> None:
    members = {"anna": MemberPlan(), "ben": MemberPlan(instance_id="ben-1")}
    dynamic = SimulationPlan(members={name: replace(each, instance_id=None) for name, each in members.items()})
    drawn = {seed: [str(each.step) for each in draw_departure_while_rejoining(Random(seed), "anna")] for seed in SEEDS}
    assert {each[0] for each in drawn.values()} == {"anna requests a rebalance"}
    assert {tuple(each[1:]) for each in drawn.values()} >= {("anna leaves", "anna joins")}
    unsubscribing = [each for each in drawn.values() if len(each) == 2]
    assert 100 < len(unsubscribing) < 200
    assert all("unsubscribes" in each[1] for each in unsubscribing)
    rejoining = [seed for seed in SEEDS if any("requests a rebalance" in each for each in sentences(seed, dynamic))]
    assert 20 < len(rejoining) < 60
    assert not any("requests" in each for seed in SEEDS for each in sentences(seed, SimulationPlan(members=members)))


def test_the_instance_id_of_few_static_members_is_taken_while_their_sync_group_is_held() -> None:
    dynamic, static = (
        SimulationPlan(members={"anna": each}) for each in (MemberPlan(), MemberPlan(instance_id="anna-1"))
    )
    taken = "a client takes the instance id of anna"
    drawn = [each for seed in SEEDS if taken in (each := sentences(seed, static))]
    assert 30 < len(drawn) < 75
    assert all("Kafka's log takes" in each[0] and "anna joins" in each for each in drawn)
    assert not any(taken in sentences(seed, dynamic) for seed in SEEDS)


def test_in_few_plans_a_consumer_that_has_not_subscribed_commits() -> None:
    plan = SimulationPlan(members={"anna": BEN})
    commits = [each for seed in SEEDS if (each := sentences(seed, plan))]
    assert 8 < len(commits) < 35
    assert all(len(each) == 3 and "without a subscription" in each[0] for each in commits)


def test_few_classic_groups_have_members_with_different_topics_that_learn_of_them_late() -> None:
    plan = SimulationPlan(topics={"orders": 2}, members={"anna": MemberPlan(), "ben": MemberPlan()})
    drawn = [with_different_topics(stream_of(seed, ""), plan) for seed in SEEDS]
    changed = [each for each in drawn if each is not plan]
    assert 5 < len(changed) < 40
    for each in changed:
        check_plan(each)
        assert [member.topics for member in each.members.values()] == [("orders",), ("payments",)]
        assert [step.step.member for step in each.steps if isinstance(step.step, ResponseIsLate)] == ["anna", "ben"]
    alone, mixed = (replace(plan, members=each) for each in ({"anna": MemberPlan()}, plan.members | {"carla": BEN}))
    assert all(with_different_topics(stream_of(seed, ""), each) is each for seed in SEEDS for each in (alone, mixed))


def test_the_instance_id_of_a_member_that_reads_records_may_be_taken_when_it_commits() -> None:
    plan = SimulationPlan(members={"anna": MemberPlan()}, workload=Workload(records_per_s=1))
    drawn = [with_taken_instance_id(stream_of(seed, ""), plan) for seed in SEEDS]
    changed = [each for each in drawn if each is not plan]
    assert 100 < len(changed) < 200
    for each in changed:
        check_plan(each)
        assert each.members["anna"].instance_id == "anna-taken"
    rare = [each for each in changed if each.members["anna"].heartbeat_interval_ms > 10_000]
    assert 0.6 < len(rare) / len(changed) < 0.9
    unsubscribing = [each for each in changed if any(isinstance(step.step, Unsubscribes) for step in each.steps)]
    assert 40 < len(unsubscribing) < 120
    for without in (replace(plan, members=plan.members | {"ben": BEN}), replace(plan, workload=Workload())):
        assert all(with_taken_instance_id(stream_of(seed, ""), without) is without for seed in SEEDS)


def test_a_member_that_gives_up_partitions_may_be_cut_off_beyond_its_rebalance_timeout_and_within_its_session() -> None:
    settings: dict[str, str | int] = {**dict.fromkeys(SESSION_SETTINGS, 10_000), "group.max.size": 5}
    slow = Workload(records_per_s=1, process_ms=100, max_poll_records=500)
    members = {"anna": MemberPlan(), "ben": BEN, "carla": BEN}
    plan = SimulationPlan(members=members, settings=settings, workload=slow)
    drawn = [with_cut_off_revocation(stream_of(seed, ""), plan) for seed in SEEDS]
    changed = [each for each in drawn if each is not plan]
    assert 100 < len(changed) < 200
    for each in changed:
        check_plan(each)
        [step] = each.steps
        assert isinstance(step.step, CutOff)
        assert step.trigger.milestone == f"{step.step.host} revokes partitions"
        assert 2_000 < each.members[step.step.host].max_poll_interval_ms < step.step.duration_ms < 45_000
        assert each.settings == {"group.max.size": 5}
        assert each.workload.max_poll_records * 100 <= each.members[step.step.host].max_poll_interval_ms / 2
    assert {each.steps[0].step.host for each in changed if isinstance(each.steps[0].step, CutOff)} == {"ben", "carla"}
    alone = replace(plan, members={"anna": MemberPlan(), "ben": BEN})
    assert all(with_cut_off_revocation(stream_of(seed, ""), alone) is alone for seed in SEEDS)
