"""How fast a history is folded, verified and opened: `python benchmarks/history.py [--events N] [--runs N]`.

The coordinator itself makes the history: groups whose four members join, sync and commit, and rebalance whenever one
leaves and another joins. It is folded from its records, JSON included; verified with every invariant; and opened from a
SQLite file through a snapshot, as `regroup serve` does before it listens.
"""

import argparse
import asyncio
import sqlite3
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median

from msgspec.structs import asdict
from pure.coordinator import history

from regroup.coordinator.evolve import evolve
from regroup.coordinator.group import Group
from regroup.coordinator.runtime.loading import load_groups
from regroup.coordinator.serialization import decode_event, encode_snapshot
from regroup.coordinator.verification import GroupsVerifier
from regroup.storage.records import Record
from regroup.storage.sqlite.files import initialize_store
from regroup.storage.sqlite.statements import INSERT_RECORD, rows_from_records
from regroup.storage.sqlite.threaded import open_store

GROUPS = 100
EVENTS_AFTER_SNAPSHOT = 1_000


def copies(records: list[Record], groups: int) -> list[Record]:
    """Copies of a history for several groups, in turn: one event of each group, then the next of each."""
    return [
        Record(**{**asdict(record), "group": f"group-{group}", "position": index * groups + group + 1})
        for index, record in enumerate(records)
        for group in range(groups)
    ]


def fold_records(records: list[Record]) -> dict[str, Group]:
    groups = {record.group: Group(group_id=record.group) for record in records if record.group}
    for record in records:
        assert record.group is not None
        groups[record.group] = evolve(groups[record.group], decode_event(record))
    return groups


def verify_records(records: list[Record]) -> None:
    verifier = GroupsVerifier()
    # Without `violations_at_end`: the history was cut to a number of events, so its last command may be incomplete.
    assert not [violation for record in records for violation in verifier.violations_of(record)]


async def write_store(path: Path, records: list[Record]) -> None:
    """Make a store with these records, and with snapshots of every group shortly before the last record."""
    initialize_store(path)
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("BEGIN")
    connection.executemany(INSERT_RECORD, rows_from_records(records, 1))
    connection.execute("COMMIT")
    connection.close()
    position = len(records) - EVENTS_AFTER_SNAPSHOT
    groups = fold_records(records[:position])
    last_positions = {record.group: record.position for record in records[:position]}
    snapshots = [encode_snapshot(group, last_positions[group_id], 1) for group_id, group in groups.items()]
    async with await open_store(path) as store:
        await store.save_snapshots(position, snapshots)


async def open_groups(path: Path) -> None:
    async with await open_store(path) as store:
        assert len(await load_groups(store)) == GROUPS


def seconds(work: Callable[[], object], runs: int, clock: Callable[[], float] = time.process_time) -> float:
    """The median of the seconds that the work takes.

    By default it is CPU time of this process, which other load on the machine disturbs less.
    """
    durations = []
    for _ in range(runs):
        started = clock()
        work()
        durations.append(clock() - started)
    return median(durations)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--events", type=int, default=1_000_000, help="events in the file that is opened (default 1000000)"
    )
    parser.add_argument("--runs", type=int, default=3, help="runs of each measurement (default 3)")
    options = parser.parse_args()
    for commit_rounds, contents in ((0, "rebalances only"), (50, "mostly commits")):
        records = copies(history(4, commit_rounds, 1_000), 50)
        fold, verify = (seconds(partial(work, records), options.runs) for work in (fold_records, verify_records))
        print(
            f"{contents + ':':16}{len(records) / fold:10,.0f} events/s folded, {len(records) / verify:10,.0f} verified"
        )
    records = copies(history(4, 10, options.events // GROUPS), GROUPS)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "bench.db")
        asyncio.run(write_store(path, records))
        opening_s = seconds(lambda: asyncio.run(open_groups(path)), options.runs, time.perf_counter)
    print(f"{len(records):,} events of {GROUPS} groups, opened through a snapshot: {opening_s:.2f} s")


if __name__ == "__main__":
    main()
