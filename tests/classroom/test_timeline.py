"""Timelines against a load of the same events: ownership, states, members, and what is held."""

import asyncio
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regroup.classroom.fold.build import timeline_of
from regroup.classroom.fold.deadlines import armed_deadlines
from regroup.classroom.reading import read_timelines
from regroup.classroom.timeline import BEFORE, GroupTimeline
from regroup.coordinator.evolve import evolve
from regroup.coordinator.group import Group
from regroup.coordinator.runtime.loading import load_groups
from regroup.coordinator.serialization import encode_snapshot
from regroup.protocol.consumer.subscription import MalformedConsumerProtocol, decode_assignment
from regroup.storage.memory import MemoryStore
from regroup.storage.records import Record
from tests.classroom.histories import SEEDS, drawn_history, groups_of, scenario_history


def load_until(records: tuple[Record, ...], position: int) -> dict[str, Group]:
    """The groups that `regroup replay --at` shows."""

    async def load() -> dict[str, Group]:
        async with MemoryStore() as store:
            await store.append(records)
            return await load_groups(store, until=position)

    return asyncio.run(load())


def assigned_in(group: Group) -> set[tuple[str, int, str]]:
    """Topic, index and member id of each assigned partition, decoded from the members' bytes."""
    found = set()
    for member in group.members.values():
        try:
            partitions = decode_assignment(member.assignment).partitions if member.assignment else ()
        except MalformedConsumerProtocol:
            continue
        found |= {(each.topic, each.partition, member.member_id) for each in partitions}
    return found


def assigned_at(timeline: GroupTimeline, position: int) -> set[tuple[str, int, str]]:
    return {
        (span.partition.topic, span.partition.partition, member_id)
        for span in timeline.ownership_at(position)
        for member_id in span.assigned_to
    }


@settings(max_examples=8, deadline=None)
@given(SEEDS, st.data())
def test_at_any_position_a_timeline_equals_a_replay(seed: int, data: st.DataObject) -> None:
    records = drawn_history(seed, minutes=3)
    position = data.draw(st.integers(1, records[-1].position))
    groups = load_until(records, position)
    for name in groups_of(records):
        timeline, group = timeline_of(name, records), groups.get(name, Group(group_id=name))
        moment = timeline.moment_at(position)
        assert assigned_at(timeline, position) == assigned_in(group)
        if moment is None:
            assert not group.event_number
            continue
        assert (moment.state, moment.generation_id, moment.leader_id, moment.members) == (
            group.state, group.generation_id, group.leader_id, tuple(group.members)
        )  # fmt: skip
        present = [lane.member_id for lane in timeline.lanes if is_open_at(lane.began, lane.ended, position)]
        assert sorted(present) == sorted(group.members)
        held = {
            (each.member_id, each.response)
            for each in timeline.held_requests
            if is_open_at(each.began, each.ended, position)
        }
        assert held == {(each.member_id, each.awaiting) for each in group.members.values() if each.awaiting}


@settings(max_examples=3, deadline=None)
@given(SEEDS)
def test_the_deadlines_of_a_moment_are_those_of_its_group(seed: int) -> None:
    records = drawn_history(seed, minutes=3)
    for name in groups_of(records):
        group = Group(group_id=name)
        for moment in timeline_of(name, records).moments:
            group = evolve(group, moment.event)
            assert moment.deadlines == armed_deadlines(group)


def is_open_at(began: tuple[int, int], ended: tuple[int, int] | None, position: int) -> bool:
    return began[0] <= position and (ended is None or position < ended[0])


@settings(max_examples=4, deadline=None)
@given(SEEDS)
def test_the_spans_of_a_partition_follow_one_another(seed: int) -> None:
    records = drawn_history(seed, minutes=3)
    for name in groups_of(records):
        for spans in timeline_of(name, records).ownership.values():
            for before, after in pairwise(spans):
                assert before.ended is not None
                assert before.ended.position <= after.began.position
                assert before.began.at_ms <= before.ended.at_ms
            assert all(span.ended is not None for span in spans[:-1])


def test_eager_members_own_nothing_during_a_rebalance_and_cooperative_ones_go_on() -> None:
    eager, cooperative = (timeline_of("lab", scenario_history(name)) for name in ("eager-pause", "cooperative-pause"))

    def gap_ms(timeline: GroupTimeline) -> int:
        return sum(
            (span.ended or timeline.last).at_ms - span.began.at_ms
            for spans in timeline.ownership.values()
            for span in spans
            if not span.owners and span.assigned_to
        )

    assert gap_ms(eager) > gap_ms(cooperative)


def test_a_removed_member_ends_its_lane_and_leaves_its_partitions_without_owner() -> None:
    timeline = timeline_of("lab", scenario_history("follower-crashes-in-the-join-phase"))
    ended = [lane for lane in timeline.lanes if lane.ended_by == "member-removed"]
    assert [lane.client_id for lane in ended] == ["ben"]
    assert all(lane.ended is None for lane in timeline.lanes if lane.client_id in ("anna", "carla"))
    position = ended[0].ended.position if ended[0].ended else 0
    assert not any(ended[0].member_id in span.owners for span in timeline.ownership_at(position))


def test_a_restarted_member_has_a_lane_and_a_name_of_its_own() -> None:
    timeline = timeline_of("lab", scenario_history("rolling-restart-dynamic"))
    names = [lane.name for lane in timeline.lanes]
    assert len(set(names)) == len(names) == len(timeline.lanes)
    assert all(lane.name.startswith(lane.client_id) for lane in timeline.lanes)


def test_a_static_member_that_returns_replaces_its_former_lane() -> None:
    timeline = timeline_of("lab", scenario_history("static-member-back-inside-its-session"))
    successor = next(lane for lane in timeline.lanes if lane.replaces)
    former = next(lane for lane in timeline.lanes if lane.member_id == successor.replaces)
    assert former.ended == successor.began
    assert former.instance_id == successor.instance_id


@pytest.mark.parametrize("share", [0.3, 0.7])
def test_a_trimmed_history_goes_on_from_the_snapshot(share: float) -> None:
    records = scenario_history("rolling-restart-dynamic")
    cut = int(records[-1].position * share)
    whole = timeline_of("lab", records)

    async def read() -> GroupTimeline:
        async with MemoryStore() as store:
            await store.append(records)
            group = (await load_groups(store, until=cut))["lab"]
            last = [each.position for each in records if each.group == "lab" and each.position <= cut][-1]
            await store.save_snapshots(cut, [encode_snapshot(group, last, 1)])
            await store.trim(cut + 1)
            return (await read_timelines(store, ["lab"]))["lab"]

    trimmed = asyncio.run(read())
    assert trimmed.is_trimmed
    assert trimmed.moments == whole.moments_between(cut + 1, records[-1].position)
    assert all(lane.began_by == BEFORE for lane in trimmed.lanes if lane.began.position == cut)
    for position in range(cut, records[-1].position + 1):
        assert assigned_at(trimmed, position) == assigned_at(whole, position)
