"""The comparison of two brokers by many random courses, as text, as JSON and as a section of docs/conformance.md."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

import msgspec

from regroup.conformance.differential.differential_run import CourseResult
from regroup.conformance.differential.random_course import MOVE_SPECS, MoveKind, random_course

REPORTED_SETTINGS = ("group.initial.rebalance.delay.ms", "group.max.size")
"""The settings on which the behaviour of the compared brokers depends most."""

EXPLANATION = """A random course is a sequence of 40 requests of four members, static and dynamic, in mixed versions.
It is played to two brokers; after each request all new responses are compared, and the group as DescribeGroups returns
it. Where Kafka leaves a choice open, the emulator follows Kafka's choice, and the comparison continues. A course with a
difference is played again: what differs in every attempt is a difference, the rest counts as races of a request against
a timeout, of which a busy machine has many (a difference that shows only now and then would hide among them). To play
the courses: `regroup conformance --bootstrap HOST:PORT --against emulator --seeds 1-500`.
"""


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


def render_comparisons(comparisons: Sequence[CourseComparison]) -> Iterator[str]:
    """The section of docs/conformance.md."""
    yield from ("## Random courses", "", EXPLANATION)
    yield "| compared | settings | date | courses | agree at once | on replay | by choice | too late | differ |"
    yield "|---|---|---|--:|--:|--:|--:|--:|--:|"
    for each in comparisons:
        settings = ", ".join(f"`{name}={value}`" for name, value in each.settings.items())
        agreed = (each.agreed_at_once, each.agreed_on_replay)
        counts = (each.courses, *agreed, each.differed_by_choice, each.too_late, len(each.differ))
        yield f"| {each.one} and {each.other} | {settings} | {each.date[:10]} | {' | '.join(map(str, counts))} |"
    yield from ("", "| requests to each broker | versions | |", "|---|---|--:|")
    for api in dict.fromkeys(api for each in comparisons for api in each.requests):
        versions = sorted({version for each in comparisons for version in each.requests.get(api, {})})
        count = sum(sum(each.requests.get(api, {}).values()) for each in comparisons)
        if versions:
            yield f"| {api} | {versions[0]} to {versions[-1]} | {count} |"
    yield ""
    differences = [lines for each in comparisons for lines in each.differ]
    if not differences:
        yield from ("No difference remains.", "")
    for lines in differences:
        yield from ("```", *lines, "```", "")
