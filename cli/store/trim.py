"""The job of `regroup trim`: delete the oldest events of a store."""

import asyncio
from argparse import Namespace

from regroup.cli.jobs import CannotRun
from regroup.server.history.trim import save_snapshots_at
from regroup.storage.sqlite.threaded import open_store


def run(args: Namespace) -> int:
    print(asyncio.run(trim(args)))
    return 0


async def trim(args: Namespace) -> str:
    """Delete the events before --before, and say what is left. Raises CannotRun."""
    if not args.store.exists():
        raise CannotRun(f"{args.store}: no such file")
    async with await open_store(args.store) as store:
        last, snapshots_at = store.last_position, args.before - 1
        if not store.trimmed_through <= snapshots_at <= last:
            first = store.trimmed_through + 1
            raise CannotRun(f"--before must be between {first} and {last + 1}, not {args.before}")
        await save_snapshots_at(store, snapshots_at)
        deleted = await store.trim(args.before)
    return (
        f"{deleted} events were deleted; {last - snapshots_at} from position {args.before} on are left, and every "
        "group has kept its state."
    )
