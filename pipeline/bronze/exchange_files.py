"""The Parquet files of one store's recorded exchanges in bronze: plans and writes them.

    DIR/exchanges/store=NAME/blocks-000000.parquet      the rows of the store's blocks 1 to 1,000

A store keeps the newest blocks only, so blocks may be missing between two ingests. A file has the hash of its last
block. An ingest goes on after the last file that still fits the store, and writes all later ones again: so neither a
killed ingest nor a power failure, after which a store uses numbers again, leaves an exchange twice or one that never
was.
"""

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

import pyarrow as pa

from regroup.pipeline.locations.location import Location
from regroup.pipeline.output_folder import parquet_metadata, parquet_writer
from regroup.pipeline.source.columns import EXCHANGE_SCHEMA
from regroup.pipeline.source.recorded_rows import recorded_rows
from regroup.pipeline.source.store_reader import StoreReader
from regroup.pipeline.source.stores import StoreExtent, check_host
from regroup.server.net.request_recorder import ExchangeRow

BLOCKS_PER_FILE: Final = 1_000
ROWS_PER_BATCH: Final = 8_192
BYTES_PER_BATCH: Final = 8 * 1024 * 1024
"""A batch of rows is written when it has this many rows, or frames of this many bytes."""

THROUGH_KEY: Final = b"regroup.last-block"
HASH_KEY: Final = b"regroup.last-block-hash"
"""Keys in a file's metadata: the number of the last block in it, and the `block_hash` of that block."""


@dataclass(frozen=True, slots=True)
class ExchangeCopy:
    """The blocks that one task copies into one file: those of a store with after < number <= through."""

    path: str
    host: str
    after: int
    through: int
    target: Location


class WrittenFile(NamedTuple):
    """A file with exchanges in bronze, from the store's blocks with after < number <= through."""

    place: Location
    after: int
    through: int
    last_block_hash: str


def plan_exchanges(store: StoreExtent, folder: Location) -> list[ExchangeCopy]:
    """The files to write, so that `folder` has all recorded exchanges of the store. Files that do not fit are removed.

    If the store has no exchanges (any more), nothing changes. A last file that is not full is written again, with the
    blocks added since. If the store has deleted its first blocks, it stays, and a second file continues it.
    """
    files = written_files(folder)
    with StoreReader(Path(store.path)) as reader:
        first, last = reader.exchange_bounds()
        if not last:
            return []
        copied = copied_through(reader, first, last, files)
    plan = [ExchangeCopy(store.path, store.host, *each) for each in files_to_write(first, last, copied, folder)]
    planned = {each.target for each in plan}
    for file in files:
        if file.through > copied and file.place not in planned:
            file.place.remove()
    return plan


def files_to_write(first: int, last: int, copied: int, folder: Location) -> Iterator[tuple[int, int, Location]]:
    """Yield what is left to copy of a store with the blocks `first` to `last`: after, through, and the file."""
    if last <= copied:
        return
    kept_after = max(copied, first - 1)
    for number in range(kept_after // BLOCKS_PER_FILE, (last - 1) // BLOCKS_PER_FILE + 1):
        after, through = number * BLOCKS_PER_FILE, min((number + 1) * BLOCKS_PER_FILE, last)
        name = f"blocks-{number:06}.parquet"
        if first > after + 1:
            after = max(kept_after, after)
            name = f"blocks-{number:06}-after-{after}.parquet"
        yield after, through, folder / name


def copied_through(reader: StoreReader, first: int, last: int, files: Sequence[WrittenFile]) -> int:
    """The number of the last block up to which the files have every block that the store still has."""
    copied = 0
    for file in files:
        if max(copied + 1, first) <= min(file.after, last):
            break  # a killed ingest has not written the blocks between
        if file.through >= first and block_hash(reader, file.through) != file.last_block_hash:
            break
        copied = max(copied, file.through)
    return copied


def written_files(folder: Location) -> list[WrittenFile]:
    """The files with exchanges of one store, in the order of their blocks."""
    return sorted(map(read_file, folder.files("blocks-*.parquet")), key=lambda each: (each.after, each.through))


def read_file(place: Location) -> WrittenFile:
    number, *after = place.stem.removeprefix("blocks-").split("-after-")
    metadata = parquet_metadata(place).metadata or {}
    start = int(after[0]) if after else int(number) * BLOCKS_PER_FILE
    return WrittenFile(place, start, int(metadata.get(THROUGH_KEY, b"0")), metadata.get(HASH_KEY, b"").decode())


def block_hash(reader: StoreReader, number: int) -> str:
    """SHA-256 of the block with this number, in hexadecimal digits; empty if the store has no such block."""
    payloads = [payload for _, payload in reader.exchange_blocks(number - 1, number)]
    return hashlib.sha256(payloads[0]).hexdigest() if payloads else ""


def write_exchanges(copy: ExchangeCopy) -> None:
    """Copy blocks of exchanges to their file, unless a killed ingest has written this file already.

    Raises a StoreError, and then leaves no file.
    """
    path, target = Path(copy.path), copy.target
    check_host(path, copy.host)
    with StoreReader(path) as reader:
        last_hash = block_hash(reader, copy.through)
        if target.exists() and read_file(target) == (target, copy.after, copy.through, last_hash):
            return
        with parquet_writer(target, EXCHANGE_SCHEMA) as writer:
            for batch in batches(recorded_rows(reader, path, copy.after, copy.through)):
                writer.write_batch(batch)
            writer.add_key_value_metadata({THROUGH_KEY: str(copy.through), HASH_KEY: last_hash})


def batches(blocks: Iterator[tuple[int, list[ExchangeRow]]]) -> Iterator[pa.RecordBatch]:
    """The rows of all blocks as batches of bounded size."""
    gathered: list[tuple[object, ...]] = []
    size = 0
    for block, rows in blocks:
        for number, row in enumerate(rows):
            gathered.append((block, number, *(getattr(row, name) for name in EXCHANGE_SCHEMA.names[2:])))
            size += len(row.request) + len(row.response)
            if len(gathered) == ROWS_PER_BATCH or size >= BYTES_PER_BATCH:
                yield batch_of(gathered)
                gathered, size = [], 0
    if gathered:
        yield batch_of(gathered)


def batch_of(rows: Sequence[tuple[object, ...]]) -> pa.RecordBatch:
    columns = zip(*rows, strict=True)
    arrays = [pa.array(values, field.type) for values, field in zip(columns, EXCHANGE_SCHEMA, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=EXCHANGE_SCHEMA)
