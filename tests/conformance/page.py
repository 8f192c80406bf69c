"""The page docs/conformance.md: the reports on several brokers side by side, and comparisons of two brokers."""

import re
from collections.abc import Iterator, Sequence

from regroup.conformance.differential.comparison import CourseComparison, add_up, format_versions
from regroup.conformance.differential.timing import COURSE_LENGTH
from regroup.conformance.harness.cases import area_of
from regroup.conformance.run.report import ConformanceReport
from regroup.conformance.run.runner import StoryOutcome
from regroup.conformance.stories import CASES

OUTCOME_MARKS = {StoryOutcome.PASSED: "pass", StoryOutcome.FAILED: "**fail**", StoryOutcome.NOT_OBSERVABLE: "–"}
MAX_REASON_LENGTH = 200
EXPLANATION = f"""
A random course is a sequence of {COURSE_LENGTH} moves: requests of four members, static and dynamic, in two groups,
and of two transactional producers, in all versions that both brokers offer. Most requests are what a proper client
would send next, the others are drawn at random: wrong generations, borrowed member ids, broken subscriptions,
deletions. Some sessions and rebalances time out; in some courses the brokers are restarted. After each move the new
responses are compared, both groups as DescribeGroups returns them, and all their offsets, with and without those of
open transactions. Where Kafka leaves a choice open, the emulator follows Kafka's choice, and the comparison continues.

In three of four courses the members speak the consumer protocol, with and without an assignment interval. One after
the other changes to the classic protocol, under the same member id or as a new process, until the whole group has
migrated, and then back. Half of the members are static: they leave for a while or crash, and come back under another
id. They subscribe by names and by regular expressions, to topics that grow, appear and are deleted meanwhile, and
commit and fetch offsets with their member epochs and with those before. With settings that allow it, some sessions
expire. The groups are compared as ConsumerGroupDescribe returns them, too. The emulator gives topics and members the
same ids as Kafka, since assignors take both in the order of their ids.

Timeouts never expire near a move. A course with a difference is nevertheless played again: what differs in every
attempt is a difference, the rest counts as races (a difference that shows only now and then would hide among them).
"""

COURSES_HEADING = "## Random courses\n"
BEHAVIOURS_HEADING = "## Behaviours\n"
BY_HAND_BEGINS, BY_HAND_ENDS = (
    "<!-- written by hand, and kept by publish.py -->",
    "<!-- end of what is written by hand -->",
)
"""The marks around the part of the section of random courses that no program writes."""

RANDOM_ID = re.compile(r"\b[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\b|\b[0-9a-f]{32}\b")


def render_page(
    reports: Sequence[ConformanceReport],
    comparisons: Sequence[CourseComparison],
    introduction: str,
    former_page: str = "",
) -> str:
    """The whole page, in Markdown. Without new comparisons it has the random courses of the former page; with some, the
    part of them that is written by hand."""
    lines = [introduction.strip(), "", *_totals(reports), "", *_runs(reports)]
    _, former_courses, _ = _around_random_courses(former_page) if COURSES_HEADING in former_page else ("", "", "")
    if comparisons:
        lines += _comparisons(comparisons, _by_hand(former_courses))
    elif former_courses:
        lines += [former_courses.rstrip(), ""]
    lines += ["## Behaviours", "", "`–`: not observable; the reasons are at the end of the page.", ""]
    lines += [*_behaviours(reports), "", *_failures(reports), *_corrections(), *_reasons(reports)]
    return "\n".join(lines).rstrip() + "\n"


def with_random_courses(page: str, comparisons: Sequence[CourseComparison]) -> str:
    """The page with another section of random courses but for the part that is written by hand, and otherwise
    unchanged."""
    before, former, after = _around_random_courses(page)
    return before + "\n".join(_comparisons(comparisons, _by_hand(former))) + "\n" + after


def _around_random_courses(page: str) -> tuple[str, str, str]:
    """The page before its section of random courses, this section, and the page after it."""
    before, heading, rest = page.partition(COURSES_HEADING)
    section, following, after = rest.partition(BEHAVIOURS_HEADING)
    assert heading, "the page has no section of random courses"
    assert following, "the page has no section after that of random courses"
    return before, heading + section, following + after


def _by_hand(section: str) -> str:
    """What is written by hand in a section of random courses, with the marks around it; empty if there is nothing."""
    _, begin, rest = section.partition(BY_HAND_BEGINS)
    text, end, _ = rest.partition(BY_HAND_ENDS)
    return f"{begin}{text}{end}\n" if begin and end else ""


def _totals(reports: Sequence[ConformanceReport]) -> Iterator[str]:
    yield from ("| | pass | fail | not observable | date |", "|---|--:|--:|--:|---|")
    for report in reports:
        counts = " | ".join(map(str, report.totals().values()))
        yield f"| {report.name} | {counts} | {report.date[:10]} |"


