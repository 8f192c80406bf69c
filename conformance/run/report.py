"""Reports: all verdicts on one broker, as text and as JSON."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import msgspec

from regroup.conformance.harness.cases import area_of
from regroup.conformance.harness.remedy import group_by_remedy
from regroup.conformance.run.not_observable import NOT_OBSERVABLE
from regroup.conformance.run.runner import StoryOutcome, StoryVerdict
from regroup.conformance.stories import CASES


@dataclass(frozen=True, slots=True)
class StoryRun:
    """One run of stories for a report: what started the broker, what ran the stories, and what they showed."""

    broker: str
    command: str
    stories: int
    shown: int
    """How many stories passed or failed; the others were not observable in this run."""


@dataclass
class ConformanceReport:
    """The name of the broker, the date in ISO 8601, a verdict for each behaviour, and the runs that led to them."""

    name: str
    date: str
    verdicts: list[StoryVerdict] = field(default_factory=list)
    runs: list[StoryRun] = field(default_factory=list)

    def totals(self) -> dict[StoryOutcome, int]:
        """The number of verdicts for each outcome, also for those that did not occur."""
        counts = Counter(verdict.outcome for verdict in self.verdicts)
        return {outcome: counts[outcome] for outcome in StoryOutcome}


def add_not_observable(verdicts: Iterable[StoryVerdict], areas: Sequence[str] = ()) -> list[StoryVerdict]:
    """Add to the verdicts one for each behaviour that no client can observe, in these areas or by default in all."""
    unobserved = [StoryVerdict(name, StoryOutcome.NOT_OBSERVABLE, reason) for name, reason in NOT_OBSERVABLE.items()]
    return [*verdicts, *(each for each in unobserved if not areas or area_of(each.behaviour) in areas)]


def format_report(report: ConformanceReport, *, show_all: bool = True) -> Iterator[str]:
    """A line for each behaviour, failures with their transcripts, then a line for each area, and the totals.

    Without `show_all` behaviours that did not fail are left out.
    """
    for each in report.verdicts:
        if each.outcome is StoryOutcome.FAILED or show_all:
            yield f"{each.outcome:<14} {each.behaviour}: {each.reason or CASES[each.behaviour].summary}"
        if each.outcome is StoryOutcome.FAILED:
            yield f"{'':14} {CASES[each.behaviour].summary}"
            yield from (f"  {line}" for line in each.transcript)
            yield ""
    yield f"{'area':<16}{'pass':>6}{'fail':>6}{'not observable':>16}"
    for area in [*dict.fromkeys(area_of(each.behaviour) for each in report.verdicts), "all"]:
        of_area = [each for each in report.verdicts if area in ("all", area_of(each.behaviour))]
        passed, failed, not_observable = ConformanceReport(report.name, report.date, of_area).totals().values()
        yield f"{area:<16}{passed:>6}{failed:>6}{not_observable:>16}"


def format_remedies(verdicts: Iterable[StoryVerdict], bootstrap: str) -> Iterator[str]:
    """Lines about what was not observable: how much no setting shows, and the commands that show the rest."""
    unobserved = [each for each in verdicts if each.outcome is StoryOutcome.NOT_OBSERVABLE]
    if not unobserved:
        return
    yield f"not observable in this run: {len(unobserved)}"
    reasons = Counter(each.reason for each in unobserved if each.remedy is None)
    yield from (f"{count:>4}  no setting shows: {reason}" for reason, count in reasons.items())
    remedies = {each.behaviour: each.remedy for each in unobserved if each.remedy is not None}
    for remedy, behaviours in group_by_remedy(remedies).items():
        broker = remedy.broker_needed()
        yield f"{len(behaviours):>4}  {f'needs {broker}; then:' if broker else 'run:'}"
        yield f"      {remedy.command(bootstrap, behaviours)}"


def encode_report(report: ConformanceReport) -> str:
    """The report as JSON; `msgspec.json.decode(text, type=ConformanceReport)` reads it."""
    totals = report.totals()
    fields = {
        "name": report.name,
        "date": report.date,
        "totals": totals,
        "runs": report.runs,
        "verdicts": report.verdicts,
    }
    return msgspec.json.format(msgspec.json.encode(fields), indent=1).decode()
