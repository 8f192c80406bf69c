"""A seed always gives the same course, and a differential run finds the difference of two brokers."""

from regroup.conformance.differential.differential_run import (
    MAX_ATTEMPTS,
    MAX_LATE_ATTEMPTS,
    CourseDifference,
    CourseResult,
    next_leaders,
    run_course,
)
from regroup.conformance.differential.player import MoveObservation
from regroup.conformance.differential.random_course import (
    SLOT_MS,
    UNREACHED_TIMEOUT_MS,
    CourseMove,
    MoveKind,
    RandomCourse,
    random_course,
)
from regroup.conformance.harness.target import ConformanceTarget
from regroup.protocol.errors import ErrorCode as E
from regroup.protocol.messages.group import HeartbeatResponse
from tests.conformance.fake_broker import FakeResponse, fake_broker

HEARTBEAT = CourseMove(MoveKind.HEARTBEAT, actor=0, version=3)
COURSE = RandomCourse(0, random_course(0).actors, (HEARTBEAT,))
NOTHING = MoveObservation(HEARTBEAT)


async def run_heartbeat(error: int, other_error: int) -> CourseResult:
    """A differential run of two brokers whose heartbeats return these error codes."""

    def heartbeat_response(error: int) -> dict[str, FakeResponse]:
        return {"Heartbeat": lambda request: HeartbeatResponse(error_code=error)}

    async with fake_broker(heartbeat_response(error)) as one, fake_broker(heartbeat_response(other_error)) as other:
        targets = await ConformanceTarget.discover(one), await ConformanceTarget.discover(other)
        return await run_course(*targets, COURSE, "test")


def test_a_seed_is_the_same_course_every_time() -> None:
    assert random_course(7) == random_course(7)
    assert random_course(7) != random_course(8)


def test_timeouts_never_expire_together_nor_near_a_move() -> None:
    for seed in range(50):
        actors = random_course(seed).actors
        timeouts = [ms for actor in actors for ms in (actor.session_timeout_ms, actor.rebalance_timeout_ms)]
        reached = [timeout_ms for timeout_ms in timeouts if timeout_ms < UNREACHED_TIMEOUT_MS]
        assert len(set(reached)) == len(reached)
        assert all(0.75 < timeout_ms % SLOT_MS / SLOT_MS < 0.97 for timeout_ms in reached)


def test_a_move_names_what_is_unusual() -> None:
    assert str(HEARTBEAT) == "actor 0: heartbeat v3"
    unusual = CourseMove(MoveKind.LEAVE, 1, 4, borrowed_from=2, also_leaving=(0, 3), by_instance_id=True)
    assert str(unusual) == "actor 1: leave v4, member id of actor 2, with actors [0, 3], by instance id"


async def test_brokers_with_the_same_responses_agree() -> None:
    assert (await run_heartbeat(E.UNKNOWN_MEMBER_ID, E.UNKNOWN_MEMBER_ID)).agreed


async def test_brokers_with_other_responses_differ_and_the_course_is_shown() -> None:
    result = await run_heartbeat(E.UNKNOWN_MEMBER_ID, E.NONE)
    assert result.difference is not None
    assert not result.differs_only_in_leader
    lines = [*result.difference.lines()]
    assert "    0 actor 0: heartbeat v3" in lines
    assert "  one: response to move 0: {'error_code': 'UNKNOWN_MEMBER_ID'}" in lines
    assert "  other: response to move 0: {'error_code': 'NONE'}" in lines


def led_by(leader: str, error: str = "NONE", generation_id: int = 1) -> MoveObservation:
    return MoveObservation(HEARTBEAT, {0: {"error_code": error, "generation_id": generation_id, "leader": leader}})


def differing(one: MoveObservation, other: MoveObservation) -> list[CourseDifference]:
    return [CourseDifference(COURSE, 0, one, other)] * MAX_ATTEMPTS


def test_another_leader_is_a_choice_and_another_error_code_is_not() -> None:
    assert CourseResult(0, differences=differing(led_by("anna"), led_by("ben"))).differs_only_in_leader
    other_error = led_by("anna", "UNKNOWN_MEMBER_ID")
    assert not CourseResult(0, differences=differing(led_by("anna"), other_error)).differs_only_in_leader


def test_what_differs_in_one_attempt_and_not_in_the_next_is_no_difference() -> None:
    differences = differing(led_by("anna"), led_by("anna", "UNKNOWN_MEMBER_ID"))
    result = CourseResult(0, agreed=True, differences=differences)
    assert result.difference is None
    assert not result.differs_only_in_leader


def test_a_late_player_proves_nothing() -> None:
    late = CourseDifference(COURSE, 0, led_by("anna"), led_by("anna", "UNKNOWN_MEMBER_ID"), is_late=True)
    assert not CourseResult(0, differences=[late]).is_over
    result = CourseResult(0, differences=[late] * MAX_LATE_ATTEMPTS)
    assert result.is_over
    assert result.is_too_late
    assert result.difference is None


def test_the_leader_of_the_next_generation_is_known_in_every_slot_before_it() -> None:
    same_generation = led_by("another leader, for an old client", generation_id=1)
    observations = [led_by("anna"), NOTHING, same_generation, led_by("ben", generation_id=2), NOTHING]
    assert next_leaders(observations) == ["anna", "ben", "ben", "ben", ""]
