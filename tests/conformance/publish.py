"""Run all stories on regroup, Apache Kafka, kfake and librdkafka's mock cluster, and write docs/conformance.md.

python -m tests.conformance.publish docs/conformance.md            # half an hour: one story takes five minutes
python -m tests.conformance.publish --longest 60 --only kafka --only regroup /tmp/page.md
"""

import argparse
import asyncio
import sys
import uuid
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from functools import partial, reduce
from pathlib import Path

import msgspec

from regroup.cli.conformance.steerable_cluster import run_steerable_cluster
from regroup.cli.serve.log import configure_log
from regroup.conformance.differential.comparison import CourseComparison, format_comparison, summarize
from regroup.conformance.differential.differential_run import CourseResult, run_courses
from regroup.conformance.harness.cases import ConformanceCase
from regroup.conformance.harness.target import ConformanceTarget, TargetUnavailable
from regroup.conformance.run.report import ConformanceReport, add_not_observable, encode_report
from regroup.conformance.run.runner import StoryOutcome, StoryRunOptions, StoryVerdict, run_stories
from regroup.conformance.stories import CASES
from tests.conformance.apache_kafka import ApacheKafkaBroker, KafkaUnavailable, apache_kafka
from tests.conformance.page import render_page
from tests.conformance.peers import (
    FAST_SETTINGS,
    RANDOM_COURSE_SETTINGS,
    SHORT_RETENTION_SETTINGS,
    SMALL_GROUP_SETTINGS,
    TWO_BROKER_CASES,
    PeerUnavailable,
    RegroupBroker,
    kfake_cluster,
    librdkafka_mock_cluster,
    librdkafka_version,
    regroup_broker,
)

MOCK_NEWEST_VERSIONS = {"JoinGroup": 5, "SyncGroup": 3, "Heartbeat": 3, "LeaveGroup": 3}
"""The mock advertises the flexible versions, but cannot decode them."""

MOCK_SETTINGS = {"group.initial.rebalance.delay.ms": "3000", "group.min.session.timeout.ms": "6000"}
"""The settings of the mock, which cannot be changed."""

MOCKS_AT_ONCE = 6
"""Stories on the mock mostly wait for their timeouts."""

SLOT_MS = 500
"""The time between the moves of a random course: three Java processes may run at the same time."""

INTRODUCTION = """
# Conformance

The behaviours of Apache Kafka's coordinator of classic groups, and which other brokers have them. Each row is a short
story over the wire, which `regroup conformance --bootstrap HOST:PORT` runs on any broker with Kafka's protocol;
`regroup conformance --list` shows which settings each one needs. In a cluster the stories go to the coordinators of
their groups. This page is written by `make conformance`.
"""


def merge_verdicts(first: Iterable[StoryVerdict], second: Iterable[StoryVerdict]) -> list[StoryVerdict]:
    """The verdicts of two runs with different settings: the second one counts where the first could not observe."""
    others = {verdict.behaviour: verdict for verdict in second}
    return [others.get(each.behaviour, each) if each.outcome is StoryOutcome.NOT_OBSERVABLE else each for each in first]


async def examine(
    address: str,
    longest_s: float,
    *,
    restart: Callable[[], None] | None = None,
    settings: Mapping[str, str] | None = None,
    newest_versions: Mapping[str, int] | None = None,
    cases: Iterable[ConformanceCase] = tuple(CASES.values()),
) -> list[StoryVerdict]:
    """The verdicts on the broker at one address."""

    async def restart_in_thread() -> None:
        assert restart is not None
        await asyncio.to_thread(restart)

    target = await ConformanceTarget.discover(
        address, settings, restart_in_thread if restart else None, newest_versions
    )
    return await run_stories(target, cases, StoryRunOptions(uuid.uuid4().hex[:8], max_case_timeout_s=longest_s))


async def examine_all(
    fast: ApacheKafkaBroker | RegroupBroker, *others: ApacheKafkaBroker | RegroupBroker, longest_s: float
) -> list[StoryVerdict]:
    """The merged verdicts on the same broker with several settings; the first one can be restarted."""

    def restart() -> None:
        fast.stop()
        fast.start()

    first, *rest = await asyncio.gather(
        examine(fast.address, longest_s, restart=restart), *(examine(other.address, longest_s) for other in others)
    )
    return reduce(merge_verdicts, rest, first)


