"""Plans as files: what people write is understood, or refused with the line and what would do."""

import pytest

from regroup.lab.plan.plan import Happening, MemberPlan, NetworkPlan, Plan, When
from regroup.lab.plan.steps import Crashes, Joins, parse_step
from regroup.lab.plan.yaml_format import UnreadableStory, read_plan, write_plan
from regroup.members.runtime.workload import Workload

STORY = """\
story: The leader crashes between the answer to her JoinGroup and her SyncGroup
topics: {orders: 4}
settings: {group.initial.rebalance.delay.ms: 0}
network: {latency: 0.5ms}
workload: {records per s: 20, process: 2ms}
members:
  anna:
  ben: {instance id: ben-1, assignors: [cooperative-sticky], habits: [slow-join:5s]}
happenings:
  - at 0s: [anna joins, ben joins]
  - after anna is elected leader: anna crashes
  - 5s after ben is assigned partitions:
      - the network takes 20ms, up to 3ms more, for 2s
faults end at: 90s
"""
PLAN = Plan(
    title="The leader crashes between the answer to her JoinGroup and her SyncGroup",
    topics={"orders": 4},
    settings={"group.initial.rebalance.delay.ms": 0},
    network=NetworkPlan(latency_ms=0.5),
    workload=Workload(records_per_s=20, process_ms=2),
    members={
        "anna": MemberPlan(),
        "ben": MemberPlan(instance_id="ben-1", assignors=("cooperative-sticky",), habits=("slow-join:5s",)),
    },
    happenings=(
        Happening(When(), Joins("anna")),
        Happening(When(), Joins("ben")),
        Happening(When("anna is elected leader"), Crashes("anna")),
        Happening(
            When("ben is assigned partitions", 5_000),
            parse_step("the network takes 20ms, up to 3ms more, for 2s"),
        ),
    ),
    heal_ms=90_000,
)


def test_a_story_as_people_write_it_is_a_plan() -> None:
    assert read_plan(STORY) == PLAN


def test_a_plan_is_written_as_people_would_write_it_and_read_again() -> None:
    text = write_plan(PLAN)
    assert read_plan(text) == PLAN
    assert "  - at 0s: [anna joins, ben joins]\n" in text
    assert "workload: {records per s: 20, process: 2ms}\n" in text
    assert text.endswith("faults end at: 90s\n")


def test_members_without_options_are_a_list_of_names() -> None:
    plan = read_plan("{story: Two, members: [anna, ben], happenings: [at 0s: anna joins]}")
    assert plan.members == {"anna": MemberPlan(), "ben": MemberPlan()}
    assert "members: [anna, ben]\n" in write_plan(plan)


def test_the_smallest_plan_is_a_story_too() -> None:
    assert read_plan(write_plan(Plan())) == Plan()


@pytest.mark.parametrize(
    ("right", "wrong", "line", "hint"),
    [
        (
            "anna crashes",
            "dora crashes",
            "line 11 (- after anna is elected leader: dora",
            "known are anna, ben",
        ),
        ("ben joins", "ben jons", "line 10", "did you mean for example 'anna joins'?"),
        ("slow-join:5s", "slow-jon:5s", "line 8", "known are crash, pause"),
        ("delay.ms", "delay", "line 3", "did you mean group.initial.rebalance.delay.ms?"),
        ("delay.ms: 0", "delay.ms: soon", "line 3", "whole number"),
        ("{orders: 4}", "{orders: four}", "line 2", "names with whole numbers"),
        ("{orders: 4}", "{orders: 0}", "line 2", "orders: 4"),
        ("{orders: 4}", "{payments: 4}", "", "there is no topic 'orders'; known are payments"),
        ("instance id", "instance", "line 8", "did you mean 'instance id'?"),
        ("cooperative-sticky", "cooperative", "line 8", "known are"),
        ("[slow-join:5s]", "[slow-join:5s], session timeout: 2s", "line 8", "must be below session_timeout_ms"),
        ("5s after", "in 5s", "line 12", "write for example"),
        ("is elected leader", "is leader", "line 11", "anna is elected leader"),
        ("90s", "90", "line 14", "20s or 5m"),
        ("  ben:", "  anna:", "line 8", "'anna' is here twice"),
        ("{orders: 4}", "{orders: 4", "line 3", "expected"),
        ("process: 2ms", "max poll records: 0", "line 5", "at least 1"),
        ("story:", "stroy:", "line 1", "did you mean 'story'?"),
        ("anna crashes", "broker 1 stops for 5s", "line 11", "the last one is broker 0"),
        ("anna crashes", "topic order vanishes", "line 11", "did you mean orders?"),
        ("anna crashes", "the group is stable with anna and bob", "line 11", "there is no member 'bob'"),
        ("anna crashes", "group payments is stable", "line 11", "there is no group 'payments'"),
    ],
)
def test_a_mistake_is_quoted_with_its_line_and_with_what_would_do(right: str, wrong: str, line: str, hint: str) -> None:
    assert right in STORY
    with pytest.raises(UnreadableStory) as refused:
        read_plan(STORY.replace(right, wrong))
    assert line in str(refused.value)
    assert hint in str(refused.value)


@pytest.mark.parametrize("text", ["", "just text", "- a\n- list", "members: 3", "members: [1]", "members: {anna: ben}"])
def test_what_is_no_story_is_refused(text: str) -> None:
    with pytest.raises(UnreadableStory):
        read_plan(text)


@pytest.mark.parametrize("happenings", ["soon", "[anna joins]", "[{at 0s: 3}]", "[{at 0s: anna joins, at 1s: none}]"])
def test_happenings_are_lines_of_a_moment_and_sentences(happenings: str) -> None:
    with pytest.raises(UnreadableStory):
        read_plan(f"members: [anna]\nhappenings: {happenings}\n")
