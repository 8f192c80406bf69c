"""Bronze: the events of many stores as Parquet, as they are, once and for good.

    DIR/bronze/store=NAME/block-000000.parquet     positions 1 to 500,000
    DIR/snapshots/store=NAME/…                     where a store has been trimmed: what its groups were before that
    DIR/ingested/NAME.json                         how far a store has been taken in

A block is written under another name and then renamed, and always holds the same positions; so a block that is written
twice is the same block, and a job that was killed goes on with the blocks that are not there yet. A store that has
grown is taken in from its last, unfinished block on.
"""

import hashlib
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

from regroup.pipeline.columns import EVENTS
from regroup.pipeline.progress import Progress, watched
from regroup.pipeline.rows import SCHEMA, StoreReader
from regroup.pipeline.stores import OnError, Skipped, StoreSeen, check_place, files_of, look_at_all
from regroup.pipeline.trimmed import snapshots_of
from regroup.pipeline.whole_files import only_writer, whole_file
from regroup.storage.errors import PositionTrimmed, StoreError, StoreIsDamaged

BLOCK: Final = 500_000
"""Positions in one file."""

MARK: Final = b"regroup.mark"
"""In a file's metadata, a sum of its last event."""


class Ingested(msgspec.Struct, frozen=True):
    """How far a store has been taken in."""

    path: str
    through: int
    mark: str
    """A sum of the event at `through`, by which the same store is known again."""


@dataclass(frozen=True, slots=True)
class Block:
    """What one task copies: after < position <= through of a store, into one file."""

    path: str
    host: str
    after: int
    through: int
    target: str


@dataclass(frozen=True, slots=True)
class Taken:
    """What an ingest did."""

    stores: int
    events: int
    """That were not there before."""
    skipped: tuple[Skipped, ...]


class StoreReplaced(StoreError):
    """Under a name that has been taken in there is another store now."""


def ingest(
    spark: SparkSession,
    patterns: str,
    folder: Path,
    *,
    on_error: OnError = "fail",
    progress: Progress | None = None,
) -> Taken:
    """Take in what the stores hold by now and bronze does not. Raises a StoreError where a store is bad."""
    folder = folder.resolve()
    with only_writer(folder, "bronze", "snapshots"):
        seen, skipped = sorted_out(patterns, folder, on_error)
        before = {store.path: through(already(folder, store.path), store) for store in seen}
        copy(spark, [block for store in seen for block in blocks_of(store, before[store.path], folder)], progress)
        for store in seen:
            keep_snapshots(store, folder)
            note(store, folder)
    return Taken(len(seen), sum(store.last - before[store.path] for store in seen), tuple(skipped))


def sorted_out(patterns: str, folder: Path, on_error: OnError) -> tuple[list[StoreSeen], list[Skipped]]:
    """The stores that can be taken in, and those that cannot. Raises a StoreError unless bad ones are skipped."""
    seen: list[StoreSeen] = []
    skipped: list[Skipped] = []
    for each in look_at_all(files_of(patterns), on_error):
        try:
            if isinstance(each, Skipped):
                skipped.append(each)
            else:
                check_same(each, already(folder, each.path))
                seen.append(each)
        except StoreError as error:
            if on_error == "fail":
                raise
            skipped.append(Skipped(each.path, str(error)))
    return seen, skipped


def events(spark: SparkSession, folder: Path, *, snapshots: bool = True) -> DataFrame:
    """What has been taken in, and first of each group what stands for its trimmed past, in the source's columns."""
    columns = spark.createDataFrame([], EVENTS).columns
    found = spark.read.schema(EVENTS).parquet(str(folder / "bronze")).select(*columns)
    if snapshots and (folder / "snapshots").is_dir():
        return found.unionByName(spark.read.schema(EVENTS).parquet(str(folder / "snapshots")).select(*columns))
    return found


def copy(spark: SparkSession, blocks: Sequence[Block], progress: Progress | None) -> None:
    if blocks:
        tasks = spark.sparkContext.parallelize(blocks, len(blocks))
        watched(spark, "taking in", lambda: tasks.foreach(write_block), progress)


