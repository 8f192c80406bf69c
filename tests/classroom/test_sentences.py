"""Sentences of single moments."""

import pytest
from hypothesis import given, settings

from regroup.classroom.fold.build import timeline_of
from regroup.classroom.sentences import moment_sentence
from regroup.classroom.timeline import TimelineMoment
from regroup.classroom.wording import MemberNames, since_text
from regroup.coordinator.events import RebalanceStarted
from regroup.coordinator.group import GroupState
from tests.classroom.histories import SEEDS, drawn_history, groups_of


@settings(max_examples=5, deadline=None)
@given(SEEDS)
def test_every_moment_has_a_sentence(seed: int) -> None:
    records = drawn_history(seed, minutes=3)
    for name in groups_of(records):
        timeline = timeline_of(name, records)
        names = MemberNames(timeline.names)
        for moment in timeline.moments:
            assert moment_sentence(moment, names).endswith((".", ")"))


@pytest.mark.parametrize("is_initial", [False, True])
def test_a_join_phase_without_any_time_ends_at_once(is_initial: bool) -> None:
    event = RebalanceStarted(at_ms=1_000, deadline_ms=1_000, is_initial=is_initial)
    moment = TimelineMoment(
        position=1,
        event_number=1,
        coordinator_epoch=1,
        at_ms=1_000,
        type="rebalance-started",
        event=event,
        cause=None,
        state=GroupState.PREPARING_REBALANCE,
        generation_id=0,
        leader_id=None,
        members=(),
        deadlines=(),
    )
    assert moment_sentence(moment, MemberNames({})) == "A rebalance started. The join phase ends at once."


def test_a_name_in_a_reason_keeps_the_comma_behind_it() -> None:
    names = MemberNames({"anna-1": "anna", "ben-1": "ben"})
    assert names.within("held JoinGroup of anna-1, ben-1; more") == "held JoinGroup of anna, ben; more"


def test_a_time_since_the_start_is_written_in_one_form() -> None:
    assert [since_text(each) for each in (0, 43_017, 103_017)] == ["+0.000 s", "+43.017 s", "+103.017 s"]
