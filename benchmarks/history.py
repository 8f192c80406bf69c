"""How quickly a history is folded, verified, and opened: `python benchmarks/history.py [--events N] [--runs N]`.

The history is made by the coordinator itself: groups in which four members gather, share, commit, and rebalance when
somebody comes or goes. It is folded from its records, JSON and all; verified with every invariant; and opened from a
SQLite file of so many events through a snapshot, as `regroup serve` does before it listens.
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

from coordinator import history
from regroup.coordinator.evolve import evolve
from regroup.coordinator.group import Group
from regroup.coordinator.runtime.loading import load_groups
from regroup.coordinator.serialization import read, snapshot
from regroup.coordinator.verification import Verifier
from regroup.storage.records import Record
from regroup.storage.sqlite.files import prepare
from regroup.storage.sqlite.statements import INSERT_RECORD, rows_of
from regroup.storage.sqlite.threaded import open_store

GROUPS = 100
TAIL = 1_000
"""Events behind the snapshot."""


def several(records: list[Record], groups: int) -> list[Record]:
    """The same history for each group, one event of each in turn."""
    return [
        Record(**{**asdict(record), "group": f"group-{group}", "position": place * groups + group + 1})
        for place, record in enumerate(records)
        for group in range(groups)
    ]


def folded(records: list[Record]) -> dict[str, Group]:
    groups = {record.group: Group(name=record.group) for record in records if record.group}
    for record in records:
        assert record.group is not None
        groups[record.group] = evolve(groups[record.group], read(record))
    return groups


def verified(records: list[Record]) -> None:
    verifier = Verifier()
    # Not at the end: the last command of a history that was cut to a number of events may be incomplete.
    assert not [fault for record in records for fault in verifier.faults_of(record)]


async def fill(path: Path, records: list[Record], groups: int) -> None:
    """A store with the records and one snapshot of every group, taken shortly before their end."""
    prepare(path)
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("BEGIN")
    connection.executemany(INSERT_RECORD, rows_of(records, 1))
    connection.execute("COMMIT")
    connection.close()
    cut = len(records) - TAIL
    until_cut = folded(records[:cut])
    last = {record.group: record.position for record in records[:cut]}
    async with await open_store(path) as store:
        await store.save_snapshots(cut, [snapshot(group, last[name], 1) for name, group in until_cut.items()])


async def opened(path: Path) -> None:
    async with await open_store(path) as store:
        assert len(await load_groups(store)) == GROUPS


def seconds(work: Callable[[], object], runs: int, clock: Callable[[], float] = time.process_time) -> float:
    """Of this process alone, unless it has to wait for a disk: other work on the machine then counts less."""
    took = []
    for _ in range(runs):
        began = clock()
        work()
        took.append(clock() - began)
    return median(took)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--events", type=int, default=1_000_000, help="in the file that is opened (default 1000000)")
    parser.add_argument("--runs", type=int, default=3, help="of each measurement (default 3)")
    options = parser.parse_args()
    for commits, what in ((0, "nothing but rebalances"), (50, "mostly commits")):
        records = several(history(4, commits, 1_000), 50)
        fold, verify = (seconds(partial(work, records), options.runs) for work in (folded, verified))
        print(f"{what + ':':24}{len(records) / fold:10,.0f} events/s folded, {len(records) / verify:10,.0f} verified")
    records = several(history(4, 10, options.events // GROUPS), GROUPS)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "bench.db")
        asyncio.run(fill(path, records, GROUPS))
        took = seconds(lambda: asyncio.run(opened(path)), options.runs, time.perf_counter)
    print(f"{len(records):,} events of {GROUPS} groups, opened through a snapshot: {took:.2f} s")


if __name__ == "__main__":
    main()
