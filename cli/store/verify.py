"""Fold a store's whole history, check every invariant, and compare the snapshots with the fold.

  regroup verify regroup.db

Ends with 0 if all holds, and with 1 and the position of the first fault if not.
"""

import argparse
import asyncio
import shlex
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path

from regroup.cli.store.arguments import add_store, open_history
from regroup.cli.terminal.output import own_name
from regroup.cli.terminal.progress import Telling
from regroup.cli.terminal.text import printable
from regroup.coordinator.verification import Fault
from regroup.server.history.verify_store import Verified, verify_store

MOST_SHOWN = 20


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_store(parser)


def run(args: argparse.Namespace) -> int:
    return asyncio.run(verify(args))


async def verify(args: argparse.Namespace) -> int:
    with Telling() as telling:
        async with await open_history(args.store) as store:
            found = await verify_store(store, partial(telling, "folding"))
    if found.faults:
        with suppress(BrokenPipeError):  # who does not read them to the end still learns that there are some
            tell_faults(found.faults, args.store)
        return 1
    print(sentence(found))
    return 0


def tell_faults(faults: Sequence[Fault], store: Path) -> None:
    """The first ones, and where to look."""
    for fault in faults[:MOST_SHOWN]:
        print(printable(f"position {fault.position}, group {fault.group}: {fault.sentence}"))
    if len(faults) > MOST_SHOWN:
        print(f"… and {len(faults) - MOST_SHOWN} more faults.")
    first = faults[0].position
    print(f"The first fault is at position {first}: {own_name()} replay {shlex.quote(str(store))} --at {first}")


def sentence(found: Verified) -> str:
    """What was looked at, and that all is well."""
    events, groups = counted(found.events, "event"), counted(found.groups, "group")
    since = f" (from {found.first} on; earlier ones were trimmed)" if found.first > 1 else ""
    aside = f" ({found.left_aside} of another version were left aside)" if found.left_aside else ""
    return f"{events}{since}, {groups}: every invariant holds, and the snapshots{aside} equal the fold."


def counted(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"
