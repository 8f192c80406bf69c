"""Ingest: copies the events of many stores to Parquet, unchanged, each event once.

    DIR/bronze/store=NAME/block-000000.parquet     positions 1 to 500,000
    DIR/snapshots/store=NAME/snapshots.parquet     of a trimmed store: the snapshots that replace the trimmed events
    DIR/ingested/NAME.json                         the store's manifest: the position up to which it was ingested

A block always holds the same positions and is renamed when it is complete. So a block that is written twice is the same
block, and an ingest that was killed continues with the blocks that are missing. If a store has grown, its last,
incomplete block is written again.
"""

import asyncio
import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from regroup.pipeline.bronze.blocks import (
    BlockCopy,
    copied_through,
    event_hash,
    plan_blocks,
    remove_unplanned_blocks,
    write_block,
)
from regroup.pipeline.output_folder import (
    atomic_parquet_writer,
    check_format,
    exclusive_writer,
    removed_if_it_stays_empty,
    write_atomically,
)
from regroup.pipeline.source.columns import EVENT_SCHEMA, EVENTS_DDL, SNAPSHOT_TYPE
from regroup.pipeline.source.stores import OnError, SkippedStore, StoreExtent, find_stores, inspect_stores
from regroup.pipeline.spark.progress import JobProgress, run_with_progress
from regroup.storage.errors import StoreDamaged, StoreError
from regroup.storage.sqlite.inline import open_inline_store


class StoreManifest(msgspec.Struct, frozen=True):
    """The position up to which a store has been ingested."""

    path: str
    through: int
    last_event_hash: str
    """`event_hash` of the event at `through`, by which the store is recognised. Empty if that event was trimmed."""


@dataclass(frozen=True, slots=True)
class IngestResult:
    """The number of stores that were ingested, of events that bronze did not have before, and the skipped stores."""

    stores: int
    new_events: int
    skipped: tuple[SkippedStore, ...]


class StoreReplaced(StoreError):
    """A path that was ingested now holds another store."""


class EventsTrimmed(StoreError):
    """A store was trimmed beyond the position up to which it was ingested."""


def ingest(
    spark: SparkSession,
    patterns: str,
    folder: Path,
    *,
    on_error: OnError = "fail",
    progress: JobProgress | None = None,
) -> IngestResult:
    """Copy the events that bronze does not have yet. Raises a StoreError for a bad store, unless it is skipped."""
    folder = folder.resolve()
    with removed_if_it_stays_empty(folder), exclusive_writer(folder, "bronze", "snapshots"):
        copied, skipped = examine_stores(patterns, folder, on_error)
        blocks = [block for store, through in copied.items() for block in plan_copy(store, through, folder)]
        copy_blocks(spark, blocks, progress)
        for store in copied:
            write_manifest(store, folder)
    new_events = sum(store.last_position - through for store, through in copied.items())
    return IngestResult(len(copied), new_events, tuple(skipped))


def examine_stores(patterns: str, folder: Path, on_error: OnError) -> tuple[dict[StoreExtent, int], list[SkippedStore]]:
    """The stores to ingest, each with the position up to which it need not be copied; and the skipped stores.

    Raises a StoreError for a bad store unless it is skipped.
    """
    copied: dict[StoreExtent, int] = {}
    skipped: list[SkippedStore] = []
    for each in inspect_stores(find_stores(patterns), on_error):
        try:
            if isinstance(each, SkippedStore):
                skipped.append(each)
            else:
                copied[each] = copied_position(each, folder)
        except StoreError as error:
            if on_error == "fail":
                raise
            skipped.append(SkippedStore(each.path, str(error)))
    return copied, skipped


def copied_position(store: StoreExtent, folder: Path) -> int:
    """The position up to which the store need not be copied. Raises a StoreError.

    At the first ingest of a trimmed store that is where its snapshots are; they are copied here.
    """
    manifest = read_manifest(folder, store.path)
    if manifest is None:
        copy_snapshots(store, folder)
        return store.trimmed_through
    is_trimmed = manifest.through <= store.trimmed_through
    if store.last_position < manifest.through or not (
        is_trimmed or event_hash(store.path, manifest.through) == manifest.last_event_hash
    ):
        raise StoreReplaced(
            f"{store.path} is not the store that was ingested under this name: its event {manifest.through} differs. "
            "Give it another name, or ingest into another folder."
        )
    through = copied_through(store, manifest.through, blocks_folder(folder, store.path))
    if through < store.trimmed_through:
        raise EventsTrimmed(
            f"{store.path} has been trimmed up to position {store.trimmed_through}, and was ingested only up to "
            f"{through}: the events between are lost. Ingest into another folder, which begins after the trimmed ones."
        )
    return through


