"""A differential run finds the difference of two brokers, and shows the course that led to it."""

import pytest

from regroup.conformance.differential.course_result import (
    MAX_ATTEMPTS,
    MAX_LATE_ATTEMPTS,
    CourseDifference,
    CourseResult,
)
from regroup.conformance.differential.differential_run import common_versions
from regroup.conformance.differential.played_course import MoveObservation, next_leaders
from regroup.conformance.differential.random_course import CourseMove, MoveKind, RandomCourse
from regroup.conformance.differential.requests import APIS_OF_MOVES
from regroup.conformance.differential.timing import DEFAULT_SLOT_MS, UnsuitableSettings

HEARTBEAT = CourseMove(MoveKind.HEARTBEAT, actor=0, group=0)
COURSE = RandomCourse(0, (), (HEARTBEAT,), DEFAULT_SLOT_MS)


def nothing() -> MoveObservation:
    return MoveObservation(HEARTBEAT)


def led_by(leader: str, error: str = "NONE", generation_id: int = 1, *, move: int = 0) -> MoveObservation:
    fields: dict[str, object] = {"error_code": error, "generation_id": generation_id, "leader": leader}
    return MoveObservation(HEARTBEAT, {move: fields})


def differing(one: MoveObservation, other: MoveObservation) -> list[CourseDifference]:
    return [CourseDifference(COURSE, 0, one, other)] * MAX_ATTEMPTS


def test_another_leader_is_a_choice_and_another_error_code_is_not() -> None:
    assert CourseResult(0, differences=differing(led_by("anna"), led_by("ben"))).differs_only_in_leader
    other_error = led_by("anna", "UNKNOWN_MEMBER_ID")
    assert not CourseResult(0, differences=differing(led_by("anna"), other_error)).differs_only_in_leader


def test_other_offsets_are_a_difference() -> None:
    other = nothing()
    other.offsets = {"offsets": {"group A": {"foo-0": (7, -1, "", "NONE")}}}
    result = CourseResult(0, differences=differing(nothing(), other))
    assert result.difference is not None
    assert any("foo-0" in line for line in result.difference.lines())


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


def test_a_difference_shows_the_course_and_both_observations() -> None:
    lines = [*CourseDifference(COURSE, 0, led_by("anna"), led_by("ben")).lines()]
    assert lines[0] == "seed 0, move 0:"
    assert "    0 group A, actor 0: heartbeat" in lines
    assert "  one: response to move 0: {'error_code': 'NONE', 'generation_id': 1, 'leader': 'anna'}" in lines


def test_the_leader_of_the_next_generation_is_known_in_every_slot_before_it() -> None:
    same_generation = led_by("another leader, for an old client", generation_id=1, move=2)
    observations = [led_by("anna"), nothing(), same_generation, led_by("ben", generation_id=2, move=3), nothing()]
    assert next_leaders(observations) == [["anna", "ben", "ben", "ben", ""], [""] * 5]


def test_a_generation_id_that_is_used_again_after_a_deletion_is_a_new_generation() -> None:
    deleted = nothing()
    deleted.groups = {"group A": {"state": "Dead"}}
    observations = [led_by("anna"), deleted, led_by("ben", move=2)]
    assert next_leaders(observations)[0] == ["anna", "ben", "ben"]


def test_only_versions_that_both_brokers_offer_are_used() -> None:
    offered = dict.fromkeys(APIS_OF_MOVES.values(), range(6))
    assert common_versions(offered, {**offered, "JoinGroup": range(4, 10)})["JoinGroup"] == range(4, 6)
    with pytest.raises(UnsuitableSettings, match="no version of JoinGroup in common"):
        common_versions(offered, {**offered, "JoinGroup": range(8, 10)})
