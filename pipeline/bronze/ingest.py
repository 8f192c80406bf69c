"""Ingest: copies the events of many stores to Parquet, unchanged, each event once, and their recorded exchanges.

    DIR/bronze/store=NAME/block-000000.parquet     positions 1 to 500,000
    DIR/snapshots/store=NAME/snapshots.parquet     of a trimmed store: the snapshots that replace the trimmed events
    DIR/exchanges/store=NAME/blocks-000000.parquet the rows of recorded exchanges, of the store's blocks 1 to 1,000
    DIR/ingested/NAME.json                         the store's manifest: the position up to which it was ingested

A block always holds the same positions and is renamed when it is complete. So a block that is written twice is the same
block, and an ingest that was killed continues with the blocks that are missing. If a store has grown, its last,
incomplete block is written again.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import msgspec
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from regroup.pipeline.bronze.blocks import BlockCopy, WrittenBlock, write_block
from regroup.pipeline.bronze.exchange_files import ExchangeCopy, plan_exchanges, write_exchanges
from regroup.pipeline.bronze.remote_stores import StoreCopy, copy_remote_stores, find_remote_stores
from regroup.pipeline.bronze.store_progress import (
    StoreManifest,
    copied_position,
    exchanges_folder,
    manifest_file,
    manifest_of,
    plan_copy,
    store_paths,
)
from regroup.pipeline.locations.file_systems import scheme_of
from regroup.pipeline.locations.location import Location, LocationLike, location_of
from regroup.pipeline.output_folder import check_for_stores, check_format, exclusive_writer, removed_if_it_stays_empty
from regroup.pipeline.source.columns import EVENTS_DDL, STORE_EVENT_SCHEMA
from regroup.pipeline.source.stores import (
    OnError,
    SkippedStore,
    StoreExtent,
    find_stores,
    inspect_stores,
    split_patterns,
)
from regroup.pipeline.spark.progress import JobProgress, run_with_progress
from regroup.storage.errors import StoreError


@dataclass(frozen=True, slots=True)
class IngestResult:
    """The result of an ingest: how many stores were ingested, how many events added to bronze, which stores skipped."""

    stores: int
    new_events: int
    skipped: tuple[SkippedStore, ...]


def ingest(
    spark: SparkSession,
    patterns: str,
    folder: LocationLike,
    *,
    on_error: OnError = "fail",
    progress: JobProgress | None = None,
) -> IngestResult:
    """Copy the events that bronze does not have yet from the stores that match `patterns`.

    Raises a StoreError for a bad store, unless `on_error` is `skip`, and HoldsOtherEvents if the folder holds a
    campaign. Each block of a store on a disk is one task. A store in an object store is one task, which first copies
    the whole store to its own disk.
    """
    target = location_of(folder, spark)
    check_for_stores(target)
    with removed_if_it_stays_empty(target), exclusive_writer(target, "bronze", "snapshots", "exchanges"):
        remote = find_remote_stores(spark, patterns)
        on_disks = ",".join(each for each in split_patterns(patterns) if scheme_of(each) == "file")
        copied, skipped = examine_stores(on_disks, target, on_error) if on_disks or not remote else ({}, [])
        blocks = [block for store, through in copied.items() for block in plan_copy(store, through, target)]
        exchanges = [
            each for store in copied for each in plan_exchanges(store, exchanges_folder(target, store.address))
        ]
        copy_blocks(spark, blocks, progress)
        copy_exchanges(spark, exchanges, progress)
        copies = copy_remote_stores(spark, remote, target, on_error, progress)
        remote_copies = [each for each in copies if isinstance(each, StoreCopy)]
        manifests = [*(manifest_of(store, target) for store in copied), *(each.manifest for each in remote_copies)]
        for manifest in filter(None, manifests):
            write_manifest(manifest, target)
    skipped += [each for each in copies if isinstance(each, SkippedStore)]
    new_events = sum(store.last_position - through for store, through in copied.items())
    new_events += sum(each.new_events for each in remote_copies)
    return IngestResult(len(copied) + len(remote_copies), new_events, tuple(skipped))


def write_manifest(manifest: StoreManifest, folder: Location) -> None:
    """Write the manifest of a store, with the position up to which it has been ingested."""
    manifest_file(folder, manifest.path).replace(msgspec.json.encode(manifest))


def examine_stores(
    patterns: str, folder: Location, on_error: OnError
) -> tuple[dict[StoreExtent, int], list[SkippedStore]]:
    """The stores to ingest, each with the position up to which bronze has its events, and the skipped stores.

    Raises a StoreError for a bad store unless `on_error` is `skip`.
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


def copy_blocks(spark: SparkSession, blocks: Sequence[BlockCopy], progress: JobProgress | None) -> None:
    if blocks:
        tasks = spark.sparkContext.parallelize(blocks, len(blocks))
        run_with_progress(spark, "ingesting", lambda: tasks.foreach(write_block), progress)


def copy_exchanges(spark: SparkSession, files: Sequence[ExchangeCopy], progress: JobProgress | None) -> None:
    if files:
        tasks = spark.sparkContext.parallelize(files, len(files))
        run_with_progress(spark, "ingesting exchanges", lambda: tasks.foreach(write_exchanges), progress)


def read_bronze(
    spark: SparkSession,
    folder: LocationLike,
    blocks: Mapping[str, Sequence[WrittenBlock]] | None = None,
    through: Mapping[str, int] | None = None,
    after: Mapping[str, int] | None = None,
) -> DataFrame:
    """All ingested events in the columns of the data source.

    Of a trimmed store the trimmed events are missing; a snapshot of each group stands in their place.

    With `blocks`, the files of each store by the store's name, only events of these are read, and only those up to the
    store's position in `through`, even if an ingest adds events meanwhile; and of the stores in `after` only those
    after a position.
    """
    place = location_of(folder, spark)
    check_format(place)
    columns = [each.name for each in STORE_EVENT_SCHEMA]
    bronze, after = place / "bronze", after or {}
    files = [bronze.for_spark] if bronze.is_folder() else []
    if blocks is not None:
        new = [each.place for name, of in blocks.items() for each in of if each.through > after.get(name, 0)]
        files = [each.for_spark for each in new]
    reader = spark.read.schema(EVENTS_DDL).option("basePath", bronze.for_spark)
    events = (reader.parquet(*files) if files else spark.createDataFrame([], EVENTS_DDL)).select(*columns)
    if (place / "snapshots").is_folder():
        snapshots = spark.read.schema(EVENTS_DDL).parquet((place / "snapshots").for_spark).select(*columns)
        events = events.unionByName(snapshots)
    paths = store_paths(place)
    bounds: list[tuple[str, str | None, int, int | None]] = [
        (name, paths.get(name), after.get(name, 0), (through or {}).get(name, 0)) for name in blocks or {}
    ]
    known = bounds or [(name, path, 0, None) for name, path in paths.items()]
    stores = spark.createDataFrame(known, "store STRING, path STRING, after LONG, through LONG")
    path = F.coalesce("path", "store").alias("store")  # a first ingest that was killed has left no path
    of_stores = events.join(F.broadcast(stores), "store", "left")
    if blocks is not None:
        of_stores = of_stores.where("position > after AND position <= through")
    return of_stores.select(path, *columns[1:])
