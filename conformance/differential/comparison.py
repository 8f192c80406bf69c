"""The comparison of two brokers by many random courses, as text and as JSON."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

import msgspec

from regroup.conformance.differential.course_result import CourseResult
from regroup.conformance.differential.timing import COMPARED_SETTINGS
from regroup.conformance.harness.broker_under_test import KAFKA_DEFAULTS

REPORTED_SETTINGS: Final = COMPARED_SETTINGS[:4]
"""The settings that the report shows: those on which the behaviour of the compared brokers depends most."""

MIN_ANSWERED: Final = 0.6
"""The least share of requests without an error. With fewer, the courses compare little but refusals."""


class TestedVersion(msgspec.Struct, frozen=True):
    """How many requests of one version of an API were sent, and how many were answered without an error."""

    requests: int
    answered: int


class CourseComparison(msgspec.Struct, frozen=True):
    """Random courses that were played to two brokers with the same settings."""

    one: str
    other: str
    date: str
    settings: dict[str, str]
    command: str
    """The command that plays these courses."""
    courses: int
    restarted: int
    """How many courses had a restart of the brokers."""
    agreed_at_once: int
    agreed_on_replay: int
    """How many courses differed at first and agreed in a later attempt: most likely races."""
    differed_by_choice: int
    """How many courses differed in every attempt, but only in choices that Kafka leaves open."""
    too_late: int
    """How many courses have no result, because the machine was too busy to play them in time."""
    differ: list[list[str]]
    """The courses that differed in every attempt, each as lines of text: the course, and the difference."""
    requests: dict[str, dict[int, TestedVersion]]
    """The requests to the first broker, by API and version."""
    requests_by_seed: dict[int, TestedVersion]
    """The requests to the first broker in the last attempt at each course, by the course's seed."""

    @property
    def sent(self) -> int:
        """The number of requests to the first broker, over all courses."""
        return sum(each.requests for each in self.requests_by_seed.values())

    @property
    def answered(self) -> int:
        """The number of requests to the first broker that were answered without an error."""
        return sum(each.answered for each in self.requests_by_seed.values())

    def shortcomings(self) -> Iterator[str]:
        """Sentences that say why the comparison shows too little; none if it shows enough."""
        if self.answered < MIN_ANSWERED * self.sent:
            share = f"{100 * self.answered / self.sent:.0f} %"
            yield f"Only {share} of the requests were answered without an error: these courses test little."
        if not self.agreed_at_once + self.agreed_on_replay + len(self.differ):
            yield "No course has a result."

    @property
    def is_equal(self) -> bool:
        """Whether both brokers behaved the same in every course, and the courses tested enough to show it."""
        return not self.differ and not [*self.shortcomings()]


def summarize(
    one: str, other: str, date: str, command: str, settings: Mapping[str, str], results: Sequence[CourseResult]
) -> CourseComparison:
    """Make the comparison of the brokers `one` and `other` from the results of all its courses.

    `command` is the command line that played them, `date` the day, `settings` those of both brokers.
    """
    return CourseComparison(
        one=one,
        other=other,
        date=date,
        command=command,
        settings={name: settings.get(name, KAFKA_DEFAULTS[name]) for name in REPORTED_SETTINGS},
        courses=len(results),
        restarted=sum(result.restarted for result in results),
        agreed_at_once=sum(result.agreed and not result.differences for result in results),
        agreed_on_replay=sum(result.agreed and bool(result.differences) for result in results),
        differed_by_choice=sum(result.differs_only_in_leader for result in results),
        too_late=sum(result.is_too_late for result in results),
        differ=[[*result.difference.lines()] for result in results if result.difference],
        requests=_by_version(results),
        requests_by_seed={result.seed: _tested([result]) for result in results},
    )


