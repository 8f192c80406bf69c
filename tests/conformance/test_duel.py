"""A seed is one course for ever, and two brokers that differ are told apart."""

from fake_broker import Answer, fake_broker

from regroup.conformance.differential.duel import LATE_TRIES, TRIES, Difference, DuelOutcome, duel, next_leaders
from regroup.conformance.differential.player import Slot
from regroup.conformance.differential.random_course import ENDLESS_MS, SLOT_MS, Kind, Move, course
from regroup.conformance.harness.target import Target
from regroup.protocol.errors import ErrorCode as E
from regroup.protocol.messages.group import HeartbeatResponse

ONE_BEAT = course(0, length=1)
BEATS = type(ONE_BEAT)(0, ONE_BEAT.actors, (Move(Kind.BEAT, actor=0, version=3),))


async def outcome(mine: int, theirs: int) -> DuelOutcome:
    def beaten(code: int) -> dict[str, Answer]:
        return {"Heartbeat": lambda request: HeartbeatResponse(error_code=code)}

    async with fake_broker(beaten(mine)) as one, fake_broker(beaten(theirs)) as other:
        return await duel(await Target.learn(one), await Target.learn(other), BEATS, "test")


def test_a_seed_is_the_same_course_every_time() -> None:
    assert course(7) == course(7)
    assert course(7) != course(8)


def test_timeouts_never_end_together_nor_near_a_move() -> None:
    for seed in range(50):
        short = [
            each for actor in course(seed).actors for each in (actor.session_timeout_ms, actor.rebalance_timeout_ms)
        ]
        ending = [each for each in short if each < ENDLESS_MS]
        assert len(set(ending)) == len(ending)
        assert all(0.75 < each % SLOT_MS / SLOT_MS < 0.97 for each in ending)


async def test_brokers_that_do_the_same_agree() -> None:
    assert (await outcome(E.UNKNOWN_MEMBER_ID, E.UNKNOWN_MEMBER_ID)).agreed


async def test_brokers_that_differ_are_told_apart_and_the_course_is_shown() -> None:
    found = await outcome(E.UNKNOWN_MEMBER_ID, E.NONE)
    assert found.difference is not None
    assert not found.only_choices
    lines = [*found.difference.lines()]
    assert "    0 0 beats v3" in lines
    assert "  one: to move 0: {'error_code': 'UNKNOWN_MEMBER_ID'}" in lines
    assert "  other: to move 0: {'error_code': 'NONE'}" in lines


def led_by(leader: str, error: str = "NONE", generation: int = 1) -> Slot:
    return Slot(BEATS.moves[0], {0: {"error_code": error, "generation_id": generation, "leader": leader}})


def parted(one: Slot, other: Slot) -> DuelOutcome:
    return DuelOutcome(0, parted=[Difference(BEATS, 0, one, other)] * TRIES)


def test_another_leader_is_a_choice_and_another_code_is_none() -> None:
    assert parted(led_by("anna"), led_by("ben")).only_choices
    assert not parted(led_by("anna"), led_by("anna", "UNKNOWN_MEMBER_ID")).only_choices


def test_what_differed_in_one_try_and_not_in_the_next_is_no_difference() -> None:
    flickering = DuelOutcome(0, agreed=True, parted=parted(led_by("anna"), led_by("anna", "UNKNOWN_MEMBER_ID")).parted)
    assert flickering.difference is None
    assert not flickering.only_choices


def test_who_was_late_proves_nothing() -> None:
    late = Difference(BEATS, 0, led_by("anna"), led_by("anna", "UNKNOWN_MEMBER_ID"), late=True)
    assert not DuelOutcome(0, parted=[late]).is_over
    found = DuelOutcome(0, parted=[late] * LATE_TRIES)
    assert found.is_over
    assert found.too_late
    assert found.difference is None


def test_the_leader_of_the_next_generation_is_known_in_every_slot_before_it() -> None:
    nothing = Slot(BEATS.moves[0])
    told_again = led_by("a lie for an old client", generation=1)
    slots = [led_by("anna"), nothing, told_again, led_by("ben", generation=2), nothing]
    assert next_leaders(slots) == ["anna", "ben", "ben", "ben", ""]
