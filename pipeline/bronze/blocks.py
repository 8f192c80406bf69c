"""The Parquet files of one store in bronze: which there are to be, which there are, and how one is written."""

import hashlib
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

import msgspec
import pyarrow.parquet as pq

from regroup.pipeline.atomic_files import whole_file
from regroup.pipeline.source.arrow_rows import SCHEMA, StoreReader
from regroup.pipeline.source.stores import StoreSeen, check_complete, check_place

BLOCK: Final = 500_000
"""Positions in one file."""

MARK: Final = b"regroup.mark"
"""In a file's metadata, a sum of its last event."""

NAME: Final = re.compile(r"block-(\d+)(?:-after-(\d+))?\.parquet")


@dataclass(frozen=True, slots=True)
class Block:
    """What one task copies: after < position <= through of a store, into one file."""

    path: str
    host: str
    after: int
    through: int
    target: str


class Written(NamedTuple):
    """A block that is there, with after < position <= through."""

    path: Path
    after: int
    through: int
    mark: str


def blocks_of(store: StoreSeen, taken: int, folder: Path) -> Iterator[Block]:
    """From the block of the first missing position to that of the last; the one that was begun is written anew.

    Where the beginning of a block has been trimmed meanwhile, its file stays, and another goes on behind it.
    """
    if store.last <= taken:
        return
    for number in range(taken // BLOCK, (store.last - 1) // BLOCK + 1):
        start, last = number * BLOCK, min((number + 1) * BLOCK, store.last)
        name = f"block-{number:06}.parquet"
        if start < store.trimmed_through:
            start = max(taken, store.trimmed_through)
            name = f"block-{number:06}-after-{start}.parquet"
        if start < last:
            yield Block(store.path, store.host, start, last, str(folder / name))


def written_in(folder: Path) -> list[Written]:
    """The blocks that are there, by position."""
    named = ((path, NAME.fullmatch(path.name)) for path in folder.glob("block-*.parquet"))
    return sorted((written_at(path, name) for path, name in named if name), key=lambda each: each.after)


def written_at(path: Path, name: re.Match[str]) -> Written:
    number, after = name.groups()
    start, file = int(after or int(number) * BLOCK), pq.read_metadata(path)
    return Written(path, start, start + file.num_rows, (file.metadata or {}).get(MARK, b"").decode())


def reached(store: StoreSeen, noted: int, folder: Path) -> int:
    """How far the store is there without a gap: as far as was noted, and farther if an ingest was killed later.

    What that one had written must count: a block of its has taken the place of one that was noted, and the beginning
    may have been trimmed since.
    """
    for each in written_in(folder):
        is_known = store.trimmed_through < each.through <= store.last
        if is_known and each.after <= noted < each.through and each.mark == mark(store.path, each.through):
            noted = each.through
    return noted


def remove_strays(folder: Path, plan: Iterable[Block], taken: int | None) -> None:
    """Blocks that an ingest had written before it was killed, and that would tell events twice now.

    Of a store that has been taken in through a position, what lies before that stays.
    """
    planned = {Path(block.target) for block in plan}
    for each in written_in(folder):
        if each.path not in planned and (taken is None or each.after >= taken):
            each.path.unlink()


def write_block(block: Block) -> None:
    """Copy a block, unless it is there; afterwards its file is there whole, or not at all. Raises a StoreError."""
    check_place(Path(block.path), block.host)
    last_mark = mark(block.path, block.through)
    if is_written(block, last_mark):
        return
    rows = 0
    with StoreReader(Path(block.path)) as reader, whole_file(Path(block.target), SCHEMA) as writer:
        for batch in reader.events(block.after, block.through):
            writer.write_batch(batch)
            rows += batch.num_rows
        check_complete(block.path, block.after, block.through, rows)
        writer.add_key_value_metadata({MARK: last_mark})


def is_written(block: Block, last_mark: str) -> bool:
    """Whether an ingest that was killed later had come so far: as many events, and the last is the same."""
    try:
        written = pq.read_metadata(block.target)
    except FileNotFoundError:
        return False
    there = written.num_rows, written.metadata.get(MARK)
    return there == (block.through - block.after, last_mark.encode())


def mark(path: str, position: int) -> str:
    """A sum of one event; empty where there is none."""
    with StoreReader(Path(path)) as reader:
        rows = [row for batch in reader.events(position - 1, position) for row in batch.to_pylist()]
    return hashlib.sha256(msgspec.json.encode(rows[0])).hexdigest() if rows else ""
