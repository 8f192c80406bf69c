"""One moment of a timeline: phases of members and committed offsets, against a load of the same events."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regroup.classroom.build import timeline_of
from regroup.classroom.moment_view import MemberPhase, moment_sentence, moment_view
from regroup.classroom.wording import MemberNames
from regroup.coordinator.group import AwaitedResponse, Group, GroupState
from tests.classroom.histories import drawn_history, groups_of, scenario_history
from tests.classroom.test_timeline import load_until

SEEDS = st.integers(1, 400)


def phase_in(group: Group, member_id: str) -> MemberPhase:
    """The phase, from the fields of the group itself."""
    awaiting = group.members[member_id].awaiting
    if awaiting is not None:
        return MemberPhase.JOINING if awaiting is AwaitedResponse.JOIN else MemberPhase.SYNCING
    if group.state is GroupState.PREPARING_REBALANCE:
        return MemberPhase.MUST_JOIN
    return MemberPhase.MUST_SYNC if member_id in group.pending_sync_members else MemberPhase.ASSIGNED


@settings(max_examples=25, deadline=None)
@given(SEEDS, st.data())
def test_phases_and_offsets_equal_those_of_a_replay(seed: int, data: st.DataObject) -> None:
    records = drawn_history(seed, minutes=3)
    position = data.draw(st.integers(1, records[-1].position))
    groups = load_until(records, position)
    for name in groups_of(records):
        timeline, group = timeline_of(name, records), groups.get(name)
        if group is None or timeline.moment_at(position) is None:
            continue
        view = moment_view(timeline, position)
        assert {each.member_id for each in view.members} == set(group.members)
        if group.state in (GroupState.STABLE, GroupState.COMPLETING_REBALANCE):
            assert {each.member_id: each.phase for each in view.members} == {
                each: phase_in(group, each) for each in group.members
            }
        assert [each.member_id for each in view.members if each.is_leader] == [
            each for each in group.members if each == group.leader_id
        ]
        committed = {}
        for partition, steps in timeline.offsets.items():
            offsets = [step.offset for step in steps if step.began.position <= position]
            if offsets and offsets[-1] is not None:
                committed[partition.topic, partition.partition] = offsets[-1]
        assert committed == {
            (topic, index): value.offset
            for topic, offsets in group.committed_offsets.items()
            for index, value in offsets.items()
        }


def test_a_member_goes_through_its_phases() -> None:
    timeline = timeline_of("lab", scenario_history("slow-member-delays-the-rebalance"))
    carla = next(lane.member_id for lane in timeline.lanes if lane.name == "carla")
    phases = []
    for moment in timeline.moments:
        for member in moment_view(timeline, moment.position).members:
            if member.member_id == carla and phases[-1:] != [member.phase]:
                phases.append(member.phase)
    join, sync = (MemberPhase.JOINING, MemberPhase.MUST_SYNC), MemberPhase.SYNCING
    assert phases == [*join, MemberPhase.ASSIGNED, MemberPhase.MUST_JOIN, *join, sync, MemberPhase.ASSIGNED]


def test_there_is_no_moment_before_the_first() -> None:
    timeline = timeline_of("lab", scenario_history("slow-member-delays-the-rebalance"))
    with pytest.raises(ValueError, match="no event of group 'lab' up to position 1"):
        moment_view(timeline, 1)


@settings(max_examples=20, deadline=None)
@given(SEEDS)
def test_every_moment_has_a_sentence(seed: int) -> None:
    records = drawn_history(seed, minutes=3)
    for name in groups_of(records):
        timeline = timeline_of(name, records)
        names = MemberNames(timeline.names)
        for moment in timeline.moments:
            assert moment_sentence(moment, names).endswith((".", ")"))
