"""Ways through a timeline: single steps, without commits, to rebalances and to deadlines that ran out."""

from hypothesis import given, settings

from regroup.classroom.fold.build import timeline_of
from regroup.classroom.walking import COMMITS, Walk
from regroup.coordinator import events as e
from tests.classroom.histories import drawn_history, groups_of, scenario_history
from tests.classroom.made_histories import ORDERS, assignment, commit, generation_of, records_of
from tests.classroom.test_timeline import FEW_SEEDS


@settings(max_examples=5, deadline=None)
@given(FEW_SEEDS)
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
