"""The timing of random courses: timeouts that never expire near a move or an observation.

Requests start timeouts at the beginning of a slot, and a timeout that expires may start the next one. So the end of a
timeout is the sum of several durations after a move. All durations end shortly before the end of a slot; a sum of n of
them ends n times as far before it, and `schedule_for` checks every sum that fits into a course.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from regroup.conformance.harness.broker_under_test import KAFKA_DEFAULTS

DEFAULT_SLOT_MS: Final = 500
"""The shortest time from move to move, in milliseconds. A busy machine needs a longer one."""

COURSE_LENGTH: Final = 45
"""The number of moves of a course."""

OBSERVATION_POINT: Final = 0.25
"""The share of a slot after which its responses are observed."""

MAX_LATENESS: Final = 0.06
"""The share of a slot by which a move or observation may be late.

A later one may follow a timeout that it should precede.
"""

FIRST_TIMEOUT, LAST_TIMEOUT = 0.33, 0.93
"""The shares of a slot between which timeouts expire: after its observation, and before the next move."""

SESSION_ENDS: Final = (0.86, 0.88)
CONSUMER_SESSION_END: Final = 0.84
REBALANCE_ENDS: Final = (0.90, 0.92)
"""The shares of a slot at which the short rebalance timeouts end.

They differ from each other and from `SESSION_ENDS`, since equal ones could expire in either order.
"""
SHORTEST_SESSION_SLOTS, SHORTEST_REBALANCE_SLOTS = 9, 10
SLOTS_BETWEEN_TIMEOUTS: Final = 2

UNREACHED_TIMEOUT_MS: Final = 300_000
"""A timeout so long that no course reaches it. It is shorter only if the broker allows no longer one."""

REGEX_REFRESH_MS: Final = 10_000
"""How long after the last search for the topics of regular expressions a heartbeat may cause the next one, in Kafka."""
LAST_REFRESH: Final = 0.8
"""The share of a slot by which that time must have passed: it begins when a search ends, a while after a move."""

MIN_GROUP_SIZE: Final = 2
MIN_CLEANUP_INTERVAL_MS: Final = 60_000

COMPARED_SETTINGS: Final = (
    "group.initial.rebalance.delay.ms",
    "group.max.size",
    "group.min.session.timeout.ms",
    "group.max.session.timeout.ms",
    "offset.metadata.max.bytes",
    "group.consumer.max.size",
    "group.consumer.migration.policy",
    "group.consumer.min.session.timeout.ms",
    "group.consumer.min.heartbeat.interval.ms",
)
"""The settings on which the responses in a course depend."""

TIMING_SETTINGS: Final = (
    *COMPARED_SETTINGS[:4],
    "offsets.retention.check.interval.ms",
    "group.consumer.min.session.timeout.ms",
    "group.consumer.min.heartbeat.interval.ms",
)
"""The settings on which the timing of a course depends."""


class UnsuitableSettings(Exception):
    """Raised if random courses would show nothing, or nothing reliable, with these settings; the text says why."""


@dataclass(frozen=True, slots=True)
class CourseTiming:
    """The time from move to move, and the timeouts that members may have."""

    slot_ms: int
    session_timeouts_ms: tuple[int, ...]
    rebalance_timeouts_ms: tuple[int, ...]
    unreached_timeout_ms: int = UNREACHED_TIMEOUT_MS
    initial_delay_ms: int = 0
    consumer_session_timeout_ms: int | None = None
    """The session timeout of groups of the consumer protocol that may expire; None if the broker allows none so
    short."""

    @property
    def duration_ms(self) -> int:
        """How long a course lasts, apart from a restart of the brokers."""
        return COURSE_LENGTH * self.slot_ms

    def durations_ms(self) -> tuple[int, ...]:
        """All durations that may expire within a course, in milliseconds."""
        timeouts = *self.session_timeouts_ms, *self.rebalance_timeouts_ms, self.consumer_session_timeout_ms or 0
        return (*timeouts, self.initial_delay_ms)


def check_same_settings(one: Mapping[str, str], other: Mapping[str, str]) -> None:
    """Raise UnsuitableSettings if two brokers would respond differently because of their settings."""
    for name in COMPARED_SETTINGS:
        first, second = (settings.get(name, KAFKA_DEFAULTS[name]).lower() for settings in (one, other))
        if first != second:
            raise UnsuitableSettings(f"{name} is {first} on one broker and {second} on the other: make them equal")


def timing_for(settings: Mapping[str, str], shortest_slot_ms: int = DEFAULT_SLOT_MS) -> CourseTiming:
    """The timing with the shortest slots that fits the broker's settings. Raises UnsuitableSettings if none does."""
    values = {name: int(settings.get(name, KAFKA_DEFAULTS[name])) for name in TIMING_SETTINGS}
    duration_ms = COURSE_LENGTH * shortest_slot_ms
    _check_bounds(values, duration_ms)
    for slot_ms in range(shortest_slot_ms, 2 * shortest_slot_ms):
        timing = _timing(values, slot_ms)
        if not [*ends_near_a_move(timing)]:
            return timing
    raise UnsuitableSettings(
        f"group.initial.rebalance.delay.ms is {values['group.initial.rebalance.delay.ms']}: whatever the time between "
        f"moves, this delay or a multiple of it would end near a move; 0 and 3000 are possible"
    )


