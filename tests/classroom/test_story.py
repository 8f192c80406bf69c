"""The story of a group: its sentences against what the lab's scenarios are about."""

from itertools import pairwise

from hypothesis import given, settings

from regroup.classroom.fold.build import timeline_of
from regroup.classroom.fold.names import member_names
from regroup.classroom.story import gaps_of, story_lines
from regroup.coordinator.events import OffsetsCommitted
from regroup.lab.plan.yaml_format import read_plan
from regroup.lab.simulation.run import play
from regroup.server.explanation.sentences import duration_text
from tests.classroom.histories import SEEDS, drawn_history, groups_of, scenario_history


def story_of(name: str) -> str:
    return "\n".join(line.text for line in story_lines(timeline_of("lab", scenario_history(name))))


def test_a_crashed_leader_is_removed_and_another_one_assigns() -> None:
    story = story_of("leader-crashes-between-join-and-sync")
    assert "Generation 1 started with anna (leader), ben and carla, assignor range." in story
    assert "anna was removed: session timeout of 20000 ms expired. It owned nothing." in story
    assert "The assignor of ben gave orders 0-1 to ben; orders 2-3 to carla." in story
    assert "At the end the group is Stable in generation 2, leader ben. ben owns orders 0-1;" in story


def test_a_member_that_leaves_says_what_it_owned() -> None:
    assert " left: the consumer is being closed. It owned orders " in story_of("rolling-restart-dynamic")


def test_a_static_member_that_returns_in_time_starts_no_rebalance() -> None:
    timeline = timeline_of("lab", scenario_history("static-member-back-inside-its-session"))
    lines = [line.text for line in story_lines(timeline)]
    place = next(index for index, text in enumerate(lines) if "took over the static member" in text)
    assert "it keeps the assignment without a rebalance" in lines[place]
    assert not any(text.startswith("A rebalance started") for text in lines[place:])


def test_the_member_for_which_all_others_waited_is_named() -> None:
    story = story_of("slow-member-delays-the-rebalance")
    assert "The last JoinGroup was that of carla; all others waited for it, for 20 s." in story
    assert "The join phase had reached its deadline." in story
    assert "orders 0-3 for 20.003 s, orders 4-5 for 3 ms." in story


def test_a_member_that_was_waited_for_and_removed_is_no_joiner() -> None:
    plan = read_plan(
        "scenario: Ben crashes, and carla joins before his session expires\ntopics: {orders: 3}\n"
        "members: [anna, ben, carla]\nfaults end at: 90s\n"
        "steps:\n  - at 0s: [anna joins, ben joins]\n  - at 20s: ben crashes\n  - at 30s: carla joins\n"
    )
    timeline = timeline_of("lab", play(plan, check_invariants=False).records)
    story = "\n".join(line.text for line in story_lines(timeline))
    removed = next(each for each in timeline.moments if each.type == "member-removed")
    last_join = max(each.at_ms for each in timeline.moments if each.type == "member-rejoined")
    waited = duration_text(removed.at_ms - last_join)
    assert f"These had waited {waited} for a member that is no longer in the group." in story
    assert story.count("all others waited") == 0


def test_a_failover_says_what_was_lost() -> None:
    assert "Lost with the former one: " in story_of("coordinator-fails-over-mid-rebalance")


def test_the_time_of_a_rebalance_is_that_of_its_events() -> None:
    timeline = timeline_of("lab", scenario_history("slow-member-delays-the-rebalance"))
    slow = max(timeline.rebalances, key=lambda each: each.ended.at_ms - each.began.at_ms if each.ended else 0)
    assert slow.ended is not None
    assert slow.ended.at_ms - slow.began.at_ms >= 15_000
    gaps = dict(gaps_of(timeline, slow))
    assert gaps
    assert max(gaps.values()) >= 15_000


def test_commits_that_are_summed_up_stand_at_the_time_of_the_last_one() -> None:
    lines = list(story_lines(timeline_of("lab", scenario_history("max-poll-eviction"))))
    assert any(" committed " in line.text for line in lines)
    assert [line.at_ms for line in lines] == sorted(line.at_ms for line in lines)


def test_the_commits_of_each_member_stand_at_its_own_last_one() -> None:
    timeline = timeline_of("lab", scenario_history("zombie-commits-after-removal"))
    commits = {each.position: each for each in timeline.moments if isinstance(each.event, OffsetsCommitted)}
    lines = [line for line in story_lines(timeline) if " committed " in line.text]
    assert len({line.at_ms for line in lines}) > 1
    for line in lines:
        moment = commits[line.position]
        assert moment.at_ms == line.at_ms
        assert line.text.startswith(f"{timeline.names_of_ids[moment.event.member_id]} committed ")


def test_a_commit_of_an_earlier_generation_is_not_counted_under_a_later_one() -> None:
    timeline = timeline_of("lab", scenario_history("zombie-commits-after-removal"))
    lines = list(story_lines(timeline))
    began = [line.position for line in lines if line.text.startswith("Generation ")]
    assert len(began) > 1
    counted = {line.position for line in lines if " committed " in line.text}
    for before, after in pairwise([*began, timeline.last.position + 1]):
        committers = {
            moment.event.member_id
            for moment in timeline.moments
            if before < moment.position < after and isinstance(moment.event, OffsetsCommitted)
        }
        assert sum(before < position < after for position in counted) >= len(committers)


@settings(max_examples=8, deadline=None)
@given(SEEDS)
def test_every_history_has_a_story_in_the_order_of_its_events(seed: int) -> None:
    records = drawn_history(seed, minutes=3)
    for group in groups_of(records):
        timeline = timeline_of(group, records)
        lines = list(story_lines(timeline))
        assert lines[-1].text.startswith("At the end the group ")
        assert all(before.at_ms <= after.at_ms for before, after in pairwise(lines))
        commits = sum(isinstance(moment.event, OffsetsCommitted) for moment in timeline.moments)
        assert any(" committed " in line.text for line in lines) or not commits


def test_a_name_is_as_long_as_it_takes_to_be_the_only_one() -> None:
    first, second, third = (
        f"anna-{digits}-0000-0000-0000-000000000000" for digits in ("aaaa1111", "aaaa2222", "bbbb1111")
    )
    assert member_names([(first, "anna"), (third, "anna"), ("ben-1", "ben")]) == {
        first: "anna-aaaa", third: "anna-bbbb", "ben-1": "ben",
    }  # fmt: skip
    assert member_names([(first, "anna"), (second, "anna")]) == {first: "anna-aaaa1", second: "anna-aaaa2"}
