"""A course is played move by move, and observations have names in place of member ids."""

from collections.abc import Callable, Sequence

from regroup.cli.conformance.steerable_cluster import run_steerable_cluster
from regroup.conformance.differential.differential_run import next_leaders
from regroup.conformance.differential.normalise import MemberIdNames
from regroup.conformance.differential.player import CoursePlayer, MoveObservation
from regroup.conformance.differential.random_course import (
    UNREACHED_TIMEOUT_MS,
    CourseActor,
    CourseMove,
    MoveKind,
    RandomCourse,
)
from regroup.conformance.harness.target import ConformanceTarget
from regroup.protocol.errors import ErrorCode as E
from regroup.protocol.messages.describe import DeletableGroupResult, DeleteGroupsResponse
from regroup.protocol.messages.group import JoinGroupResponse

SETTINGS = {"group.initial.rebalance.delay.ms": "0", "group.min.session.timeout.ms": "100"}
ACTORS = tuple(CourseActor(f"actor {number}", None, UNREACHED_TIMEOUT_MS, UNREACHED_TIMEOUT_MS) for number in range(3))
MOVES = [
    (MoveKind.JOIN, 0),
    (MoveKind.SYNC, 0),
    (MoveKind.JOIN, 1),
    (MoveKind.JOIN, 2),
    (MoveKind.JOIN, 0),
    (MoveKind.LEAVE, 0),
]
LEADER_LEAVES = RandomCourse(0, ACTORS, tuple(CourseMove(kind, actor, version=3) for kind, actor in MOVES))
"""Three members join; then the leader leaves, and another member has to lead."""
JOIN = RandomCourse(0, ACTORS, LEADER_LEAVES.moves[:4], slot_ms=600)
REJOIN = RandomCourse(
    0, ACTORS, (*LEADER_LEAVES.moves, CourseMove(MoveKind.JOIN, 1, 3), CourseMove(MoveKind.JOIN, 2, 3))
)


async def play(
    course: RandomCourse,
    new_player: Callable[[str], CoursePlayer],
    expected: Sequence[MoveObservation] = (),
    attempt: int = 1,
) -> list[MoveObservation]:
    """The observations of a player that was in time; after a late one, another player plays in another group."""
    player = new_player(f"attempt {attempt}")
    observations = await player.play(course, expected)
    return await play(course, new_player, expected, attempt + 1) if player.is_late else observations


async def test_a_steered_broker_chooses_the_preferred_leader() -> None:
    async with run_steerable_cluster(SETTINGS) as emulator:
        target = await ConformanceTarget.discover(emulator.address)
        free = await play(REJOIN, lambda attempt: CoursePlayer(target, f"free, {attempt}"))
        leaders = ["actor 2 of move 3"] * len(REJOIN.moves)
        steered = await play(REJOIN, lambda attempt: CoursePlayer(target, f"steered, {attempt}", emulator, leaders))
    assert next_leaders(free)[5] == "actor 1 of move 2"
    assert next_leaders(steered)[5] == "actor 2 of move 3"


async def test_a_player_stops_at_the_first_observation_that_is_not_the_expected_one() -> None:
    async with run_steerable_cluster(SETTINGS) as emulator:
        target = await ConformanceTarget.discover(emulator.address)
        expected = await play(JOIN, lambda attempt: CoursePlayer(target, f"first, {attempt}"))
        assert await play(JOIN, lambda attempt: CoursePlayer(target, f"same, {attempt}"), expected) == expected
        expected[2].group["state"] = "something else"
        assert len(await play(JOIN, lambda attempt: CoursePlayer(target, f"other, {attempt}"), expected)) == 3


def test_member_ids_are_named_after_the_moves_that_assigned_them() -> None:
    names = MemberIdNames("the group's own id")
    names.add("regroup-1", "actor 0 of move 3")
    names.add("regroup-1", "another name")
    names.add("i0-2", "actor 0 of move 7")
    response = names.normalise_response(JoinGroupResponse(member_id="regroup-1", leader="i0-2", generation_id=4))
    assert (response["member_id"], response["leader"]) == ("actor 0 of move 3", "actor 0 of move 7")
    result = DeletableGroupResult(group_id="the group's own id", error_code=E.NON_EMPTY_GROUP)
    deletion = names.normalise_response(DeleteGroupsResponse(results=[result]))
    assert deletion["results"] == [{"group_id": "the group", "error_code": "NON_EMPTY_GROUP", "error_message": None}]


def test_a_member_id_that_will_be_replaced_later_is_found_by_its_actor() -> None:
    names = MemberIdNames("g")
    names.add("i0-1", "actor 0 of move 3")
    assert names.id_of("actor 0 of move 3") == "i0-1"
    assert names.id_of("actor 0 of move 9") == "i0-1"
    assert names.id_of("actor 1 of move 4") == ""


def test_a_member_id_without_a_name_has_no_random_part() -> None:
    response = JoinGroupResponse(member_id="regroup-00000000-1111-2222-3333-444444444444")
    assert MemberIdNames("g").normalise_response(response)["member_id"] == "regroup-?"


def test_a_lost_connection_is_an_observation() -> None:
    assert MemberIdNames("g").normalise_response(ConnectionError("gone")) == {"failure": "gone"}
