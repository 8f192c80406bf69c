"""Show what the groups of a store were at a moment, as JSON: the fold of every event up to there.

Bytes are in base64. Where they can be read, `topics` and `partitions` beside them say what they mean.

regroup replay regroup.db
regroup replay regroup.db --group payments --at 120
"""

import argparse
import asyncio
import json
import sys
from typing import Any

from regroup.cli.store.arguments import add_group, add_store, open_history
from regroup.cli.store.group_json import readable
from regroup.cli.terminal.output import CANNOT_BE_DONE, complain
from regroup.cli.terminal.text import listed
from regroup.coordinator.runtime.loading import load_groups
from regroup.coordinator.serialization import as_json


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_store(parser)
    add_group(parser)
    parser.add_argument("--at", metavar="POSITION", type=int, help="as of this event (default: the last)")


def run(args: argparse.Namespace) -> int:
    shown, fault = asyncio.run(state_at(args))
    if fault:
        complain("replay", fault)
        return CANNOT_BE_DONE
    json.dump(shown, sys.stdout, indent=2, ensure_ascii=False)
    print()
    return 0


async def state_at(args: argparse.Namespace) -> tuple[dict[str, Any], str]:
    """The state, or in words why it cannot be shown."""
    async with await open_history(args.store) as store:
        last = store.last_position
        at = last if args.at is None else args.at
        if not store.trimmed_through <= at <= last:
            return {}, f"there is no position {at}: the store holds {store.trimmed_through} to {last}"
        groups = await load_groups(store, until=at)
    chosen = {name: group for name, group in sorted(groups.items()) if args.group in (None, name)}
    if args.group is not None and not chosen:
        return {}, f"nothing is known of group {args.group!r} at position {at}; known are: {listed(groups)}"
    return {"position": at, "groups": {name: readable(as_json(group)) for name, group in chosen.items()}}, ""
