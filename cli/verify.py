"""Fold a store's whole history, check every invariant, and compare the snapshots with the fold.

  regroup verify regroup.db

Ends with 0 if all holds, and with 1 and the position of the first fault if not.
"""

import argparse
import asyncio
from functools import partial

from regroup.cli.history_arguments import add_store
from regroup.cli.telling import Telling
from regroup.server.whole_store import verify_store
from regroup.storage.sqlite import open_store

MOST_SHOWN = 20


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_store(parser)


def run(args: argparse.Namespace) -> int:
    return asyncio.run(verify(args))


async def verify(args: argparse.Namespace) -> int:
    with Telling() as telling:
        async with await open_store(args.store, read_only=True) as store:
            found = await verify_store(store, partial(telling, "folding"))
    for fault in found.faults[:MOST_SHOWN]:
        print(f"position {fault.position}, group {fault.group}: {fault.sentence}")
    if len(found.faults) > MOST_SHOWN:
        print(f"… and {len(found.faults) - MOST_SHOWN} more faults.")
    if found.faults:
        first = found.faults[0].position
        print(f"The first fault is at position {first}: regroup replay {args.store} --at {first}")
        return 1
    groups = f"{found.groups} group{'' if found.groups == 1 else 's'}"
    since = f" from position {found.first} on (earlier ones were trimmed away)" if found.first > 1 else ""
    aside = f" ({found.left_aside} of another version were left aside)" if found.left_aside else ""
    print(f"{found.events} events{since}, {groups}: every invariant holds, and the snapshots{aside} equal the fold.")
    return 0
