"""A seed always gives the same course, and the courses of many seeds contain everything that is to be compared."""

from collections import Counter

from regroup.conformance.differential.random_course import (
    RESTART_MOVE,
    WEIGHTS,
    CourseMove,
    MoveKind,
    random_course,
)
from regroup.conformance.differential.subscriptions import ASSIGNOR_LISTS
from regroup.conformance.differential.timing import timing_for

TIMING = timing_for({})
COURSES = [random_course(seed, TIMING, with_restarts=True) for seed in range(200)]
MOVES = [move for course in COURSES for move in course.moves]


def test_a_seed_is_the_same_course_every_time() -> None:
    assert random_course(7, TIMING) == random_course(7, TIMING)
    assert random_course(7, TIMING) != random_course(8, TIMING)


def test_all_kinds_of_moves_are_drawn_for_both_groups() -> None:
    drawn = Counter((move.kind, move.group) for move in MOVES)
    assert {kind for kind, _ in drawn} == {*WEIGHTS, MoveKind.RESTART}
    assert all(drawn[kind, group] for kind in WEIGHTS for group in (0, 1))


def test_broken_subscriptions_are_drawn_and_leaves_name_several_members() -> None:
    assert {move.assignor_list for move in MOVES} == set(range(len(ASSIGNOR_LISTS)))
    leaves = [move for move in MOVES if move.kind is MoveKind.LEAVE]
    assert any(len(move.also_leaving) > 1 and move.by_instance_id for move in leaves)


def test_only_courses_without_a_restart_have_timeouts_that_pass() -> None:
    restarting = [course for course in COURSES if course.restarts]
    assert 10 < len(restarting) < 60
    for course in restarting:
        assert course.moves[RESTART_MOVE].kind is MoveKind.RESTART
        assert {actor.session_timeout_ms for actor in course.actors} == {TIMING.unreached_timeout_ms}
        assert {actor.rebalance_timeout_ms for actor in course.actors} == {TIMING.unreached_timeout_ms}
    others = [course for course in COURSES if not course.restarts]
    sessions = {actor.session_timeout_ms for course in others for actor in course.actors}
    assert sessions == {*TIMING.session_timeouts_ms, TIMING.unreached_timeout_ms}


def test_no_two_actors_share_a_short_session_timeout() -> None:
    for course in COURSES:
        short = [actor.session_timeout_ms for actor in course.actors if actor.session_timeout_ms < 20_000]
        assert len(set(short)) == len(short)


def test_without_restarts_no_course_has_one() -> None:
    assert not any(random_course(seed, TIMING).restarts for seed in range(200))


def test_a_move_names_what_is_unusual() -> None:
    assert str(CourseMove(MoveKind.HEARTBEAT, actor=0, group=1)) == "group B, actor 0: heartbeat"
    unusual = CourseMove(MoveKind.LEAVE, 1, 0, borrowed_from=2, also_leaving=(0, 3), by_instance_id=True)
    assert str(unusual) == "group A, actor 1: leave, member id of actor 2, with actors [0, 3], by instance id"
