"""The comparison of two brokers by many random courses, as text and as JSON."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

import msgspec

from regroup.conformance.differential.differential_run import CourseResult
from regroup.conformance.differential.random_course import MOVE_SPECS, MoveKind, random_course

REPORTED_SETTINGS = ("group.initial.rebalance.delay.ms", "group.max.size")
"""The settings on which the behaviour of the compared brokers depends most."""


class CourseComparison(msgspec.Struct, frozen=True):
    """Random courses that were played to two brokers with the same settings."""

    one: str
    other: str
    date: str
    settings: dict[str, str]
    courses: int
    agreed_at_once: int
    agreed_on_replay: int
    """Courses that differed at first and agreed later: most likely races of a request against a timeout."""
    differed_by_choice: int
    """Courses that differed in every attempt, but only in choices that Kafka leaves open."""
    too_late: int
    """Courses without a result: the machine was too busy to play them in time."""
    differ: list[list[str]]
    """The courses that differed in every attempt, each as lines of text: the course, and the difference."""
    requests: dict[str, dict[int, int]]
    """The number of requests to each broker, by API and version."""


def summarize(
    one: str, other: str, date: str, settings: Mapping[str, str], results: Sequence[CourseResult]
) -> CourseComparison:
    """The comparison that these results make."""
    return CourseComparison(
        one=one,
        other=other,
        date=date,
        settings={name: settings[name] for name in REPORTED_SETTINGS if name in settings},
        courses=len(results),
        agreed_at_once=sum(result.agreed and not result.differences for result in results),
        agreed_on_replay=sum(result.agreed and bool(result.differences) for result in results),
        differed_by_choice=sum(result.differs_only_in_leader for result in results),
        too_late=sum(result.is_too_late for result in results),
        differ=[[*result.difference.lines()] for result in results if result.difference],
        requests=_count_requests(result.seed for result in results),
    )


def _count_requests(seeds: Iterable[int]) -> dict[str, dict[int, int]]:
    moves = Counter((move.kind, move.version) for seed in seeds for move in random_course(seed).moves)
    return {
        spec.api: {version: moves[kind, version] for version in range(spec.newest_version + 1) if moves[kind, version]}
        for kind, spec in MOVE_SPECS.items()
        if kind is not MoveKind.WAIT
    }


def format_comparison(comparison: CourseComparison) -> Iterator[str]:
    """Every difference, then the totals."""
    for lines in comparison.differ:
        yield from (*lines, "")
    requests = sum(sum(versions.values()) for versions in comparison.requests.values())
    brokers = f"{comparison.one} and {comparison.other}"
    yield from (
        f"{comparison.courses} courses of {brokers} compared, {requests} requests to each:",
        f"{comparison.agreed_at_once:>6} agree",
        f"{comparison.agreed_on_replay:>6} agree when they are played again",
        f"{comparison.differed_by_choice:>6} differ only in a choice that Kafka leaves open",
        f"{comparison.too_late:>6} have no result: this machine was too busy to play them in time",
        f"{len(comparison.differ):>6} differ",
    )


def encode_comparison(comparison: CourseComparison) -> str:
    """The comparison as JSON; `msgspec.json.decode(text, type=CourseComparison)` reads it."""
    return msgspec.json.format(msgspec.json.encode(comparison)).decode()
