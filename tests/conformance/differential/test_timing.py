"""Timeouts of random courses never end near a move, and unsuitable settings are refused with a reason."""

from itertools import product

import pytest

from regroup.conformance.differential.timing import (
    COURSE_LENGTH,
    OBSERVATION_POINT,
    CourseTiming,
    UnsuitableSettings,
    check_same_settings,
    ends_near_a_move,
    timing_for,
)

DELAY = "group.initial.rebalance.delay.ms"
MIN_SESSION = "group.min.session.timeout.ms"
SETTINGS = [{DELAY: delay, MIN_SESSION: shortest} for delay in ("0", "3000", "4000") for shortest in ("0", "6000")]


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_no_chain_of_timeouts_ends_near_a_move_or_an_observation(settings: dict[str, str]) -> None:
    timing = timing_for(settings)
    durations = [duration for duration in timing.durations_ms() if duration]
    ends = [sum(chain) for length in range(1, 7) for chain in product(durations, repeat=length)]
    parts = [end % timing.slot_ms / timing.slot_ms for end in ends if end <= COURSE_LENGTH * timing.slot_ms]
    assert len(parts) > 50
    assert min(parts) > OBSERVATION_POINT + 0.05
    assert max(parts) < 0.95


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_all_timeouts_are_different_and_within_the_bounds_of_the_broker(settings: dict[str, str]) -> None:
    timing = timing_for(settings)
    ends = [ms % timing.slot_ms for ms in (*timing.session_timeouts_ms, *timing.rebalance_timeouts_ms)]
    assert min(abs(one - other) for one, other in product(ends, ends) if one != other) >= 8
    assert len(set(ends)) == len(ends)
    assert min(timing.session_timeouts_ms) >= int(settings[MIN_SESSION])
    assert max(timing.session_timeouts_ms) < timing.duration_ms / 2


def test_an_initial_delay_of_a_whole_number_of_slots_ends_on_moves() -> None:
    timing = CourseTiming(300, (), (), initial_delay_ms=3000)
    assert 3000 in ends_near_a_move(timing)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({DELAY: "600"}, "group.initial.rebalance.delay.ms is 600: whatever the time between moves"),
        ({DELAY: "60000"}, "group.initial.rebalance.delay.ms is 60000, but must be at most"),
        ({MIN_SESSION: "30000"}, "no session would expire within a course"),
        ({"group.max.session.timeout.ms": "10000"}, "every session would expire within a course"),
        ({"group.max.size": "1"}, "group.max.size is 1, but must be at least 2"),
        ({"offsets.retention.check.interval.ms": "700"}, "a cleanup would remove Empty groups"),
    ],
)
def test_settings_with_which_courses_test_nothing_are_refused(settings: dict[str, str], said: str) -> None:
    with pytest.raises(UnsuitableSettings, match=said):
        timing_for(settings)


def test_brokers_with_other_settings_are_not_compared() -> None:
    check_same_settings({}, {"group.max.size": "2147483647"})
    with pytest.raises(UnsuitableSettings, match=r"group\.max\.size is 3 on one broker and 4 on the other"):
        check_same_settings({"group.max.size": "3"}, {"group.max.size": "4"})
