"""Fold a store's whole history, check every invariant, and compare the snapshots with the fold.

  regroup verify regroup.db

Ends with 0 if all holds, and with 1 and the position of the first fault if not.
"""

import argparse
import asyncio
from collections.abc import AsyncIterator, Iterator

from regroup.cli.history_arguments import add_store
from regroup.cli.telling import Telling
from regroup.coordinator.verification import Fault, Verifier
from regroup.server.verification import CLUSTER, TopicsVerifier
from regroup.storage.records import Record, Snapshot
from regroup.storage.sqlite import open_store
from regroup.storage.store import EventStore

MOST_SHOWN = 20


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_store(parser)


def run(args: argparse.Namespace) -> int:
    return asyncio.run(verify(args))


async def verify(args: argparse.Namespace) -> int:
    async with await open_store(args.store, read_only=True) as store:
        verifier, faults = await fold(store)
        last = store.last_position
    for fault in faults[:MOST_SHOWN]:
        print(f"position {fault.position}, group {fault.group}: {fault.sentence}")
    if len(faults) > MOST_SHOWN:
        print(f"… and {len(faults) - MOST_SHOWN} more faults.")
    if faults:
        first = faults[0].position
        print(f"The first fault is at position {first}: regroup replay {args.store} --at {first}")
        return 1
    groups = f"{len(verifier.groups)} group{'' if len(verifier.groups) == 1 else 's'}"
    print(f"{last} events, {groups}: every invariant holds, and the snapshots equal the fold.")
    return 0


async def fold(store: EventStore) -> tuple[Verifier, list[Fault]]:
    """The whole history from its first record; on standard error it is told how far it is."""
    snapshots = [snapshot async for snapshot in all_snapshots(store)]
    verifier, topics = Verifier(snapshots), TopicsVerifier(snapshots)
    if store.trimmed_through:
        _, first = await store.load_snapshots(store.trimmed_through)
        verifier.begin_from(first)
        topics.begin_from(first)
    faults: list[Fault] = []
    last, total = store.trimmed_through, store.last_position - store.trimmed_through
    with Telling() as telling:
        async for record in store.read(after=store.trimmed_through):
            faults.extend(gap_before(record, last))
            faults.extend(verifier.faults_of(record))
            faults.extend(topics.faults_of(record))
            last = record.position
            if record.position % 1000 == 0:
                telling("folding", record.position - store.trimmed_through, total)
    faults.extend(verifier.faults_at_the_end())
    faults.extend(topics.faults_at_the_end())
    return verifier, sorted(faults, key=lambda fault: fault.position)


def gap_before(record: Record, last: int) -> Iterator[Fault]:
    """Positions follow one another without a gap, whatever they are about."""
    if record.position != last + 1:
        whose = CLUSTER if record.group is None else record.group
        yield Fault(record.position, whose, f"The event before it, at position {record.position - 1}, is missing.")


async def all_snapshots(store: EventStore) -> AsyncIterator[Snapshot]:
    """Those of every cut, the newest first."""
    cut, snapshots = await store.load_snapshots()
    while cut:
        for snapshot in snapshots:
            yield snapshot
        cut, snapshots = await store.load_snapshots(cut - 1)
