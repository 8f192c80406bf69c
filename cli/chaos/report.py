"""Prints the result of `regroup chaos run`: the timeline, the expectations, the costs and the verdict."""

from collections.abc import Iterator
from typing import Final

from regroup.cli.chaos.timeline import Names, TimelineLine, offset, timeline_lines
from regroup.cli.terminal.text import counted, printable
from regroup.coordinator.consumer import events as ce
from regroup.coordinator.events import Event
from regroup.coordinator.serialization import EVENT_TYPE_NAMES
from regroup.lab.checker.verdict import RunViolation
from regroup.lab.simulation.run import RunOutcome
from regroup.lab.simulation.timeline import ExpectationResult, Timeline
from regroup.notation.durations import format_duration

MAX_SHOWN_LINES: Final = 120
"""The most lines of a timeline that are shown; the middle of a longer one is left out, unless `verbose` asks for it."""
FIRST_LINES: Final = 40
MAX_SHOWN_VIOLATIONS: Final = 5


def print_timeline(timeline: Timeline, *, verbose: bool) -> None:
    """Print the timeline; without `verbose` at most MAX_SHOWN_LINES lines of it."""
    lines = timeline_lines(timeline)
    print("\nWhat happened, in time since the start:")
    if verbose or len(lines) <= MAX_SHOWN_LINES:
        _print_lines(lines)
        return
    _print_lines(lines[:FIRST_LINES])
    print(f"{'…':>10}  {len(lines) - MAX_SHOWN_LINES} lines are left out; --verbose shows all")
    _print_lines(lines[FIRST_LINES - MAX_SHOWN_LINES :])


def _print_lines(lines: list[TimelineLine]) -> None:
    for line in lines:
        print(printable(str(line)))


def print_missed_steps(outcome: RunOutcome) -> None:
    """Print the plan's steps that were not carried out, because the milestone that each waits for never came."""
    if missed := outcome.steps_not_reached:
        print(f"\nNever happened, since what they wait for did not come before the faults ended ({len(missed)}):")
        for planned in missed:
            print(f"  {printable(str(planned))}")


def print_expectations(outcome: RunOutcome) -> None:
    """Print how many of the scenario's expectations were met."""
    if outcome.expectations:
        held = [each for each in outcome.expectations if each.found is None]
        print(f"\n{len(held)} of {counted(len(outcome.expectations), 'expectation')} held.")


def describe_counts(outcome: RunOutcome) -> str:
    """What a run cost, in sentences: rebalances, requests, events, time without owners, repeated records."""
    counts = outcome.verdict.counts
    # Needless moves are counted when a leader's assignment is committed, so only of classic groups.
    is_classic = counts.rebalances or not _number_of(outcome, ce.TargetAssigned)
    moves = f"; {counted(counts.needless_moves, 'partition')} moved although the balance did not need it."
    parts = [
        f"{', '.join(_changes(outcome))}, {counted(counts.removals, 'member')} removed, "
        f"{counted(counts.exchanges, 'request')} and deadlines handled, {counted(counts.events, 'event')} stored.",
        f"Partitions were without an owner for {counts.ownerless_s:.1f} partition-seconds"
        + (moves if is_classic else "."),
    ]
    if counts.processed:
        parts.append(
            f"{counted(counts.processed, 'record')} processed, {counts.processed_twice} of them again; "
            f"{counted(counts.offsets_went_back, 'commit')} set an offset back."
        )
    return "\n".join(
        [f"The run took {format_duration(outcome.ended_ms, with_fractions=True)} of virtual time.", *parts]
    )


def _changes(outcome: RunOutcome) -> Iterator[str]:
    """How often the assignments of groups changed: the rebalances of classic groups; the group epochs and target
    assignments of groups of the consumer protocol, which have no rebalances."""
    epochs, targets = _number_of(outcome, ce.GroupEpochBumped), _number_of(outcome, ce.TargetAssigned)
    if outcome.verdict.counts.rebalances or not (epochs or targets):
        yield counted(outcome.verdict.counts.rebalances, "rebalance")
    if epochs or targets:
        yield counted(epochs, "group epoch")
        yield counted(targets, "target assignment")


def _number_of(outcome: RunOutcome, event_type: type[Event]) -> int:
    return sum(each.type == EVENT_TYPE_NAMES[event_type] for each in outcome.records)


def violation_texts(outcome: RunOutcome, timeline: Timeline, *, verbose: bool) -> Iterator[str]:
    """A text for each sentence that is violated, about its first violation: a failed expectation, or an invariant with
    the exchange that led to it."""
    names = Names(timeline.names)
    failed = {f"{each.planned.step}.": each for each in reversed(outcome.expectations) if each.found is not None}
    for sentence in outcome.verdict.sentences:
        violation = next(each for each in outcome.verdict.violations if each.sentence == sentence)
        if sentence in failed:
            yield names(describe_failed_expectation(failed[sentence], violation.at_ms))
        else:
            yield "\n".join(map(names, describe_violation(violation).splitlines())) + _raw(violation, verbose)


def describe_failed_expectation(result: ExpectationResult, at_ms: int) -> str:
    """A failed expectation as text: `Expected at +60.0 s: ben was removed. Not so: no member was removed.`"""
    return f"Expected at {offset(at_ms)}: {result.planned.step}. Not so: {result.found}."


def describe_violation(violation: RunViolation) -> str:
    """A violation as text: the sentence that does not hold, when that was found, and what was found."""
    position = "" if violation.position is None else f", at position {violation.position} of the store"
    detail = violation.detail.rstrip(".")
    return f"Violated: {violation.sentence}\n  Seen at {offset(violation.at_ms)}{position}: {detail}."


def _raw(violation: RunViolation, verbose: bool) -> str:
    return f"\n  In full: {printable(violation.raw)}" if verbose and violation.raw else ""
