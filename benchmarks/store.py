"""The journal's share of plain sqlite3's speed: `python benchmarks/store.py [--events N]`. Medians of several runs.

All write the same rows to the same tables, in batches of the same size, with the same pragmas. aiosqlite alone shows
what passing a batch to another thread costs; the store also checks event numbers and coordinator epochs.
"""

import argparse
import asyncio
import sqlite3
import tempfile
import time
from collections.abc import Callable
from itertools import chain, count, product
from pathlib import Path
from statistics import median

import aiosqlite

from regroup.storage.journal import Journal
from regroup.storage.records import NewRecord
from regroup.storage.sqlite.files import initialize_store
from regroup.storage.sqlite.opening import PRAGMAS, Durability
from regroup.storage.sqlite.statements import INSERT_RECORD, INSERT_RECORDS, MAX_ROWS_PER_STATEMENT, rows_from_records
from regroup.storage.sqlite.threaded import open_store

PAYLOAD = b'{"member":"consumer-1-5ad7c1f2-3f0e-4a61-9d0b-2f6f3c1e7a55","client":"consumer-1","timeout_ms":45000}'
GROUPS = 100


def new_records(count: int, groups: int = GROUPS) -> list[NewRecord]:
    return [
        NewRecord(f"group-{i % groups}", i // groups + 1, 1, 1_700_000_000_000 + i, "member-joined", 1, PAYLOAD, None)
        for i in range(count)
    ]


def append_with_sqlite3(path: Path, count: int, batch: int, durability: Durability) -> float:
    """Seconds that sqlite3 takes to append a number of events in batches."""
    initialize_store(path)
    connection = sqlite3.connect(path, isolation_level=None)
    for pragma in PRAGMAS[durability]:
        connection.execute(pragma)
    rows = rows_from_records(new_records(count), 1)
    started = time.perf_counter()
    for start in range(0, count, batch):
        connection.execute("BEGIN")
        connection.executemany(INSERT_RECORD, rows[start : start + batch])
        connection.execute("COMMIT")
    seconds = time.perf_counter() - started
    connection.close()
    return seconds


async def append_with_aiosqlite(path: Path, count: int, batch: int, durability: Durability) -> float:
    """Seconds that aiosqlite takes for the calls that the store makes: one for a small batch, three for a large one."""
    initialize_store(path)
    rows = rows_from_records(new_records(count), 1)
    batches = [rows[start : start + batch] for start in range(0, count, batch)]
    async with aiosqlite.connect(path, isolation_level=None) as connection:
        for pragma in PRAGMAS[durability]:
            await connection.execute(pragma)
        started = time.perf_counter()
        for each in batches:
            if batch <= MAX_ROWS_PER_STATEMENT:
                await connection.execute_fetchall(INSERT_RECORDS[len(each) - 1], list(chain.from_iterable(each)))
            else:
                await connection.execute("BEGIN")
                await connection.executemany(INSERT_RECORD, each)
                await connection.execute("COMMIT")
        return time.perf_counter() - started


async def append_with_journal(path: Path, count: int, batch: int, durability: Durability) -> float:
    """Seconds that the journal takes if each batch is appended as soon as the one before is durable."""
    records = new_records(count)
    done = asyncio.get_running_loop().create_future()

    def append_next() -> None:
        position = journal.last_position
        if position < count:
            journal.when_durable(journal.append(records[position : position + batch]), append_next, lambda: None)
        else:
            done.set_result(None)

    async with await open_store(path, durability=durability) as store:
        journal = Journal(store)
        journal.on_failure(done.set_exception)
        started = time.perf_counter()
        append_next()
        await done
        seconds = time.perf_counter() - started
        await journal.close()
    return seconds


def read_with_sqlite3(path: Path) -> float:
    connection = sqlite3.connect(path)
    started = time.perf_counter()
    for _ in connection.execute("SELECT * FROM events ORDER BY position"):
        pass
    seconds = time.perf_counter() - started
    connection.close()
    return seconds


async def read_with_store(path: Path) -> float:
    async with await open_store(path) as store:
        started = time.perf_counter()
        async for _ in store.read():
            pass
        return time.perf_counter() - started


async def open_and_read_heads(path: Path) -> float:
    started = time.perf_counter()
    async with await open_store(path) as store:
        await store.heads()
        return time.perf_counter() - started


def fill(path: Path, count: int, groups: int) -> None:
    initialize_store(path)
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("BEGIN")
    connection.executemany(INSERT_RECORD, rows_from_records(new_records(count, groups), 1))
    connection.execute("COMMIT")
    connection.close()


def medians_in_turn(runs: int, *measurements: Callable[[], float]) -> list[float]:
    """The median of each measurement. They are made in turn, so that a busy machine disturbs all alike."""
    rounds = [[measure() for measure in measurements] for _ in range(runs)]
    return [median(each) for each in zip(*rounds, strict=True)]


def measure_appends(fresh: Callable[[], Path], events: int, runs: int) -> None:
    print(f"{'append, events/s':32}{'journal':>9}{'aiosqlite':>11}{'sqlite3':>9}{'journal / aiosqlite, / sqlite3':>32}")
    durabilities: tuple[Durability, ...] = ("disk", "process")
    for durability, batch in product(durabilities, (1, 16, 64, 512)):
        row_events = min(events, batch * 2000)
        journal, thread, plain = append_seconds(fresh, runs, (row_events, batch, durability))
        rates = f"{row_events / journal:9,.0f}{row_events / thread:11,.0f}{row_events / plain:9,.0f}"
        name = f"durability={durability}, batch {batch}"
        print(f"{name:32}{rates}{thread / journal:17.2f}{plain / journal:15.2f}")


def append_seconds(fresh: Callable[[], Path], runs: int, work: tuple[int, int, Durability]) -> list[float]:
    """Seconds that the journal, aiosqlite and sqlite3 take for a number of events in batches of a size."""
    return medians_in_turn(
        runs,
        lambda: asyncio.run(append_with_journal(fresh(), *work)),
        lambda: asyncio.run(append_with_aiosqlite(fresh(), *work)),
        lambda: append_with_sqlite3(fresh(), *work),
    )


def measure_reading(fresh: Callable[[], Path], stored: int) -> None:
    for groups in (100, 10_000):
        path = fresh()
        fill(path, stored, groups)
        seconds = median(asyncio.run(open_and_read_heads(path)) for _ in range(3))
        print(f"open {stored:,} events of {groups:,} groups, with heads: {seconds:.3f} s")
    store, plain = medians_in_turn(3, lambda: asyncio.run(read_with_store(path)), lambda: read_with_sqlite3(path))
    print(
        f"read {stored:,}, events/s: store {stored / store:,.0f}, sqlite3 {stored / plain:,.0f}, "
        f"ratio {plain / store:.2f}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=60_000, help="events of a run with large batches (default 60000)")
    parser.add_argument(
        "--stored", type=int, default=1_000_000, help="events of the store that is read (default 1000000)"
    )
    parser.add_argument("--runs", type=int, default=5, help="runs of each row (default 5)")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        numbers = count()

        def fresh() -> Path:
            return Path(folder, f"{next(numbers)}.store")

        measure_appends(fresh, options.events, options.runs)
        measure_reading(fresh, options.stored)


if __name__ == "__main__":
    main()