def _check_bounds(values: Mapping[str, int], duration_ms: int) -> None:
    bounds = (
        ("group.max.size", MIN_GROUP_SIZE, None, "nearly every JoinGroup would be refused"),
        ("group.initial.rebalance.delay.ms", None, duration_ms // 4, "most courses would end before a generation"),
        ("group.min.session.timeout.ms", None, duration_ms // 2, "no session would expire within a course"),
        ("group.max.session.timeout.ms", 2 * duration_ms, None, "every session would expire within a course"),
        ("offsets.retention.check.interval.ms", MIN_CLEANUP_INTERVAL_MS, None, "a cleanup would remove Empty groups"),
    )
    for name, at_least, at_most, otherwise in bounds:
        if at_least is not None and values[name] < at_least:
            raise UnsuitableSettings(f"{name} is {values[name]}, but must be at least {at_least}: {otherwise}")
        if at_most is not None and values[name] > at_most:
            raise UnsuitableSettings(f"{name} is {values[name]}, but must be at most {at_most}: {otherwise}")


def _timing(values: Mapping[str, int], slot_ms: int) -> CourseTiming:
    needed = -(-values["group.min.session.timeout.ms"] // slot_ms)
    sessions = _timeouts(max(SHORTEST_SESSION_SLOTS, needed), SESSION_ENDS, slot_ms)
    rebalances = _timeouts(SHORTEST_REBALANCE_SLOTS, REBALANCE_ENDS, slot_ms)
    unreached_ms = min(UNREACHED_TIMEOUT_MS, values["group.max.session.timeout.ms"])
    return CourseTiming(
        slot_ms,
        sessions,
        rebalances,
        unreached_ms,
        values["group.initial.rebalance.delay.ms"],
        _consumer_session_timeout(values, slot_ms),
    )


def _consumer_session_timeout(values: Mapping[str, int], slot_ms: int) -> int | None:
    """A session timeout for members of the consumer protocol, longer than the shortest heartbeat interval that is
    allowed.

    None if the broker's limits are too high for one that expires within a course.
    """
    (session_ms,) = _timeouts(SHORTEST_SESSION_SLOTS, [CONSUMER_SESSION_END], slot_ms)
    is_possible = (
        values["group.consumer.min.session.timeout.ms"] <= session_ms
        and values["group.consumer.min.heartbeat.interval.ms"] < session_ms
    )
    return session_ms if is_possible else None


def _timeouts(slots: int, ends: Iterable[float], slot_ms: int) -> tuple[int, ...]:
    return tuple(round((slots + number * SLOTS_BETWEEN_TIMEOUTS + end) * slot_ms) for number, end in enumerate(ends))


def ends_near_a_move(timing: CourseTiming) -> Iterable[int]:
    """Sums of timeouts, in milliseconds after the move that starts them, which end too near another move or an
    observation."""
    durations = [duration_ms for duration_ms in timing.durations_ms() if duration_ms > 0]
    sums, newest = {0}, {0}
    while newest:
        newest = {
            end_ms + duration_ms
            for end_ms in newest
            for duration_ms in durations
            if end_ms + duration_ms <= timing.duration_ms
        } - sums
        sums |= newest
    if not FIRST_TIMEOUT <= REGEX_REFRESH_MS % timing.slot_ms / timing.slot_ms <= LAST_REFRESH:
        yield REGEX_REFRESH_MS
    for end_ms in sorted(sums - {0}):
        if not FIRST_TIMEOUT <= end_ms % timing.slot_ms / timing.slot_ms <= LAST_TIMEOUT:
            yield end_ms
