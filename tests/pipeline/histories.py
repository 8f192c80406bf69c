"""Real histories: the lab's runs, as records and as stores."""

import asyncio
from collections.abc import Iterable
from pathlib import Path

from regroup.coordinator.runtime.loading import load_groups
from regroup.coordinator.serialization import snapshot
from regroup.lab.simulation.world import play
from regroup.pipeline.campaign.scenarios import SCENARIOS, Options
from regroup.pipeline.gold.group_history import TOPIC_EVENTS, Chronicle
from regroup.pipeline.gold.transition import Row
from regroup.storage.records import NewRecord, Record
from regroup.storage.sqlite.inline import open_inline_store

GROUP = "lab"


def crashes_of(assignor: str, seed: int, *, crashes: int = 2) -> tuple[Record, ...]:
    """Three members share six partitions; some of them die and come back as strangers."""
    options = Options(
        members=3,
        partitions=6,
        assignor=assignor,
        crashes=crashes,
        session_timeout_ms=10_000,
        heartbeat_interval_ms=2_000,
        restart_ms=15_000,
    )
    return play(SCENARIOS["crashes"](options, seed)).records


def new(record: Record) -> NewRecord:
    return NewRecord(*(getattr(record, name) for name in NewRecord.__struct_fields__))


def write_store(path: Path, records: Iterable[Record]) -> None:
    async def write() -> None:
        async with await open_inline_store(path) as store:
            await store.append([new(record) for record in records])

    asyncio.run(write())


def trim_store(path: Path, before: int) -> None:
    """Forget what came before a position, behind a snapshot of every group there."""

    async def trim() -> None:
        async with await open_inline_store(path) as store:
            groups = await load_groups(store, before - 1)
            last = {record.group: record.position async for record in store.read(until=before - 1)}
            await store.save_snapshots(before - 1, [snapshot(each, last[name], 1) for name, each in groups.items()])
            await store.trim(before)

    asyncio.run(trim())


def spoil(path: Path) -> None:
    """Overwrite every page but the first two."""
    size = path.stat().st_size
    with path.open("r+b") as file:
        file.seek(2 * 4096)
        file.write(b"\xff" * (size - 2 * 4096))


def rows_of(records: Iterable[Record]) -> list[Row]:
    """What a plain loop makes of one group's history and the topics of its cluster."""
    chronicle = Chronicle(GROUP)
    rows: list[Row] = []
    for record in records:
        if record.group == GROUP or record.type in TOPIC_EVENTS:
            rows += chronicle.reads(record)
    return [*rows, *chronicle.ends()]


def table(rows: Iterable[Row], name: str) -> list[dict[str, object]]:
    return [row for table, row in rows if table == name]
