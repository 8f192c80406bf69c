"""The job of `regroup verify`: fold a store's history, and report the first violations."""

import asyncio
import shlex
from argparse import Namespace
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Final

from regroup.cli.store.opening import open_store_to_read
from regroup.cli.terminal.output import program_name
from regroup.cli.terminal.progress import ProgressReporter
from regroup.cli.terminal.text import counted, printable
from regroup.coordinator.verification import Violation
from regroup.server.history.verify_store import VerificationResult, verify_store

MAX_SHOWN_VIOLATIONS: Final = 20


def run(args: Namespace) -> int:
    result = asyncio.run(verify(args.store))
    if not result.violations:
        print(summary(result))
        return 0
    with suppress(BrokenPipeError):  # a closed pipe must not change the exit code
        print_violations(result.violations, args.store)
    return 1


async def verify(path: Path) -> VerificationResult:
    with ProgressReporter() as report:
        async with await open_store_to_read(path) as store:
            return await verify_store(store, partial(report, "folding"))


def print_violations(violations: Sequence[Violation], store: Path) -> None:
    """Print the first violations, and the command that shows the groups at the first."""
    for each in violations[:MAX_SHOWN_VIOLATIONS]:
        print(printable(f"position {each.position}, group {each.group}: {each.sentence}"))
    if len(violations) > MAX_SHOWN_VIOLATIONS:
        print(f"… and {len(violations) - MAX_SHOWN_VIOLATIONS} more faults.")
    first = violations[0].position
    print(f"The first fault is at position {first}: {program_name()} replay {shlex.quote(str(store))} --at {first}")


def summary(result: VerificationResult) -> str:
    """One sentence about a store without violations."""
    first, ignored = result.first_position, result.ignored_snapshots
    since = f" (from {first} on; earlier ones were trimmed)" if first > 1 else ""
    aside = f" ({ignored} of another version were ignored)" if ignored else ""
    return (
        f"{counted(result.events, 'event')}{since}, {counted(result.groups, 'group')}: every invariant holds, and the "
        f"snapshots{aside} equal the fold."
    )
