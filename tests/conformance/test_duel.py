"""A seed is one course for ever, and two brokers that differ are told apart."""

from fake_broker import Answer, fake_broker

from regroup.conformance.chance import Kind, Move, course
from regroup.conformance.duel import Difference as Parted
from regroup.conformance.duel import Outcome, Slot, _chosen_otherwise, duel
from regroup.conformance.target import Target
from regroup.protocol.errors import ErrorCode as E
from regroup.protocol.messages.group import HeartbeatResponse

ONE_BEAT = course(0, length=1)
BEATS = type(ONE_BEAT)(0, ONE_BEAT.actors, (Move(Kind.BEAT, actor=0, version=3),))


async def outcome(mine: int, theirs: int) -> Outcome:
    def beaten(code: int) -> dict[str, Answer]:
        return {"Heartbeat": lambda request: HeartbeatResponse(error_code=code)}

    async with fake_broker(beaten(mine)) as one, fake_broker(beaten(theirs)) as other:
        return await duel(await Target.learn(one), await Target.learn(other), BEATS, "test", tries=1)


def test_a_seed_is_the_same_course_every_time() -> None:
    assert course(7) == course(7)
    assert course(7) != course(8)


def test_timeouts_never_end_together() -> None:
    for seed in range(50):
        short = [
            each for actor in course(seed).actors for each in (actor.session_timeout_ms, actor.rebalance_timeout_ms)
        ]
        ending = [each for each in short if each < 60_000]
        assert len(set(ending)) == len(ending)


async def test_brokers_that_do_the_same_agree() -> None:
    assert await outcome(E.UNKNOWN_MEMBER_ID, E.UNKNOWN_MEMBER_ID) == Outcome(0)


async def test_brokers_that_differ_are_told_apart_and_the_course_is_shown() -> None:
    found = await outcome(E.UNKNOWN_MEMBER_ID, E.NONE)
    assert found.difference is not None
    assert not found.only_choices
    lines = [*found.difference.lines()]
    assert "    0 0 beats v3" in lines
    assert "  one: to move 0: {'error_code': 'UNKNOWN_MEMBER_ID'}" in lines
    assert "  other: to move 0: {'error_code': 'NONE'}" in lines


def test_another_leader_is_a_choice_and_another_code_is_none() -> None:
    move = BEATS.moves[0]
    one = Slot(move, {0: {"leader": "actor 1", "error_code": "NONE"}})
    leads = Slot(move, {0: {"leader": "actor 2", "error_code": "NONE"}})
    fails = Slot(move, {0: {"leader": "actor 1", "error_code": "UNKNOWN_MEMBER_ID"}})
    assert _chosen_otherwise(Parted(BEATS, 0, one, leads))
    assert not _chosen_otherwise(Parted(BEATS, 0, one, fails))
