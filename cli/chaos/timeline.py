"""Formats the timeline of a simulation as text: what the plan did, what members and coordinators did, and why.

Times count from the start of the run. Members go by the names of the plan, in place of their member ids.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Final, NamedTuple

from regroup.cli.members.table import describe_change, describe_note
from regroup.cli.store.events_text import HIDDEN_FIELDS, event_details, event_reason
from regroup.cli.store.topic_names import learn_topics
from regroup.cli.terminal.text import printable, shorten_uuids
from regroup.lab.plan.plan import PlannedStep
from regroup.lab.plan.step_sentences import members_named
from regroup.lab.simulation.timeline import ExpectationResult, MemberReport, Timeline, TimelineEntry
from regroup.lab.simulation.virtual_clock import START_MS
from regroup.members.consumer.effects import CommitCompleted, JoinedGroup
from regroup.members.runtime.notes import FaultBegan, FaultEnded, RequestRefused
from regroup.server.refusals.finding import Refusal
from regroup.storage.records import NewRecord

QUIET_EVENTS: Final = frozenset(
    {
        "pending-member-added",
        "pending-member-removed",
        "member-rejoined",
        "join-phase-extended",
        "member-synced",
        "assignment-committed",
        "group-created",
        "group-metadata-written",
        "offsets-committed",
        "offsets-written",
        "append-committed",
        "transactional-offsets-written",
        "topic-created",
        "topic-configured",
        "offsets-reserved",
        "producer-ids-reserved",
        "producer-initialized",
    }
)
"""Types of events that a timeline leaves out, because other lines say the same or because they only show progress.
`regroup events` shows all."""
PROFILE_FIELDS: Final = frozenset({"protocol_type", "client_id", "client_host", "rebalance_timeout_ms"})
"""Fields of a member's profile that are left out, because they are equal for all members of a plan or follow from a
member's name."""
REPEATS_WITHIN_MS: Final = 15_000
"""A refusal that repeats an equal one within this time, in milliseconds, is counted and not shown again."""


class TimelineLine(NamedTuple):
    """One line of a timeline: when something happened, to which member or broker, and what it was."""

    at_ms: int
    who: str
    text: str

    def __str__(self) -> str:
        return f"{offset(self.at_ms):>10}  {self.who:<11}  {self.text}"


def offset(at_ms: int) -> str:
    """A time since the start of the run as text: `+28.0 s`, with milliseconds only if it needs them."""
    return f"+{at_ms / 1000:.1f} s" if at_ms % 100 == 0 else f"+{at_ms / 1000:.3f} s"


def timeline_lines(timeline: Timeline) -> list[TimelineLine]:
    """The lines of a timeline. A refusal that is repeated becomes one line with its count."""
    names = Names(timeline.names)
    learn_topics(names.topics, (each.item for each in timeline.entries if isinstance(each.item, NewRecord)))
    lines: list[TimelineLine] = []
    repeats: dict[tuple[str, str], tuple[int, int, int]] = {}
    """For each repeated line: its index, the time of its last repetition, and how often it occurred."""
    for entry in _without_echoes(timeline.entries):
        line = _line(entry, names)
        if line is None:
            continue
        if isinstance(entry.item, Refusal):
            index, last_ms, count = repeats.get(line[1:], (0, -REPEATS_WITHIN_MS - 1, 0))
            if line.at_ms - last_ms <= REPEATS_WITHIN_MS:
                repeats[line[1:]] = index, line.at_ms, count + 1
                continue
            lines = _with_counts(lines, {line[1:]: repeats.pop(line[1:])} if count else {})
            repeats[line[1:]] = len(lines), line.at_ms, 1
        lines.append(line)
    return _with_counts(lines, repeats)


def _with_counts(lines: list[TimelineLine], repeats: dict[tuple[str, str], tuple[int, int, int]]) -> list[TimelineLine]:
    for index, last_ms, count in repeats.values():
        if count > 1:
            line = lines[index]
            lines[index] = line._replace(text=f"{line.text} ({count} times, until {offset(last_ms)})")
    return lines


def _without_echoes(entries: Iterable[TimelineEntry]) -> Iterator[TimelineEntry]:
    """Yield the entries except reports that a fault began which directly follow the plan's step for this fault."""
    step: tuple[int, tuple[str, ...]] = (-1, ())
    for entry in entries:
        match entry.item:
            case PlannedStep():
                step = entry.at_ms, members_named(entry.item.step)
            case MemberReport(name, FaultBegan()) if entry.at_ms == step[0] and name in step[1]:
                continue
        yield entry


class Names:
    """Replaces member ids in texts by the names that the plan gives to members, and shortens other ids."""

    def __init__(self, names: dict[str, str]) -> None:
        self.topics: dict[str, str] = {}
        """Names of topics, by id."""
        self._names = names
        self._pattern = re.compile("|".join(map(re.escape, sorted(names, key=len, reverse=True)))) if names else None

    def __call__(self, text: str) -> str:
        if self._pattern is not None:
            text = self._pattern.sub(lambda match: self._names[match[0]], text)
        return printable(shorten_uuids(text))


def _line(entry: TimelineEntry, names: Names) -> TimelineLine | None:
    """The line for an entry of the timeline; None for an entry that is not shown."""
    at_ms = entry.at_ms
    match entry.item:
        case PlannedStep(_, step):
            return TimelineLine(at_ms, "the plan", names(str(step)))
        case ExpectationResult(planned, None):
            return TimelineLine(at_ms, "✓ expected", names(str(planned.step)))
        case ExpectationResult(planned, found):
            return TimelineLine(at_ms, "✗ expected", names(f"{planned.step}. Not so: {found}."))
        case MemberReport() as report:
            described = _member_report(report)
            return TimelineLine(at_ms, report.name, names(described)) if described else None
        case str() as text:
            return TimelineLine(at_ms, "the plan", text)
        case Refusal() as refusal:
            text = f"refuses {refusal.api} of {refusal.member_id or refusal.sender}: {refusal.error}"
            return TimelineLine(at_ms, "coordinator", names(text))
        case NewRecord() as record:
            if record.type in QUIET_EVENTS:
                return None
            return TimelineLine(at_ms, "coordinator", names(_event(record, names.topics)))


def _member_report(report: MemberReport) -> str:
    """What a member did, as text; empty if it is not shown, or if events of the coordinator say the same."""
    what = report.what
    if isinstance(what, JoinedGroup | RequestRefused | CommitCompleted):
        return ""
    if isinstance(what, FaultBegan | FaultEnded):
        return describe_note(what)
    return describe_change(what, report.owned)


def _event(record: NewRecord, topics: Mapping[str, str]) -> str:
    """An event as `regroup events` prints it, with its reason; times count from the start of the run."""
    details = event_details(record, lambda at_ms: offset(at_ms - START_MS), HIDDEN_FIELDS | PROFILE_FIELDS, topics)
    reason = "" if record.type == "member-joined" else event_reason(record)  # it is the client's own text
    return f"{record.type}  {details}".rstrip() + (f"  because {reason}" if reason else "")
