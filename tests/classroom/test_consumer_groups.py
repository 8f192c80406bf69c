"""Timelines, stories and pictures of groups of the consumer protocol (KIP-848), against the events that they are of."""

import re
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regroup.classroom.fold.build import timeline_of
from regroup.classroom.kinds import AWAITED_NAMES
from regroup.classroom.languages import Language
from regroup.classroom.moment_view import MemberPhase, MomentViews
from regroup.classroom.phrases.phrase import pattern_of
from regroup.classroom.pictures.mermaid import mermaid_picture
from regroup.classroom.pictures.part import Unreadable
from regroup.classroom.pictures.svg import svg_picture
from regroup.classroom.pictures.text import text_picture
from regroup.classroom.sentences import moment_sentence, whole_sentence
from regroup.classroom.story import story_lines
from regroup.classroom.timeline import GroupTimeline
from regroup.classroom.wording import MemberNames
from regroup.coordinator.commands import DeadlineKind
from regroup.coordinator.consumer.invariants import TRANSITIONS
from regroup.coordinator.evolve import evolve
from regroup.coordinator.group import Group, GroupKind
from regroup.coordinator.serialization import decode_event
from regroup.protocol.consumer.subscription import TopicPartition
from tests.classroom.consumer_histories import GROUP_ID, RecordedGroup, random_history, topic_names

SEEDS = st.integers(0, 10_000)


@pytest.fixture(scope="module")
def moved() -> GroupTimeline:
    """m2 takes foo 3-5 over from m1, which needs five seconds to give them up; then m2 leaves."""
    group = RecordedGroup().one()
    for passed_ms, step in (
        (1_000, lambda: group.join("m2")),
        (2_000, lambda: group.beat("m1", 2)),
        (5_000, lambda: group.beat("m1", 2, owned={"foo": [0, 1, 2]})),
        (500, lambda: group.beat("m2", 3)),
        (10_000, lambda: group.beat("m2", -1)),
    ):
        group.advance(passed_ms)
        step()
    return timeline_of(GROUP_ID, group.records())


@settings(max_examples=15, deadline=None)
@given(SEEDS)
def test_states_epochs_members_and_owners_are_those_of_the_group_after_each_event(seed: int) -> None:
    records, names, group = random_history(seed), topic_names(), Group(group_id=GROUP_ID)
    timeline = timeline_of(GROUP_ID, records)
    for record in records:
        if record.group is None:
            continue
        group = evolve(group, decode_event(record))
        moment = timeline.moment_at(record.position)
        assert moment is not None
        assert moment.state.value == group.state_name
        assert moment.kind is group.kind
        members = group.consumer.members if group.consumer else {}
        assert set(moment.members) == set(members)
        assert moment.generation_id == (group.consumer.group_epoch if group.consumer else 0)
        held = {
            (TopicPartition(names[topic], index), member_id)
            for member_id, member in members.items()
            for topic, index in member.held()
        }
        spans = list(timeline.ownership_at(record.position))
        assert {(each.partition, owner) for each in spans for owner in each.owners} == held
        assert all(set(each.revoking) <= set(each.owners) for each in spans)


@settings(max_examples=15, deadline=None)
@given(SEEDS)
def test_a_group_makes_only_transitions_of_the_table(seed: int) -> None:
    timeline = timeline_of(GROUP_ID, random_history(seed))
    for before, after in pairwise(timeline.states):
        assert after.state in TRANSITIONS[before.state], (before, after)


def test_every_transition_of_the_table_is_made() -> None:
    away = RecordedGroup()
    away.join("m1", instance_id="i1")
    away.beat("m1", -2, instance_id="i1")
    away.beat("m1", -1, instance_id="i1")
    histories = [*(random_history(seed, 120) for seed in range(40)), away.records()]
    made = {
        (before.state, after.state)
        for records in histories
        for before, after in pairwise(timeline_of(GROUP_ID, records).states)
    }
    known = {(before, after) for before, possible in TRANSITIONS.items() for after in possible}
    assert made | {("Dead", "Empty")} == known  # a timeline begins with the first event


@settings(max_examples=15, deadline=None)
@given(SEEDS)
def test_every_moment_is_said_in_both_languages_with_the_same_values(seed: int) -> None:
    timeline = timeline_of(GROUP_ID, random_history(seed))
    names = MemberNames(timeline.names_of_ids)
    for moment in timeline.moments:
        english, chinese = pattern_of(whole_sentence(moment, names)).texts
        assert set(re.findall(r"\{\d+\}", english)) == set(re.findall(r"\{\d+\}", chinese))
        assert moment_sentence(moment, names).endswith(".")
        assert moment_sentence(moment, names, Language.CHINESE).endswith("。")
    assert len(list(story_lines(timeline))) == len(list(story_lines(timeline, language=Language.CHINESE)))


