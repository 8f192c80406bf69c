"""The Parquet files of one store's events in bronze, called blocks: plans, reads and writes them."""

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from regroup.pipeline.locations.location import Location
from regroup.pipeline.output_folder import parquet_metadata, parquet_writer
from regroup.pipeline.source.columns import EVENT_SCHEMA
from regroup.pipeline.source.store_reader import StoreReader
from regroup.pipeline.source.stores import StoreExtent, check_complete, check_host

POSITIONS_PER_BLOCK: Final = 500_000

HASH_KEY: Final = b"regroup.last-event-hash"
"""Key in a file's metadata, under which the `event_hash` of the file's last event is kept."""


@dataclass(frozen=True, slots=True)
class BlockCopy:
    """The events that one task copies into one file: after < position <= through of a store."""

    path: str
    host: str
    after: int
    through: int
    target: Location


class WrittenBlock(NamedTuple):
    """A block's file in bronze, which holds the store's events with after < position <= through."""

    place: Location
    after: int
    through: int
    last_event_hash: str


def plan_blocks(store: StoreExtent, copied: int, folder: Location) -> Iterator[BlockCopy]:
    """Yield the blocks to write if bronze has the store's events up to and including the position `copied`.

    A last block that is not full is written again, with the events added since. If the first positions of that block
    have been trimmed from the store, its file stays, and a second file continues it.
    """
    if store.last_position <= copied:
        return
    for number in range(copied // POSITIONS_PER_BLOCK, (store.last_position - 1) // POSITIONS_PER_BLOCK + 1):
        start, last = number * POSITIONS_PER_BLOCK, min((number + 1) * POSITIONS_PER_BLOCK, store.last_position)
        name = f"block-{number:06}.parquet"
        if start < store.trimmed_through:
            start = max(copied, store.trimmed_through)
            name = f"block-{number:06}-after-{start}.parquet"
        if start < last:
            yield BlockCopy(store.path, store.host, start, last, folder / name)


def written_blocks(folder: Location) -> list[WrittenBlock]:
    """The blocks of one store that are in its folder in bronze, in order of position."""
    return sorted(map(read_block, folder.files("block-*.parquet")), key=lambda each: each.after)


def read_block(place: Location) -> WrittenBlock:
    number, *after = place.stem.removeprefix("block-").split("-after-")
    start, file = int(after[0]) if after else int(number) * POSITIONS_PER_BLOCK, parquet_metadata(place)
    return WrittenBlock(place, start, start + file.num_rows, (file.metadata or {}).get(HASH_KEY, b"").decode())


def copied_through(store: StoreExtent, recorded: int, folder: Location) -> int:
    """The last position up to which bronze has every event of the store: at least the one `recorded` in its manifest.

    A later ingest that was killed has written more blocks. They must count: one of them may have replaced a recorded
    block, and its first events may have been trimmed since.
    """
    for each in written_blocks(folder):
        is_in_store = store.trimmed_through < each.through <= store.last_position
        continues = each.after <= recorded < each.through
        if is_in_store and continues and each.last_event_hash == event_hash(store.path, each.through):
            recorded = each.through
    return recorded


def remove_unplanned_blocks(folder: Location, plan: Iterable[BlockCopy], copied: int) -> None:
    """Remove the files of blocks after the position `copied` that are not in the plan.

    A killed ingest wrote them, and the planned blocks would repeat their events.
    """
    planned = {block.target for block in plan}
    for each in written_blocks(folder):
        if each.place not in planned and each.after >= copied:
            each.place.remove()


def write_block(block: BlockCopy) -> None:
    """Copy a block's events to its file, unless a killed ingest has written this file already.

    Raises a StoreError, and then leaves no file.
    """
    check_host(Path(block.path), block.host)
    target, last_event_hash = block.target, event_hash(block.path, block.through)
    if target.exists() and read_block(target) == (target, block.after, block.through, last_event_hash):
        return
    rows = 0
    with StoreReader(Path(block.path)) as reader, parquet_writer(target, EVENT_SCHEMA) as writer:
        for batch in reader.events(block.after, block.through):
            writer.write_batch(batch)
            rows += batch.num_rows
        check_complete(block.path, block.after, block.through, rows)
        writer.add_key_value_metadata({HASH_KEY: last_event_hash})


def event_hash(path: str, position: int) -> str:
    """SHA-256 of the event at this position, in hexadecimal digits; empty if the store has no event there."""
    with StoreReader(Path(path)) as reader:
        rows = [row for batch in reader.events(position - 1, position) for row in batch.to_pylist()]
    return hashlib.sha256(msgspec.json.encode(rows[0])).hexdigest() if rows else ""