def examine_kafka(longest_s: float) -> tuple[str, list[StoryVerdict]]:
    with (
        apache_kafka(FAST_SETTINGS) as fast,
        apache_kafka(SMALL_GROUP_SETTINGS) as small,
        apache_kafka(SHORT_RETENTION_SETTINGS) as short_retention,
    ):
        verdicts = asyncio.run(examine_all(fast, small, short_retention, longest_s=longest_s))
    with apache_kafka(FAST_SETTINGS) as first, apache_kafka(FAST_SETTINGS, controlled_by=first) as second:
        of_two_brokers = asyncio.run(examine(second.address, longest_s, cases=TWO_BROKER_CASES))
    return f"Apache Kafka {first.version}", merge_verdicts(verdicts, of_two_brokers)


def examine_regroup(longest_s: float) -> tuple[str, list[StoryVerdict]]:
    with (
        regroup_broker(FAST_SETTINGS) as fast,
        regroup_broker(SMALL_GROUP_SETTINGS) as small,
        regroup_broker(SHORT_RETENTION_SETTINGS) as short_retention,
    ):
        verdicts = asyncio.run(examine_all(fast, small, short_retention, longest_s=longest_s))
    with regroup_broker(FAST_SETTINGS, brokers=2) as cluster:
        of_two_brokers = asyncio.run(examine(cluster.address, longest_s, cases=TWO_BROKER_CASES))
    return f"regroup {cluster.version}", merge_verdicts(verdicts, of_two_brokers)


def examine_kfake(longest_s: float) -> tuple[str, list[StoryVerdict]]:
    with kfake_cluster() as (address, version):
        verdicts = asyncio.run(examine(address, longest_s, settings=FAST_SETTINGS))
    with kfake_cluster(brokers=2) as (address, _):
        of_two_brokers = asyncio.run(examine(address, longest_s, settings=FAST_SETTINGS, cases=TWO_BROKER_CASES))
    return f"kfake {version}", merge_verdicts(verdicts, of_two_brokers)


def examine_mock(longest_s: float) -> tuple[str, list[StoryVerdict]]:
    """Each area has a mock cluster of its own; several run side by side."""
    areas = dict.fromkeys(case.area for case in CASES.values())
    with ThreadPoolExecutor(MOCKS_AT_ONCE) as pool:
        of_areas = pool.map(partial(_examine_area, longest_s=longest_s), areas)
        verdicts = {verdict.behaviour: verdict for of_area in of_areas for verdict in of_area}
    of_two_brokers = [
        verdict for case in TWO_BROKER_CASES for verdict in _examine_on_mock([case], longest_s, brokers=2)
    ]
    return f"librdkafka mock {librdkafka_version()}", merge_verdicts([verdicts[name] for name in CASES], of_two_brokers)


def _examine_area(area: str, longest_s: float) -> list[StoryVerdict]:
    """A story may abort the mock's process; then each story of the area gets a mock of its own."""
    cases = [case for case in CASES.values() if case.area == area]
    verdicts = _examine_on_mock(cases, longest_s)
    if any("refused" in verdict.reason for verdict in verdicts):
        verdicts = [verdict for case in cases for verdict in _examine_on_mock([case], longest_s)]
    return verdicts


def _examine_on_mock(cases: list[ConformanceCase], longest_s: float, *, brokers: int = 1) -> list[StoryVerdict]:
    with librdkafka_mock_cluster(brokers=brokers) as address:
        return asyncio.run(
            examine(address, longest_s, settings=MOCK_SETTINGS, newest_versions=MOCK_NEWEST_VERSIONS, cases=cases)
        )


COURSES = "courses"
PEERS = {"regroup": examine_regroup, "kafka": examine_kafka, "kfake": examine_kfake, "mock": examine_mock}


def report_on(name: str, longest_s: float) -> ConformanceReport | None:
    """A report on this peer, if it can run here."""
    try:
        title, verdicts = PEERS[name](longest_s)
    except (KafkaUnavailable, PeerUnavailable, TargetUnavailable) as reason:
        print(f"{name}: {reason}", file=sys.stderr)
        return None
    report = ConformanceReport(title, _now(), add_not_observable(verdicts))
    print(title, {str(outcome): count for outcome, count in report.totals().items()}, flush=True)
    return report


