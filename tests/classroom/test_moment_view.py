"""The group after each event, against a load of the same events: phases, owners, clocks, and the last move."""

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regroup.classroom.fold.build import timeline_of
from regroup.classroom.moment_view import MemberPhase, MomentView, MomentViews
from regroup.classroom.timeline import GroupTimeline
from regroup.coordinator import events as e
from regroup.coordinator.classic.deadlines import deadlines
from regroup.coordinator.classic.transitions import TRANSITIONS
from regroup.coordinator.commands import DeadlineKind
from regroup.coordinator.group import AwaitedResponse, Group, GroupState, Member
from tests.classroom.histories import SEEDS, drawn_history, groups_of, scenario_history
from tests.classroom.made_histories import ORDERS, assignment, generation_of, records_of
from tests.classroom.recorded.recordings import timeline as recorded_timeline
from tests.classroom.test_timeline import assigned_in, load_until

HELD_PHASES = {AwaitedResponse.JOIN: MemberPhase.JOIN_HELD, AwaitedResponse.SYNC: MemberPhase.SYNC_HELD}
OWN_DEADLINES = {DeadlineKind.SESSION, DeadlineKind.NEW_MEMBER_JOIN}


def phase_in(group: Group, member: Member) -> MemberPhase:
    """The phase by the coordinator's own values."""
    if member.awaiting:
        return HELD_PHASES[member.awaiting]
    if group.state is GroupState.PREPARING_REBALANCE:
        return MemberPhase.JOIN_EXPECTED
    if group.state is GroupState.COMPLETING_REBALANCE or member.member_id in group.pending_sync_members:
        return MemberPhase.SYNC_EXPECTED
    return MemberPhase.ASSIGNED


@settings(max_examples=8, deadline=None)
@given(SEEDS, st.data())
def test_a_view_equals_the_group_of_a_replay(seed: int, data: st.DataObject) -> None:
    records = drawn_history(seed, minutes=3)
    position = data.draw(st.sampled_from([each.position for each in records if each.group is not None]))
    groups = load_until(records, position)
    for name in groups_of(records):
        timeline = timeline_of(name, records)
        views = MomentViews(timeline)
        index = sum(moment.position <= position for moment in timeline.moments) - 1
        if index < 0:
            continue
        view, group = views[index], groups[name]
        assert {each.lane.member_id: each.phase for each in view.members} == {
            each.member_id: phase_in(group, each) for each in group.members.values()
        }
        assert [each.lane.member_id for each in view.members if each.is_leader] == [
            each for each in [group.leader_id] if each in group.members
        ]
        assert {each.lane.member_id for each in view.members if each.generation_id is None} == {
            each.member_id for each in group.members.values() if each.is_new
        }
        assert assigned_of(view) == assigned_in(group)
        left = [(each.deadline.kind, each.deadline.at_ms) for each in view.clocks]
        running = [each for each in deadlines(group, {}) if each.kind not in OWN_DEADLINES]
        assert left == sorted(((each.kind, each.at_ms) for each in running), key=lambda each: each[1])
        assert all(0 <= each.share_left <= 1 for each in view.clocks)


def assigned_of(view: MomentView) -> set[tuple[str, int, str]]:
    return {(each.topic, each.partition, member.lane.member_id) for member in view.members for each in member.assigned}


@pytest.mark.parametrize("name", ["rolling-restart-dynamic", "follower-crashes-in-the-join-phase"])
def test_moves_follow_one_another_and_are_legal_within_a_coordinator_epoch(name: str) -> None:
    timeline = timeline_of("lab", scenario_history(name))
    views = list(MomentViews(timeline))
    assert [each.index for each in views] == list(range(len(timeline.moments)))
    for before, view in pairwise(views):
        if view.moment.state is before.moment.state:
            assert (view.last_move, view.state_since) == (before.last_move, before.state_since)
            continue
        assert view.last_move is not None
        assert (view.last_move.before, view.last_move.after) == (before.moment.state, view.moment.state)
        assert view.last_move.at == view.state_since == view.moment.point
        assert view.last_move.event_type == view.moment.type
        if view.moment.coordinator_epoch == before.moment.coordinator_epoch:
            assert view.moment.state in before.may_follow
        assert set(view.may_follow) == TRANSITIONS[view.moment.state]


def made_timeline() -> GroupTimeline:
    events = generation_of("anna", "ben", assignments={"anna": assignment(ORDERS[0]), "ben": assignment(ORDERS[1])})
    joins_again = e.MemberRejoined(at_ms=10_000, member_id="ben", profile=profile_of(events))
    more = [e.RebalanceStarted(at_ms=9_000, deadline_ms=69_000), joins_again]
    return timeline_of("made", records_of([*events, *more]))


def profile_of(events: list[e.Event]) -> e.MemberProfile:
    return next(each.profile for each in events if isinstance(each, e.MemberJoined))


def test_a_member_that_rejoins_gives_up_what_it_owned_and_others_are_expected() -> None:
    view = MomentViews(made_timeline())[-1]
    anna, ben = view.members
    assert (anna.phase, anna.owned, anna.is_leader) == (MemberPhase.JOIN_EXPECTED, (ORDERS[0],), True)
    assert (ben.phase, ben.owned, ben.assigned) == (MemberPhase.JOIN_HELD, (), (ORDERS[1],))
    assert ben.since == view.moment.point
    assert view.changed_members == ("ben",)
    assert view.rebalance is not None
    assert {each.generation_id for each in view.members} == {1}


def test_a_clock_runs_down_from_the_event_that_armed_it() -> None:
    views = MomentViews(made_timeline())
    (armed,), (later,) = views[-2].clocks, views[-1].clocks
    assert (armed.left_ms, armed.length_ms, armed.share_left) == (60_000, 60_000, 1.0)
    assert (later.left_ms, later.length_ms) == (59_000, 60_000)


def test_a_removed_member_that_goes_on_believes_to_own_what_it_had() -> None:
    timeline = recorded_timeline("zombie-commits-after-removal")
    views = MomentViews(timeline)
    before, view = next(
        (before, view) for before, view in pairwise(views) if isinstance(view.moment.event, e.MemberRemoved)
    )
    (removed,) = view.changed_members
    owned = {each for member in before.members if member.lane.member_id == removed for each in member.owned}
    assert owned
    assert {partition for partition, members in view.believed.items() if removed in members} == owned
    assert all(removed not in span.owners for span in view.partitions)
    assert not MomentViews(timeline_of("lab", scenario_history("zombie-commits-after-removal")))[view.index].believed


def test_an_index_outside_the_timeline_is_refused() -> None:
    views = MomentViews(made_timeline())
    with pytest.raises(IndexError):
        views[len(views)]
