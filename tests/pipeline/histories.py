"""Histories of simulated runs, as records and as stores."""

import asyncio
from collections import defaultdict
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import Any, TypeAlias

import pyarrow as pa

from regroup.coordinator.runtime.loading import load_groups
from regroup.coordinator.serialization import encode_snapshot
from regroup.lab.simulation.run import play
from regroup.pipeline.campaign.scenarios import SCENARIOS, ScenarioOptions
from regroup.pipeline.gold.group_history import TOPIC_EVENT_TYPES, GroupHistory
from regroup.pipeline.gold.table_files import RowBatches
from regroup.storage.records import Record
from regroup.storage.sqlite.inline import open_inline_store

GROUP_ID = "lab"

TableRow: TypeAlias = tuple[str, dict[str, Any]]
"""The name of a table, and one of its rows by column."""


@cache
def crash_history(assignor: str, seed: int, *, crashes: int = 2) -> tuple[Record, ...]:
    """Three members share six partitions; `crashes` of them crash and restart under new member ids."""
    options = ScenarioOptions(
        members=3,
        partitions=6,
        assignor=assignor,
        crashes=crashes,
        session_timeout_ms=10_000,
        heartbeat_interval_ms=2_000,
        restart_ms=15_000,
    )
    return play(SCENARIOS["crashes"](options, seed)).records


def halves(records: Sequence[Record]) -> tuple[Sequence[Record], Sequence[Record]]:
    """The records in two parts, between two commands."""
    cut = len(records) // 2
    while (records[cut].cause, records[cut].at_ms) == (records[cut - 1].cause, records[cut - 1].at_ms):
        cut += 1
    return records[:cut], records[cut:]


def write_store(path: Path, records: Sequence[Record]) -> None:
    """Append the records to the store, which is made if it does not exist."""

    async def write() -> None:
        async with await open_inline_store(path) as store:
            await store.append(records)

    asyncio.run(write())


def trim_store(path: Path, before: int) -> None:
    """Save a snapshot of every group at a position, and trim the records before it."""

    async def trim() -> None:
        async with await open_inline_store(path) as store:
            groups = await load_groups(store, before - 1)
            last = {record.group: record.position async for record in store.read(until=before - 1)}
            snapshots = [encode_snapshot(group, last[group_id], 1) for group_id, group in groups.items()]
            await store.save_snapshots(before - 1, snapshots)
            await store.trim(before)

    asyncio.run(trim())


def overwrite_pages(path: Path) -> None:
    """Overwrite every page but the first two."""
    size = path.stat().st_size
    with path.open("r+b") as file:
        file.seek(2 * 4096)
        file.write(b"\xff" * (size - 2 * 4096))


def all_rows(records: Iterable[Record], group: str = GROUP_ID) -> list[TableRow]:
    """The rows that a plain loop makes from the history of one group and of its topics, as they are written."""
    written: list[TableRow] = []

    def write(name: str, batch: pa.RecordBatch) -> None:
        written.extend((name, row) for row in batch.drop_columns(["store", "group"]).to_pylist())

    history, batches = GroupHistory(group), RowBatches(write)
    for record in records:
        if record.group == group or (record.group is None and record.type in TOPIC_EVENT_TYPES):
            history.on_record(record, batches.folded)
    history.on_end(batches.folded)
    batches.end_rows("store", group)
    batches.flush()
    return written


def rows_of_table(rows: Iterable[TableRow], name: str) -> list[dict[str, Any]]:
    return [row for table, row in rows if table == name]


def assert_one_owner_or_one_gap(rows: Sequence[TableRow], partitions: int) -> None:
    """Check that each partition has at every time one owner or one gap, from its first time on without an end."""
    gaps = [gap for gap in rows_of_table(rows, "gaps") if gap["reason"] != "session-expiry"]
    covered: dict[tuple[Any, Any], list[tuple[int, int]]] = defaultdict(list)
    for row in [*rows_of_table(rows, "ownership"), *gaps]:
        end: Any = row["to_ms"] or 2**62
        covered[row["topic"], row["partition"]].append((row["from_ms"], end))
    assert len(covered) == partitions
    for periods in covered.values():
        periods = sorted(each for each in periods if each[0] < each[1])
        assert [end for _, end in periods[:-1]] == [begin for begin, _ in periods[1:]]
        assert periods[-1][1] == 2**62
