"""The job of `regroup story`: the life of each group in sentences, 80 columns wide."""

import asyncio
import textwrap
from argparse import Namespace
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Final

from regroup.classroom.story import story_lines
from regroup.classroom.timeline import GroupTimeline, PositionRange
from regroup.classroom.wording import not_recorded_text
from regroup.cli.classroom.selection import NothingThere, range_of, selected_timelines
from regroup.cli.store.events_text import clock_time, date_of
from regroup.cli.terminal.text import counted, printable

WIDTH: Final = 80
TIME_WIDTH: Final = len("22:13:20.119  ")


def run(args: Namespace) -> int:
    """Print the stories. Raises CannotRun, StoreError."""
    timelines = asyncio.run(selected_timelines(args))
    shown = list(_with_ranges(timelines, args))
    if timelines and not shown:
        range_of(args, timelines[0])
    for timeline, within in shown:
        for line in story_text(timeline, within):
            print(line)
        print()
    if not timelines:
        print("The store has no group.")
    elif missing := not_recorded_text(timelines[0].recorded.missing):
        print(textwrap.fill(missing, WIDTH))
    return 0


def _with_ranges(timelines: Sequence[GroupTimeline], args: Namespace) -> Iterator[tuple[GroupTimeline, PositionRange]]:
    """The groups that have events between --from and --to."""
    for timeline in timelines:
        with suppress(NothingThere):
            yield timeline, range_of(args, timeline)


def story_text(timeline: GroupTimeline, within: PositionRange) -> Iterator[str]:
    """A heading, and the sentences with their times; a time stands only where it changes."""
    yield from _wrapped(_heading(timeline, within))
    day, clock = date_of(timeline.began.at_ms), ""
    for line in story_lines(timeline, within):
        if line.begins_part:
            yield ""
        if date_of(line.at_ms) != day:
            day = date_of(line.at_ms)
            yield day
        now = clock_time(line.at_ms)
        yield from _wrapped(line.text, "" if now == clock else now)
        clock = now


def _heading(timeline: GroupTimeline, within: PositionRange) -> str:
    trimmed = " Earlier events have been trimmed." if timeline.is_trimmed else ""
    number = len(timeline.moments_between(*within))
    return (
        f"Group {timeline.group_id}: {counted(number, 'event')}, positions {within.first} to {within.last}, "
        f"{date_of(timeline.began.at_ms)}, times in UTC.{trimmed}"
    )


def _wrapped(text: str, clock: str | None = None) -> list[str]:
    """The lines of a sentence beside its time; those of a heading begin at the margin."""
    first, others = ("", "  ") if clock is None else (clock.ljust(TIME_WIDTH), " " * TIME_WIDTH)
    return textwrap.wrap(printable(text), WIDTH, initial_indent=first, subsequent_indent=others, break_on_hyphens=False)
