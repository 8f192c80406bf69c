"""The job of `regroup story`: the life of each group in sentences, 80 columns wide."""

import asyncio
import textwrap
from argparse import Namespace
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Final

from regroup.classroom.languages import Language
from regroup.classroom.phrases.phrase import in_language, phrase
from regroup.classroom.points import PositionRange
from regroup.classroom.story import story_lines
from regroup.classroom.timeline import GroupTimeline
from regroup.classroom.wording import not_recorded_text
from regroup.classroom.wrapping import wrapped
from regroup.cli.classroom.selection import NothingThere, range_of, selected_timelines
from regroup.cli.store.events_text import clock_time, date_of
from regroup.cli.terminal.text import printable

WIDTH: Final = 80
TIME_WIDTH: Final = len("22:13:20.119  ")


def run(args: Namespace) -> int:
    """Print the stories. Raises CannotRun, StoreError."""
    timelines = asyncio.run(selected_timelines(args))
    shown = list(_with_ranges(timelines, args))
    if timelines and not shown:
        range_of(args, timelines[0])
    for timeline, within in shown:
        for line in story_text(timeline, within, args.language):
            print(line)
        print()
    if not timelines:
        print(in_language(phrase("no group in the store"), args.language))
    elif missing := not_recorded_text(timelines[0].recorded.missing, args.language):
        print("\n".join(_wrapped(missing, args.language, first="", others="")))
    return 0


def _with_ranges(timelines: Sequence[GroupTimeline], args: Namespace) -> Iterator[tuple[GroupTimeline, PositionRange]]:
    """Yield the groups that have events between --from and --to, each with the positions of that part."""
    for timeline in timelines:
        with suppress(NothingThere):
            yield timeline, range_of(args, timeline)


def story_text(timeline: GroupTimeline, within: PositionRange, language: Language = Language.ENGLISH) -> Iterator[str]:
    """Yield the lines of a group's story: a heading, and sentences, each with its time if it differs from the last."""
    yield from _wrapped(_heading(timeline, within, language), language, first="", others="  ")
    day, clock = date_of(timeline.began.at_ms), ""
    for line in story_lines(timeline, within, language):
        if line.begins_part:
            yield ""
        if date_of(line.at_ms) != day:
            day = date_of(line.at_ms)
            yield day
        now = clock_time(line.at_ms)
        shown = "" if now == clock else now
        yield from _wrapped(line.text, language, first=shown.ljust(TIME_WIDTH), others=" " * TIME_WIDTH)
        clock = now


def _heading(timeline: GroupTimeline, within: PositionRange, language: Language) -> str:
    number = len(timeline.moments_between(*within))
    heading = phrase(
        "story heading",
        group=timeline.group_id,
        events=phrase("one event") if number == 1 else phrase("events", number=number),
        first=within.first,
        last=within.last,
        date=date_of(timeline.began.at_ms),
    )
    return in_language(heading, language) + (in_language(phrase("trimmed"), language) if timeline.is_trimmed else "")


def _wrapped(text: str, language: Language, *, first: str, others: str) -> list[str]:
    """Wrap a sentence to lines. The first line begins with `first`, the others begin with `others`."""
    if language is Language.CHINESE:
        return list(wrapped(printable(text), WIDTH, others, first))
    return textwrap.wrap(printable(text), WIDTH, initial_indent=first, subsequent_indent=others, break_on_hyphens=False)