def plan_copy(store: StoreExtent, copied: int, folder: Path) -> list[BlockCopy]:
    """The blocks to write; blocks that would repeat their events are removed."""
    target, is_first = blocks_folder(folder, store.path), read_manifest(folder, store.path) is None
    plan = list(plan_blocks(store, copied, target))
    remove_unplanned_blocks(target, plan, 0 if is_first else copied)
    return plan


def copy_blocks(spark: SparkSession, blocks: Sequence[BlockCopy], progress: JobProgress | None) -> None:
    if blocks:
        tasks = spark.sparkContext.parallelize(blocks, len(blocks))
        run_with_progress(spark, "ingesting", lambda: tasks.foreach(write_block), progress)


def copy_snapshots(store: StoreExtent, folder: Path) -> None:
    """Copy the snapshots of a store that was trimmed before its first ingest. Raises a StoreError."""
    target = folder / "snapshots" / f"store={store_name(store.path)}" / "snapshots.parquet"
    target.unlink(missing_ok=True)  # of an ingest that was killed
    if store.trimmed_through:
        rows = asyncio.run(read_snapshots(Path(store.path), store.trimmed_through))
        with atomic_parquet_writer(target, EVENT_SCHEMA) as writer:
            writer.write_table(pa.Table.from_pylist(rows, EVENT_SCHEMA))


async def read_snapshots(path: Path, trimmed_through: int) -> list[dict[str, Any]]:
    """Each group's snapshot at the position up to which events were trimmed, in the columns of an event."""
    try:
        async with await open_inline_store(path, read_only=True) as store:
            _, snapshots = await store.load_snapshots(trimmed_through)
        return [
            {
                "position": each.position,
                "group": each.group,
                "event_number": each.event_number,
                "coordinator_epoch": each.coordinator_epoch,
                "at_ms": 0,
                "type": SNAPSHOT_TYPE,
                "version": each.version,
                "payload": each.payload.decode(),
                "cause": None,
            }
            for each in snapshots
            if each.group is not None
        ]
    except UnicodeDecodeError as error:
        raise StoreDamaged(f"{path} is damaged: a snapshot is not text ({error}). Restore it from a copy.") from error


def read_bronze(spark: SparkSession, folder: Path) -> DataFrame:
    """All ingested events in the columns of the data source; trimmed ones are replaced by their groups' snapshots."""
    check_format(folder)
    columns = spark.createDataFrame([], EVENTS_DDL).columns
    events = spark.read.schema(EVENTS_DDL).parquet(str(folder / "bronze")).select(*columns)
    if not (folder / "snapshots").is_dir():
        return events
    return events.unionByName(spark.read.schema(EVENTS_DDL).parquet(str(folder / "snapshots")).select(*columns))


def store_name(path: str) -> str:
    """The name of a store's files in bronze: the name of its own file, and a hash of its whole path."""
    stem = re.sub(r"[^A-Za-z0-9._-]", "_", Path(path).stem)
    return f"{stem}-{hashlib.sha256(path.encode()).hexdigest()[:8]}"


def blocks_folder(folder: Path, path: str) -> Path:
    return folder / "bronze" / f"store={store_name(path)}"


def store_paths(folder: Path) -> dict[str, str]:
    """The path of each ingested store, by its name in bronze."""
    files = sorted((folder / "ingested").glob("*.json"))
    return {file.stem: msgspec.json.decode(file.read_bytes(), type=StoreManifest).path for file in files}


def manifest_file(folder: Path, path: str) -> Path:
    return folder / "ingested" / f"{store_name(path)}.json"


def read_manifest(folder: Path, path: str) -> StoreManifest | None:
    """The manifest of a store; None before its first ingest has completed."""
    try:
        return msgspec.json.decode(manifest_file(folder, path).read_bytes(), type=StoreManifest)
    except FileNotFoundError:
        return None


def write_manifest(store: StoreExtent, folder: Path) -> None:
    """Note that the store has been ingested up to its last position."""
    manifest, through = read_manifest(folder, store.path), store.last_position
    if manifest is None or manifest.through != through:
        last_event_hash = event_hash(store.path, through) if through > store.trimmed_through else ""
        target = manifest_file(folder, store.path)
        target.parent.mkdir(exist_ok=True)
        write_atomically(target, msgspec.json.encode(StoreManifest(store.path, through, last_event_hash)))
