"""Show a store's events, oldest first: what happened, to whom, and why.

regroup events regroup.db --group payments
regroup events regroup.db --follow                     go on as a running emulator writes
regroup events regroup.db --format jsonl | jq .type    one JSON object a line, for other programs
"""

import argparse
import asyncio
from collections.abc import AsyncIterator, Callable
from functools import partial
from typing import Any

import msgspec

from regroup.cli.store.arguments import add_group, add_store, open_history
from regroup.cli.store.events_text import TextForm
from regroup.cli.terminal.consoles import Plain
from regroup.cli.terminal.output import CANNOT_BE_DONE, complain
from regroup.cli.terminal.text import listed
from regroup.coordinator.serialization import ILLEGIBLE, damaged
from regroup.storage.follow import follow
from regroup.storage.records import Record
from regroup.storage.store import ANY, EventStore

FOLLOW_PAUSE_S = 0.2


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_store(parser)
    add_group(parser)
    parser.add_argument("--after", metavar="POSITION", type=int, default=0, help="only events after this position")
    parser.add_argument("--follow", action="store_true", help="wait for more; end with Ctrl-C")
    parser.add_argument(
        "--format", choices=("text", "jsonl"), default="text", help="for people, or for programs (default: text)"
    )


def run(args: argparse.Namespace) -> int:
    if args.format == "jsonl":
        return asyncio.run(show_events(args, as_jsonl, partial(print, flush=args.follow)))
    return asyncio.run(show_events(args, TextForm(), Plain().print))


async def show_events(args: argparse.Namespace, form: Callable[[Record], Any], show: Callable[[Any], object]) -> int:
    """2 if there is no such group, unless one is waited for."""
    async with await open_history(args.store) as store:
        if args.group is not None and not await is_known(store, args) and not args.follow:
            return CANNOT_BE_DONE
        async for record in chosen(store, args):
            try:
                line = form(record)
            except ILLEGIBLE as error:
                raise damaged(f"Record {record.position}", error) from error
            show(line)
    return 0


async def is_known(store: EventStore, args: argparse.Namespace) -> bool:
    """Whether the store has ever heard of the group. If not, that is said, with the names of those that it knows."""
    known = {group for group in await store.heads() if group is not None}
    if args.group not in known:
        waiting = "; waiting for it to come" if args.follow else ""
        complain("events", f"nothing is known of group {args.group!r}; known are: {listed(known)}{waiting}")
    return args.group in known


async def chosen(store: EventStore, args: argparse.Namespace) -> AsyncIterator[Record]:
    """From the first event that is still there; earlier ones may have been trimmed."""
    after = max(args.after, store.trimmed_through)
    if after > args.after:
        complain("events", f"the events up to position {after} have been trimmed away")
    if not args.follow:
        async for record in store.read(group=ANY if args.group is None else args.group, after=after):
            yield record
        return
    async for record in follow(store, after=after, pause=partial(asyncio.sleep, FOLLOW_PAUSE_S)):
        if args.group in (None, record.group):
            yield record


def as_jsonl(record: Record) -> str:
    """The canonical row: every column, payload and cause as JSON, in a fixed order."""
    row = {
        "position": record.position,
        "group": record.group,
        "number": record.number,
        "reign": record.reign,
        "at_ms": record.at_ms,
        "type": record.type,
        "version": record.version,
        "payload": msgspec.Raw(record.payload),
        "cause": None if record.cause is None else msgspec.Raw(record.cause),
    }
    return msgspec.json.encode(row).decode()