def blocks_of(store: StoreSeen, taken: int, folder: Path) -> Iterator[Block]:
    """From the block of the first missing position to that of the last; the one that was begun is written anew.

    Where the beginning of a block has been trimmed meanwhile, its file stays, and another goes on behind it.
    """
    target = folder / "bronze" / f"store={name_of(store.path)}"
    if store.last <= taken:
        return
    for number in range(taken // BLOCK, (store.last - 1) // BLOCK + 1):
        start, last = number * BLOCK, min((number + 1) * BLOCK, store.last)
        name = f"block-{number:06}.parquet"
        if start < store.trimmed_through:
            start = max(taken, store.trimmed_through)
            name = f"block-{number:06}-after-{start}.parquet"
        if start < last:
            yield Block(store.path, store.host, start, last, str(target / name))


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
        if rows != block.through - block.after:
            raise StoreIsDamaged(
                f"{block.path} is damaged: of the positions {block.after + 1} to {block.through} only {rows} are "
                "there. Restore it from a copy."
            )
        writer.add_key_value_metadata({MARK: last_mark})


def is_written(block: Block, last_mark: str) -> bool:
    """Whether an ingest that was killed later had come so far: as many events, and the last is the same."""
    try:
        written = pq.read_metadata(block.target)
    except FileNotFoundError:
        return False
    there = written.num_rows, written.metadata.get(MARK)
    return there == (block.through - block.after, last_mark.encode())


def name_of(path: str) -> str:
    """A folder's name for a store: what people call it, and enough of its whole path to tell it from others."""
    stem = re.sub(r"[^A-Za-z0-9._-]", "_", Path(path).stem)
    return f"{stem}-{hashlib.sha256(path.encode()).hexdigest()[:8]}"


def manifest(folder: Path, path: str) -> Path:
    return folder / "ingested" / f"{name_of(path)}.json"


def paths_of(folder: Path) -> dict[str, str]:
    """Where the stores lay when they were taken in, by their names here."""
    notes = sorted((folder / "ingested").glob("*.json"))
    return {note.stem: msgspec.json.decode(note.read_bytes(), type=Ingested).path for note in notes}


def already(folder: Path, path: str) -> Ingested | None:
    try:
        return msgspec.json.decode(manifest(folder, path).read_bytes(), type=Ingested)
    except FileNotFoundError:
        return None


def through(taken: Ingested | None, store: StoreSeen) -> int:
    """The last position that need not be copied."""
    return store.trimmed_through if taken is None else taken.through


def check_same(store: StoreSeen, taken: Ingested | None) -> None:
    """Raises StoreReplaced, and PositionTrimmed if events went that were never taken in."""
    if taken is None:
        return
    if taken.through < store.trimmed_through:
        raise PositionTrimmed(taken.through, store.trimmed_through)
    if store.last < taken.through or (
        taken.through > store.trimmed_through and mark(store.path, taken.through) != taken.mark
    ):
        raise StoreReplaced(
            f"{store.path} is not the store that was taken in under this name: its event {taken.through} is another. "
            "Give it another name, or ingest into another folder."
        )


def mark(path: str, position: int) -> str:
    """A sum of one event; empty where there is none."""
    with StoreReader(Path(path)) as reader:
        rows = [row for batch in reader.events(position - 1, position) for row in batch.to_pylist()]
    return hashlib.sha256(msgspec.json.encode(rows[0])).hexdigest() if rows else ""


def note(store: StoreSeen, folder: Path) -> None:
    """From now on the store counts as taken in up to here."""
    taken = already(folder, store.path)
    if taken is not None and taken.through == store.last:
        return
    at = store.last
    last_mark = mark(store.path, at) if at > store.trimmed_through else ""
    target = manifest(folder, store.path)
    target.parent.mkdir(parents=True, exist_ok=True)
    unfinished = target.with_suffix(".new")
    unfinished.write_bytes(msgspec.json.encode(Ingested(store.path, at, last_mark)))
    unfinished.replace(target)


def keep_snapshots(store: StoreSeen, folder: Path) -> None:
    """Of a store that had been trimmed before it was first taken in."""
    target = folder / "snapshots" / f"store={name_of(store.path)}" / "snapshots.parquet"
    if store.trimmed_through and already(folder, store.path) is None:
        with whole_file(target, SCHEMA) as writer:
            writer.write_table(pa.Table.from_pylist(snapshots_of(Path(store.path), store.trimmed_through), SCHEMA))
