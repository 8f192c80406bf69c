"""Stories in Python: the same plans as files, with names and times instead of structs."""

import pytest

from regroup.lab.plan.library import scenario
from regroup.lab.plan.plan import Happening, MemberPlan, NetworkPlan, Plan, When
from regroup.lab.plan.steps import KINDS, Crashes, Joins, parse_step
from regroup.lab.plan.yaml_format import read_plan, write_plan
from regroup.lab.simulation.world import play
from regroup.lab.stories import (
    ben_falls_silent,
    disk_full,
    leader_crashes_between_join_and_sync,
    rolling_restart,
)
from regroup.lab.story import Story, story


def test_a_story_in_python_is_the_same_plan_as_its_file() -> None:
    in_python, in_yaml = leader_crashes_between_join_and_sync(), scenario("leader-crashes-between-join-and-sync")
    assert in_python.members == in_yaml.members
    assert in_python.title == in_yaml.title
    assert set(map(str, in_python.happenings)) < set(map(str, in_yaml.happenings))
    assert read_plan(write_plan(in_python)) == in_python


@pytest.mark.parametrize(
    "plan",
    [
        leader_crashes_between_join_and_sync(),
        rolling_restart(["anna", "ben", "carla"], are_static=True),
        rolling_restart(["anna", "ben"], are_static=False),
        disk_full(for_="5s"),
        ben_falls_silent(),
    ],
    ids=lambda plan: plan.title,
)
def test_what_the_stories_expect_holds(plan: Plan) -> None:
    outcome = play(plan)
    assert not outcome.failed, [str(broken) for broken in outcome.verdict.broken]


def test_a_story_says_how_things_stand_and_what_happens() -> None:
    @story("All of it")
    def told(tell: Story, *names: str) -> None:
        tell.topic("orders", partitions=4)
        tell.setting("group.max.size", 2)
        tell.brokers(2)
        tell.network(latency="20ms", jitter="5ms")
        tell.workload(records_per_s=3, process_ms=2)
        tell.members(*names, join_at="2s", assignors=["range"], session_timeout_ms="10s")
        tell.after("anna has joined", delay="5s").member("anna").crashes()
        tell.when("after the group is stable").happens("broker 1 stops for 5s")
        tell.ends(faults_at="90s", well_within="2m")

    plan = told("anna")
    assert plan.members == {"anna": MemberPlan(assignors=("range",), session_timeout_ms=10_000)}
    assert plan.happenings == (
        Happening(When(delay_ms=2_000), Joins("anna")),
        Happening(When("anna has joined", 5_000), Crashes("anna")),
        Happening(When("the group is stable"), parse_step("broker 1 stops for 5s")),
    )
    assert (plan.topics, plan.settings, plan.brokers) == ({"orders": 4}, {"group.max.size": 2}, 2)
    assert plan.network == NetworkPlan(20, 5)
    assert (plan.workload.records_per_s, plan.heal_ms, plan.bound_ms) == (3, 90_000, 120_000)


def everything_that_can_be_said() -> Story:
    tell = Story()
    now = tell.at("1s")
    anna = now.member("anna")
    for say in (
        anna.joins,
        anna.leaves,
        anna.crashes,
        anna.turns_into_a_zombie,
        anna.loses_connections,
        anna.asks_for_a_rebalance,
    ):
        say()
    anna.pauses("1s")
    anna.restarts("1s")
    anna.restarts_as_stranger("1s")
    anna.is_cut_off(for_="1s")
    anna.no_longer_hears("broker 0", "1s")
    anna.loses_next_request("SyncGroup")
    anna.loses_next_answer("SyncGroup")
    for expect in (anna.leads, anna.was_expelled, anna.was_not_expelled, anna.keeps_its_partitions):
        expect()
    anna.has_seen("UNKNOWN_MEMBER_ID")
    now.group().is_stable(with_=["anna"], within="1s")
    now.group("other").is_empty(within="1s")
    now.group().is_in_generation(2)
    now.run().expelled_nobody()
    now.run().rebalanced_at_most(2)
    now.run().rebalanced_at_least(1)
    now.run().processed_twice_at_most(3)
    now.run().left_unowned_at_most(1.5)
    now.broker(0).stops("1s")
    now.brokers().crash("1s")
    now.brokers().lose_power("1s")
    now.brokers().jump_back("1s")
    now.network().takes("1s", for_="2s", jitter="3s")
    now.disk().is_full("1s")
    now.disk().fails_once()
    now.disk().takes("1s", for_="2s")
    now.kafkas_log().takes("1s", for_="2s")
    now.kafkas_log().refuses("NOT_ENOUGH_REPLICAS", for_="2s")
    now.topic("orders").appears(1)
    now.topic("orders").grows(2)
    now.topic("orders").vanishes()
    return tell


def test_every_kind_of_step_can_be_said_in_python() -> None:
    steps = [happening.step for happening in everything_that_can_be_said().plan.happenings]
    assert {type(step) for step in steps} == set(KINDS)
    assert all(parse_step(str(step)) == step for step in steps)


def test_a_story_that_cannot_be_is_refused_when_it_is_told() -> None:
    @story("Nobody there")
    def told(tell: Story) -> None:
        tell.at("0s").member("anna").joins()

    with pytest.raises(ValueError, match="there is no member 'anna'"):
        told()
    with pytest.raises(ValueError, match="anna is elected leader"):
        Story().after("anna is elected")
