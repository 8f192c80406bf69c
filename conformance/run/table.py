"""The page that puts several brokers side by side, row by row."""

import re
from collections.abc import Iterator, Sequence

from regroup.conformance.differential.comparison import Comparison, section
from regroup.conformance.harness.cases import area_of
from regroup.conformance.run.report import Report
from regroup.conformance.run.runner import Outcome, Verdict
from regroup.conformance.stories import CASES

MARKS = {Outcome.PASSED: "pass", Outcome.FAILED: "**fail**", Outcome.NOT_OBSERVABLE: "–"}
LONGEST_REASON = 200
RANDOM_ID = re.compile(r"\b[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\b|\b[0-9a-f]{32}\b")


def page(reports: Sequence[Report], comparisons: Sequence[Comparison], introduction: str) -> str:
    """docs/conformance.md."""
    parts = [introduction.strip(), "", *_totals(reports), ""]
    parts += section(comparisons) if comparisons else ()
    parts += ["## Row by row", "", "`–`: not observable there; the reasons stand at the end.", "", *_rows(reports), ""]
    parts += [*_failures(reports), *_corrections(), *_reasons(reports)]
    return "\n".join(parts).rstrip() + "\n"


def _totals(reports: Sequence[Report]) -> Iterator[str]:
    yield "| | pass | fail | not observable | asked on |"
    yield "|---|--:|--:|--:|---|"
    for each in reports:
        totals = each.totals()
        counts = " | ".join(str(totals[outcome]) for outcome in Outcome)
        yield f"| {each.name} | {counts} | {each.date[:10]} |"


def _rows(reports: Sequence[Report]) -> Iterator[str]:
    found = [each.by_behaviour() for each in reports]
    area = ""
    behaviours = [*dict.fromkeys(name for each in found for name in each)]
    areas = [*dict.fromkeys(map(area_of, behaviours))]
    for behaviour in sorted(behaviours, key=lambda name: areas.index(area_of(name))):
        if area_of(behaviour) != area:
            area = area_of(behaviour)
            yield ""
            yield f"| {area} | | {' | '.join(each.name for each in reports)} |"
            yield "|---|---|" + "---|" * len(reports)
        told = CASES.get(behaviour)
        marks = " | ".join(_mark(each.get(behaviour)) for each in found)
        yield f"| `{behaviour}` | {told.summary if told else 'cannot be seen from outside'} | {marks} |"


def _mark(verdict: Verdict | None) -> str:
    return MARKS[verdict.outcome] if verdict else ""


def _failures(reports: Sequence[Report]) -> Iterator[str]:
    yield "## What failed, and how"
    for report in reports:
        failed = [each for each in report.verdicts if each.outcome is Outcome.FAILED]
        yield ""
        yield f"### {report.name}"
        yield ""
        yield from (f"- `{each.behaviour}`: {_plain(each.reason)}" for each in failed)
        if not failed:
            yield "Nothing."
        again = [each for each in report.verdicts if each.outcome is Outcome.PASSED and each.reason]
        if again:
            names = ", ".join(f"`{each.behaviour}`" for each in again)
            yield ""
            yield f"Passed only when they were told again, beside fewer others: {names}"
    yield ""


def _corrections() -> Iterator[str]:
    yield "## Where the catalogue was wrong"
    yield ""
    yield "The behaviours were first read from sources. Where the broker does otherwise, the broker is right:"
    yield ""
    yield from (f"- `{each.id}`: {each.corrected}" for each in CASES.values() if each.corrected)
    yield ""


def _reasons(reports: Sequence[Report]) -> Iterator[str]:
    yield "## Why some could not be observed"
    for report in reports:
        yield ""
        yield f"### {report.name}"
        yield ""
        reasons: dict[str, list[str]] = {}
        for each in report.verdicts:
            if each.outcome is Outcome.NOT_OBSERVABLE:
                reasons.setdefault(each.reason, []).append(f"`{each.behaviour}`")
        yield from (f"- {_plain(reason)}: {', '.join(names)}" for reason, names in reasons.items())
    yield ""


def _plain(reason: str) -> str:
    """Member ids and the like differ from run to run; the page should not."""
    plain = RANDOM_ID.sub("…", reason)
    short = plain if len(plain) <= LONGEST_REASON else plain[:LONGEST_REASON] + "…"
    return short.replace("|", "\\|").replace("\n", " ")
