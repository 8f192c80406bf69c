"""Show a store's events, oldest first: what happened, to whom, and why.

regroup events regroup.db --group payments
regroup events regroup.db --follow                     go on as a running emulator writes
regroup events regroup.db --format jsonl | jq .type    one JSON object a line, for other programs
"""

import argparse
import asyncio
import re
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from datetime import UTC, datetime
from functools import partial
from typing import Any

import msgspec
from rich.console import Console
from rich.text import Text

from regroup.cli.history_arguments import add_group, add_store
from regroup.coordinator.written import ILLEGIBLE, damaged
from regroup.storage.follow import follow
from regroup.storage.records import Record
from regroup.storage.sqlite import open_store
from regroup.storage.store import ANY, EventStore

FOLLOW_PAUSE_S = 0.2
COLOURS = {
    "generation-started": "bold green",
    "assignment-committed": "green",
    "rebalance-started": "bold yellow",
    "leader-elected": "cyan",
    "member-expelled": "bold red",
    "member-left": "magenta",
    "coordinator-loaded": "bold blue",
}
QUIET = {"at_ms", "reason", "protocols", "deadline_ms", "sync_deadline_ms", "delay_ms", "remaining_ms", "assignment"}
"""Fields that the text form leaves out; `--format jsonl` has everything."""
UUID_TAIL = re.compile(r"([0-9a-f]{8})-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_store(parser)
    add_group(parser)
    parser.add_argument("--after", metavar="POSITION", type=int, default=0, help="only events after this position")
    parser.add_argument("--follow", action="store_true", help="wait for more; end with Ctrl-C")
    parser.add_argument("--format", choices=("text", "jsonl"), default="text", help="for people, or for programs")


def run(args: argparse.Namespace) -> int:
    show = (
        partial(print, flush=args.follow) if args.format == "jsonl" else Console(highlight=False, soft_wrap=True).print
    )
    return asyncio.run(show_events(args, as_jsonl if args.format == "jsonl" else as_text, show))


async def show_events(args: argparse.Namespace, form: Callable[[Record], Any], show: Callable[[Any], object]) -> int:
    async with await open_store(args.store, read_only=True) as store:
        async for record in chosen(store, args):
            try:
                line = form(record)
            except ILLEGIBLE as error:
                raise damaged(f"Record {record.position}", error) from error
            show(line)
    return 0


async def chosen(store: EventStore, args: argparse.Namespace) -> AsyncIterator[Record]:
    """From the first event that is still there; earlier ones may have been trimmed."""
    after = max(args.after, store.trimmed_through)
    if after > args.after:
        print(f"Events up to position {after} have been trimmed away.", file=sys.stderr)
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


def as_text(record: Record) -> Text:
    """Position, time, group, what happened, to whom; the reason and the cause in grey behind it."""
    payload = msgspec.json.decode(record.payload)
    at = datetime.fromtimestamp(record.at_ms / 1000, UTC).strftime("%H:%M:%S.%f")[:-3]
    line = Text(f"{record.position:>6}  {at}  ", style="dim")
    line.append(f"{record.group if record.group is not None else '(cluster)':<16}", style="default not dim")
    line.append(f" {record.type:<22}", style=f"{COLOURS.get(record.type, 'default')} not dim")
    line.append(" " + ", ".join(details(payload)), style="default not dim")
    if payload.get("reason"):
        line.append(f"  because {short(payload['reason'])}")
    if record.cause:
        line.append(f"  ({because(msgspec.json.decode(record.cause))})")
    return line


def details(payload: dict[str, Any]) -> Iterator[str]:
    for name, value in payload.items():
        if name == "offsets":
            yield from (f"{topic}-{n} at {each['offset']}" for topic, rows in value.items() for n, each in rows.items())
        elif name not in QUIET:
            shown = msgspec.json.encode(value).decode() if isinstance(value, dict | list) else str(value)
            yield f"{name.replace('_', ' ')} {short(shown)}"


def short(text: str) -> str:
    """Member ids end in a UUID; its first eight digits tell people enough."""
    return UUID_TAIL.sub(r"\1…", text)


def because(cause: dict[str, Any]) -> str:
    """Which request, or whose silence."""
    if cause.get("api"):
        return f"{cause['api']} of {cause.get('client_id') or 'a client without a name'}"
    return f"{cause.get('deadline', 'unknown')} deadline {short(cause.get('member', ''))}".strip()
