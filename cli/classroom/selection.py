"""Which groups of a store are shown, and which part of their history: `--group`, `--from` and `--to`."""

import re
from argparse import Namespace
from collections.abc import Sequence
from datetime import UTC, datetime, time, timedelta
from typing import Final, NamedTuple

from regroup.classroom.reading import read_timelines
from regroup.classroom.timeline import GroupTimeline, PositionRange
from regroup.cli.jobs import CannotRun
from regroup.cli.store.events_text import clock_time
from regroup.cli.store.opening import open_store_to_read, unknown_group
from regroup.notation.durations import parse_duration_ms

_TIME_OF_DAY: Final = re.compile(r"\d\d:\d\d(:\d\d(\.\d{1,6})?)?", re.ASCII)


class NothingThere(CannotRun):
    """A group has no event in the chosen part of the history."""


class Place(NamedTuple):
    """A place in the history of a group, as a person writes it. One of the three is set."""

    position: int | None = None
    since_start_ms: int | None = None
    time_of_day: time | None = None

    def at_ms(self, timeline: GroupTimeline) -> int:
        """The time of the place in epoch milliseconds; a time of day is the first one in this history."""
        start_ms = timeline.began.at_ms
        if self.time_of_day is None:
            return start_ms + (self.since_start_ms or 0)
        start = datetime.fromtimestamp(start_ms / 1000, UTC)
        found = datetime.combine(start.date(), self.time_of_day, UTC)
        last = datetime.fromtimestamp(timeline.last.at_ms / 1000, UTC)
        if found < start and found + timedelta(days=1) <= last:
            found += timedelta(days=1)
        return round(found.timestamp() * 1000)


def parse_place(text: str) -> Place:
    """A position, a duration since the start, or a time of day. Raises ValueError for anything else."""
    if text.isascii() and text.isdigit():
        return Place(position=int(text))
    try:
        if _TIME_OF_DAY.fullmatch(text):
            return Place(time_of_day=time.fromisoformat(text))
        return Place(since_start_ms=parse_duration_ms(text))
    except ValueError:
        expected = "write a position (120), a time since the start (90s) or a time of day (13:05:20)"
        raise ValueError(f"invalid place: {text!r}; {expected}") from None


def range_of(args: Namespace, timeline: GroupTimeline) -> PositionRange:
    """The positions between --from and --to, both included. Raises NothingThere if there is no event between them."""
    start, end = timeline.positions
    if args.start is not None:
        start = max(start, _first_from(args.start, timeline))
    if args.end is not None:
        end = min(end, _last_up_to(args.end, timeline))
    chosen = PositionRange(start, end)
    if not timeline.moments_between(*chosen):
        first, last = timeline.began, timeline.last
        raise NothingThere(
            f"no event of group {timeline.group_id!r} there; its events are at positions {first.position} to "
            f"{last.position}, from {clock_time(first.at_ms)} to {clock_time(last.at_ms)} UTC"
        )
    return chosen


def _first_from(place: Place, timeline: GroupTimeline) -> int:
    if place.position is not None:
        return place.position
    at_ms = place.at_ms(timeline)
    later = (moment.position for moment in timeline.moments if moment.at_ms >= at_ms)
    return next(later, timeline.last.position + 1)


def _last_up_to(place: Place, timeline: GroupTimeline) -> int:
    if place.position is not None:
        return place.position
    at_ms = place.at_ms(timeline)
    earlier = (moment.position for moment in reversed(timeline.moments) if moment.at_ms <= at_ms)
    return next(earlier, timeline.began.position - 1)


async def selected_timelines(args: Namespace) -> Sequence[GroupTimeline]:
    """The timelines of the group that is asked for, or of every group. Raises CannotRun for an unknown one."""
    async with await open_store_to_read(args.store) as store:
        known = sorted(group for group in await store.heads() if group is not None)
        if args.group is not None and args.group not in known:
            raise CannotRun(unknown_group(args.group, known))
        timelines = await read_timelines(store, known if args.group is None else [args.group])
    if args.group is not None and not timelines:
        raise CannotRun(f"all events of group {args.group!r} have been trimmed")
    return list(timelines.values())