def _by_version(results: Iterable[CourseResult]) -> dict[str, dict[int, TestedVersion]]:
    sent: Counter[tuple[str, int]] = Counter()
    answered: Counter[tuple[str, int]] = Counter()
    for result in results:
        for (api, version, is_answered), count in result.requests.items():
            sent[api, version] += count
            answered[api, version] += count * is_answered
    by_api: dict[str, dict[int, TestedVersion]] = {}
    for api, version in sorted(sent):
        by_api.setdefault(api, {})[version] = TestedVersion(sent[api, version], answered[api, version])
    return by_api


def _tested(results: Iterable[CourseResult]) -> TestedVersion:
    counts = [item for result in results for item in result.requests.items()]
    return TestedVersion(
        sum(count for _, count in counts), sum(count for (_, _, is_answered), count in counts if is_answered)
    )


def format_comparison(comparison: CourseComparison) -> Iterator[str]:
    """The comparison as lines of text: every difference, then the requests that were tested, and the totals."""
    for lines in comparison.differ:
        yield from (*lines, "")
    yield f"{'requests':<20}{'sent':>8}{'no error':>10}  answered without an error, by version"
    for api, versions in comparison.requests.items():
        sent, answered = add_up(versions)
        yield f"{api:<20}{sent:>8}{answered:>10}  {format_versions(versions)}"
    yield f"{'all':<20}{comparison.sent:>8}{comparison.answered:>10}"
    yield from (
        f"{comparison.courses} courses of {comparison.one} and {comparison.other} compared, "
        f"{comparison.restarted} of them with a restart:",
        f"{comparison.agreed_at_once:>6} agree",
        f"{comparison.agreed_on_replay:>6} agree when they are played again",
        f"{comparison.differed_by_choice:>6} differ only in a choice that Kafka leaves open",
        f"{comparison.too_late:>6} have no result: this machine was too busy to play them in time",
        f"{len(comparison.differ):>6} differ",
    )
    yield from comparison.shortcomings()


def add_up(versions: Mapping[int, TestedVersion]) -> tuple[int, int]:
    """The number of all requests of an API, and of those that were answered without an error."""
    return sum(each.requests for each in versions.values()), sum(each.answered for each in versions.values())


def format_versions(versions: Mapping[int, TestedVersion]) -> str:
    """For each version, how many of its requests were answered without an error, as text."""
    return ", ".join(f"v{version} {each.answered}/{each.requests}" for version, each in versions.items())


def encode_comparison(comparison: CourseComparison) -> str:
    """The comparison as JSON; `msgspec.json.decode(text, type=CourseComparison)` reads it."""
    return msgspec.json.format(msgspec.json.encode(comparison)).decode()


def merge(parts: Sequence[CourseComparison]) -> CourseComparison:
    """Join comparisons of the same brokers into one; they have the same settings, and no seed is in two of them."""
    first = parts[0]
    assert all(each.settings == first.settings for each in parts), "courses with different settings add up to nothing"
    requests: dict[str, dict[int, TestedVersion]] = {}
    for part in parts:
        for api, versions in part.requests.items():
            of_api = requests.setdefault(api, {})
            for version, tested in versions.items():
                before = of_api.get(version, TestedVersion(0, 0))
                of_api[version] = TestedVersion(before.requests + tested.requests, before.answered + tested.answered)
    return msgspec.structs.replace(
        first,
        date=max(each.date for each in parts),
        command="; ".join(dict.fromkeys(each.command for each in parts)),
        courses=sum(each.courses for each in parts),
        restarted=sum(each.restarted for each in parts),
        agreed_at_once=sum(each.agreed_at_once for each in parts),
        agreed_on_replay=sum(each.agreed_on_replay for each in parts),
        differed_by_choice=sum(each.differed_by_choice for each in parts),
        too_late=sum(each.too_late for each in parts),
        differ=[lines for each in parts for lines in each.differ],
        requests={api: dict(sorted(requests[api].items())) for api in sorted(requests)},
        requests_by_seed={seed: tested for each in parts for seed, tested in each.requests_by_seed.items()},
    )
