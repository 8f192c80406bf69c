"""How much of plain sqlite3's speed is left: `python benchmarks/store.py [--events N]`. Medians of several runs.

Both sides write the same rows to the same tables, in batches of the same size, with the same pragmas; the store also
checks numbers and reigns, queues, and waits for another thread.
"""

import argparse
import asyncio
import sqlite3
import tempfile
import time
from collections.abc import Callable, Coroutine
from functools import partial
from pathlib import Path
from statistics import median

from regroup.storage.commit_queue import CommitQueue
from regroup.storage.errors import StoreError
from regroup.storage.files import prepare
from regroup.storage.opening import PRAGMAS, Durability
from regroup.storage.records import NewRecord
from regroup.storage.sqlite import open_store
from regroup.storage.statements import INSERT_RECORD, rows_of

PAYLOAD = b'{"member":"consumer-1-5ad7c1f2-3f0e-4a61-9d0b-2f6f3c1e7a55","client":"consumer-1","timeout_ms":45000}'
GROUPS = 100


def new_records(count: int, groups: int = GROUPS) -> list[NewRecord]:
    return [
        NewRecord(f"group-{i % groups}", i // groups + 1, 1, 1_700_000_000_000 + i, "member-joined", 1, PAYLOAD, None)
        for i in range(count)
    ]


def plain(path: Path, count: int, batch: int, durability: Durability) -> float:
    """Seconds that bare sqlite3 takes."""
    prepare(path)
    connection = sqlite3.connect(path, isolation_level=None)
    for pragma in PRAGMAS[durability]:
        connection.execute(pragma)
    rows = rows_of(new_records(count), 1)
    started = time.perf_counter()
    for start in range(0, count, batch):
        connection.execute("BEGIN")
        connection.executemany(INSERT_RECORD, rows[start : start + batch])
        connection.execute("COMMIT")
    took = time.perf_counter() - started
    connection.close()
    return took


async def queued(path: Path, count: int, batch: int, durability: Durability) -> float:
    """Seconds that the queue takes when each batch is enqueued as the one before becomes durable."""
    records = new_records(count)
    done = asyncio.get_running_loop().create_future()

    def enqueue_next(position: int) -> None:
        if position < count:
            queue.enqueue(records[position : position + batch])
        else:
            done.set_result(None)

    def fail(error: StoreError) -> None:
        done.set_exception(error)

    async with await open_store(path, durability=durability) as store:
        queue = CommitQueue(store, on_durable=enqueue_next, on_failure=fail)
        started = time.perf_counter()
        enqueue_next(0)
        await done
        took = time.perf_counter() - started
        await queue.close()
    return took


def plain_replay(path: Path) -> float:
    connection = sqlite3.connect(path)
    started = time.perf_counter()
    for _ in connection.execute("SELECT * FROM events ORDER BY position"):
        pass
    took = time.perf_counter() - started
    connection.close()
    return took


async def replay(path: Path) -> float:
    async with await open_store(path) as store:
        started = time.perf_counter()
        async for _ in store.read():
            pass
        return time.perf_counter() - started


async def opening(path: Path) -> float:
    started = time.perf_counter()
    async with await open_store(path) as store:
        await store.heads()
        return time.perf_counter() - started


def fill(path: Path, count: int, groups: int) -> None:
    prepare(path)
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("BEGIN")
    connection.executemany(INSERT_RECORD, rows_of(new_records(count, groups), 1))
    connection.execute("COMMIT")
    connection.close()


def rivals(runs: int, mine: Callable[[], float], theirs: Callable[[], float]) -> tuple[float, float]:
    """Medians of both, run in turn so that a busy machine disturbs both alike."""
    pairs = [(mine(), theirs()) for _ in range(runs)]
    return median(pair[0] for pair in pairs), median(pair[1] for pair in pairs)


def run(work: Coroutine[object, object, float]) -> float:
    return asyncio.run(work)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=60_000, help="per run with large batches (default 60000)")
    parser.add_argument("--runs", type=int, default=5, help="per line (default 5)")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        counter = iter(range(10_000))

        def fresh() -> Path:
            return Path(folder, f"{next(counter)}.store")

        def through_the_queue(count: int, batch: int, durability: Durability) -> float:
            return run(queued(fresh(), count, batch, durability))

        def plainly(count: int, batch: int, durability: Durability) -> float:
            return plain(fresh(), count, batch, durability)

        print(f"{'append, events/s':34}{'queue':>10}{'sqlite3':>10}{'ratio':>8}")
        durabilities: tuple[Durability, ...] = ("disk", "process")
        for durability in durabilities:
            for batch in (1, 16, 64, 512):
                count = min(options.events, batch * 2000)
                work = (count, batch, durability)
                mine, theirs = rivals(options.runs, partial(through_the_queue, *work), partial(plainly, *work))
                name = f"durability={durability}, batch {batch}"
                print(f"{name:34}{count / mine:10,.0f}{count / theirs:10,.0f}{theirs / mine:8.2f}")

        for groups in (100, 10_000):
            large = fresh()
            fill(large, 1_000_000, groups)
            took = median(run(opening(large)) for _ in range(3))
            print(f"open a million events of {groups:,} groups, with heads: {took:.3f} s")
        mine, theirs = rivals(3, lambda: run(replay(large)), lambda: plain_replay(large))
        print(f"{'replay a million, events/s':34}{1e6 / mine:10,.0f}{1e6 / theirs:10,.0f}{theirs / mine:8.2f}")


if __name__ == "__main__":
    main()