@settings(max_examples=10, deadline=None)
@given(SEEDS)
def test_every_view_of_a_moment_and_every_picture_can_be_made(seed: int) -> None:
    timeline = timeline_of(GROUP_ID, random_history(seed))
    for view in MomentViews(timeline):
        assert set(view.may_follow) == set(TRANSITIONS[view.moment.state]) or view.moment.kind is GroupKind.CLASSIC
        assert [each.lane.member_id for each in view.members] == list(view.moment.members)
    for picture in (text_picture, svg_picture, mermaid_picture):
        try:
            assert picture(timeline)
        except Unreadable as error:
            assert "--from" in str(error)  # noqa: PT017


def test_a_partition_stays_with_its_owner_until_it_gives_it_up(moved: GroupTimeline) -> None:
    spans = moved.ownership[TopicPartition("foo", 3)]
    assert [(each.assigned_to, each.owners, each.revoking) for each in spans] == [
        ((), (), ()),
        (("m1",), (), ()),
        (("m1",), ("m1",), ()),
        (("m2",), ("m1",), ()),
        (("m2",), ("m1",), ("m1",)),
        (("m2",), (), ()),
        (("m2",), ("m2",), ()),
        ((), (), ()),
    ]
    gap = spans[5]
    assert gap.ended is not None
    assert gap.ended.at_ms - gap.began.at_ms == 500


def test_the_story_of_a_reconciliation(moved: GroupTimeline) -> None:
    story = [line.text for line in story_lines(moved)]
    assert "c-m1 has to give up foo 3-5 within 60 s; it stays at epoch 2 and keeps foo 0-2." in story
    assert "c-m2 reached epoch 3 with its whole share: foo 3-5." in story
    assert (
        "Every member had reached the target 7.5 s after the group epoch rose. "
        "Without an owner until a member received them: foo 3-5 for 500 ms."
    ) in story
    assert story[-1].startswith("At the end the group is Assigning in group epoch 4.")
    chinese = [line.text for line in story_lines(moved, language=Language.CHINESE)]
    assert "c-m1 要在 60 s 内交出 foo 3-5；它仍在 epoch 2，保留 foo 0-2。" in chinese


def test_a_member_that_leaves_by_a_heartbeat_is_said_to_do_so(moved: GroupTimeline) -> None:
    story = {language: "\n".join(line.text for line in story_lines(moved, language=language)) for language in Language}
    assert "left: it sent ConsumerGroupHeartbeat with member epoch -1." in story[Language.ENGLISH]
    assert "它发送了 member epoch 为 -1 的 ConsumerGroupHeartbeat" in story[Language.CHINESE]


def test_what_holds_members_up_and_the_deadline_of_a_revocation(moved: GroupTimeline) -> None:
    held = [(each.member_id, AWAITED_NAMES[each.response]) for each in moved.held_requests]
    assert held == [("m2", "UNRELEASED_PARTITIONS"), ("m1", "UNREVOKED_PARTITIONS")]
    revoking = moved.held_requests[1]
    index = next(index for index, each in enumerate(moved.moments) if each.position == revoking.began.position)
    view = MomentViews(moved)[index]
    assert [each.phase for each in view.members] == [
        MemberPhase.UNREVOKED_PARTITIONS, MemberPhase.UNRELEASED_PARTITIONS,
    ]  # fmt: skip
    (clock,) = view.clocks
    assert (clock.deadline.kind, clock.deadline.member_id, clock.left_ms) == (DeadlineKind.REVOCATION, "m1", 60_000)
    assert clock.deadline.follows == "the member is removed, because it has not given up its partitions"


def test_pictures_name_epochs_and_steps(moved: GroupTimeline) -> None:
    lines = text_picture(moved).splitlines()
    assert lines[2].split() == ["time", "state", "epoch", "c-m1", "c-m2"]
    assert any(line.split()[1:] == ["Reconciling", "3", "revokes", "┆"] for line in lines)
    assert ">UNREVOKED_PARTITIONS<" in svg_picture(moved)
    assert ">generation<" not in svg_picture(moved)
    assert "M1->>C: ConsumerGroupHeartbeat\n    C-->>M1: epoch 3, foo 0-2" in mermaid_picture(moved)
