"""Forget the oldest events of a store, so that one that lives long stays small. What the groups are is kept.

  regroup trim regroup.db --before 100000

Stop the emulator first: only one process may write to a store.
"""

import argparse
import asyncio

from regroup.cli.store.arguments import add_store
from regroup.cli.terminal.output import CANNOT_BE_DONE, complain
from regroup.server.history.trim import make_cut
from regroup.storage.sqlite.threaded import open_store


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_store(parser)
    parser.add_argument("--before", metavar="POSITION", type=int, required=True, help="the first event to keep")


def run(args: argparse.Namespace) -> int:
    return asyncio.run(trim(args))


async def trim(args: argparse.Namespace) -> int:
    if not args.store.exists():
        complain("trim", f"there is no file {args.store}")
        return CANNOT_BE_DONE
    async with await open_store(args.store) as store:
        last, cut = store.last_position, args.before - 1
        if not store.trimmed_through <= cut <= last:
            first = store.trimmed_through + 1
            complain("trim", f"--before must lie between {first} and {last + 1}, not {args.before}")
            return CANNOT_BE_DONE
        await make_cut(store, cut)
        gone = await store.trim(args.before)
    print(
        f"{gone} events are gone; {last - cut} from position {args.before} on are left, and every group is as it was."
    )
    return 0
