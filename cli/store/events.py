"""The job of `regroup events`: prints a store's events, as text for people or as JSON for programs."""

import asyncio
from argparse import Namespace
from collections.abc import AsyncIterator, Callable
from functools import partial
from typing import Any, Final

import msgspec

from regroup.cli.jobs import CannotRun
from regroup.cli.store.events_text import EventFormatter
from regroup.cli.store.opening import open_store_to_read, unknown_group
from regroup.cli.store.topic_names import topic_names_of
from regroup.cli.terminal.consoles import PlainConsole
from regroup.cli.terminal.output import print_error
from regroup.cli.terminal.text import printable_json
from regroup.coordinator.serialization import UNREADABLE_ERRORS, damaged
from regroup.storage.errors import PositionTrimmed
from regroup.storage.records import Record
from regroup.storage.store import ANY_GROUP, EventStore, follow

FOLLOW_INTERVAL_S: Final = 0.2


def run(args: Namespace) -> int:
    if args.format == "jsonl":
        asyncio.run(show_events(args, format_event_json, partial(print, flush=args.follow)))
    else:
        asyncio.run(show_events(args, None, PlainConsole().print))
    return 0


async def show_events(args: Namespace, form: Callable[[Record], Any] | None, show: Callable[[Any], object]) -> None:
    """Read the selected events, convert each with `form`, by default to text, and pass it to `show`. Raises CannotRun
    for an unknown group, unless --follow waits for one."""
    async with await open_store_to_read(args.store) as store:
        known = {group for group in await store.heads() if group is not None}
        if args.group is not None and args.group not in known:
            if not args.follow:
                raise CannotRun(unknown_group(args.group, known))
            print_error("events", f"{unknown_group(args.group, known)}; waiting for it")
        form = form or EventFormatter(await topic_names_of(store))
        async for record in _selected_records(store, args):
            try:
                line = form(record)
            except UNREADABLE_ERRORS as error:
                raise damaged(f"Record {record.position}", error) from error
            show(line)


async def _selected_records(store: EventStore, args: Namespace) -> AsyncIterator[Record]:
    """The records after --after; by default from the first one that has not been trimmed. If a running emulator trims
    the next ones, the records go on behind them."""
    after, is_complete = max(args.after, store.trimmed_through), False
    if after > args.after:
        _print_trimmed(after)
    while not is_complete:
        try:
            async for record in _records_after(store, after, args):
                yield record
                after = record.position
            is_complete = True
        except PositionTrimmed as error:
            after = error.trimmed_through
            _print_trimmed(after)


def _records_after(store: EventStore, after: int, args: Namespace) -> AsyncIterator[Record]:
    if not args.follow:
        return store.read(group=ANY_GROUP if args.group is None else args.group, after=after)
    following = follow(store, after=after, pause=partial(asyncio.sleep, FOLLOW_INTERVAL_S))
    return (record async for record in following if args.group in (None, record.group))


def _print_trimmed(through: int) -> None:
    print_error("events", f"the events up to position {through} have been trimmed")


def format_event_json(record: Record) -> str:
    """A record as one line of JSON: every column in a fixed order, payload and cause as JSON."""
    row = {
        "position": record.position,
        "group": record.group,
        "event_number": record.event_number,
        "coordinator_epoch": record.coordinator_epoch,
        "at_ms": record.at_ms,
        "type": record.type,
        "version": record.version,
        "payload": msgspec.Raw(record.payload),
        "cause": None if record.cause is None else msgspec.Raw(record.cause),
    }
    return printable_json(msgspec.json.encode(row).decode())
