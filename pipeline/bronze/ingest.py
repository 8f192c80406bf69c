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
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from regroup.pipeline.atomic_files import only_writer, whole_file
from regroup.pipeline.bronze.blocks import Block, blocks_of, mark, reached, remove_strays, write_block
from regroup.pipeline.source.arrow_rows import SCHEMA
from regroup.pipeline.source.columns import EVENTS
from regroup.pipeline.source.stores import OnError, Skipped, StoreSeen, files_of, look_at_all
from regroup.pipeline.source.trimmed import snapshots_of
from regroup.pipeline.spark.progress import Progress, watched
from regroup.storage.errors import StoreError


class Ingested(msgspec.Struct, frozen=True):
    """How far a store has been taken in."""

    path: str
    through: int
    mark: str
    """A sum of the event at `through`, by which the same store is known again."""


@dataclass(frozen=True, slots=True)
class Taken:
    """What an ingest did."""

    stores: int
    events: int
    """That were not there before."""
    skipped: tuple[Skipped, ...]


class StoreReplaced(StoreError):
    """Under a name that has been taken in there is another store now."""


class EventsMissed(StoreError):
    """A store was trimmed beyond what had been taken in of it."""


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
        copy(spark, [block for store, taken in seen.items() for block in planned(store, taken, folder)], progress)
        for store in seen:
            note(store, folder)
    return Taken(len(seen), sum(store.last - taken for store, taken in seen.items()), tuple(skipped))


def sorted_out(patterns: str, folder: Path, on_error: OnError) -> tuple[dict[StoreSeen, int], list[Skipped]]:
    """The stores that can be taken in, and the last position of each that need not be copied; and those that cannot.

    Snapshots come first, since they too can be damaged. Raises a StoreError unless bad ones are skipped.
    """
    seen: dict[StoreSeen, int] = {}
    skipped: list[Skipped] = []
    for each in look_at_all(files_of(patterns), on_error):
        try:
            if isinstance(each, Skipped):
                skipped.append(each)
            else:
                taken = taken_of(each, folder)
                keep_snapshots(each, folder)
                seen[each] = taken
        except StoreError as error:
            if on_error == "fail":
                raise
            skipped.append(Skipped(each.path, str(error)))
    return seen, skipped


def taken_of(store: StoreSeen, folder: Path) -> int:
    """The last position that need not be copied. Raises StoreReplaced, EventsMissed."""
    noted = already(folder, store.path)
    if noted is None:
        return store.trimmed_through
    check_same(store, noted)
    through = reached(store, noted.through, blocks_folder(folder, store.path))
    if through < store.trimmed_through:
        raise EventsMissed(
            f"{store.path} has been trimmed up to position {store.trimmed_through}, and was taken in only up to "
            f"{through}: what lay between is lost. Ingest into another folder, which begins behind the cut."
        )
    return through


def planned(store: StoreSeen, taken: int, folder: Path) -> list[Block]:
    """The blocks to be written; what must not stay beside them is removed."""
    target = blocks_folder(folder, store.path)
    plan = list(blocks_of(store, taken, target))
    remove_strays(target, plan, None if already(folder, store.path) is None else taken)
    return plan


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


def name_of(path: str) -> str:
    """A folder's name for a store: what people call it, and enough of its whole path to tell it from others."""
    stem = re.sub(r"[^A-Za-z0-9._-]", "_", Path(path).stem)
    return f"{stem}-{hashlib.sha256(path.encode()).hexdigest()[:8]}"


def blocks_folder(folder: Path, path: str) -> Path:
    return folder / "bronze" / f"store={name_of(path)}"


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


def check_same(store: StoreSeen, noted: Ingested) -> None:
    """Raises StoreReplaced."""
    may_be_asked = noted.through > store.trimmed_through
    if store.last < noted.through or (may_be_asked and mark(store.path, noted.through) != noted.mark):
        raise StoreReplaced(
            f"{store.path} is not the store that was taken in under this name: its event {noted.through} is another. "
            "Give it another name, or ingest into another folder."
        )


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
    if already(folder, store.path) is not None:
        return
    target = folder / "snapshots" / f"store={name_of(store.path)}" / "snapshots.parquet"
    target.unlink(missing_ok=True)  # of an ingest that was killed
    if store.trimmed_through:
        with whole_file(target, SCHEMA) as writer:
            writer.write_table(pa.Table.from_pylist(snapshots_of(Path(store.path), store.trimmed_through), SCHEMA))
