"""Writes the verdicts on runs to files: JUnit's XML, which build servers show, and JSON."""

import re
from argparse import Namespace
from collections.abc import Sequence
from typing import Final
from xml.etree import ElementTree

import msgspec

from regroup.cli.chaos.report import violation_texts
from regroup.cli.result_files import write_result
from regroup.lab.simulation.run import RunOutcome
from regroup.lab.simulation.timeline import Timeline

_NOT_XML: Final = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


class ExpectationVerdict(msgspec.Struct, frozen=True):
    """An expectation of a scenario, and what was found instead; None if the expectation was met."""

    expected: str
    found: str | None


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """The verdict on one run: passed, if there are no violations."""

    name: str
    seed: int
    violations: list[str]
    command: str
    """The command that repeats the run."""
    expectations: list[ExpectationVerdict] = []
    virtual_seconds: float = 0.0


def verdict_of_run(outcome: RunOutcome, timeline: Timeline, command: str) -> Verdict:
    """The verdict on a run of `regroup chaos run`."""
    return Verdict(
        name=outcome.plan.title or f"seed {outcome.plan.seed}",
        seed=outcome.plan.seed,
        violations=list(violation_texts(outcome, timeline, verbose=False)),
        command=command,
        expectations=[ExpectationVerdict(str(each.planned), each.found) for each in outcome.expectations],
        virtual_seconds=outcome.ended_ms / 1000,
    )


def write_verdicts(verdicts: Sequence[Verdict], args: Namespace) -> None:
    """Write the files that --junit and --json name. Raises OSError if one cannot be written."""
    if args.json is not None:
        write_result(args.json, msgspec.json.format(msgspec.json.encode({"runs": verdicts}), indent=2) + b"\n")
    if args.junit is not None:
        write_result(args.junit, as_junit(verdicts))


def as_junit(verdicts: Sequence[Verdict]) -> bytes:
    """The verdicts as JUnit's XML: a test case for each run, with a failure for each violation."""
    failed = sum(bool(each.violations) for each in verdicts)
    suite = ElementTree.Element(
        "testsuite", name="regroup chaos", tests=str(len(verdicts)), failures=str(failed), errors="0", skipped="0"
    )
    for verdict in verdicts:
        case = ElementTree.SubElement(suite, "testcase", classname="regroup.chaos", name=_as_xml(verdict.name))
        case.set("time", f"{verdict.virtual_seconds:.3f}")
        for violation in verdict.violations:
            failure = ElementTree.SubElement(case, "failure", message=_as_xml(violation.splitlines()[0]))
            failure.text = _as_xml(f"{violation}\n\nTo run it again: {verdict.command}")
    ElementTree.indent(suite)
    return bytes(ElementTree.tostring(suite, encoding="utf-8", xml_declaration=True)) + b"\n"


def _as_xml(text: str) -> str:
    """The text without characters that XML cannot contain."""
    return _NOT_XML.sub("�", text)