def _runs(reports: Sequence[ConformanceReport]) -> Iterator[str]:
    """With which settings and commands each column was made."""
    yield from ("## How each column was made", "")
    yield from ("| column | the broker | the stories | run | shown |", "|---|---|---|--:|--:|")
    for report in reports:
        for run in report.runs:
            yield f"| {report.name} | `{run.broker}` | `{run.command}` | {run.stories} | {run.shown} |"
    yield ""


def _comparisons(comparisons: Sequence[CourseComparison], by_hand: str = "") -> Iterator[str]:
    """The section of docs/conformance.md. `by_hand` is the part of it that is not made of comparisons."""
    yield from ("## Random courses", EXPLANATION)
    if by_hand:
        yield by_hand
    for each in comparisons:
        settings = [f"`{name}={value}`" for name, value in each.settings.items()]
        share = f"{100 * each.answered / each.sent:.0f} %" if each.sent else "none"
        yield from (
            ", ".join((f"### {each.one} and {each.other}", each.date[:10], *settings[:1])),
            "",
            f"With {', '.join(settings)}; `{each.command}`.",
            "",
            "| courses | with a restart | agree at once | on replay | by choice | too late | differ |",
            "|--:|--:|--:|--:|--:|--:|--:|",
            f"| {each.courses} | {each.restarted} | {each.agreed_at_once} | {each.agreed_on_replay} | "
            f"{each.differed_by_choice} | {each.too_late} | {len(each.differ)} |",
            "",
            f"{each.sent} requests to each broker, of which Apache Kafka answered {share} without an error; "
            f"{_least_and_most(each)} requests in each course.",
            "",
            "| API | requests | without error | the same, by version |",
            "|---|--:|--:|---|",
        )
        for api, versions in each.requests.items():
            sent, answered = add_up(versions)
            yield f"| {api} | {sent} | {answered} | {format_versions(versions)} |"
        yield ""
        if not each.differ:
            yield from ("No difference remains.", "")
        for lines in each.differ:
            yield from ("```", *lines, "```", "")


def _least_and_most(comparison: CourseComparison) -> str:
    counts = sorted(each.requests for each in comparison.requests_by_seed.values()) or [0]
    return f"{counts[0]} to {counts[-1]}"


def _behaviours(reports: Sequence[ConformanceReport]) -> Iterator[str]:
    """A table for each area, with a row for each behaviour and a column for each broker."""
    verdicts = [{verdict.behaviour: verdict for verdict in report.verdicts} for report in reports]
    areas: dict[str, list[str]] = {}
    for behaviour in dict.fromkeys(name for each in verdicts for name in each):
        areas.setdefault(area_of(behaviour), []).append(behaviour)
    for area, behaviours in areas.items():
        names = " | ".join(report.name for report in reports)
        yield from ("", f"| {area} | | {names} |", "|---|---|" + "---|" * len(reports))
        for behaviour in behaviours:
            summary = CASES[behaviour].summary if behaviour in CASES else "not observable by a client"
            marks = [OUTCOME_MARKS[each[behaviour].outcome] if behaviour in each else "" for each in verdicts]
            yield f"| `{behaviour}` | {summary} | {' | '.join(marks)} |"


def _failures(reports: Sequence[ConformanceReport]) -> Iterator[str]:
    yield "## Failures"
    for report in reports:
        yield from ("", f"### {report.name}", "")
        failed = [each for each in report.verdicts if each.outcome is StoryOutcome.FAILED]
        yield from (f"- `{each.behaviour}`: {_escaped(each.reason)}" for each in failed)
        if not failed:
            yield "None."
        retried = [each for each in report.verdicts if each.outcome is StoryOutcome.PASSED and each.reason]
        if retried:
            names = ", ".join(f"`{each.behaviour}`" for each in retried)
            yield from ("", f"Passed only on the second run, with fewer stories at once: {names}")
    yield ""


def _corrections() -> Iterator[str]:
    yield from ("## Corrections of the catalogue", "")
    yield from (
        "The behaviours were first read from Kafka's sources. Where the broker differs, the broker is right:",
        "",
    )
    yield from (f"- `{case.id}`: {case.correction}" for case in CASES.values() if case.correction)
    yield ""


def _reasons(reports: Sequence[ConformanceReport]) -> Iterator[str]:
    yield "## Reasons why behaviours were not observable"
    for report in reports:
        yield from ("", f"### {report.name}", "")
        behaviours: dict[str, list[str]] = {}
        for each in report.verdicts:
            if each.outcome is StoryOutcome.NOT_OBSERVABLE:
                behaviours.setdefault(each.reason, []).append(f"`{each.behaviour}`")
        yield from (f"- {_escaped(reason)}: {', '.join(names)}" for reason, names in behaviours.items())
    yield ""


def _escaped(reason: str) -> str:
    """The reason on one line of Markdown, shortened, without ids that differ from run to run."""
    plain = RANDOM_ID.sub("…", reason)
    short = plain if len(plain) <= MAX_REASON_LENGTH else plain[:MAX_REASON_LENGTH] + "…"
    return short.replace("|", "\\|").replace("\n", " ")
