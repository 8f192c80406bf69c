"""Run all stories on regroup, Apache Kafka, kfake and librdkafka's mock cluster, and write docs/conformance.md.

python -m tests.conformance.publish docs/conformance.md            # an hour: one story takes five minutes
python -m tests.conformance.publish --only kafka --only regroup --reports FOLDER /tmp/page.md
python -m tests.conformance.publish docs/conformance.md --parts FOLDER/*.json   # only the section of random courses

Without new random courses the page keeps those that it has; with new ones it keeps what is written by hand about them.
"""

import argparse
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

import msgspec

from regroup.cli.serve.log import configure_log
from regroup.conformance.differential.comparison import CourseComparison, merge
from regroup.conformance.run.report import ConformanceReport, encode_report
from regroup.conformance.run.runner import StoryOutcome
from tests.conformance.columns import COLUMNS, report_on
from tests.conformance.course_runs import CoursePlan
from tests.conformance.full_run import COURSES, DEFAULT_COURSES, UNAVAILABLE, is_complete, print_comparisons
from tests.conformance.page import render_page, with_random_courses

INTRODUCTION = """
# Conformance

The behaviours of Apache Kafka's group coordinator, and which other brokers have them: those of classic groups, and
(`cg.`) those of groups of the consumer protocol and of the migration between the two (KIP-848). Each row is a short
story over the wire, which `regroup conformance --bootstrap HOST:PORT` runs on any broker with Kafka's protocol. Not
every story can be observed with every setting: the command says at its end which settings and options show the rest,
and the columns "all settings" are made of several runs. In a cluster the stories go to the coordinators of their
groups.

A broker that does not announce ConsumerGroupHeartbeat, such as Kafka before 4.0, shows no story of the consumer
protocol. librdkafka's mock announces it, and aborts at a heartbeat that has topics and no regular expression.

`python -m tests.conformance.full_run kafka` starts Apache Kafka (with Java and Maven) with all these settings, one
after the other, and runs all stories; `kafka-defaults`, `regroup`, `regroup-defaults`, `kfake` and `mock` stand for the
other columns, and `courses` for the random courses. This page is written by `make conformance`.
"""


def is_conformant(reports: Mapping[str, ConformanceReport], comparisons: Iterable[CourseComparison]) -> bool:
    """Whether Apache Kafka shows everything and fails nothing, regroup does likewise, and no random course differs."""
    defaults = [report for name, report in reports.items() if name in ("kafka-defaults", "regroup-defaults")]
    complete = [report for name, report in reports.items() if name in ("kafka", "regroup")]
    return (
        not any(report.totals()[StoryOutcome.FAILED] for report in defaults)
        and all(is_complete(report) for report in complete)
        and all(comparison.is_equal for comparison in comparisons)
    )


def main() -> int:
    """Write the page, and the reports beside each other if a folder is named."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("page", type=Path)
    parser.add_argument("--only", action="append", choices=(*COLUMNS, COURSES), help="only this part; may be repeated")
    parser.add_argument("--none", action="store_true", help="run nothing, and write the page from kept reports")
    parser.add_argument("--courses", type=int, default=DEFAULT_COURSES, metavar="N", help="random courses")
    parser.add_argument(
        "--parts", nargs="+", type=Path, metavar="FILE", help="only put random courses that were kept into the page"
    )
    parser.add_argument("--reports", type=Path, metavar="FOLDER", help="keep the reports there, and use those there")
    arguments = parser.parse_args()
    configure_log("error", "text")
    if arguments.parts:
        page = arguments.page.read_text("utf-8")
        arguments.page.write_text(with_random_courses(page, merged_parts(arguments.parts)), encoding="utf-8")
        return 0
    reports = {name: report for name in COLUMNS if (report := _new_or_kept_report(name, arguments)) is not None}
    comparisons = _new_or_kept_comparisons(arguments)
    former = arguments.page.read_text("utf-8") if arguments.page.exists() else ""
    page = render_page([*reports.values()], comparisons, INTRODUCTION, former)
    arguments.page.write_text(page, encoding="utf-8")
    return 0 if is_conformant(reports, comparisons) else 1


def merged_parts(files: Iterable[Path]) -> list[CourseComparison]:
    """The comparisons in several files, those with the same settings as one."""
    parts: dict[tuple[str, ...], list[CourseComparison]] = {}
    for file in files:
        for each in msgspec.json.decode(file.read_bytes(), type=list[CourseComparison]):
            parts.setdefault(tuple(each.settings.values()), []).append(each)
    return [merge(each) for each in parts.values()]


def _is_left_out(name: str, arguments: argparse.Namespace) -> bool:
    return bool(arguments.none or (arguments.only and name not in arguments.only))


def _new_or_kept_comparisons(arguments: argparse.Namespace) -> list[CourseComparison]:
    file: Path | None = arguments.reports and arguments.reports / f"{COURSES}.json"
    if _is_left_out(COURSES, arguments):
        return msgspec.json.decode(file.read_bytes(), type=list[CourseComparison]) if file and file.exists() else []
    try:
        return print_comparisons(CoursePlan(arguments.courses), file)
    except UNAVAILABLE as reason:
        print(f"{COURSES}: {reason}", file=sys.stderr)
        return []


def _new_or_kept_report(name: str, arguments: argparse.Namespace) -> ConformanceReport | None:
    """A report on this column, if its broker can run here."""
    file: Path | None = arguments.reports and arguments.reports / f"{name}.json"
    if _is_left_out(name, arguments):
        return msgspec.json.decode(file.read_bytes(), type=ConformanceReport) if file and file.exists() else None
    try:
        report = report_on(COLUMNS[name])
    except UNAVAILABLE as reason:
        print(f"{name}: {reason}", file=sys.stderr)
        return None
    print(report.name, {str(outcome): count for outcome, count in report.totals().items()}, flush=True)
    if file:
        file.write_text(encode_report(report) + "\n", encoding="utf-8")
    return report


if __name__ == "__main__":
    sys.exit(main())
