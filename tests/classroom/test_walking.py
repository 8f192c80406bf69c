"""Ways through a timeline: single steps, without commits, to rebalances and to deadlines that ran out."""

import pytest
from hypothesis import given, settings

from regroup.classroom.fold.build import timeline_of
from regroup.classroom.walking import COMMITS, Walk, message_stops
from regroup.coordinator import events as e
from tests.classroom.histories import SEEDS, drawn_history, groups_of, scenario_history
from tests.classroom.made_histories import ORDERS, assignment, commit, generation_of, records_of
from tests.classroom.recorded.recordings import timeline


@settings(max_examples=5, deadline=None)
@given(SEEDS)
def test_steps_reach_every_moment_and_lead_back(seed: int) -> None:
    records = drawn_history(seed, minutes=3)
    for name in groups_of(records):
        timeline = timeline_of(name, records)
        every, few = Walk(timeline), Walk(timeline, with_commits=False)
        others = [index for index, each in enumerate(timeline.moments) if not isinstance(each.event, COMMITS)]
        for walk, expected in ((every, list(range(len(timeline.moments)))), (few, others)):
            if not expected:
                continue
            forth = [walk.first()]
            while forth[-1] != walk.last():
                forth.append(walk.step(forth[-1]))
            assert forth == expected
            back = [walk.last()]
            while back[-1] != walk.first():
                back.append(walk.step(back[-1], -1))
            assert back == expected[::-1]


@pytest.mark.parametrize("what", ["zombie-commits-after-removal", "slow-member-delays-the-rebalance", 5])
def test_recorded_messages_stand_between_the_events_before_and_after_them(what: str | int) -> None:
    history = timeline(what)
    stops, last = message_stops(history), len(history.moments) - 1
    assert [each.moment_index for each in stops] == sorted(each.moment_index for each in stops)
    numbers = {moment.position: index for index, moment in enumerate(history.moments)}
    for each in stops:
        led_to = [numbers[position] for position in each.exchange.events]
        assert all(each.moment_index >= index if each.is_response else each.moment_index < index for index in led_to)
        assert history.moments[each.moment_index].at_ms <= each.at_ms
        assert each.moment_index == last or each.at_ms <= history.moments[each.moment_index + 1].at_ms
    answered = [each for each in history.exchanges if each.answered_at_ms is not None and each.count == 1]
    assert sum(each.is_response for each in stops) == sum(
        each.answered_at_ms >= history.began.at_ms for each in answered if each.answered_at_ms is not None
    )


def test_messages_are_walked_one_by_one_forth_and_back() -> None:
    history = timeline("first-join")
    walk, number = Walk(history), None
    forth: list[int] = []
    while (number := walk.next_message(0, number)) is not None:
        forth.append(number)
    assert [walk.message(each) for each in forth] == message_stops(history)
    assert [walk.previous_message(0, each) for each in forth] == [None, *forth[:-1]]
    last = len(history.moments) - 1
    behind = walk.previous_message(last)
    assert behind is not None
    assert walk.message(behind).moment_index < last


def test_a_walk_without_commits_passes_over_them_from_either_side() -> None:
    events = generation_of("anna", assignments={"anna": assignment(*ORDERS)})
    timeline = timeline_of(
        "made", records_of([*events, commit(5_000, 1), commit(6_000, 2), e.GroupDeleted(at_ms=7_000)])
    )
    walk, last = Walk(timeline, with_commits=False), len(timeline.moments) - 1
    assert walk.step(last, -1) == last - 3
    assert walk.step(last - 3) == last
    assert walk.step(last - 1) == last
    assert walk.step(last - 1, -1) == last - 3
    assert walk.nearest(last - 1) == last - 3
    assert walk.nearest(last) == last
    assert Walk(timeline).nearest(last - 1) == last - 1


def test_the_moments_around_one_are_as_many_as_asked_for_where_there_are_enough() -> None:
    events = generation_of("anna", assignments={"anna": assignment(*ORDERS)})
    timeline = timeline_of("made", records_of([*events, commit(5_000, 1), e.GroupDeleted(at_ms=7_000)]))
    every, few = Walk(timeline), Walk(timeline, with_commits=False)
    last = len(timeline.moments) - 1
    assert list(every.around(0, 3)) == [0, 1, 2]
    assert list(every.around(3, 3)) == [2, 3, 4]
    assert list(every.around(last, 3)) == [last - 2, last - 1, last]
    assert list(few.around(last, 3)) == [last - 3, last - 2, last]
    assert list(every.around(0, 500)) == list(range(last + 1))


def test_a_group_of_commits_alone_stays_where_it_is() -> None:
    timeline = timeline_of("made", records_of([commit(1_000, 1), commit(2_000, 2)]))
    walk = Walk(timeline, with_commits=False)
    assert (walk.step(1), walk.step(1, -1), walk.nearest(1)) == (1, 1, 1)


def test_rebalances_and_deadlines_are_found_in_order_and_end() -> None:
    timeline = timeline_of("lab", scenario_history("slow-member-delays-the-rebalance"))
    walk = Walk(timeline)
    found, index = [], walk.next_rebalance(0)
    while index is not None:
        found.append(timeline.moments[index].position)
        index = walk.next_rebalance(index)
    assert found == [each.began.position for each in timeline.rebalances]
    assert walk.previous_rebalance(0) is None

    index = walk.next_deadline(0)
    kinds = []
    while index is not None:
        moment, before = timeline.moments[index], timeline.moments[index - 1]
        assert moment.cause is not None
        assert (before.cause, before.at_ms) != (moment.cause, moment.at_ms)
        kinds.append(moment.cause.deadline)
        assert walk.previous_deadline(index + 1) == index
        index = walk.next_deadline(index)
    assert kinds[0] == "join-phase"
    assert "session" in kinds
