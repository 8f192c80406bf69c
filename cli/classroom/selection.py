"""Which groups of a store are shown, and which part of their history: `--group`, `--from` and `--to`."""

from argparse import Namespace
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Final, NamedTuple

from regroup.classroom.points import PositionRange
from regroup.classroom.reading import read_timelines
from regroup.classroom.recorded.messages import ExchangeMessages, read_messages
from regroup.classroom.timeline import GroupTimeline
from regroup.cli.jobs import CannotRun
from regroup.cli.store.events_text import clock_time
from regroup.cli.store.opening import open_store_to_read, unknown_group
from regroup.cli.store.times import Moment, parse_moment
from regroup.notation.durations import parse_duration_ms
from regroup.storage.store import EventStore

MAX_MESSAGES: Final = 5_000
"""Exchanges whose messages are on the page; of a longer recording `regroup exchanges` shows them."""


class NothingThere(CannotRun):
    """Raised if a group has no event between --from and --to."""


class Place(NamedTuple):
    """A place in a group's history as given on the command line. Exactly one of the three fields is set."""

    position: int | None = None
    since_start_ms: int | None = None
    time: Moment | None = None

    def at_ms(self, timeline: GroupTimeline) -> int:
        """The time of the place in epoch milliseconds. A time of day without a date is on the day of the last event."""
        if self.time is not None:
            return self.time.at_ms(timeline.last.at_ms)
        return timeline.began.at_ms + (self.since_start_ms or 0)


def parse_place(text: str) -> Place:
    """Parse a position, a duration since the start of the history, or a time in UTC. Raises ValueError."""
    if text.isascii() and text.isdigit():
        return Place(position=int(text))
    with suppress(ValueError):
        return Place(since_start_ms=parse_duration_ms(text))
    with suppress(ValueError):
        return Place(time=parse_moment(text))
    raise ValueError(
        f"invalid place: {text!r}; write a position (120), a time since the start (90s), or a time in UTC (13:05:20, "
        "2026-11-22T13:05:20)"
    )


def range_of(args: Namespace, timeline: GroupTimeline) -> PositionRange:
    """The positions between --from and --to, both included. Raises NothingThere if there is no event between them, and
    CannotRun for a --from after --to.
    """
    if args.start is not None and args.end is not None and _is_after(args.start, args.end, timeline):
        raise CannotRun("--from is after --to; write the earlier place after --from")
    start, end = timeline.positions
    if args.start is not None:
        start = max(start, _first_from(args.start, timeline))
    if args.end is not None:
        end = min(end, last_up_to(args.end, timeline))
    chosen = PositionRange(start, end)
    if not timeline.moments_between(*chosen):
        first, last = timeline.began, timeline.last
        raise NothingThere(
            f"no event of group {timeline.group_id!r} there; its events are at positions {first.position} to "
            f"{last.position}, from {clock_time(first.at_ms)} to {clock_time(last.at_ms)} UTC"
        )
    return chosen


def _is_after(start: Place, end: Place, timeline: GroupTimeline) -> bool:
    """Whether the place `start` is later than `end`; False if one is a position and the other one a time."""
    if start.position is not None and end.position is not None:
        return start.position > end.position
    return start.position is None and end.position is None and start.at_ms(timeline) > end.at_ms(timeline)


def _first_from(place: Place, timeline: GroupTimeline) -> int:
    if place.position is not None:
        return place.position
    at_ms = place.at_ms(timeline)
    later = (moment.position for moment in timeline.moments if moment.at_ms >= at_ms)
    return next(later, timeline.last.position + 1)


def last_up_to(place: Place, timeline: GroupTimeline) -> int:
    """The position of the last event at or before a place; if there is none, the begin of the history minus 1."""
    if place.position is not None:
        return place.position
    at_ms = place.at_ms(timeline)
    earlier = (moment.position for moment in reversed(timeline.moments) if moment.at_ms <= at_ms)
    return next(earlier, timeline.began.position - 1)


async def selected_timelines(args: Namespace) -> Sequence[GroupTimeline]:
    """The timeline of the group that --group names, or of every group. Raises CannotRun for an unknown group."""
    async with await open_store_to_read(args.store) as store:
        known = sorted(group for group in await store.heads() if group is not None)
        if args.group is not None and args.group not in known:
            raise CannotRun(unknown_group(args.group, known))
        timelines = await read_timelines(store, known if args.group is None else [args.group])
    if args.group is not None and not timelines:
        raise CannotRun(f"all events of group {args.group!r} have been trimmed")
    return list(timelines.values())


async def only_timeline(args: Namespace) -> GroupTimeline:
    """The timeline of the group that --group names, or of the store's only group. Raises CannotRun otherwise."""
    timelines = await selected_timelines(args)
    if not timelines:
        raise CannotRun("the store has no group")
    if len(timelines) > 1:
        names = ", ".join(each.group_id for each in timelines)
        raise CannotRun(f"the store has several groups ({names}): name one with --group")
    return timelines[0]


async def messages_of(store: EventStore, timeline: GroupTimeline) -> Mapping[int, ExchangeMessages]:
    """The decoded messages of a timeline's exchanges; none if there are more than MAX_MESSAGES. Raises StoreError."""
    if not 0 < len(timeline.exchanges) <= MAX_MESSAGES:
        return {}
    return await read_messages(store, timeline.exchanges)
