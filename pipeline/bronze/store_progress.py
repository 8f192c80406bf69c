"""How far each store has been ingested: its manifest, the blocks left to copy, and the snapshots of a trimmed store."""

import asyncio
import hashlib
import re
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa

from regroup.pipeline.bronze.blocks import BlockCopy, copied_through, event_hash, plan_blocks, remove_unplanned_blocks
from regroup.pipeline.locations.location import Location, LocationLike, location_of
from regroup.pipeline.output_folder import parquet_writer
from regroup.pipeline.source.columns import EVENT_SCHEMA, SNAPSHOT_TYPE
from regroup.pipeline.source.stores import StoreExtent
from regroup.storage.errors import StoreDamaged, StoreError
from regroup.storage.sqlite.inline import open_inline_store


class StoreManifest(msgspec.Struct, frozen=True):
    """What is kept of an ingested store: its path, and the position up to which it has been ingested."""

    path: str
    through: int
    last_event_hash: str
    """`event_hash` of the event at `through`, by which a later ingest recognises the store.

    Empty if that event was trimmed.
    """


class StoreReplaced(StoreError):
    """Raised if a path was ingested before, and the file there is now another store."""


class EventsTrimmed(StoreError):
    """Raised if a store was trimmed beyond the position up to which it was ingested: events in between are missing."""


def copied_position(store: StoreExtent, folder: Location) -> int:
    """The position after which events of the store must be copied; bronze has those before. Raises a StoreError.

    At the first ingest of a trimmed store it is the position of its snapshots, which this function copies to bronze.
    """
    manifest = read_manifest(folder, store.address)
    if manifest is None:
        copy_snapshots(store, folder)
        return store.trimmed_through
    is_trimmed = manifest.through <= store.trimmed_through
    if store.last_position < manifest.through or not (
        is_trimmed or event_hash(store.path, manifest.through) == manifest.last_event_hash
    ):
        raise StoreReplaced(
            f"{store.address} is not the store that was ingested under this name: its event {manifest.through} "
            "differs. Give it another name, or ingest into another folder."
        )
    through = copied_through(store, manifest.through, blocks_folder(folder, store.address))
    if through < store.trimmed_through:
        raise EventsTrimmed(
            f"{store.address} has been trimmed up to position {store.trimmed_through}, and was ingested only up to "
            f"{through}: the events between are lost. Ingest into another folder, which begins after the trimmed ones."
        )
    return through


def plan_copy(store: StoreExtent, copied: int, folder: Location) -> list[BlockCopy]:
    """The blocks to write after the position `copied`; files of other blocks after this position are removed."""
    target, is_first = blocks_folder(folder, store.address), read_manifest(folder, store.address) is None
    plan = list(plan_blocks(store, copied, target))
    remove_unplanned_blocks(target, plan, 0 if is_first else copied)
    return plan


def copy_snapshots(store: StoreExtent, folder: Location) -> None:
    """Copy to bronze the snapshots of a store that was trimmed before its first ingest. Raises a StoreError."""
    target = folder / "snapshots" / f"store={store_name(store.address)}" / "snapshots.parquet"
    target.remove()  # of an ingest that was killed
    if store.trimmed_through:
        rows = asyncio.run(read_snapshots(Path(store.path), store.trimmed_through))
        with parquet_writer(target, EVENT_SCHEMA) as writer:
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


def store_name(path: str) -> str:
    """The name for a store's files in bronze: the name of the store's file, and a hash of its whole path."""
    stem = re.sub(r"[^A-Za-z0-9._-]", "_", Path(path).stem)
    return f"{stem}-{hashlib.sha256(path.encode()).hexdigest()[:8]}"


def blocks_folder(folder: Location, address: str) -> Location:
    return folder / "bronze" / f"store={store_name(address)}"


def exchanges_folder(folder: Location, address: str) -> Location:
    return folder / "exchanges" / f"store={store_name(address)}"


def store_paths(folder: LocationLike) -> dict[str, str]:
    """The path of each ingested store, by the name of its files in bronze."""
    return {name: manifest.path for name, manifest in store_manifests(folder).items()}


def store_manifests(folder: LocationLike) -> dict[str, StoreManifest]:
    """The manifest of each ingested store, by the name of its files in bronze."""
    files = (location_of(folder) / "ingested").files("*.json")
    return {file.stem: decoded_manifest(file) for file in files}


def manifest_file(folder: Location, address: str) -> Location:
    return folder / "ingested" / f"{store_name(address)}.json"


def read_manifest(folder: Location, address: str) -> StoreManifest | None:
    """The manifest of a store, or None if no ingest of it has completed."""
    try:
        return decoded_manifest(manifest_file(folder, address))
    except FileNotFoundError:
        return None


def decoded_manifest(file: Location) -> StoreManifest:
    """The manifest in this file. Raises FileNotFoundError, StoreDamaged."""
    try:
        return msgspec.json.decode(file.read_bytes(), type=StoreManifest)
    except msgspec.MsgspecError as error:
        raise StoreDamaged(f"{file} is damaged: regroup pipeline ingest STORES into a new folder.") from error


def manifest_of(store: StoreExtent, folder: Location) -> StoreManifest | None:
    """The manifest to write once the store is ingested up to its last position; None if it has this one already."""
    manifest, through = read_manifest(folder, store.address), store.last_position
    if manifest is not None and manifest.through == through:
        return None
    last_event_hash = event_hash(store.path, through) if through > store.trimmed_through else ""
    return StoreManifest(store.address, through, last_event_hash)
