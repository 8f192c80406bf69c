"""Start Apache Kafka with everything that its stories need, tell it all of them, and say what no setting shows.

python -m tests.conformance.full_run                        # Apache Kafka, all settings: ten minutes
python -m tests.conformance.full_run kafka-defaults         # only the settings that Kafka has by itself
python -m tests.conformance.full_run regroup
python -m tests.conformance.full_run courses --courses 500  # random courses on Apache Kafka and on regroup
python -m tests.conformance.full_run courses --courses 90 --first-seed 1001 --settings short  # a part of them

Apache Kafka needs Java and Maven, kfake needs Go. The exit code is 0 if nothing failed and everything was shown that
any setting can show.
"""

import argparse
import sys
from pathlib import Path

import msgspec

from regroup.cli.serve.log import configure_log
from regroup.conformance.differential.comparison import CourseComparison, format_comparison
from regroup.conformance.differential.timing import DEFAULT_SLOT_MS
from regroup.conformance.harness.broker_under_test import TargetUnavailable
from regroup.conformance.run.not_observable import NOT_OBSERVABLE
from regroup.conformance.run.report import ConformanceReport, encode_report, format_remedies, format_report
from regroup.conformance.run.runner import StoryOutcome
from tests.conformance.apache_kafka import KafkaUnavailable
from tests.conformance.columns import COLUMNS, DEFAULTS, report_on
from tests.conformance.course_runs import COURSE_SETTINGS, COURSES_AT_ONCE, CoursePlan, compare_courses
from tests.conformance.peers import PeerUnavailable

COURSES = "courses"
DEFAULT_COURSES = 500
UNAVAILABLE = (KafkaUnavailable, PeerUnavailable, TargetUnavailable)


def is_complete(report: ConformanceReport) -> bool:
    """Whether nothing failed, and all was observed but what no setting shows."""
    unobserved = {each.behaviour for each in report.verdicts if each.outcome is StoryOutcome.NOT_OBSERVABLE}
    return not report.totals()[StoryOutcome.FAILED] and unobserved <= set(NOT_OBSERVABLE)


def run_column(name: str, file: Path | None) -> int:
    """Make the report of one column, print it, and keep it in a file."""
    report = report_on(COLUMNS[name])
    print(*format_report(report, show_all=False), "", sep="\n")
    print(*format_remedies(report.verdicts, "HOST:PORT"), sep="\n")
    if file:
        file.write_text(encode_report(report) + "\n", encoding="utf-8")
    if COLUMNS[name].plans is DEFAULTS:
        return 1 if report.totals()[StoryOutcome.FAILED] else 0
    return 0 if is_complete(report) else 1


def run_random_courses(plan: CoursePlan, file: Path | None) -> int:
    """Play random courses, print what they compared, and keep it in a file."""
    comparisons = print_comparisons(plan, file)
    return 0 if all(each.is_equal for each in comparisons) else 1


def print_comparisons(plan: CoursePlan, file: Path | None) -> list[CourseComparison]:
    """Play random courses; print each comparison, and keep it as JSON, as soon as it is made."""
    comparisons = []
    for each in compare_courses(plan):
        comparisons.append(each)
        print(*format_comparison(each), "", sep="\n", flush=True)
        if file:
            file.write_bytes(msgspec.json.format(msgspec.json.encode(comparisons)) + b"\n")
    return comparisons


def main() -> int:
    """Run one column, or the random courses."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", nargs="?", choices=(*COLUMNS, COURSES), default="kafka")
    parser.add_argument("--courses", type=int, default=DEFAULT_COURSES, metavar="N", help="how many random courses")
    parser.add_argument(
        "--first-seed", type=int, default=1, metavar="N", help="the seed of the first course (default 1)"
    )
    parser.add_argument(
        "--settings", action="append", choices=tuple(COURSE_SETTINGS), help="only courses with these settings"
    )
    parser.add_argument("--at-once", type=int, default=COURSES_AT_ONCE, metavar="N", help="courses side by side")
    parser.add_argument("--reports", type=Path, metavar="FOLDER", help="keep the report there, for the page")
    parser.add_argument("--slot", type=int, default=DEFAULT_SLOT_MS, metavar="MS", help="time from move to move")
    arguments = parser.parse_args()
    configure_log("error", "text")
    file = arguments.reports and arguments.reports / f"{arguments.what}.json"
    try:
        if arguments.what == COURSES:
            settings = tuple(arguments.settings or COURSE_SETTINGS)
            plan = CoursePlan(arguments.courses, arguments.first_seed, settings, arguments.at_once, arguments.slot)
            return run_random_courses(plan, file)
        return run_column(arguments.what, file)
    except UNAVAILABLE as reason:
        print(f"{arguments.what}: {reason}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
