"""The jobs of `regroup replay`, `verify` and `trim`, which fold a store's history to the states of its groups."""

import asyncio
import json
import shlex
import sys
import time
from argparse import Namespace
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Final

from regroup.cli.jobs import CannotRun
from regroup.cli.store.group_json import with_decoded_bytes
from regroup.cli.store.opening import open_store_to_read, unknown_group
from regroup.cli.store.replay_text import groups_text
from regroup.cli.store.topic_names import topic_names_of
from regroup.cli.terminal.output import program_name
from regroup.cli.terminal.progress import ProgressReporter
from regroup.cli.terminal.text import counted, printable, printable_json
from regroup.coordinator.consumer_group import ConsumerGroup
from regroup.coordinator.group import Group
from regroup.coordinator.runtime.loading import load_groups
from regroup.coordinator.serialization import group_as_json
from regroup.coordinator.verification import Violation
from regroup.server.history.trim import last_position_before, save_snapshots_at
from regroup.server.history.upkeep import PORTIONS_PER_CHECKPOINT
from regroup.server.history.verify_store import VerificationResult, verify_store
from regroup.storage.sqlite.files import missing_wal_text, wal_is_missing
from regroup.storage.sqlite.threaded import open_store
from regroup.storage.store import EventStore, again_if_trimmed, trimmed_text

MAX_SHOWN_VIOLATIONS: Final = 20


def run_replay(args: Namespace) -> int:
    position, at_ms, groups, topics = asyncio.run(groups_at(args))
    if args.format == "text" or (args.format is None and sys.stdout.isatty()):
        for line in groups_text(position, at_ms, groups, topics):
            print(line)
    else:
        shown = {group.group_id: with_decoded_bytes(group_as_json(group)) for group in groups}
        document = {"position": position, "groups": shown}
        if named := named_topics(groups, topics):
            document["topics"] = named
        print(printable_json(json.dumps(document, indent=2, ensure_ascii=False)))
    return 0


def named_topics(groups: Iterable[Group], topics: Mapping[str, str]) -> dict[str, str]:
    """The names of the topics whose ids stand in these groups, those of the consumer protocol."""
    ids = {each for group in groups if group.consumer is not None for each in topic_ids_of(group.consumer)}
    return {topic_id: name for topic_id, name in topics.items() if topic_id in ids}


def topic_ids_of(consumer: ConsumerGroup) -> Iterator[str]:
    for member in consumer.members.values():
        yield from (*member.assigned, *member.pending_revocation)
    for share in consumer.targets.values():
        yield from share


async def groups_at(args: Namespace) -> tuple[int, int | None, list[Group], dict[str, str]]:
    """Fold the events up to and including the position --at. Returns the position, the time of the event there, the
    groups sorted by id, and the names of topics by id.

    Raises CannotRun for an unknown position or group.
    """
    async with await open_store_to_read(args.store) as store:
        first, last = store.trimmed_through, store.last_position
        at = last if args.at is None else args.at
        if not first <= at <= last:
            raise CannotRun(f"unknown position {at}; the store holds {first} to {last}{trimmed_text(first)}")
        groups = await load_groups(store, until=at)
        topics = await topic_names_of(store)
        times = [record.at_ms async for record in store.read(after=max(at - 1, first), until=at)]
    shown = [group for name, group in sorted(groups.items()) if args.group in (None, name)]
    if args.group is not None and not shown:
        raise CannotRun(f"{unknown_group(args.group, groups)}, at position {at}")
    return at, times[-1] if times else None, shown, topics


def run_verify(args: Namespace) -> int:
    result = asyncio.run(verify(args.store))
    if not result.violations:
        print(summary(result))
        if wal_is_missing(args.store):
            print(missing_wal_text(args.store))
            return 1
        return 0
    with suppress(BrokenPipeError):  # a closed pipe must not change the exit code
        print_violations(result.violations, args.store)
    return 1


async def verify(path: Path) -> VerificationResult:
    with ProgressReporter() as report:
        async with await open_store_to_read(path) as store:
            return await again_if_trimmed(partial(verify_store, store, partial(report, "folding")))


def print_violations(violations: Sequence[Violation], store: Path) -> None:
    """Print the first violations, and the command that shows the groups at the first of them."""
    for each in violations[:MAX_SHOWN_VIOLATIONS]:
        print(printable(f"position {each.position}, group {each.group}: {each.sentence}"))
    if len(violations) > MAX_SHOWN_VIOLATIONS:
        print(f"… and {len(violations) - MAX_SHOWN_VIOLATIONS} more faults.")
    first = violations[0].position
    print(f"The first fault is at position {first}: {program_name()} replay {shlex.quote(str(store))} --at {first}")


def summary(result: VerificationResult) -> str:
    """One sentence about a store in which no violation was found."""
    first, ignored = result.first_position, result.ignored_snapshots
    since = f" (from {first} on; earlier ones were trimmed)" if first > 1 else ""
    aside = f" ({ignored} of another version were ignored)" if ignored else ""
    return (
        f"{counted(result.events, 'event')}{since}, {counted(result.groups, 'group')}: every invariant holds, and the "
        f"snapshots{aside} equal the fold."
    )


def run_trim(args: Namespace) -> int:
    print(asyncio.run(trim(args)))
    return 0


async def trim(args: Namespace) -> str:
    """Delete the events before the position --before, or those older than --older-than, and return a text that says
    what is left. Raises CannotRun."""
    if not args.store.exists():
        raise CannotRun(f"{args.store}: no such file")
    if wal_is_missing(args.store):
        raise CannotRun(missing_wal_text(args.store))
    async with await open_store(args.store) as store:
        last = store.last_position
        if args.before is None:
            snapshots_at = await last_position_before(store, round(time.time() * 1000) - args.older_than)
        else:
            snapshots_at = args.before - 1
        if not store.trimmed_through <= snapshots_at <= last:
            first = store.trimmed_through + 1
            raise CannotRun(f"--before must be between {first} and {last + 1}, not {args.before}")
        await save_snapshots_at(store, snapshots_at)
        deleted = await store.trim(snapshots_at + 1)
        await delete_trimmed(store)
    return (
        f"{deleted} events were deleted; {last - snapshots_at} from position {snapshots_at + 1} on are left, and every "
        "group has kept its state."
    )


async def delete_trimmed(store: EventStore) -> None:
    """Delete what was trimmed from the file, also what a killed process has left of an earlier trim."""
    portions = 0
    while await store.delete_trimmed():
        portions += 1
        if portions % PORTIONS_PER_CHECKPOINT == 0:
            await store.checkpoint()
