"""The job of `regroup step`: a group's history key by key, in a full-screen view of the terminal."""

import asyncio
import sys
from argparse import Namespace
from collections.abc import Sequence

from regroup.cli.classroom.selection import Place, last_up_to, selected_timelines
from regroup.cli.classroom.step_view.app import StepApp
from regroup.cli.classroom.step_view.groups import SteppedGroup
from regroup.cli.classroom.step_view.messages import message_reader
from regroup.cli.jobs import CannotRun
from regroup.cli.store.opening import open_store_to_read
from regroup.storage.store import trimmed_text


def run(args: Namespace) -> int:
    """Run the full-screen view of `regroup step` until the user leaves it. Raises CannotRun, StoreError."""
    app = asyncio.run(prepared(args))
    if not (sys.stdin.isatty() and sys.stdout.isatty() and sys.stderr.isatty()):
        raise CannotRun("it needs a terminal; `regroup story` writes the same history as text")
    app.run(mouse=False)
    return app.return_code or 0


async def prepared(args: Namespace) -> StepApp:
    """Read the store, and make the view at the moment that --at names. Raises CannotRun, StoreError."""
    timelines = [each for each in await selected_timelines(args) if each.moments]
    if not timelines:
        raise CannotRun("the store has no event of a group: there is nothing to step through")
    async with await open_store_to_read(args.store) as store:
        first, last = store.trimmed_through, store.last_position
        if args.at is not None and args.at.position is not None and not first <= args.at.position <= last:
            begins = trimmed_text(first)
            raise CannotRun(f"unknown position {args.at.position}; the store holds {first} to {last}{begins}")
    read_messages = message_reader(args.store)
    groups = [SteppedGroup(each, read_messages, args.language) for each in timelines]
    number = 0 if args.at is None else begin_at(args.at, groups)
    return StepApp(groups, group_number=number)


def begin_at(place: Place, groups: Sequence[SteppedGroup]) -> int:
    """Go to a place in every group; return the number of the group to begin with: the one that has the event there.

    Raises CannotRun if no group has an event up to there.
    """
    reached = [
        number for number, group in enumerate(groups) if last_up_to(place, group.timeline) >= group.first_position
    ]
    if not reached:
        first = min(group.first_position for group in groups)
        raise CannotRun(f"no event of a group up to there: the first one is at position {first}")
    for group in groups:
        group.index = group.index_of_place(place)
    return next((number for number in reached if groups[number].moment.position == place.position), reached[0])