def compare_courses(courses: int) -> list[CourseComparison]:
    """Random courses on Apache Kafka and on an emulator, with two sets of settings."""
    comparisons = []
    for settings in (FAST_SETTINGS, RANDOM_COURSE_SETTINGS):
        with apache_kafka(settings) as kafka:
            results = asyncio.run(_run_courses(kafka.address, range(1, courses + 1)))
            comparison = summarize(f"Apache Kafka {kafka.version}", "regroup", _now(), settings, results)
        print(*format_comparison(comparison), sep="\n", flush=True)
        comparisons.append(comparison)
    return comparisons


async def _run_courses(address: str, seeds: Iterable[int]) -> list[CourseResult]:
    kafka = await ConformanceTarget.discover(address)
    async with run_steerable_cluster(kafka.settings) as emulator:
        regroup = await ConformanceTarget.discover(emulator.address)
        return await run_courses(kafka, regroup, seeds, uuid.uuid4().hex[:8], steering=emulator, slot_ms=SLOT_MS)


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def is_conformant(reports: Mapping[str, ConformanceReport], comparisons: Iterable[CourseComparison]) -> bool:
    """Whether Apache Kafka fails nothing, regroup passes what Kafka passes, and no random course differs."""
    kafka, regroup = reports.get("kafka"), reports.get("regroup")
    if kafka and kafka.totals()[StoryOutcome.FAILED]:
        return False
    if kafka and regroup:
        verdicts = {verdict.behaviour: verdict for verdict in regroup.verdicts}
        passed = [each.behaviour for each in kafka.verdicts if each.outcome is StoryOutcome.PASSED]
        if any(verdicts[behaviour].outcome is not StoryOutcome.PASSED for behaviour in passed):
            return False
    return not any(comparison.differ for comparison in comparisons)


def main() -> int:
    """Write the page, and the reports beside each other if a folder is named."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("page", type=Path)
    parser.add_argument("--only", action="append", choices=(*PEERS, COURSES), help="only this part; may be repeated")
    parser.add_argument("--longest", type=float, default=400, metavar="SECONDS", help="leave out longer stories")
    parser.add_argument("--courses", type=int, default=120, metavar="N", help="random courses for each set of settings")
    parser.add_argument("--reports", type=Path, metavar="FOLDER", help="keep the reports there, and use those there")
    arguments = parser.parse_args()
    configure_log("error", "text")
    reports = {name: report for name in PEERS if (report := _new_or_kept_report(name, arguments)) is not None}
    comparisons = _new_or_kept_comparisons(arguments)
    arguments.page.write_text(render_page([*reports.values()], comparisons, INTRODUCTION), encoding="utf-8")
    return 0 if is_conformant(reports, comparisons) else 1


def _new_or_kept_comparisons(arguments: argparse.Namespace) -> list[CourseComparison]:
    file: Path | None = arguments.reports and arguments.reports / f"{COURSES}.json"
    if arguments.only and COURSES not in arguments.only:
        return msgspec.json.decode(file.read_bytes(), type=list[CourseComparison]) if file and file.exists() else []
    try:
        comparisons = compare_courses(arguments.courses)
    except (KafkaUnavailable, TargetUnavailable) as reason:
        print(f"{COURSES}: {reason}", file=sys.stderr)
        return []
    if file:
        file.write_bytes(msgspec.json.format(msgspec.json.encode(comparisons)) + b"\n")
    return comparisons


def _new_or_kept_report(name: str, arguments: argparse.Namespace) -> ConformanceReport | None:
    file: Path | None = arguments.reports and arguments.reports / f"{name}.json"
    if arguments.only and name not in arguments.only:
        return msgspec.json.decode(file.read_bytes(), type=ConformanceReport) if file and file.exists() else None
    report = report_on(name, arguments.longest)
    if file and report:
        file.write_text(encode_report(report) + "\n", encoding="utf-8")
    return report


if __name__ == "__main__":
    sys.exit(main())
