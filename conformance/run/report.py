"""Verdicts for people and for programs."""

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from regroup.conformance.harness.cases import area_of
from regroup.conformance.run.not_observable import UNSEEN
from regroup.conformance.run.runner import Outcome, Verdict
from regroup.conformance.stories import CASES


@dataclass
class Report:
    """Who was examined, when, and what came of each behaviour. `date` is ISO 8601, `name` says who it is."""

    name: str
    date: str
    verdicts: list[Verdict] = field(default_factory=list)

    def totals(self) -> dict[Outcome, int]:
        """How many verdicts of each kind."""
        counted = Counter(each.outcome for each in self.verdicts)
        return {outcome: counted[outcome] for outcome in Outcome}

    def by_behaviour(self) -> dict[str, Verdict]:
        """The verdicts by the behaviour's name."""
        return {each.behaviour: each for each in self.verdicts}


def with_the_unseen(verdicts: Iterable[Verdict], areas: Sequence[str] = ()) -> list[Verdict]:
    """The same verdicts, and those on behaviours that nobody can see from outside."""
    unseen = [Verdict(name, Outcome.NOT_OBSERVABLE, why) for name, why in UNSEEN.items()]
    return [*verdicts, *(each for each in unseen if not areas or area_of(each.behaviour) in areas)]


def merged(first: Iterable[Verdict], second: Iterable[Verdict]) -> list[Verdict]:
    """Two runs against the same broker with different settings: where one could not observe, the other counts."""
    others = {each.behaviour: each for each in second}
    return [others.get(each.behaviour, each) if each.outcome is Outcome.NOT_OBSERVABLE else each for each in first]


def as_text(report: Report, *, every: bool = True) -> Iterator[str]:
    """A line a behaviour, failures with their exchange; then a line an area, and the totals.

    Of behaviours only the failures are shown without `every`.
    """
    for each in report.verdicts:
        if each.outcome is Outcome.FAILED or every:
            yield f"{each.outcome:<14} {each.behaviour}: {each.reason or CASES[each.behaviour].summary}"
        if each.outcome is Outcome.FAILED:
            yield f"{'':14} {CASES[each.behaviour].summary}"
            yield from (f"  {line}" for line in each.exchange)
            yield ""
    yield from _areas(report.verdicts)


def _areas(verdicts: Sequence[Verdict]) -> Iterator[str]:
    yield f"{'area':<16}{'pass':>6}{'fail':>6}{'not observable':>16}"
    areas = dict.fromkeys(area_of(each.behaviour) for each in verdicts)
    for area in [*areas, "all"]:
        counted = Counter(each.outcome for each in verdicts if area in ("all", area_of(each.behaviour)))
        yield f"{area:<16}{counted[Outcome.PASSED]:>6}{counted[Outcome.FAILED]:>6}{counted[Outcome.NOT_OBSERVABLE]:>16}"


def why_not(verdicts: Iterable[Verdict]) -> Mapping[str, int]:
    """The reasons for which behaviours could not be observed, and how often."""
    return Counter(each.reason for each in verdicts if each.outcome is Outcome.NOT_OBSERVABLE)


def as_json(report: Report) -> str:
    """For programs; `from_json` reads it back."""
    verdicts = [
        {
            "behaviour": v.behaviour,
            "outcome": v.outcome,
            "reason": v.reason,
            "exchange": v.exchange,
            "seconds": v.seconds,
        }
        for v in report.verdicts
    ]
    whole = {"name": report.name, "date": report.date, "totals": report.totals(), "verdicts": verdicts}
    return json.dumps(whole, indent=1)


def from_json(text: str) -> Report:
    """What `as_json` wrote."""
    whole: dict[str, Any] = json.loads(text)
    verdicts = [
        Verdict(v["behaviour"], Outcome(v["outcome"]), v["reason"], tuple(v["exchange"]), v["seconds"])
        for v in whole["verdicts"]
    ]
    return Report(whole["name"], whole["date"], verdicts)
