"""A course is played move by move; its player counts what was answered, stops at a difference, and steers leaders."""

from collections.abc import Callable

import pytest

from regroup.cli.conformance.steerable_cluster import run_steerable_cluster
from regroup.conformance.differential.differential_run import ComparedBrokers, run_courses
from regroup.conformance.differential.played_course import MoveObservation, PlayedCourse, next_leaders
from regroup.conformance.differential.player import CoursePlayer
from regroup.conformance.differential.random_course import (
    CourseActor,
    CourseMove,
    MoveKind,
    RandomCourse,
    random_course,
)
from regroup.conformance.differential.timing import UNREACHED_TIMEOUT_MS, timing_for
from regroup.conformance.harness.broker_under_test import ConformanceTarget

SETTINGS = {"group.initial.rebalance.delay.ms": "0", "group.min.session.timeout.ms": "100"}
ACTORS = tuple(CourseActor(f"actor {number}", None, UNREACHED_TIMEOUT_MS, UNREACHED_TIMEOUT_MS) for number in range(4))
MOVES = [
    (MoveKind.JOIN, 0),
    (MoveKind.SYNC, 0),
    (MoveKind.JOIN, 1),
    (MoveKind.JOIN, 2),
    (MoveKind.JOIN, 0),
    (MoveKind.LEAVE, 0),
    (MoveKind.JOIN, 1),
    (MoveKind.JOIN, 2),
]
REJOIN = RandomCourse(0, ACTORS, tuple(CourseMove(kind, actor, group=0) for kind, actor in MOVES), slot_ms=400)
"""Three members join with JoinGroup v3; then the leader leaves, and another member has to lead."""
JOIN = RandomCourse(0, ACTORS, REJOIN.moves[:4], slot_ms=400)
WITH_RESTART = RandomCourse(
    0, ACTORS, (*REJOIN.moves[:2], CourseMove(MoveKind.RESTART, 0, 0), CourseMove(MoveKind.NEXT, 0, 0)), slot_ms=400
)


def versions_of(target: ConformanceTarget) -> dict[str, range]:
    return {**target.versions, "JoinGroup": range(3, 4)}


async def play(
    course: RandomCourse,
    new_player: Callable[[str], CoursePlayer],
    attempt: int = 1,
) -> list[MoveObservation]:
    """The observations of a player that was in time; after a late one, another player plays in another group."""
    player = new_player(f"attempt {attempt}")
    observations = await player.play(course)
    return observations if player.late_since is None else await play(course, new_player, attempt + 1)


@pytest.mark.slow
async def test_a_steered_broker_chooses_the_preferred_leader() -> None:
    async with run_steerable_cluster(SETTINGS) as emulator:
        target = await ConformanceTarget.discover(emulator.address)
        versions = versions_of(target)
        free = await play(REJOIN, lambda attempt: CoursePlayer(target, f"free, {attempt}", versions))
        leaders = [["group A actor 2 of move 3"] * len(REJOIN.moves), []]
        steered = await play(
            REJOIN,
            lambda attempt: CoursePlayer(
                target, f"steered, {attempt}", versions, steering=emulator, followed=PlayedCourse(leaders=leaders)
            ),
        )
    assert next_leaders(free)[0][5] == "group A actor 1 of move 2"
    assert next_leaders(steered)[0][5] == "group A actor 2 of move 3"


async def test_a_player_stops_at_the_first_observation_that_is_not_the_expected_one() -> None:
    async with run_steerable_cluster(SETTINGS) as emulator:
        target = await ConformanceTarget.discover(emulator.address)
        versions = versions_of(target)
        expected = await play(JOIN, lambda attempt: CoursePlayer(target, f"first, {attempt}", versions))

        def following(attempt: str) -> CoursePlayer:
            return CoursePlayer(target, attempt, versions, followed=PlayedCourse(expected))

        same = await play(JOIN, lambda attempt: following(f"same, {attempt}"))
        assert same == expected
        expected[2].groups["group A"] = {"state": "something else"}
        other = await play(JOIN, lambda attempt: following(f"other, {attempt}"))
        assert len(other) == 3


@pytest.mark.slow
async def test_requests_are_counted_by_version_and_by_whether_they_had_an_error() -> None:
    async with run_steerable_cluster(SETTINGS) as emulator:
        target = await ConformanceTarget.discover(emulator.address)
        player = CoursePlayer(target, "counted", versions_of(target))
        await player.play(REJOIN)
    newest_leave = target.versions["LeaveGroup"][-1]
    assert player.counts["JoinGroup", 3, True] == 6
    assert player.counts["SyncGroup", target.versions["SyncGroup"][-1], True] == 1
    assert player.counts["LeaveGroup", newest_leave, True] == 1
    assert player.counts.total() == len(REJOIN.moves)


async def test_the_groups_of_a_course_are_removed_at_its_end() -> None:
    async with run_steerable_cluster(SETTINGS) as emulator:
        target = await ConformanceTarget.discover(emulator.address)
        await CoursePlayer(target, "removed", versions_of(target)).play(JOIN)
        assert not [group for group in emulator.groups() if group.group_id.startswith("removed")]


async def test_a_restart_of_the_broker_keeps_what_it_has_stored() -> None:
    async with run_steerable_cluster(SETTINGS) as emulator:
        target = await ConformanceTarget.discover(emulator.address, restart=emulator.restart)
        player = CoursePlayer(target, "restarted", versions_of(target), restart=target.restart_and_refresh)
        observations = await player.play(WITH_RESTART)
    before, after = observations[1].groups["group A"], observations[2].groups["group A"]
    assert before == after
    assert isinstance(after, dict)
    assert after["state"] == "Stable"
    assert "'error_code': 'NONE'" in str(observations[3].responses[3])


@pytest.mark.slow
async def test_an_emulator_agrees_with_itself_and_most_requests_are_answered() -> None:
    courses = [random_course(seed, timing_for(SETTINGS), with_restarts=True) for seed in range(50)]
    ordinary = [course.seed for course in courses if not course.restarts]
    restarting = [course.seed for course in courses if course.restarts]
    seeds = [*ordinary[:3], restarting[0]]
    async with run_steerable_cluster(SETTINGS) as one, run_steerable_cluster(SETTINGS) as other:
        first = await ConformanceTarget.discover(one.address, restart=one.restart)
        second = await ConformanceTarget.discover(other.address, restart=other.restart)
        brokers = await ComparedBrokers.prepare(first, second, "test", steering=other)
        results = await run_courses(brokers, seeds)
    assert [line for result in results if result.difference for line in result.difference.lines()] == []
    assert [result.restarted for result in results] == [False, False, False, True]
    counts = sum((result.requests for result in results), start=type(results[0].requests)())
    answered = sum(count for (_, _, is_answered), count in counts.items() if is_answered)
    assert answered > 0.6 * counts.total() > 60
