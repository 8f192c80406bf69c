"""A course is played as it is written, and what is seen has names in place of ids."""

from collections.abc import Callable, Sequence

from regroup.cli.conformance.steerable_cluster import steered_emulator
from regroup.conformance.differential.duel import next_leaders
from regroup.conformance.differential.normalise import Names
from regroup.conformance.differential.player import Player, Slot
from regroup.conformance.differential.random_course import ENDLESS_MS, Actor, Course, Kind, Move
from regroup.conformance.harness.target import Target
from regroup.protocol.errors import ErrorCode as E
from regroup.protocol.messages.describe import DeletableGroupResult, DeleteGroupsResponse
from regroup.protocol.messages.group import JoinGroupResponse

UNDELAYED = {"group.initial.rebalance.delay.ms": "0", "group.min.session.timeout.ms": "100"}
CAST = tuple(Actor(f"actor {number}", None, ENDLESS_MS, ENDLESS_MS) for number in range(3))
TURNS = [(Kind.JOIN, 0), (Kind.SYNC, 0), (Kind.JOIN, 1), (Kind.JOIN, 2), (Kind.JOIN, 0), (Kind.LEAVE, 0)]
FIRST_LEAVES = Course(0, CAST, tuple(Move(kind, actor, version=3) for kind, actor in TURNS))
"""Three gather; then the leader leaves, and one of the others must follow it."""
GATHER = Course(0, CAST, FIRST_LEAVES.moves[:4], slot_ms=600)
COME_BACK = Course(0, CAST, (*FIRST_LEAVES.moves, Move(Kind.JOIN, 1, 3), Move(Kind.JOIN, 2, 3)))


async def played(
    course: Course, new_player: Callable[[str], Player], before: Sequence[Slot] = (), attempt: int = 1
) -> list[Slot]:
    """What was to be seen; where the player was late that proves nothing, and another plays it in another group."""
    player = new_player(f"attempt {attempt}")
    slots = await player.play(course, before)
    return await played(course, new_player, before, attempt + 1) if player.is_late else slots


async def test_a_broker_that_is_told_who_shall_lead_does_so() -> None:
    async with steered_emulator(UNDELAYED) as emulator:
        target = await Target.learn(emulator.address)
        left_alone = await played(COME_BACK, lambda attempt: Player(target, f"left alone, {attempt}"))
        wishes = ["actor 2 of move 3"] * len(COME_BACK.moves)
        steered = await played(COME_BACK, lambda attempt: Player(target, f"steered, {attempt}", emulator, wishes))
    assert next_leaders(left_alone)[5] == "actor 1 of move 2"
    assert next_leaders(steered)[5] == "actor 2 of move 3"


async def test_who_plays_after_another_stops_where_they_part() -> None:
    async with steered_emulator(UNDELAYED) as emulator:
        target = await Target.learn(emulator.address)
        before = await played(GATHER, lambda attempt: Player(target, f"before, {attempt}"))
        assert await played(GATHER, lambda attempt: Player(target, f"same, {attempt}"), before) == before
        before[2].group["state"] = "something else"
        assert len(await played(GATHER, lambda attempt: Player(target, f"other, {attempt}"), before)) == 3


def test_ids_are_called_by_the_moves_that_brought_them() -> None:
    names = Names("the group's own id")
    names.give("regroup-1", "actor 0 of move 3")
    names.give("regroup-1", "another name")
    names.give("i0-2", "actor 0 of move 7")
    answer = names.answer(JoinGroupResponse(member_id="regroup-1", leader="i0-2", generation_id=4))
    assert (answer["member_id"], answer["leader"]) == ("actor 0 of move 3", "actor 0 of move 7")
    result = DeletableGroupResult(group_id="the group's own id", error_code=E.NON_EMPTY_GROUP)
    shown = names.answer(DeleteGroupsResponse(results=[result]))
    assert shown["results"] == [{"group_id": "the group", "error_code": "NON_EMPTY_GROUP"}]


def test_an_id_that_is_yet_to_be_replaced_is_found_by_its_actor() -> None:
    names = Names("g")
    names.give("i0-1", "actor 0 of move 3")
    assert names.id_of("actor 0 of move 3") == "i0-1"
    assert names.id_of("actor 0 of move 9") == "i0-1"
    assert names.id_of("actor 1 of move 4") == ""


def test_an_id_without_a_name_shows_no_random_part() -> None:
    answer = Names("g").answer(JoinGroupResponse(member_id="regroup-00000000-1111-2222-3333-444444444444"))
    assert answer["member_id"] == "regroup-?"


def test_a_connection_that_was_lost_is_seen_as_such() -> None:
    assert Names("g").answer(ConnectionError("gone")) == {"failure": "gone"}
